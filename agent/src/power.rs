//! The end of the guest.

use std::thread;
use std::time::Duration;

use nix::sys::reboot::{RebootMode, reboot};

/// Powers the guest off. Nothing is written back: the disks end with it.
pub(crate) fn off() -> ! {
    loop {
        // It does not return; a kernel that cannot power off halts.
        let _ = reboot(RebootMode::RB_POWER_OFF);
        let _ = reboot(RebootMode::RB_HALT_SYSTEM);
        thread::sleep(Duration::from_secs(1));
    }
}
