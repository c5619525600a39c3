//! How the guest fares: proc(5) and statvfs(3).

use std::fs::File;
use std::io::{self, Read};

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::sys::statvfs::statvfs;
use nix::unistd::{SysconfVar, sysconf};
use vk_agent_proto::Stats;

use crate::agent::Agent;
use crate::failure::Failure;

/// Reads the guest's state.
///
/// # Errors
///
/// [`Failure`] if the kernel does not tell.
pub(crate) fn read(agent: &Agent) -> Result<Stats, Failure> {
    let proc = |name: &str| {
        read_proc(agent, name)
            .map_err(|error| Failure::io(format_args!("cannot read /proc/{name}"), &error))
    };
    let memory = proc("meminfo")?;
    let (busy, idle) = cpu_ticks(&proc("stat")?);
    let ticks_per_second = match sysconf(SysconfVar::CLK_TCK) {
        Ok(Some(ticks)) => u64::try_from(ticks).unwrap_or(100).max(1),
        _ => 100,
    };
    let ms = |ticks: u64| ticks.saturating_mul(1000) / ticks_per_second;
    let disk = statvfs(&agent.scratch)
        .map_err(|errno| Failure::io("cannot ask the scratch disk", &errno.into()))?;
    Ok(Stats {
        mem_total: kib(&memory, "MemTotal:"),
        mem_available: mem_available(&memory),
        cpu_busy_ms: ms(busy),
        cpu_idle_ms: ms(idle),
        load_1m: number(&proc("loadavg")?),
        disk_total: disk.blocks() * disk.fragment_size(),
        disk_free: disk.blocks_available() * disk.fragment_size(),
        inodes_free: disk.files_available(),
        uptime_ms: seconds_to_ms(number(&proc("uptime")?)),
        execs: agent.execs(),
    })
}

/// Memory that new programs may have without others' being evicted, in bytes, from the text of meminfo.
pub(crate) fn mem_available(meminfo: &str) -> u64 {
    kib(meminfo, "MemAvailable:")
}

fn read_proc(agent: &Agent, name: &str) -> io::Result<String> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let file = File::from(openat(agent.proc(), name, flags, Mode::empty())?);
    let mut text = String::new();
    file.take(1 << 20).read_to_string(&mut text)?;
    Ok(text)
}

/// Bytes of the line of meminfo that starts with `key`, which counts in KiB.
fn kib(meminfo: &str, key: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(key));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.unwrap_or(0_u64).saturating_mul(1024)
}

/// Busy and idle ticks of the first line of stat: user, nice, system, idle, iowait, irq, softirq, steal.
fn cpu_ticks(stat: &str) -> (u64, u64) {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    let fields = line.unwrap_or_default().split_whitespace().take(8);
    let mut totals = (0, 0);
    for (place, field) in fields.enumerate() {
        let ticks: u64 = field.parse().unwrap_or(0);
        let total = if matches!(place, 3 | 4) {
            &mut totals.1
        } else {
            &mut totals.0
        };
        *total += ticks;
    }
    totals
}

/// The first number of a text.
fn number(text: &str) -> f64 {
    let first = text.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and an uptime is small and positive"
)]
fn seconds_to_ms(seconds: f64) -> u64 {
    (seconds * 1000.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_counts_in_kib() {
        let text = "MemTotal:        2048 kB\nMemFree: 1 kB\nMemAvailable:    1024 kB\n";

        assert_eq!(kib(text, "MemTotal:"), 2 << 20);
        assert_eq!(kib(text, "MemAvailable:"), 1 << 20);
        assert_eq!(kib(text, "Absent:"), 0);
    }

    #[test]
    fn cpu_time_is_split_into_busy_and_idle() {
        let text = "cpu  1 2 4 100 200 8 16 32 1000 1000\ncpu0 9 9 9 9 9 9 9 9 9 9\n";

        assert_eq!(cpu_ticks(text), (63, 300));
    }

    #[test]
    fn first_numbers_are_read() {
        assert!((number("0.25 0.10 0.05 1/80 123\n") - 0.25).abs() < 1e-9);
        assert_eq!(seconds_to_ms(number("12.34 5.0\n")), 12_340);
        assert_eq!(seconds_to_ms(number("rubbish")), 0);
    }
}
