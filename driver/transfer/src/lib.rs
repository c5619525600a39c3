//! Artifacts and caches: archives between a host, GitLab, and a registry or a folder of the host.
//!
//! `artifacts` speaks GitLab's API, `caches` keeps caches; both move archives that lie in a [`Spool`], tell what they do
//! by an [`OutputSender`](vk_trace::OutputSender), and show their progress by a meter.

mod artifacts;
mod caches;
mod meter;
mod spool;

pub use artifacts::*;
pub use caches::*;
pub use meter::Meter;
pub use spool::{MAX_ARCHIVE, Spool, SpoolError, Spooled};
