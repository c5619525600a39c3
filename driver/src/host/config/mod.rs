//! vk's configuration file: `--config FILE`, else `~/.config/vk/config.toml`, else nothing but defaults.
//!
//! `file` is what can be written, `read` reads and checks it. docs/configuration.md describes the keys.

mod file;
mod read;

pub use read::{Config, ConfigError};
