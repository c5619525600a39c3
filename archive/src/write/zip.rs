//! Zip files, written front to back.
//!
//! Small files are compressed many at a time by one thread, which knows their sizes before it writes their headers.
//! Large ones are cut into pieces for all threads; their sizes stand behind them.

use std::io::Write;

use crc32fast::Hasher;
use zstd::bulk::Compressor;

use super::deflate::{Deflate, NOTHING};
use super::plan::{Piece, Plan, Unit};
use super::zip_records::{
    DEFLATED, Record, STORED, ZSTD, central_header, descriptor, local_header, write_end,
};
use super::{Job, WriteError, pool, source};
use crate::buffer::{Buffer, Spare};
use crate::select::{Entry, EntryKind, Selection};

/// Bytes of a batch or piece. Deflate looks back 32 KiB, so that cuts cost next to nothing.
const PIECE: usize = 2 << 20;

/// How files are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Not at all.
    Stored,
    /// Deflate of these levels.
    Deflate([i32; 2]),
    /// Zstandard of this level.
    Zstd(i32),
}

impl Method {
    fn number(self) -> u16 {
        match self {
            Self::Stored => STORED,
            Self::Deflate(_) => DEFLATED,
            Self::Zstd(_) => ZSTD,
        }
    }
}

/// Writes a zip.
///
/// # Errors
///
/// [`WriteError::Output`].
pub(super) fn write(job: &mut Job<'_>, method: Method) -> Result<(), WriteError> {
    let selection = job.selection;
    let threads = job.threads;
    let spare = Spare::default();
    let mut zip = Zip {
        job,
        method,
        spare: &spare,
        records: Vec::new(),
        open: None,
        told: false,
    };
    pool::ordered(
        threads,
        Plan::new(selection, PIECE),
        || Packer::new(selection, method, &spare),
        Packer::work,
        |part| zip.take(part),
    )?;
    zip.finish()
}

/// What a thread makes of a unit.
enum Part {
    Batch {
        bytes: Buffer,
        /// With offsets from the start of the bytes.
        records: Vec<Record>,
        ignored: Vec<String>,
    },
    Piece(Piece, Result<Packed, String>),
}

/// A piece of a file.
struct Packed {
    bytes: Buffer,
    checksum: Hasher,
    size: u64,
    /// The line of a file that became shorter.
    shorter: Option<String>,
}

/// One thread's tools.
struct Packer<'a> {
    selection: &'a Selection,
    spare: &'a Spare,
    codec: Codec,
    content: Buffer,
    header: Vec<u8>,
}

enum Codec {
    Stored,
    Deflate(Deflate),
    /// None if memory ran out: then files are stored.
    Zstd(Option<Compressor<'static>>),
}

impl<'a> Packer<'a> {
    fn new(selection: &'a Selection, method: Method, spare: &'a Spare) -> Self {
        Self {
            selection,
            spare,
            codec: match method {
                Method::Stored => Codec::Stored,
                Method::Deflate(levels) => Codec::Deflate(Deflate::new(levels)),
                Method::Zstd(level) => Codec::Zstd(Compressor::new(level).ok()),
            },
            content: Buffer::default(),
            header: Vec::new(),
        }
    }

    fn work(&mut self, unit: Unit) -> Part {
        match unit {
            Unit::Piece(piece) => Part::Piece(piece, self.piece(piece)),
            Unit::Batch(entries) => {
                let mut bytes = self.spare.take();
                let mut records = Vec::with_capacity(entries.len());
                let mut ignored = Vec::new();
                for number in entries {
                    match self.whole(number, &mut bytes) {
                        Ok(record) => records.extend(record),
                        Err(error) => ignored.push(error),
                    }
                }
                Part::Batch {
                    bytes,
                    records,
                    ignored,
                }
            }
        }
    }

    /// Appends a whole entry; none if its kind is left out.
    fn whole(&mut self, number: usize, out: &mut Buffer) -> Result<Option<Record>, String> {
        let Some(entry) = self.selection.get(number) else {
            return Ok(None);
        };
        self.content.clear();
        match entry.kind {
            EntryKind::Other => return Ok(None),
            EntryKind::Folder => {}
            EntryKind::Symlink => self
                .content
                .extend(&source::target(self.selection, &entry)?),
            EntryKind::File => source::read_whole(self.selection, &entry, &mut self.content)?,
        }
        let content = self.content.bytes();
        let mut record = Record {
            entry: number,
            offset: out.len() as u64,
            packed: content.len() as u64,
            size: content.len() as u64,
            crc: crc32fast::hash(content),
            method: STORED,
            descriptor: false,
        };
        // A header's length does not depend on what it says of the content, which comes first.
        let start = out.len();
        self.header.clear();
        local_header(&entry, &record, &mut self.header);
        out.extend(&self.header);
        if entry.kind == EntryKind::File {
            record.method = self.codec.append_file(content, out);
        } else {
            out.extend(content);
        }
        record.packed = (out.len() - start - self.header.len()) as u64;
        self.header.clear();
        local_header(&entry, &record, &mut self.header);
        for (to, from) in out.bytes_mut(start).iter_mut().zip(&self.header) {
            *to = *from;
        }
        Ok(Some(record))
    }

