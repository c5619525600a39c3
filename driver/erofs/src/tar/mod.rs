//! Reading a tar stream: POSIX ustar and pax, GNU, star and v7, as image builders write them.
//!
//! Where tar's dialects leave a choice this reads as Go's `archive/tar` does, which wrote most layers and unpacks them
//! under Docker and containerd.

mod entry;
mod header;
mod number;
mod pax;
mod reader;
mod sparse;

pub(crate) use entry::{Contents, Entry, Kind, Time, Xattr};
pub(crate) use reader::Reader;
