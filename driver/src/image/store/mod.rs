//! The images that this host has.
//!
//! ```text
//! images/lock           held while folders are made, judged or counted: moments
//! images/tmp/<n>/       a pull under way; locked as long as its process lives
//! images/entries/<key>/ an image: rootfs.erofs, image.json; locked (shared) by whoever uses it
//! images/names/<hash>   which image a reference means here
//! images/locks/<key>    held by the one that pulls an image; others wait for it
//! ```
//!
//! An entry appears whole, by a rename, and is never changed. All locks are flock(2)'s, so that they end with their
//! holder, however it ends. What a killed process leaves in `tmp` is removed by the next one that opens the store.

mod collect;
mod entry;
mod files;
mod folder;
mod names;

pub use collect::{Collected, StoredSummary};
pub use entry::StoredImage;
pub(crate) use entry::{EntryRecord, Key};
pub use files::StoreError;
pub(crate) use folder::{PullLock, Store, Workspace};
