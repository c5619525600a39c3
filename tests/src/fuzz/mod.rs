//! What the fuzz targets do with a byte string: one function each, which panics when a promise is broken.
//!
//! `fuzz/fuzz_targets` hands them what the fuzzer thinks up; the test `fuzz_corpus` replays `fuzz/corpus` on stable.

mod expansion;
mod frames;
mod input;
mod job_response;
mod trace;

pub use expansion::expansion;
pub use frames::frames;
pub use job_response::job_response;
pub use trace::trace;
