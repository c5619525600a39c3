//! Making an archive.

use std::fs::File;
use std::io;
use std::path::Path;

use vk_agent_proto::{Archive, ArchiveSummary, FailureKind, FrameError};
use vk_archive::{Level, Request, Severity, Spill, SpillError, WriteError, select, write};

use super::{nameless, say, tell, threads};
use crate::agent::Agent;
use crate::failure::Failure;
use crate::tree::{ARCHIVE, FrameWriter};

/// Chooses files and sends them as an archive, if there are any, `ArchiveEnd` included, with the lines for the trace.
///
/// # Errors
///
/// [`Failure`]; the archive has no end then.
pub(crate) fn make(
    agent: &Agent,
    host: &File,
    request: &Archive,
) -> Result<ArchiveSummary, Failure> {
    let root = Path::new(&request.root);
    if !root.is_absolute() {
        return Err(Failure::new(
            FailureKind::BadRequest,
            format!("the project's folder `{}` is not absolute", request.root),
        ));
    }
    let trouble = |error: &io::Error| {
        Failure::io(
            format_args!("cannot archive files of `{}`", request.root),
            error,
        )
    };
    std::fs::read_dir(root).map_err(|error| trouble(&error))?;
    // The first line that cannot be sent is the end, and shows when the next thing is.
    let mut sent: Result<(), FrameError> = Ok(());
    let mut say = |event| {
        if sent.is_ok() {
            sent = say(host, &event);
        }
    };
    // A rehearsal may not be allowed to write at the top.
    let spill = Spill::into_folder(match nameless(&agent.scratch) {
        Ok(_) => agent.scratch.as_path(),
        Err(_) => root,
    });
    let choice = Request {
        paths: &request.paths,
        exclude: &request.exclude,
        untracked: request.untracked,
        spill: Some(&spill),
    };
    let selection = select(root, &choice, &mut say).map_err(|error| unkept(&error))?;
    if selection.is_empty() {
        return Ok(ArchiveSummary::default());
    }
    let level = Level::parse(&request.level).unwrap_or_else(|unknown| {
        // If it cannot be sent, the archive cannot either.
        let _ = tell(host, Severity::Warning, unknown.to_string());
        Level::Default
    });
    let mut out = FrameWriter::new(host, ARCHIVE);
    let written = write(
        &selection,
        request.format,
        level,
        threads(),
        &mut out,
        &mut say,
    );
    let written = written.map_err(|error| match error {
        WriteError::Output(error) => trouble(&error),
        WriteError::Spill(error) => unkept(&error),
        error => Failure::new(FailureKind::CannotArchive, error.to_string()),
    })?;
    out.end().map_err(|error| trouble(&error))?;
    Ok(ArchiveSummary {
        entries: selection.len() as u64,
        bytes: written.bytes,
        archive_bytes: written.archive_bytes,
    })
}

fn unkept(error: &SpillError) -> Failure {
    let kind = match error {
        SpillError::Full { .. } => FailureKind::DiskFull,
        _ => FailureKind::Guest,
    };
    Failure::new(kind, error.to_string())
}
