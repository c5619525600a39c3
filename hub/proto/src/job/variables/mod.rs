//! Lookup and expansion of CI/CD variables, shared by relay (cache keys) and node (everything else; gitlab-runner,
//! build §4.3, and wire §1.8.7).

mod expand;
mod list;

pub use expand::expand;
pub use list::{Variables, parse_bool};
