//! What a process has used, from `/proc` (proc(5)).

use std::fs;
use std::time::Duration;

use super::machine::MachineStats;

/// What the process has used; none if it is gone.
pub(super) fn of_process(id: u32) -> Option<MachineStats> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    Some(MachineStats {
        cpu_time: cpu_time(&stat)?,
        peak_memory: peak_memory(&status)?,
    })
}

/// User and system time of all threads, past and present: the 14th and 15th field of `stat`, in clock ticks. The
/// second field, a name in parentheses, may hold anything.
fn cpu_time(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let ticks_a_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    let ticks_a_second = u64::try_from(ticks_a_second)
        .ok()
        .filter(|rate| *rate > 0)?;
    let ticks = user.saturating_add(system);
    Some(Duration::from_millis(
        ticks.saturating_mul(1000) / ticks_a_second,
    ))
}

/// `VmHWM`, which is in kB of 1024 bytes. A process that is a zombie has none.
fn peak_memory(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_a_name_full_of_parentheses() {
        let stat = "42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0";
        assert_eq!(cpu_time(stat), Some(Duration::from_secs(2)));
    }

    #[test]
    fn peak_memory_is_in_bytes() {
        assert_eq!(peak_memory("Name:\tx\nVmHWM:\t    3 kB\n"), Some(3072));
        assert_eq!(peak_memory("Name:\tx\n"), None);
    }

    #[test]
    fn own_process_has_used_something_and_a_missing_one_nothing() {
        assert!(of_process(std::process::id()).unwrap().peak_memory > 0);
        assert_eq!(of_process(u32::MAX), None);
    }
}
