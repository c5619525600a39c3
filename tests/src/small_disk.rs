//! A state folder on a small disk.

#![expect(clippy::expect_used, reason = "a test kit fails by panicking")]

use std::fs;
use std::process::Command;

use crate::vk::{Vk, binary};

/// A shell that runs `script` with `"$VK"` for the vk under test, whose state folder is on a file system of
/// `megabytes` of its own, in a namespace of its own: that needs no privilege. Both are gone when it ends.
///
/// # Panics
///
/// If the state folder cannot be made.
pub fn shell(vk: &Vk, megabytes: u32, script: &str) -> Command {
    fs::create_dir_all(vk.state()).expect("the state folder can be made");
    let mut shell = Command::new("unshare");
    shell
        .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
        .arg(format!(
            "mount -t tmpfs -o size={megabytes}m none \"$VK_STATE_DIR\" || exit 99\n{script}"
        ))
        .env("VK", binary());
    for (key, value) in vk.command().get_envs() {
        match value {
            Some(value) => shell.env(key, value),
            None => shell.env_remove(key),
        };
    }
    shell
}
