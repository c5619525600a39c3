//! How the guest fares: proc(5) and statvfs(3).

use std::fs::File;
use std::io::{self, Read};

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::sys::statvfs::statvfs;
use nix::unistd::{SysconfVar, sysconf};
use procfs_core::prelude::{FromRead, FromReadSI};
use procfs_core::{
    CpuTime, ExplicitSystemInfo, KernelStats, LoadAverage, Meminfo, ProcResult, Uptime,
};
use vk_agent_proto::Stats;

use crate::agent::Agent;
use crate::failure::Failure;

/// Most that is read of a file of proc(5), in bytes.
const MOST: u64 = 1 << 20;

/// Reads the guest's state.
///
/// # Errors
///
/// [`Failure`] if the kernel does not tell.
pub(crate) fn read(agent: &Agent) -> Result<Stats, Failure> {
    let memory = parsed(agent, "meminfo", Meminfo::from_read)?;
    let ticks_per_second = match sysconf(SysconfVar::CLK_TCK) {
        Ok(Some(ticks)) => u64::try_from(ticks).unwrap_or(100).max(1),
        _ => 100,
    };
    // Only what counts ticks counts here.
    let system = ExplicitSystemInfo {
        boot_time_secs: 0,
        ticks_per_second,
        page_size: 4096,
        is_little_endian: true,
    };
    let kernel = parsed(agent, "stat", |file| KernelStats::from_read(file, &system))?;
    let load = parsed(agent, "loadavg", LoadAverage::from_read)?;
    let uptime = parsed(agent, "uptime", Uptime::from_read)?.uptime_duration();
    let (busy, idle) = cpu_ticks(&kernel.total);
    let ms = |ticks: u64| ticks.saturating_mul(1000) / ticks_per_second;
    let disk = statvfs(&agent.scratch)
        .map_err(|errno| Failure::io("cannot ask the scratch disk", &errno.into()))?;
    Ok(Stats {
        mem_total: memory.mem_total,
        mem_available: mem_available(&memory),
        cpu_busy_ms: ms(busy),
        cpu_idle_ms: ms(idle),
        load_1m: load.one.into(),
        disk_total: disk.blocks() * disk.fragment_size(),
        disk_free: disk.blocks_available() * disk.fragment_size(),
        inodes_free: disk.files_available(),
        uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
        execs: agent.execs(),
    })
}

/// Memory that new programs may have without others' being evicted, in bytes.
pub(crate) fn mem_available(memory: &Meminfo) -> u64 {
    // Linux tells it since 3.14.
    memory.mem_available.unwrap_or_default()
}

/// A file of the agent's own proc(5), whatever a job mounts over it.
fn parsed<T>(
    agent: &Agent,
    name: &str,
    parse: impl FnOnce(io::Take<File>) -> ProcResult<T>,
) -> Result<T, Failure> {
    let trouble = |error: &io::Error| Failure::io(format_args!("cannot read /proc/{name}"), error);
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let file =
        openat(agent.proc(), name, flags, Mode::empty()).map_err(|errno| trouble(&errno.into()))?;
    parse(File::from(file).take(MOST)).map_err(|error| trouble(&io::Error::other(error)))
}

/// Busy and idle ticks since the start, those of guests' own guests once.
fn cpu_ticks(time: &CpuTime) -> (u64, u64) {
    let some = |ticks: Option<u64>| ticks.unwrap_or_default();
    let busy = time.user
        + time.nice
        + time.system
        + some(time.irq)
        + some(time.softirq)
        + some(time.steal);
    (busy, time.idle + some(time.iowait))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_split_into_busy_and_idle() {
        let text = "cpu  1 2 4 100 200 8 16 32 1000 1000\ncpu0 9 9 9 9 9 9 9 9 9 9\n\
                    ctxt 1\nbtime 1\nprocesses 1\n";
        let system = ExplicitSystemInfo {
            boot_time_secs: 0,
            ticks_per_second: 100,
            page_size: 4096,
            is_little_endian: true,
        };

        let stats = KernelStats::from_read(text.as_bytes(), &system).unwrap();

        assert_eq!(cpu_ticks(&stats.total), (63, 300));
    }

    /// What the crate reads on this kernel is what the kernel says.
    #[test]
    fn memory_is_told_in_bytes() {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap();
        let memory = Meminfo::from_read(text.as_bytes()).unwrap();

        let kib = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            let kib: u64 = line.unwrap().trim_end_matches("kB").trim().parse().unwrap();
            kib << 10
        };
        assert_eq!(memory.mem_total, kib("MemTotal:"));
        assert_eq!(mem_available(&memory), kib("MemAvailable:"));
    }
}
