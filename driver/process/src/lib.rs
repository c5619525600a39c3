//! Host children that never outlive this process.
//!
//! [`spawn`] starts a `std::process::Command` so that
//!
//! - the kernel kills the child when this process dies, even by `SIGKILL`, though not what the child has started: this
//!   is for programs that start none;
//! - the child leads its own process group: a Ctrl-C on the terminal does not reach it, and whatever it leaves in that
//!   group when it ends, or when its [`Child`] is dropped, is killed;
//! - it inherits no file descriptor but its standard three.
//!
//! The parent-death signal follows the *thread* that forked, so all children are forked by one thread that lives as
//! long as the process. The module therefore works in any program that embeds this crate, with or without a tokio
//! runtime. What a child starts in *another* process group or session is out of reach.

use std::ffi::OsStr;

mod child;
mod spawner;
mod sys;

pub use child::{Child, Exit};
pub use spawner::{SpawnError, spawn};

/// Where host programs are looked for when nobody says otherwise, in the form of `PATH`.
pub const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The file that running `program` with `search_path` (in the form of `PATH`) would start; `None` if there is none.
#[must_use]
pub fn find_program(program: &str, search_path: &OsStr) -> Option<std::path::PathBuf> {
    std::env::split_paths(search_path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}
