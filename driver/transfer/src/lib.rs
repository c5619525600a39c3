//! Artifacts and caches: archives between a host, GitLab, and a registry or a folder of the host.
//!
//! `artifacts` speaks GitLab's API, `caches` keeps caches; both move archives that lie in a [`Spool`], tell what they do
//! by [`Notes`], and show their progress by a meter.

#![cfg_attr(
    not(test),
    warn(
        clippy::cast_lossless,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        clippy::indexing_slicing
    )
)]

mod artifacts;
mod caches;
mod meter;
mod notes;
mod spool;

pub use artifacts::*;
pub use caches::*;
pub use meter::Meter;
pub use notes::{Note, Notes};
pub use spool::{MAX_ARCHIVE, Spool, SpoolError, Spooled};
