//! Reading what was chosen, which the job may have changed since.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use nix::fcntl::OFlag;

use crate::buffer::Buffer;
use crate::gopath::{path_error, show};
use crate::select::{Entry, Selection};

/// Opens a file. The error is one line for people.
pub(super) fn open(selection: &Selection, entry: &Entry) -> Result<File, String> {
    let failed = |error| path_error("open", &entry.path, &error);
    // A pipe that took the file's place must not hold us up, nor a link lead elsewhere.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(selection.place(&entry.path))
        .map_err(failed)?;
    if file.metadata().map_err(failed)?.is_file() {
        Ok(file)
    } else {
        Err(failed(io::Error::other("no longer a regular file")))
    }
}

/// Reads so many bytes of a file, fewer if it ends before, to the end of `into`.
pub(super) fn read(
    file: &File,
    entry: &Entry,
    offset: u64,
    len: usize,
    into: &mut Buffer,
) -> Result<(), String> {
    let room = into.room(len);
    let mut filled = 0;
    let result = loop {
        let Some(rest) = room.get_mut(filled..len).filter(|rest| !rest.is_empty()) else {
            break Ok(());
        };
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break Ok(()),
            Ok(got) => filled += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(path_error("read", &entry.path, &error)),
        }
    };
    into.fill(filled);
    result
}

/// The line of a file, if of `wanted` bytes that it had only so many are there still.
pub(super) fn check_len(entry: &Entry, got: u64, wanted: u64) -> Option<String> {
    (got < wanted).then(|| format!("read {}: the file became shorter", show(&entry.path)))
}

/// Reads a small file whole, up to the size that it had when it was chosen, to the end of `into`.
pub(super) fn read_whole(
    selection: &Selection,
    entry: &Entry,
    into: &mut Buffer,
) -> Result<(), String> {
    let file = open(selection, entry)?;
    read(
        &file,
        entry,
        0,
        usize::try_from(entry.size).unwrap_or(usize::MAX),
        into,
    )
}

/// Where a link leads.
pub(super) fn target(selection: &Selection, entry: &Entry) -> Result<Vec<u8>, String> {
    fs::read_link(selection.place(&entry.path))
        .map(|target| target.into_os_string().into_vec())
        .map_err(|error| path_error("readlink", &entry.path, &error))
}
