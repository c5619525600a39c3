//! Zip files, written front to back.
//!
//! Small files are compressed many at a time by one thread, which knows their sizes before it writes their headers.
//! Large ones are cut into pieces for all threads; their sizes stand behind them.

use std::io::Write;

use crc32fast::Hasher;
use zstd::bulk::Compressor;

use super::deflate::{Deflate, END};
use super::plan::{Piece, Plan, Unit};
use super::zip_records::{
    DEFLATED, Record, STORED, ZSTD, central_header, descriptor, local_header, write_end,
};
use super::{Job, WriteError, pool, source};
use crate::select::{Entry, EntryKind, Selection};

/// Bytes of a batch or piece. Deflate looks back 32 KiB, so that cuts cost next to nothing.
const PIECE: usize = 1 << 20;

/// How files are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Not at all.
    Stored,
    /// Deflate of this level.
    Deflate(i32),
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
    let mut zip = Zip {
        job,
        method,
        records: Vec::new(),
        open: None,
    };
    pool::ordered(
        threads,
        Plan::new(selection, PIECE),
        || Packer::new(selection, method),
        Packer::work,
        |part| zip.take(part),
    )?;
    zip.finish()
}

/// What a thread makes of a unit.
enum Part {
    Batch {
        bytes: Vec<u8>,
        /// With offsets from the start of the bytes.
        records: Vec<Record>,
        ignored: Vec<String>,
    },
    Piece(Piece, Result<Packed, String>),
}

/// A piece of a file.
struct Packed {
    bytes: Vec<u8>,
    checksum: Hasher,
    size: u64,
}

/// One thread's tools.
struct Packer<'a> {
    selection: &'a Selection,
    codec: Codec,
    content: Vec<u8>,
    packed: Vec<u8>,
}

enum Codec {
    Stored,
    Deflate(Deflate),
    /// None if memory ran out: then files are stored.
    Zstd(Option<Compressor<'static>>),
}

impl<'a> Packer<'a> {
    fn new(selection: &'a Selection, method: Method) -> Self {
        Self {
            selection,
            codec: match method {
                Method::Stored => Codec::Stored,
                Method::Deflate(level) => Codec::Deflate(Deflate::new(level)),
                Method::Zstd(level) => Codec::Zstd(Compressor::new(level).ok()),
            },
            content: Vec::new(),
            packed: Vec::new(),
        }
    }

    fn work(&mut self, unit: Unit) -> Part {
        match unit {
            Unit::Piece(piece) => Part::Piece(piece, self.piece(piece)),
            Unit::Batch(entries) => {
                let mut bytes = Vec::new();
                let mut records = Vec::new();
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
    fn whole(&mut self, number: usize, out: &mut Vec<u8>) -> Result<Option<Record>, String> {
        let Some(entry) = self.selection.get(number) else {
            return Ok(None);
        };
        self.content.clear();
        let mut method = STORED;
        match entry.kind {
            EntryKind::Other => return Ok(None),
            EntryKind::Folder => {}
            EntryKind::Symlink => self.content = source::target(self.selection, &entry)?,
            EntryKind::File => {
                source::read_whole(self.selection, &entry, &mut self.content)?;
                self.packed.clear();
                method = self.pack();
            }
        }
        let packed = if method == STORED {
            &self.content
        } else {
            &self.packed
        };
        let record = Record {
            entry: number,
            offset: out.len() as u64,
            packed: packed.len() as u64,
            size: self.content.len() as u64,
            crc: crc32fast::hash(&self.content),
            method,
            descriptor: false,
        };
        local_header(&entry, &record, out);
        out.extend_from_slice(packed);
        Ok(Some(record))
    }

    /// Compresses a whole file's content; stored if it does not shrink. A zip with zstd has no other method for
    /// its files (facts, wire §8.10).
    fn pack(&mut self) -> u16 {
        match &mut self.codec {
            Codec::Stored | Codec::Zstd(None) => STORED,
            Codec::Deflate(_) if self.content.is_empty() => STORED,
            Codec::Deflate(deflate) => {
                deflate.append(&self.content, true, &mut self.packed);
                if self.packed.len() < self.content.len() {
                    DEFLATED
                } else {
                    STORED
                }
            }
            Codec::Zstd(Some(zstd)) => match append_zstd(zstd, &self.content, &mut self.packed) {
                Ok(()) => ZSTD,
                Err(_) => STORED,
            },
        }
    }

    fn piece(&mut self, piece: Piece) -> Result<Packed, String> {
        let entry = self.selection.get(piece.entry).ok_or_else(String::new)?;
        let file = source::open(self.selection, &entry)?;
        self.content.clear();
        source::read(&file, &entry, piece.offset, piece.len, &mut self.content)?;
        let mut checksum = Hasher::new();
        checksum.update(&self.content);
        let size = self.content.len() as u64;
        let mut bytes = Vec::new();
        match &mut self.codec {
            Codec::Stored => bytes = std::mem::take(&mut self.content),
            Codec::Deflate(deflate) => deflate.append(&self.content, piece.last, &mut bytes),
            Codec::Zstd(None) => return Err("zstd: out of memory".to_owned()),
            Codec::Zstd(Some(zstd)) => {
                append_zstd(zstd, &self.content, &mut bytes).map_err(|error| error.to_string())?;
            }
        }
        bytes.shrink_to_fit();
        Ok(Packed {
            bytes,
            checksum,
            size,
        })
    }
}

/// Appends a zstd frame.
pub(super) fn append_zstd(
    zstd: &mut Compressor<'_>,
    content: &[u8],
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    let frame = zstd.compress(content)?;
    out.extend_from_slice(&frame);
    Ok(())
}

/// The zip so far.
struct Zip<'a, 'b> {
    job: &'a mut Job<'b>,
    method: Method,
    records: Vec<Record>,
    /// The large file whose pieces come.
    open: Option<(Record, Hasher)>,
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
                self.job.out.write_all(&bytes)?;
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
                    self.job.out.write_all(&packed.bytes)?;
                }
                if piece.last {
                    self.end(&entry)?;
                }
            }
            Part::Piece(piece, Err(error)) => {
                // One line for a file that cannot be opened, not one for each piece.
                if piece.offset == 0 || self.open.is_some() {
                    self.job.ignored(error);
                }
                let end = matches!(self.method, Method::Deflate(_)).then_some(END);
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
