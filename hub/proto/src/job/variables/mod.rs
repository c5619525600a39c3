//! Lookup and expansion of CI/CD variables, shared by relay (cache keys) and node (everything else).

mod expand;
mod list;

pub use expand::expand;
pub use list::{Variables, parse_bool};
