//! The trace: masking, stamping, limiting.
//!
//! Each stream of a job passes its own filters on the way to the shared trace (gitlab-runner, build §6.1):
//! secrets, sensitive URL parameters, tokens behind known prefixes, then time stamps. What they let
//! through is made valid UTF-8 and cut at the limit, once for all streams. Everything here is
//! synchronous and knows no clock: the time comes with each call. (Only [`output_channel`], by which the output of
//! a stage comes here, is asynchronous and takes the time.) A filter hands its input on as
//! slices, so text without anything to hide is copied once, into the output. What a running job asks to hide
//! (`requests`) is hidden in all streams from there on.
//!
//! What is held back is bounded: per stream the longest secret (see `mask`) and one unfinished
//! line of at most 8 KiB.
//!
//! Embedders make a [`Trace`] for a job and a [`Stream`] for each output of it; what comes out, in order, is the job's log.

mod channel;
mod finder;
mod grams;
pub mod helper;
mod limit;
pub mod lines;
mod mask;
mod requests;
mod secrets;
mod sink;
mod skip;
mod stamp;
mod tokens;
mod trace;
mod trie;
mod url;
mod utf8;

pub use channel::{
    MAX_WAITING, Output, OutputReceiver, OutputSender, StampedOutput, output_channel,
};
pub use stamp::StreamKind;
pub use trace::{JOB_STREAM, OWN_STREAM, Stream, Trace, TraceConfig};
