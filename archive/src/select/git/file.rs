//! Reads files of a repository: never more of them than is asked for, and regular ones only.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;

/// Most bytes of a `.git` file, as in git; of a configuration, and of `commondir`, too.
pub(super) const MOST: u64 = 1 << 20;

/// Opens a regular file. Pipes and devices are not opened, for that alone may do something.
pub(super) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let regular = |meta: Metadata| match meta.is_file() {
        true => Ok(meta),
        false if meta.is_dir() => Err(Errno::EISDIR.into()),
        false => Err(io::Error::other("no regular file")),
    };
    regular(fs::metadata(path)?)?;
    // One that takes its place meanwhile must not hold us up.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).custom_flags(flags.bits()).open(path)?;
    let meta = regular(file.metadata()?)?;
    Ok((file, meta))
}

/// The first bytes of a file.
pub(super) fn read_start(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    open(path)?.0.take(most).read_to_end(&mut text)?;
    Ok(text)
}

/// A whole file of up to [`MOST`] bytes.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let text = read_start(path, MOST + 1)?;
    match text.len() as u64 > MOST {
        true => Err(Errno::EFBIG.into()),
        false => Ok(text),
    }
}

/// What C takes for the text: all before the first NUL.
pub(super) fn c_text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A path as git reads it from a file: without the ends of lines behind it.
pub(super) fn trim_line(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., b'\n' | b'\r'] = bytes {
        bytes = rest;
    }
    bytes
}
