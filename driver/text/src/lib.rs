//! Durations, sizes and quotes as people, Go and GitLab Runner write them, and errors in one line.
//!
//! Plain functions: nothing is kept, and nothing is read from the environment, random numbers for [`random_id`] aside.

mod chain;
mod duration;
mod excerpt;
mod id;
mod quote;
mod size;

pub use chain::chain;
pub use duration::{format_duration, parse_duration};
pub use excerpt::{cut, last_lines, printable};
pub use id::random_id;
pub use quote::quoted;
pub use size::{duration, memory_mib, parse_size, positive};
