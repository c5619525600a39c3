//! What the fuzz targets do with a byte string: one function each, which panics when a promise is broken.
//!
//! `fuzz/fuzz_targets` hands them what the fuzzer thinks up; the test `fuzz_corpus` replays `fuzz/corpus` on stable.

mod archives;
mod expansion;
mod frames;
mod input;
mod job_response;
mod layers;
mod matcher;
mod trace;

pub use archives::{tar, zip};
pub use expansion::expansion;
pub use frames::frames;
pub use job_response::job_response;
pub use layers::layers;
pub use matcher::matcher;
pub use trace::trace;
