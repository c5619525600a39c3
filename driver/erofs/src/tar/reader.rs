//! From blocks to entries.

use super::entry::{Contents, Entry, Kind, Part};
use super::header::{BLOCK, Header, more_sparse_parts, text};
use super::pax::{Extended, MAX_PARTS};
use super::sparse::{self, MapReader};
use crate::pipeline::Stream;
use crate::{ConvertError, TarFault};

/// Longest extended header or long name, in bytes: what Go's `archive/tar` allows (maxSpecialFileSize).
const MAX_EXTENDED: u64 = 1 << 20;

/// Reads a tar stream.
pub(crate) struct Reader<'a> {
    stream: &'a mut Stream,
    /// How much of the stream has been read.
    offset: u64,
    /// What remains of the current entry, and the filler behind it.
    contents: u64,
    filler: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(stream: &'a mut Stream) -> Self {
        Self {
            stream,
            offset: 0,
            contents: 0,
            filler: 0,
        }
    }

    /// The next entry; none at the end. What was not read of the last one's contents is passed over.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, ConvertError> {
        let mut extended: Option<Extended> = None;
        loop {
            self.pass_over()?;
            let Some(block) = self.header()? else {
                return match extended {
                    None => Ok(None),
                    Some(_) => Err(self.fault(TarFault::Dangling)),
                };
            };
            let header = Header(&block);
            header.check().map_err(|fault| self.fault(fault))?;
            match header.type_flag() {
                // Records for all entries that follow: git writes a comment. Nothing in use obeys others.
                b'g' => self.contents(header.size().map_err(|fault| self.fault(fault))?),
                b'x' => {
                    let records = self.extended(&header)?;
                    let mut next = Extended::default();
                    if let Some(Extended { path, link, .. }) = extended.take() {
                        (next.path, next.link) = (path, link);
                    }
                    next.add(&records).map_err(|fault| self.fault(fault))?;
                    extended = Some(next);
                }
                b'L' => {
                    let name = self.extended(&header)?;
                    extended.get_or_insert_default().path = Some(text(&name).to_vec());
                }
                b'K' => {
                    let name = self.extended(&header)?;
                    extended.get_or_insert_default().link = Some(text(&name).to_vec());
                }
                _ => {
                    let entry = self.entry(&header, extended.unwrap_or_default())?;
                    return Ok(Some(entry));
                }
            }
        }
    }

    /// Reads some of the current entry's contents, `most` bytes at the most.
    pub(crate) fn read(
        &mut self,
        most: u64,
        use_up: impl FnOnce(&[u8]) -> Result<(), ConvertError>,
    ) -> Result<u64, ConvertError> {
        let bytes = self.stream.fill();
        let most = most.min(self.contents).min(bytes.len() as u64);
        // As long as what is there, or less.
        let len = usize::try_from(most).unwrap_or(bytes.len());
        let some = bytes.get(..len).unwrap_or_default();
        if some.is_empty() {
            return Err(self.fault(TarFault::Truncated));
        }
        use_up(some)?;
        self.stream.consume(len);
        self.offset += most;
        self.contents -= most;
        Ok(most)
    }

    fn entry(&mut self, header: &Header<'_>, extended: Extended) -> Result<Entry, ConvertError> {
        let fault = |offset| move |fault| ConvertError::Tar { offset, fault };
        let here = fault(self.offset);
        let mut path = extended.path.unwrap_or_else(|| header.path());
        let size = match extended.size {
            Some(size) => size,
            None => header.size().map_err(here)?,
        };
        let link = || extended.link.clone().unwrap_or_else(|| header.link());
        let kind = match header.type_flag() {
            // Old tars had no type for folders.
            b'0' | 0 if path.ends_with(b"/") => Kind::Folder,
            b'0' | 0 | b'7' if extended.sparse.is_some() => {
                self.contents(size);
                if let Some(name) = extended.sparse.name.clone() {
                    path = name;
                }
                let parts = match extended.sparse.map_in_contents {
                    true => self.map_in_contents()?,
                    false => extended.sparse.parts().map_err(here)?,
                };
                let real = extended.sparse.size.unwrap_or(size);
                Kind::File(sparse::contents(real, parts, self.contents).map_err(here)?)
            }
            b'0' | 0 | b'7' => {
                self.contents(size);
                let whole = Part {
                    offset: 0,
                    len: size,
                };
                Kind::File(Contents {
                    size,
                    parts: vec![whole],
                })
            }
            b'S' => {
                let parts = self.old_sparse_parts(header)?;
                self.contents(size);
                let real = header.sparse_size().map_err(here)?;
                Kind::File(sparse::contents(real, parts, size).map_err(here)?)
            }
            // The types below have no contents, whatever their size says.
            b'1' => Kind::HardLink(link()),
            b'2' => Kind::Symlink(link()),
            b'3' | b'4' => {
                let (major, minor) = header.device().map_err(here)?;
                Kind::Device {
                    block: header.type_flag() == b'4',
                    major,
                    minor,
                }
            }
            b'5' => Kind::Folder,
            b'6' => Kind::Fifo,
            other => Kind::Other(other),
        };
        Ok(Entry {
            path,
            kind,
            mode: header.mode().map_err(here)?,
            uid: match extended.uid {
                Some(uid) => uid,
                None => header.uid().map_err(here)?,
            },
            gid: match extended.gid {
                Some(gid) => gid,
                None => header.gid().map_err(here)?,
            },
            mtime: match extended.mtime {
                Some(mtime) => mtime,
                None => header.mtime().map_err(here)?,
            },
            xattrs: extended.xattrs,
        })
    }

    /// What an extended header or a long name holds.
    fn extended(&mut self, header: &Header<'_>) -> Result<Vec<u8>, ConvertError> {
        let size = header.size().map_err(|fault| self.fault(fault))?;
        if size > MAX_EXTENDED {
            return Err(self.fault(TarFault::ExtendedTooLong));
        }
        self.contents(size);
        let mut bytes = Vec::new();
        while self.contents > 0 {
            self.read(u64::MAX, |some| {
                bytes.extend_from_slice(some);
                Ok(())
            })?;
        }
        Ok(bytes)
    }

    /// The map of a sparse file of GNU's old format: it begins in the header.
    fn old_sparse_parts(&mut self, header: &Header<'_>) -> Result<Vec<Part>, ConvertError> {
        let (mut parts, mut more) = header.sparse_parts().map_err(|fault| self.fault(fault))?;
        while more {
            let block = self
                .block()?
                .ok_or_else(|| self.fault(TarFault::Truncated))?;
            let (next, and_more) = more_sparse_parts(&block).map_err(|fault| self.fault(fault))?;
            parts.extend(next);
            more = and_more;
            if parts.len() > MAX_PARTS {
                return Err(self.fault(TarFault::SparseMapTooLong(MAX_PARTS)));
            }
        }
        Ok(parts)
    }

    /// The map of a sparse file of pax version 1.0: whole blocks before the contents.
    fn map_in_contents(&mut self) -> Result<Vec<Part>, ConvertError> {
        let mut map = MapReader::default();
        loop {
            let rest = self.contents.checked_sub(BLOCK as u64);
            self.contents = rest.ok_or_else(|| self.fault(TarFault::SparseMap))?;
            let block = self
                .block()?
                .ok_or_else(|| self.fault(TarFault::Truncated))?;
            if map.read(&block).map_err(|fault| self.fault(fault))? {
                return Ok(map.into_parts());
            }
        }
    }

    /// The next header; none at the end: two blocks of zeros, or the stream's own end.
    fn header(&mut self) -> Result<Option<[u8; BLOCK]>, ConvertError> {
        let Some(block) = self.block()? else {
            return Ok(None);
        };
        if block != [0; BLOCK] {
            return Ok(Some(block));
        }
        match self.block()? {
            Some(second) if second != [0; BLOCK] => Err(self.fault(TarFault::LoneZeroBlock)),
            _ => Ok(None),
        }
    }

    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, ConvertError> {
        let mut block = [0; BLOCK];
        let mut len = 0;
        while let Some(rest) = block.get_mut(len..).filter(|rest| !rest.is_empty()) {
            let bytes = self.stream.fill();
            let some = rest.len().min(bytes.len());
            let (Some(to), Some(from)) = (rest.get_mut(..some), bytes.get(..some)) else {
                break;
            };
            to.copy_from_slice(from);
            self.stream.consume(some);
            self.offset += some as u64;
            match some {
                0 if len == 0 => return Ok(None),
                0 => return Err(self.fault(TarFault::Truncated)),
                _ => len += some,
            }
        }
        Ok(Some(block))
    }

    /// Of what follows `size` bytes are the entry's, filled up to a whole block.
    fn contents(&mut self, size: u64) {
        self.contents = size;
        self.filler = size.wrapping_neg() % BLOCK as u64;
    }

    fn pass_over(&mut self) -> Result<(), ConvertError> {
        while self.contents > 0 {
            self.read(u64::MAX, |_| Ok(()))?;
        }
        let mut filler = std::mem::take(&mut self.filler);
        while filler > 0 {
            let there = self.stream.fill().len();
            let some = usize::try_from(filler).unwrap_or(there).min(there);
            if some == 0 {
                // The stream ends with the contents. umoci's `insert` writes such layers, and Go's reader, which is
                // Docker's, takes them.
                return Ok(());
            }
            self.stream.consume(some);
            self.offset += some as u64;
            filler -= some as u64;
        }
        Ok(())
    }

    fn fault(&self, fault: TarFault) -> ConvertError {
        ConvertError::Tar {
            offset: self.offset,
            fault,
        }
    }
}
