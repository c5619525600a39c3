//! Gzip members (RFC 1952), one for each file (gitlab-runner, wire §3.4.4).

use std::io::Write;
use std::sync::Arc;

use crc32fast::Hasher;

use super::deflate::{Deflate, NOTHING, Position};
use super::plan::{self, Piece, Unit};
use super::{Job, WriteError, check_regular, source};
use crate::buffer::{Buffer, SpareBuffers};
use crate::select::{Entry, Selection};

/// Bytes of a batch or piece.
const PIECE: usize = 2 << 20;

/// The helper compresses at a level of its own, whatever the variables say.
const LEVEL: i32 = 6;

/// Writes a member for each file.
///
/// # Errors
///
/// [`WriteError::NotRegular`] before anything is written, [`WriteError::Output`].
pub(super) fn write(job: &mut Job<'_>) -> Result<(), WriteError> {
    check_regular(job.selection)?;
    let selection = job.selection;
    let threads = job.threads;
    let spare = SpareBuffers::default();
    let mut members = Members {
        job,
        open: None,
        told: false,
    };
    plan::ordered(
        selection,
        PIECE,
        threads,
        || Packer {
            selection,
            spare: &spare,
            deflate: Deflate::new([LEVEL; 2]),
            content: Buffer::default(),
        },
        Packer::work,
        |packed| {
            let mut start = 0;
            for part in packed.parts {
                let len = part.packed.as_ref().map_or(0, |member| member.len);
                let bytes = packed.bytes.bytes().get(start..start + len);
                members.take(part, bytes.unwrap_or_default())?;
                start += len;
            }
            spare.give(packed.bytes);
            Ok(())
        },
    )
}

/// What a thread makes of a unit.
struct Packed {
    /// One part's after the other's.
    bytes: Buffer,
    parts: Vec<Part>,
}

/// A piece of a file, or all of it.
struct Part {
    piece: Piece,
    packed: Result<Member, String>,
}

/// What a piece has become.
struct Member {
    /// Bytes of it.
    len: usize,
    /// The content's checksum.
    checksum: Hasher,
    /// The line of a large file that became shorter.
    shorter: Option<String>,
}

struct Packer<'a> {
    selection: &'a Selection,
    spare: &'a SpareBuffers,
    deflate: Deflate,
    content: Buffer,
}

impl Packer<'_> {
    fn work(&mut self, unit: Unit) -> Packed {
        let pieces = match unit {
            Unit::Piece(piece) => vec![piece],
            Unit::Batch(entries) => entries
                .into_iter()
                .map(|entry| Piece {
                    entry: Arc::new(entry),
                    offset: 0,
                    len: PIECE,
                    last: true,
                })
                .collect(),
        };
        let mut bytes = self.spare.take();
        let parts = pieces.into_iter().map(|piece| Part {
            packed: self.piece(&piece, &mut bytes),
            piece,
        });
        let parts = parts.collect();
        Packed { bytes, parts }
    }

    fn piece(&mut self, piece: &Piece, out: &mut Buffer) -> Result<Member, String> {
        let entry = &*piece.entry;
        let file = source::open(self.selection, entry)?;
        let left = usize::try_from(entry.size - piece.offset).unwrap_or(usize::MAX);
        self.content.clear();
        source::read(
            &file,
            entry,
            piece.offset,
            piece.len.min(left),
            &mut self.content,
        )?;
        let is_whole = piece.offset == 0 && piece.last;
        let shorter = (!is_whole)
            .then(|| source::check_len(entry, self.content.len() as u64, piece.len as u64))
            .flatten();
        let mut checksum = Hasher::new();
        checksum.update(self.content.bytes());
        let start = out.len();
        let position = Position::of(piece.offset / PIECE as u64, piece.last);
        self.deflate.append(self.content.bytes(), position, out);
        Ok(Member {
            len: out.len() - start,
            checksum,
            shorter,
        })
    }
}

struct Members<'a, 'b> {
    job: &'a mut Job<'b>,
    /// Checksum and size of the member that is being written. Combining needs the size's low bits only.
    open: Option<Hasher>,
    /// Whether it was said that its file became shorter.
    told: bool,
}

impl Members<'_, '_> {
    fn take(&mut self, part: Part, bytes: &[u8]) -> Result<(), WriteError> {
        let Part { piece, packed } = part;
        match packed {
            Ok(member) => {
                if piece.offset == 0 {
                    self.job.out.write_all(&header(&piece.entry))?;
                    self.open = Some(Hasher::new());
                    self.told = false;
                }
                if let Some(open) = &mut self.open {
                    open.combine(&member.checksum);
                    self.job.written.bytes += member.checksum.total_len();
                    self.job.out.write_all(bytes)?;
                    // One line for the file, not one for each piece that is short.
                    if let Some(error) = member.shorter.filter(|_| !self.told) {
                        self.told = true;
                        self.job.ignored(error);
                    }
                }
                if piece.last {
                    self.end()?;
                }
            }
            Err(error) => {
                if piece.offset == 0 || self.open.is_some() {
                    self.job.ignored(error);
                }
                if self.open.is_some() {
                    self.job.out.write_all(&NOTHING)?;
                }
                self.end()?;
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), WriteError> {
        if let Some(checksum) = self.open.take() {
            let size = checksum.total_len();
            let [a, b, c, d, ..] = size.to_le_bytes();
            self.job.out.write_all(&checksum.finalize().to_le_bytes())?;
            self.job.out.write_all(&[a, b, c, d])?;
            self.job.written.entries += 1;
        }
        Ok(())
    }
}

fn header(entry: &Entry) -> Vec<u8> {
    // Deflate; name and comment follow; made on an unknown system, as Go says.
    let mut out = vec![0x1f, 0x8b, 8, 0x18];
    let mtime = u32::try_from(entry.mtime).unwrap_or_default();
    out.extend(mtime.to_le_bytes());
    out.extend([0, 255]);
    let slash = entry.path.iter().rposition(|byte| *byte == b'/');
    let base = entry
        .path
        .get(slash.map_or(0, |at| at + 1)..)
        .unwrap_or_default();
    for text in [base, &entry.path] {
        out.extend(field(text));
        out.push(0);
    }
    out
}

/// A name or comment: the field takes Latin-1 only, so the helper escapes what is not plain (`url.PathEscape`).
fn field(text: &[u8]) -> Vec<u8> {
    if text.iter().all(|byte| byte.is_ascii() && *byte != b'%') {
        return text.to_vec();
    }
    let mut escaped = b"e:".to_vec();
    for byte in text {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+=:@".contains(byte) {
            escaped.push(*byte);
        } else {
            escaped.extend(format!("%{byte:02X}").bytes());
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gitlab-runner, wire §8.8 and wire §3.4.4.
    #[test]
    fn odd_names_are_escaped() {
        assert_eq!(field(b"a/b c.xml"), b"a/b c.xml");
        assert_eq!(field(b"test%dir"), b"e:test%25dir");
        assert_eq!(field("测".as_bytes()), b"e:%E6%B5%8B");
        assert_eq!(field("TEST-日.txt".as_bytes()), b"e:TEST-%E6%97%A5.txt");
    }
}
