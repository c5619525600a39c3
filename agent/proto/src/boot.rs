//! What the host tells the agent on the kernel command line, and what the agent makes of the guest.

/// Kernel parameter: the guest's host name (`vk.hostname=runner-1-project-2`), at most 64 bytes of letters,
/// digits, `-` and `.`; absent, [`DEFAULT_HOSTNAME`].
pub const HOSTNAME: &str = "vk.hostname";

/// Host name of a guest whose command line names none.
pub const DEFAULT_HOSTNAME: &str = "vk";

/// Kernel parameter: `vk.builds=1` mounts [`BUILDS_DIR`]; what the image has there is hidden then.
pub const BUILDS: &str = "vk.builds";

/// Kernel parameter: the most processes and threads that commands may have together (`vk.pids=4096`), as far as the
/// guest's kernel can have them beside its own; absent or no number from 1 on, what the guest's memory holds.
pub const PIDS: &str = "vk.pids";

/// Kernel parameter: `vk.verbose=1` makes the agent print each boot step with its time on the console.
pub const VERBOSE: &str = "vk.verbose";

/// What the one console line starts with that says why a guest could not start. The rest of the line is the
/// reason; the guest powers off after it.
pub const FAILED: &str = "vk-agent: the guest cannot start: ";

/// What that line starts with if the image is at fault. The rest of the line is what is wrong with it.
pub const IMAGE_FAULT: &str = "vk-agent: the guest cannot start: the image is at fault: ";

/// The root disk: an EROFS image, opened read-only.
pub const ROOT_DISK: &str = "/dev/vda";

/// The scratch disk: ext4, takes all that the job writes.
pub const SCRATCH_DISK: &str = "/dev/vdb";

/// Folder of the builds in the guest. A folder of the scratch disk is mounted there, so that builds do not go
/// through the overlay.
pub const BUILDS_DIR: &str = "/builds";

/// In the initramfs: the file that lists kernel modules in load order, one file name of
/// [`MODULES_DIR`] a line, module parameters after a space.
pub const MODULES_ORDER: &str = "/modules/order";

/// In the initramfs: the folder of uncompressed kernel modules.
pub const MODULES_DIR: &str = "/modules";
