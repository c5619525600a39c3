//! A guest: what it boots, and its life from boot to end.

mod boot;
mod root;
mod size;

pub(crate) use boot::{BootError, Guest, GuestSpec};
pub(crate) use root::{FIND_SHELL, ProcessDefaults, RootImage, RootImageError};
pub use size::SizeRequest;
pub(crate) use size::TooSmall;
pub(crate) use size::{SCRATCH_BYTES, VmSize};
