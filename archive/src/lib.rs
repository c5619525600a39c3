//! Archives of artifacts and caches, as GitLab Runner's helper makes and opens them.
//!
//! [`select`] chooses files of a project: patterns, untracked files, exclusions. [`write()`] puts what was chosen
//! into a zip, gzip, raw or tar+zstd stream, compressed on several threads and the same, byte for byte, whatever
//! their number. [`extract_zip`] and [`extract_tar_zstd`] unpack below a folder and
//! nowhere else, and so does [`extract_tar`] with what the host sends. Each says what it does in
//! [`Event`]s whose texts are the helper's.
//!
//! `gitlab-runner, wire §N` in comments cites docs/gitlab-runner.
//!
//! Both the guest's agent and the host use this: nothing here is asynchronous, and memory is bounded: some MiB a
//! thread, and about 150 bytes for each file that is unpacked, or chosen unless a [`Spill`] is given.

mod buffer;
mod event;
mod gopath;
mod pool;
mod read;
mod select;
mod spill;
mod threads;
mod write;

pub use event::Event;
pub use read::{
    ExtractError, ExtractOptions, Extracted, Limits, ObstructedLink, Owner, detect, extract_tar,
    extract_tar_zstd, extract_zip,
};
pub use select::{Entry, EntryKind, Pattern, PatternError, Request, Selection, select};
#[doc(hidden)]
pub use select::{Index, ObjectFormat};
pub use spill::{Spill, SpillError};
pub use vk_archive_format::{Format, Level, Severity, UnknownLevel};
pub use write::{WriteError, Written, write};
