//! vk-agent: PID 1 and command server inside a guest.
//!
//! As `/init` of a guest's initramfs it makes the guest and serves the host over vsock ([`boot`]). As
//! `vk-agent serve` it serves the same protocol over a unix socket on any Linux ([`rehearsal`]): for tests of
//! what speaks to it.

mod agent;
mod archive;
mod boot;
mod cgroups;
mod console;
mod exec;
mod failure;
mod house;
mod kernel_log;
mod power;
mod processes;
mod rehearsal;
mod server;
mod stats;
mod sys;
mod tree;
mod users;

use std::process::ExitCode;

/// Stack of the agent's threads in bytes. None of them goes deep; a guest may run hundreds.
const STACK: usize = 256 << 10;

fn main() -> ExitCode {
    if std::process::id() == 1 && std::env::args_os().nth(1).is_none_or(|arg| arg != "serve") {
        boot::run();
    }
    match rehearsal::run(std::env::args_os().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vk-agent: {}", server::error_line(&error));
            ExitCode::from(2)
        }
    }
}
