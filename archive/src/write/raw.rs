//! The bytes of one file.

use std::io::Write;

use super::{Job, WriteError, check_regular, source};
use crate::buffer::Buffer;

/// Bytes that are read at once.
const COPY: usize = 256 << 10;

/// Writes the one file that was chosen.
///
/// # Errors
///
/// [`WriteError`], above all if there are several.
pub(super) fn write(job: &mut Job<'_>) -> Result<(), WriteError> {
    if job.selection.len() > 1 {
        return Err(WriteError::SeveralAsRaw);
    }
    check_regular(job.selection)?;
    let Some(entry) = job.selection.iter().next().transpose()? else {
        return Ok(());
    };
    let file = source::open(job.selection, &entry).map_err(WriteError::Unreadable)?;
    let mut buffer = Buffer::default();
    let mut at = 0;
    while at < entry.size {
        let len = usize::try_from(entry.size - at)
            .unwrap_or(usize::MAX)
            .min(COPY);
        buffer.clear();
        source::read(&file, &entry, at, len, &mut buffer).map_err(WriteError::Unreadable)?;
        if buffer.bytes().is_empty() {
            break;
        }
        job.out.write_all(buffer.bytes())?;
        at += buffer.len() as u64;
    }
    if let Some(error) = source::check_len(&entry, at, entry.size) {
        job.ignored(error);
    }
    job.written.entries = 1;
    job.written.bytes = at;
    Ok(())
}
