//! The golden jobs: what a real GitLab Runner did with them, and how to compare with that.
//!
//! The recordings lie in `tests/golden`, where a README says what they are.
//!
//! Where vk means to differ, the caller has to know:
//!
//! - 09: the lines of a multi-line secret are masked as well; `trace.txt` has it so.
//! - 36 and 47: the final reason is `runner_external_dependency_failure`, without an exit code.
//! - 63 and 64: `canceled` is reported as `unknown_failure`, and nothing is written once the server
//!   has refused the trace.

mod compare;
pub mod images;
mod job;
pub mod uploads;

pub use compare::{Diff, compare};
pub use job::{Expected, Job, bundle, names};
