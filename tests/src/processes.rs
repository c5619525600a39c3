//! Who is running: for tests that nothing is left behind.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use procfs_core::FromRead;
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

/// Sends `signal` to the process `pid`, as kill(1) would.
///
/// # Panics
///
/// If there is no such process.
pub fn send(pid: u32, signal: Signal) {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let sent = number.map(|pid| kill_process(pid, signal));
    assert_eq!(sent, Some(Ok(())), "{signal:?} to {pid}");
}

/// PIDs of all processes whose environment or command line names `mark`.
///
/// That finds vk and QEMU, whose command line names the run's folder. It does not find what vk starts without its
/// environment: git and the watchdog of its group. For those see [`family`] and [`in_groups`].
#[must_use]
pub fn marked(mark: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id())
        .filter(|pid| !is_zombie(*pid))
        .filter(|pid| {
            ["environ", "cmdline"].iter().any(|file| {
                fs::read(format!("/proc/{pid}/{file}"))
                    .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(mark))
            })
        })
        .collect()
}

/// Waits until no process is [`marked`], at most `limit`; answers those that are left.
#[must_use]
pub fn left_after(mark: &str, limit: Duration) -> Vec<u32> {
    let end = Instant::now() + limit;
    loop {
        let left = marked(mark);
        if left.is_empty() || Instant::now() >= end {
            return left;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process, told from a later one of the same PID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its PID.
    pub pid: u32,
    /// When it started, in clock ticks since the host did.
    pub started: u64,
}

/// The children of `root`, their children, and so on, that run now; `root` itself is none of them.
#[must_use]
pub fn family(root: u32) -> Vec<Process> {
    let all = running();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for stat in all.iter().filter(|stat| stat.parent == parent) {
            found.push(stat.process);
            parents.push(stat.process.pid);
        }
    }
    found
}

/// The process group of `pid`; `None` when nobody has this PID.
#[must_use]
pub fn group(pid: u32) -> Option<u32> {
    Stat::read(pid).map(|stat| stat.group)
}

/// The processes of these process groups that run now.
#[must_use]
pub fn in_groups(groups: &BTreeSet<u32>) -> Vec<Process> {
    let all = running().into_iter();
    all.filter(|stat| groups.contains(&stat.group))
        .map(|stat| stat.process)
        .collect()
}

/// Waits until none of `processes` runs, at most `limit`; answers those that are left.
#[must_use]
pub fn left_of(processes: &[Process], limit: Duration) -> Vec<Process> {
    let end = Instant::now() + limit;
    loop {
        let runs = |process: &&Process| {
            Stat::read(process.pid).is_some_and(|stat| stat.process == **process && !stat.is_zombie)
        };
        let left: Vec<Process> = processes.iter().filter(runs).copied().collect();
        if left.is_empty() || Instant::now() >= end {
            return left;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What proc(5)'s `stat` says of a process.
struct Stat {
    process: Process,
    is_zombie: bool,
    parent: u32,
    group: u32,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        let stat = procfs_core::process::Stat::from_file(format!("/proc/{pid}/stat")).ok()?;
        Some(Self {
            is_zombie: stat.state == 'Z',
            parent: stat.ppid.try_into().ok()?,
            group: stat.pgrp.try_into().ok()?,
            process: Process {
                pid,
                started: stat.starttime,
            },
        })
    }
}

/// All processes but zombies.
fn running() -> Vec<Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Stat::read(entry.file_name().to_str()?.parse().ok()?))
        .filter(|stat| !stat.is_zombie)
        .collect()
}

fn is_zombie(pid: u32) -> bool {
    Stat::read(pid).is_some_and(|stat| stat.is_zombie)
}
