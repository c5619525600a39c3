//! Writing archives as streams (gitlab-runner, wire §3.4).

mod deflate;
mod deflate_end;
mod gzip;
mod level;
mod plan;
mod raw;
mod source;
mod tarzstd;
mod zip;
mod zip_records;

use std::io::{self, Write};

use vk_archive_format::{Format, Level};

use crate::event::Event;
use crate::gopath::show;
use crate::select::{EntryKind, Selection};
use crate::spill::SpillError;

/// Most threads that are used: each holds up to 12 MiB (facts of this crate: a part, its compressed form and zstd's
/// tables), and an agent should stay below 128 MiB.
pub(crate) const MOST_THREADS: usize = 6;

/// Bytes of content of a zstd frame in a tar+zstd, headers and all.
pub(crate) const FRAME: usize = 4 << 20;

/// Why an archive cannot be written. What cannot be read of single files is said as an event and left out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Gzip takes regular files only.
    #[error("the {0:?} is not a regular file")]
    NotRegular(String),
    /// Raw takes one file.
    #[error("only one file can be sent as raw")] // gitlab-runner, wire §3.4.5.
    SeveralAsRaw,
    /// The one file of a raw archive cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// The archive's bytes cannot be passed on.
    #[error("cannot write the archive")]
    Output(#[from] io::Error),
    /// The list of what is to be written cannot be kept or read.
    #[error(transparent)]
    Spill(#[from] SpillError),
}

/// What an archive holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Files, folders and links.
    pub entries: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// Bytes of the archive.
    pub archive_bytes: u64,
}

/// Writes what was chosen into an archive, compressing on up to `threads` threads.
///
/// The bytes depend on the files, the format and the level alone, not on the number of threads. A file that has
/// grown since it was chosen goes as long as it was then; one that has shrunk, shorter (a large one in a tar, filled
/// up with zeros), which is said of a large one and of a raw one. Pipes, sockets and devices are left out.
///
/// # Errors
///
/// [`WriteError`]: what was written before is no archive.
pub fn write(
    selection: &Selection,
    format: Format,
    level: Level,
    threads: usize,
    out: &mut dyn Write,
    say: &mut dyn FnMut(Event),
) -> Result<Written, WriteError> {
    let threads = threads.clamp(1, MOST_THREADS);
    let mut job = Job {
        selection,
        level,
        // zstd's tables grow with its levels.
        threads: if level == Level::Slowest {
            threads.min(2)
        } else {
            threads
        },
        out: Counted { out, count: 0 },
        say,
        written: Written::default(),
    };
    match format {
        Format::Zip => zip::write(
            &mut job,
            level::deflate(level).map_or(zip::Method::Stored, zip::Method::Deflate),
        )?,
        Format::ZipZstd => zip::write(&mut job, zip::Method::Zstd(level::zip_zstd(level)))?,
        Format::Gzip => gzip::write(&mut job)?,
        Format::Raw => raw::write(&mut job)?,
        Format::TarZstd => tarzstd::write(&mut job)?,
    }
    job.out.flush()?;
    Ok(Written {
        archive_bytes: job.out.count,
        ..job.written
    })
}

/// One archive in the making.
struct Job<'a> {
    selection: &'a Selection,
    level: Level,
    threads: usize,
    out: Counted<'a>,
    say: &'a mut dyn FnMut(Event),
    written: Written,
}

impl Job<'_> {
    fn ignored(&mut self, error: String) {
        (self.say)(Event::Ignored(error));
    }
}

/// Gzip and raw take regular files only.
fn check_regular(selection: &Selection) -> Result<(), WriteError> {
    for entry in selection.iter() {
        let entry = entry?;
        if entry.kind != EntryKind::File {
            return Err(WriteError::NotRegular(show(&entry.path).into_owned()));
        }
    }
    Ok(())
}

struct Counted<'a> {
    out: &'a mut dyn Write,
    count: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.count += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