    fn piece(&mut self, piece: Piece) -> Result<Packed, String> {
        let entry = self.selection.get(piece.entry).ok_or_else(String::new)?;
        let file = source::open(self.selection, &entry)?;
        self.content.clear();
        source::read(&file, &entry, piece.offset, piece.len, &mut self.content)?;
        let content = self.content.bytes();
        let mut checksum = Hasher::new();
        checksum.update(content);
        let size = content.len() as u64;
        let shorter = source::check_len(&entry, size, piece.len as u64);
        let mut bytes = self.spare.take();
        match &mut self.codec {
            Codec::Stored => std::mem::swap(&mut bytes, &mut self.content),
            Codec::Deflate(deflate) => deflate.append(content, piece.last, &mut bytes),
            Codec::Zstd(None) => return Err("zstd: out of memory".to_owned()),
            Codec::Zstd(Some(zstd)) => {
                append_zstd(zstd, content, &mut bytes).map_err(|error| error.to_string())?;
            }
        }
        Ok(Packed {
            bytes,
            checksum,
            size,
            shorter,
        })
    }
}

impl Codec {
    /// Appends a whole file's content; stored if it does not shrink. A zip with zstd has no other method for its
    /// files (facts, wire §8.10).
    fn append_file(&mut self, content: &[u8], out: &mut Buffer) -> u16 {
        let start = out.len();
        match self {
            Self::Deflate(deflate) if !content.is_empty() => {
                deflate.append(content, true, out);
                if out.len() - start < content.len() {
                    return DEFLATED;
                }
                out.truncate(start);
            }
            Self::Zstd(Some(zstd)) => {
                if append_zstd(zstd, content, out).is_ok() {
                    return ZSTD;
                }
            }
            Self::Stored | Self::Zstd(None) | Self::Deflate(_) => {}
        }
        out.extend(content);
        STORED
    }
}

/// Appends a zstd frame, or nothing if that fails.
pub(super) fn append_zstd(
    zstd: &mut Compressor<'_>,
    content: &[u8],
    out: &mut Buffer,
) -> std::io::Result<()> {
    let room = out.room(zstd::zstd_safe::compress_bound(content.len()));
    let len = zstd.compress_to_buffer(content, room)?;
    out.fill(len);
    Ok(())
}

/// The zip so far.
struct Zip<'a, 'b> {
    job: &'a mut Job<'b>,
    method: Method,
    spare: &'a Spare,
    records: Vec<Record>,
    /// The large file whose pieces come.
    open: Option<(Record, Hasher)>,
    /// Whether it was said that it became shorter.
    told: bool,
}

impl Zip<'_, '_> {
    fn take(&mut self, part: Part) -> Result<(), WriteError> {
        match part {
            Part::Batch {
                bytes,
                records,
                ignored,
            } => {
                let start = self.job.out.count;
                self.job.out.write_all(bytes.bytes())?;
                self.spare.give(bytes);
                for error in ignored {
                    self.job.ignored(error);
                }
                for record in records {
                    let offset = start + record.offset;
                    self.record(Record { offset, ..record });
                }
            }
            Part::Piece(piece, Ok(packed)) => {
                let Some(entry) = self.job.selection.get(piece.entry) else {
                    return Ok(());
                };
                if piece.offset == 0 {
                    self.begin(&entry, piece.entry)?;
                }
                // A file that failed before has no more pieces.
                if let Some((record, checksum)) = &mut self.open {
                    record.packed += packed.bytes.len() as u64;
                    record.size += packed.size;
                    checksum.combine(&packed.checksum);
                    self.job.out.write_all(packed.bytes.bytes())?;
                    // One line for the file, not one for each piece that is short.
                    if let Some(error) = packed.shorter.filter(|_| !self.told) {
                        self.told = true;
                        self.job.ignored(error);
                    }
                }
                self.spare.give(packed.bytes);
                if piece.last {
                    self.end(&entry)?;
                }
            }
            Part::Piece(piece, Err(error)) => {
                // One line for a file that cannot be opened, not one for each piece.
                if piece.offset == 0 || self.open.is_some() {
                    self.job.ignored(error);
                }
                let end = matches!(self.method, Method::Deflate(_)).then_some(NOTHING);
                if let Some((record, _)) = &mut self.open
                    && let Some(end) = end
                {
                    record.packed += end.len() as u64;
                    self.job.out.write_all(&end)?;
                }
                if let Some(entry) = self.job.selection.get(piece.entry) {
                    self.end(&entry)?;
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, entry: &Entry<'_>, number: usize) -> Result<(), WriteError> {
        let record = Record {
            entry: number,
            offset: self.job.out.count,
            method: self.method.number(),
            descriptor: true,
            ..Record::default()
        };
        let mut header = Vec::new();
        local_header(entry, &record, &mut header);
        self.job.out.write_all(&header)?;
        self.open = Some((record, Hasher::new()));
        self.told = false;
        Ok(())
    }

    fn end(&mut self, entry: &Entry<'_>) -> Result<(), WriteError> {
        if let Some((record, checksum)) = self.open.take() {
            let crc = checksum.finalize();
            let record = Record { crc, ..record };
            self.job.out.write_all(&descriptor(entry, &record))?;
            self.record(record);
        }
        Ok(())
    }

    fn record(&mut self, record: Record) {
        let entry = self.job.selection.get(record.entry);
        self.job.written.entries += 1;
        if entry.is_some_and(|entry| entry.kind == EntryKind::File) {
            self.job.written.bytes += record.size;
        }
        self.records.push(record);
    }

    fn finish(self) -> Result<(), WriteError> {
        let out = &mut self.job.out;
        let start = out.count;
        let mut bytes = Vec::new();
        for record in &self.records {
            if let Some(entry) = self.job.selection.get(record.entry) {
                central_header(&entry, record, &mut bytes);
            }
            if bytes.len() > PIECE {
                out.write_all(&bytes)?;
                bytes.clear();
            }
        }
        out.write_all(&bytes)?;
        let end = out.count;
        write_end(out, self.records.len() as u64, start, end)?;
        Ok(())
    }
}
