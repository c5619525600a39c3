//! Trees of files in and out, as tar streams. Needs no tar of the image.

mod get;
mod put;
mod stream;
mod wipe;

pub(crate) use get::get;
pub(crate) use put::put;
pub(crate) use stream::{ARCHIVE, FrameReader, FrameWriter};
