//! Opening an archive.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use vk_agent_proto::{Extract, ExtractSummary, FailureKind};
use vk_archive::{
    ExtractError, ExtractOptions, Format, Limits, Owner, detect, extract_tar_zstd, extract_zip,
};

use super::{nameless, threads};
use crate::agent::Agent;
use crate::failure::Failure;
use crate::server::error_line;
use crate::tree::{ARCHIVE, FrameReader};
use crate::users;

/// What is read from the host at once.
const READ: usize = 256 << 10;

/// Unpacks the archive that the host sends.
///
/// # Errors
///
/// [`Failure`] that names the entry; the host may still be sending then.
pub(crate) fn open(
    agent: &Agent,
    host: &File,
    request: &Extract,
) -> Result<ExtractSummary, Failure> {
    let dest = Path::new(&request.dest);
    if !dest.is_absolute() {
        return Err(Failure::new(
            FailureKind::BadRequest,
            format!("the destination `{}` is not absolute", request.dest),
        ));
    }
    let options = ExtractOptions {
        limits: Limits {
            entries: request.max_entries,
            bytes: request.max_bytes,
        },
        owner: owner(request.owner.as_deref())?,
        threads: threads(),
    };
    let frames = FrameReader::new(BufReader::with_capacity(READ, host), ARCHIVE);
    let mut archive = Capped {
        frames,
        left: request.max_archive_bytes,
        most: request.max_archive_bytes,
    };
    let mut head = Vec::new();
    (&mut archive)
        .take(4)
        .read_to_end(&mut head)
        .map_err(|error| unreadable(&error))?;
    let kind = request.format.unwrap_or_else(|| detect(&head));
    let whole = head.chain(&mut archive);
    let extracted = match kind {
        Format::TarZstd => extract_tar_zstd(whole, dest, &options),
        Format::Zip | Format::ZipZstd => {
            let spool = spool(agent, whole, dest)?;
            extract_zip(&spool, dest, &options)
        }
        Format::Gzip => Err(ExtractError::Format("gzip")),
        Format::Raw => Err(ExtractError::Format("raw")),
    };
    let extracted = extracted.map_err(|error| failure(&error))?;
    archive.frames.drain().map_err(|error| unreadable(&error))?;
    Ok(ExtractSummary {
        entries: extracted.entries,
        bytes: extracted.bytes,
        obstructed: extracted
            .obstructed
            .map(|link| link.to_string())
            .unwrap_or_default(),
    })
}

fn owner(wanted: Option<&str>) -> Result<Owner, Failure> {
    let Some(wanted) = wanted else {
        return Ok(Owner::Archived);
    };
    let user = users::resolve(Path::new("/etc"), Some(wanted))
        .map_err(|error| Failure::new(FailureKind::UnknownUser, error.to_string()))?;
    Ok(Owner::Fixed(user.ids.uid, user.ids.gid))
}

fn failure(error: &ExtractError) -> Failure {
    match error {
        ExtractError::Entry { entry, source } => match source.raw_os_error() {
            Some(_) => Failure::io(entry, source),
            None => Failure::new(FailureKind::BadArchive, error_line(error)),
        },
        ExtractError::Destination { dest, source } => {
            Failure::io(format_args!("cannot unpack into `{dest}`"), source)
        }
        error => Failure::new(FailureKind::BadArchive, error_line(error)),
    }
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::new(
        FailureKind::BadArchive,
        format!("cannot read the archive: {error}"),
    )
}

/// Keeps the archive in a file without a name.
fn spool(agent: &Agent, mut archive: impl Read, dest: &Path) -> Result<File, Failure> {
    let trouble = |error: &io::Error| {
        let dest = dest.display();
        Failure::io(
            format_args!("cannot keep the archive for `{dest}` on the scratch disk"),
            error,
        )
    };
    // A rehearsal may not be allowed to write at the top.
    let mut file = nameless(&agent.scratch)
        .or_else(|_| nameless(dest))
        .map_err(|error| trouble(&error))?;
    let mut buffer = vec![0; READ];
    loop {
        match archive.read(&mut buffer) {
            Ok(0) => break,
            Ok(got) => {
                let bytes = buffer.get(..got).unwrap_or_default();
                file.write_all(bytes).map_err(|error| trouble(&error))?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(unreadable(&error)),
        }
    }
    Ok(file)
}

/// An archive that may have so many bytes.
struct Capped<R> {
    frames: FrameReader<R>,
    left: u64,
    most: u64,
}

impl<R: Read> Read for Capped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.frames.read(buffer)?;
        self.left = self.left.checked_sub(got as u64).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("it has more than {} bytes", self.most),
            )
        })?;
        Ok(got)
    }
}
