//! What a process has used, from `/proc` (proc(5)).

use std::time::Duration;

use procfs_core::FromRead;
use procfs_core::process::{Stat, Status};

use super::machine::MachineStats;

/// What the process has used; none if it is gone.
pub(super) fn of_process(id: u32) -> Option<MachineStats> {
    let stat = Stat::from_file(format!("/proc/{id}/stat")).ok()?;
    let status = Status::from_file(format!("/proc/{id}/status")).ok()?;
    Some(MachineStats {
        cpu_time: cpu_time(&stat)?,
        // In kB of 1024 bytes. A process that is a zombie has none.
        peak_memory: status.vmhwm?.checked_mul(1024)?,
    })
}

/// User and system time of all threads, past and present.
fn cpu_time(stat: &Stat) -> Option<Duration> {
    let ticks_a_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    let ticks_a_second = u64::try_from(ticks_a_second)
        .ok()
        .filter(|rate| *rate > 0)?;
    let ticks = stat.utime.saturating_add(stat.stime);
    Some(Duration::from_millis(
        ticks.saturating_mul(1000) / ticks_a_second,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_count() {
        let mut stat = Stat::from_file("/proc/self/stat").unwrap();
        // At 100 ticks a second, as Linux has it on all of vk's hosts.
        (stat.utime, stat.stime) = (150, 50);

        assert_eq!(cpu_time(&stat), Some(Duration::from_secs(2)));
    }

    #[test]
    fn own_process_has_used_something_and_a_missing_one_nothing() {
        assert!(of_process(std::process::id()).unwrap().peak_memory > 0);
        assert_eq!(of_process(u32::MAX), None);
    }
}
