//! The golden jobs: what a real GitLab Runner did with them, and how to compare with that.
//!
//! The recordings lie in `tests/golden`, where a README says what they are.
//!
//! Where vk means to differ, `differs.json` beside a job says how and why. `trace.txt` of 09 has the lines of a multi-line
//! secret masked as well.

mod compare;
pub mod images;
mod job;
pub mod uploads;

pub use compare::{Diff, compare};
pub use job::{Differs, End, Expected, Job, Refused, bundle, corner_names, image_names, names};
