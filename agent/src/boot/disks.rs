//! The two disks, and the file system made of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use vk_agent_proto::boot::{ROOT_DISK, SCRATCH_DISK};

use super::error::{BootError, During, failed};

/// How long a disk may take to appear. It is there at once unless the host is badly loaded, or forgot it.
const APPEARS_WITHIN: Duration = Duration::from_secs(10);

/// Where the root disk is mounted in the initramfs.
const LOWER: &str = "/lower";

/// Where the scratch disk is mounted in the initramfs.
const SCRATCH: &str = "/scratch";

/// Where the job's root comes together in the initramfs.
pub(super) const ROOT: &str = "/root";

/// The folder of the scratch disk that becomes the builds folder.
pub(super) const SCRATCH_BUILDS: &str = "/scratch/builds";

/// Mounts the image read-only, the scratch disk over it, and makes the builds folder.
///
/// # Errors
///
/// [`BootError`] that names the disk.
pub(super) fn mount_all() -> Result<(), BootError> {
    for folder in [LOWER, SCRATCH, ROOT] {
        fs::create_dir_all(folder).during(format_args!("making {folder}"))?;
    }
    await_disk(ROOT_DISK)?;
    mount(
        Some(ROOT_DISK),
        LOWER,
        Some("erofs"),
        MsFlags::MS_RDONLY | MsFlags::MS_NOATIME,
        None::<&str>,
    )
    .during(format_args!("mounting the image from {ROOT_DISK}"))?;
    await_disk(SCRATCH_DISK)?;
    // Nothing here outlives the guest: no need to wait for the disk where the order of writes is at stake.
    mount(
        Some(SCRATCH_DISK),
        SCRATCH,
        Some("ext4"),
        MsFlags::empty(),
        Some("nobarrier"),
    )
    .during(format_args!(
        "mounting the scratch disk from {SCRATCH_DISK}"
    ))?;
    prepare_scratch()?;
    // `volatile`: syncing is for data that is kept. The overlay refuses a scratch disk that was used before.
    let options = "lowerdir=/lower,upperdir=/scratch/upper,workdir=/scratch/work,volatile";
    mount(
        Some("overlay"),
        ROOT,
        Some("overlay"),
        MsFlags::empty(),
        Some(options),
    )
    .during("laying the scratch disk over the image")
}

fn await_disk(disk: &str) -> Result<(), BootError> {
    let until = Instant::now() + APPEARS_WITHIN;
    while !Path::new(disk).exists() {
        if Instant::now() >= until {
            return Err(failed(
                format_args!("waiting for disk {disk}"),
                format!("it did not appear within {} s", APPEARS_WITHIN.as_secs()),
            ));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn prepare_scratch() -> Result<(), BootError> {
    let what = "preparing the scratch disk";
    for folder in ["/scratch/upper", "/scratch/work", SCRATCH_BUILDS] {
        fs::create_dir_all(folder).during(what)?;
    }
    // The upper root is what a job sees of `/` itself: open to all under Docker, whatever the image says of it.
    fs::set_permissions("/scratch/upper", fs::Permissions::from_mode(0o755)).during(what)?;
    // Anyone may build: GitLab Runner opens its builds volume in the same way (cache-init).
    fs::set_permissions(SCRATCH_BUILDS, fs::Permissions::from_mode(0o777)).during(what)
}
