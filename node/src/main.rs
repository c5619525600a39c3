//! vk: runs GitLab jobs and commands in microVMs.

// What comes from outside reaches all of this.
#![cfg_attr(not(test), warn(clippy::string_slice))]

use std::process::ExitCode;

mod cli;
mod commands;
mod exit;
mod log;
mod places;
mod progress;
mod pull_progress;
mod signals;
mod terminal;

fn main() -> ExitCode {
    cli::main()
}
