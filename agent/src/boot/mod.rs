//! From the kernel's start of `/init` to a guest that serves: the agent as PID 1.

mod cgroup;
mod cmdline;
mod disks;
mod error;
mod etc;
mod modules;
mod root;
mod sequence;
mod settings;

pub(crate) use sequence::run;
