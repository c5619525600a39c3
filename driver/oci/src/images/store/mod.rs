//! The images that this host has.
//!
//! ```text
//! images/lock           held while folders are made, judged or counted: moments
//! images/tmp/<n>/       a pull under way; locked as long as its process lives
//! images/entries/<key>/ an image: rootfs.erofs, image.json; locked (shared) by whoever uses it
//! images/names/<hash>   which image a reference means here
//! images/checked/<key>  in which boot of the host an image's bytes were last compared with its record
//! images/locks/<hash>   held by the one that pulls an image from a repository; others wait for it
//! images/locks/<key>    held while an image is put in its place
//! ```
//!
//! An entry appears whole, by a rename, and is never changed. All locks are flock(2)'s, so that they end with their
//! holder, however it ends. What a killed process leaves in `tmp` is removed by the next one that opens the store.

mod checked;
mod collect;
mod digest;
mod entry;
mod files;
mod folder;
mod names;

pub use collect::{Collected, StoredSummary};
pub use entry::StoredImage;
pub(crate) use entry::{EntryRecord, Key};
pub use files::StoreError;
pub(crate) use folder::{PullLock, Store, Workspace};
