//! A guest: what it boots, and its life from boot to end.

mod boot;
mod limits;
mod root;
mod size;

pub(crate) use boot::{BootError, Guest, GuestSpec};
pub use limits::LimitMet;
pub(crate) use root::{FIND_SHELL, ProcessDefaults, RootImage, RootImageError, from_root};
pub(crate) use size::{MIN_PIDS, TooSmall};
pub use size::{SizeRequest, VmSize};
