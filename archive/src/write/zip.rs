//! Zip files, written front to back.
//!
//! Small files are compressed many at a time by one thread, which knows their sizes before it writes their headers.
//! Large ones are cut into pieces for all threads; their sizes stand behind them.

use std::io::{Read, Write};

use crc32fast::Hasher;
use zstd::bulk::Compressor;

use super::deflate::{Deflate, NOTHING, Position};
use super::plan::{self, Piece, Unit};
use super::zip_records::{
    DEFLATED, Record, STORED, ZSTD, central_header, descriptor, local_header, write_end,
};
use super::{Job, WriteError, source};
use crate::buffer::{Buffer, SpareBuffers};
use crate::select::{Entry, EntryKind, Selection};
use crate::spill::Spool;

/// Bytes of a batch or piece. Deflate looks back 32 KiB, so that cuts cost next to nothing.
const PIECE: usize = 2 << 20;

/// Bytes of the directory that are copied at once.
const COPY: usize = 256 << 10;

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
    let spare = SpareBuffers::default();
    let mut zip = Zip {
        job,
        method,
        spare: &spare,
        directory: Spool::new(
            selection.spill(),
            selection.spill().map_or(0, |spill| spill.memory / 4),
        ),
        count: 0,
        open: None,
        told: false,
    };
    plan::ordered(
        selection,
        PIECE,
        threads,
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
        records: Vec<(Entry, Record)>,
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
    spare: &'a SpareBuffers,
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
    fn new(selection: &'a Selection, method: Method, spare: &'a SpareBuffers) -> Self {
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
            Unit::Piece(piece) => {
                let packed = self.piece(&piece);
                Part::Piece(piece, packed)
            }
            Unit::Batch(entries) => {
                let mut bytes = self.spare.take();
                let mut records = Vec::with_capacity(entries.len());
                let mut ignored = Vec::new();
                for entry in entries {
                    match self.whole(&entry, &mut bytes) {
                        Ok(record) => records.extend(record.map(|record| (entry, record))),
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
    fn whole(&mut self, entry: &Entry, out: &mut Buffer) -> Result<Option<Record>, String> {
        self.content.clear();
        match entry.kind {
            EntryKind::Other => return Ok(None),
            EntryKind::Folder => {}
            EntryKind::Symlink => self.content.extend(&source::target(self.selection, entry)?),
            EntryKind::File => source::read_whole(self.selection, entry, &mut self.content)?,
        }
        let content = self.content.bytes();
        let mut record = Record {
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
        local_header(entry, &record, &mut self.header);
        out.extend(&self.header);
        if entry.kind == EntryKind::File {
            record.method = self.codec.append_file(content, out);
        } else {
            out.extend(content);
        }
        record.packed = (out.len() - start - self.header.len()) as u64;
        self.header.clear();
        local_header(entry, &record, &mut self.header);
        for (to, from) in out.bytes_mut(start).iter_mut().zip(&self.header) {
            *to = *from;
        }
        Ok(Some(record))
    }

    fn piece(&mut self, piece: &Piece) -> Result<Packed, String> {
        let entry = &*piece.entry;
        let file = source::open(self.selection, entry)?;
        self.content.clear();
        source::read(&file, entry, piece.offset, piece.len, &mut self.content)?;
        let content = self.content.bytes();
        let mut checksum = Hasher::new();
        checksum.update(content);
        let size = content.len() as u64;
        let shorter = source::check_len(entry, size, piece.len as u64);
        let mut bytes = self.spare.take();
        match &mut self.codec {
            Codec::Stored => std::mem::swap(&mut bytes, &mut self.content),
            Codec::Deflate(deflate) => {
                let position = Position::of(piece.offset / PIECE as u64, piece.last);
                deflate.append(content, position, &mut bytes);
            }
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
    /// files (gitlab-runner, wire §8.10).
    fn append_file(&mut self, content: &[u8], out: &mut Buffer) -> u16 {
        let start = out.len();
        match self {
            Self::Deflate(deflate) if !content.is_empty() => {
                deflate.append(content, Position::Last, out);
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
    spare: &'a SpareBuffers,
    /// Headers of the directory at the end.
    directory: Spool,
    /// How many.
    count: u64,
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
                for (entry, record) in records {
                    let offset = start + record.offset;
                    self.record(&entry, &Record { offset, ..record })?;
                }
            }
            Part::Piece(piece, Ok(packed)) => {
                if piece.offset == 0 {
                    self.begin(&piece.entry)?;
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
                    self.end(&piece.entry)?;
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
                self.end(&piece.entry)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, entry: &Entry) -> Result<(), WriteError> {
        let record = Record {
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

    fn end(&mut self, entry: &Entry) -> Result<(), WriteError> {
        if let Some((record, checksum)) = self.open.take() {
            let crc = checksum.finalize();
            let record = Record { crc, ..record };
            self.job.out.write_all(&descriptor(entry, &record))?;
            self.record(entry, &record)?;
        }
        Ok(())
    }

    fn record(&mut self, entry: &Entry, record: &Record) -> Result<(), WriteError> {
        self.job.written.entries += 1;
        if entry.kind == EntryKind::File {
            self.job.written.bytes += record.size;
        }
        self.count += 1;
        let header = |bytes: &mut Vec<u8>| central_header(entry, record, bytes);
        Ok(self.directory.append(header)?)
    }

    fn finish(self) -> Result<(), WriteError> {
        let out = &mut self.job.out;
        let start = out.count;
        let mut reader = self.directory.reader();
        let mut buffer = vec![0; COPY];
        loop {
            let got = reader.read(&mut buffer);
            match got.map_err(|error| self.directory.failed(error))? {
                0 => break,
                got => out.write_all(buffer.get(..got).unwrap_or_default())?,
            }
        }
        let end = out.count;
        write_end(out, self.count, start, end)?;
        Ok(())
    }
}
