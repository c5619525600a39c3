//! This host: where its folders are, what it has to give, what its operator allows.

mod boot_files;
mod check;
mod config;
mod limits;
mod memory;
mod this_host;

pub(crate) use boot_files::{BootFiles, BootFilesError, DEFAULT_IMAGE, ImageError};
pub use check::{Check, Verdict, check};
pub use config::{Config, ConfigError};
pub use limits::HostLimits;
pub(crate) use limits::{DEFAULT_MEMORY_MIB, MIN_MEMORY_MIB};
pub(crate) use this_host::Texts;
pub use this_host::{Host, HostBuilder};
