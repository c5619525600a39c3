//! Who is running: for tests that nothing is left behind.

use std::fs;
use std::time::{Duration, Instant};

/// PIDs of all processes whose environment or command line names `mark`.
///
/// vk's children inherit its environment, so a mark in there finds the whole tree, whoever its parent is now.
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

fn is_zombie(pid: u32) -> bool {
    // The third field of proc(5)'s stat, behind the command's name in brackets.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        stat.rsplit(") ")
            .next()
            .is_some_and(|rest| rest.starts_with('Z'))
    })
}
