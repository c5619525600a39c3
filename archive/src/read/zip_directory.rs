//! The directory at the end of a zip file (PKWARE's APPNOTE.TXT 6.3.10, sections 4.3.12 to 4.3.16).

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use super::names::{Meter, inside};
use super::place::Meta;
use super::{ExtractError, Limits, NO_FOLDER};

/// Size of the record at the very end, without its comment.
const END: usize = 22;

/// Longest comment behind it.
const MOST_COMMENT: u64 = 0xffff;

/// Size of a header in the directory, without name, extra fields and comment.
const HEADER: usize = 46;

/// What a link may take in a set of numbers.
const LINK: usize = 40;

/// What a number of a short field means: see the long one.
const LONG: u32 = u32::MAX;

/// Bits of the flags: the content is encrypted, by the old or the strong way, or the directory is.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;

/// Systems on which a zip was made (APPNOTE 4.4.2) whose attributes hold a Unix mode.
const UNIX: [u8; 2] = [3, 19];

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    Symlink,
    /// A pipe, socket or device.
    Other,
}

/// An entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Its name among the names.
    start: usize,
    len: usize,
    pub(super) kind: Kind,
    pub(super) method: u16,
    pub(super) crc: u32,
    /// Compressed size.
    pub(super) packed: u64,
    /// Size.
    pub(super) size: u64,
    /// Where its local header begins.
    pub(super) offset: u64,
    pub(super) meta: Meta,
    /// Length of the name as it was written, for the local header.
    pub(super) written: u16,
}

/// All entries of a zip, in its order.
#[derive(Debug)]
pub(super) struct Directory {
    names: Vec<u8>,
    pub(super) items: Vec<Item>,
    /// Where the names of links begin below which other entries lie.
    links_above: HashSet<usize>,
    /// Where it begins: contents lie before.
    pub(super) start: u64,
}

impl Directory {
    /// Reads and checks it.
    ///
    /// # Errors
    ///
    /// [`ExtractError`], which names the entry if there is one to blame.
    pub(super) fn read(file: &File, limits: Limits, dest: &str) -> Result<Self, ExtractError> {
        let end = find_end(file)?;
        let mut meter = Meter::new(limits);
        let mut directory = Self {
            names: Vec::new(),
            items: Vec::new(),
            links_above: HashSet::new(),
            start: end.start,
        };
        let mut handle = file;
        handle
            .seek(SeekFrom::Start(end.start))
            .map_err(ExtractError::Read)?;
        let mut headers = BufReader::with_capacity(256 << 10, handle.take(end.size));
        let mut buffer = Vec::new();
        for number in 0..end.count {
            let item = directory
                .header(&mut headers, &mut buffer, dest)?
                .ok_or_else(|| {
                    broken(format!(
                        "its directory ends after {number} of {} entries",
                        end.count
                    ))
                })?;
            let name = directory.name(&item);
            let set = if item.kind == Kind::Symlink { LINK } else { 0 };
            meter.entry(name, item.len + size_of::<Item>() + set)?;
            meter.content(name, item.size)?;
            directory.items.push(item);
        }
        directory.links_above = directory.check_names()?;
        directory.check_places()?;
        Ok(directory)
    }

    /// An entry's name, clean; `.` is the destination itself.
    pub(super) fn name(&self, item: &Item) -> &[u8] {
        self.names
            .get(item.start..item.start + item.len)
            .unwrap_or_default()
    }

    /// One header; none at the directory's end.
    fn header(
        &mut self,
        from: &mut impl Read,
        buffer: &mut Vec<u8>,
        dest: &str,
    ) -> Result<Option<Item>, ExtractError> {
        buffer.resize(HEADER, 0);
        match from.read_exact(buffer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            result => result.map_err(ExtractError::Read)?,
        }
        let mut fields = Fields(buffer);
        if fields.u32() != u32::from_le_bytes(*b"PK\x01\x02") {
            return Err(broken("its directory holds what is no header"));
        }
        let made_by = fields.u16().to_le_bytes()[1];
        let _needed = fields.u16();
        let flags = fields.u16();
        let method = fields.u16();
        let (time, date) = (fields.u16(), fields.u16());
        let crc = fields.u32();
        let (packed, size) = (fields.u32(), fields.u32());
        let lengths = [fields.u16(), fields.u16(), fields.u16()];
        let (disk, _internal) = (fields.u16(), fields.u16());
        let attributes = fields.u32();
        let offset = fields.u32();
        let [name_len, extra_len, comment_len] = lengths.map(usize::from);
        buffer.resize(name_len + extra_len + comment_len, 0);
        from.read_exact(buffer)
            .map_err(|_| broken("its directory ends inside a header"))?;
        let (name, rest) = buffer.split_at_checked(name_len).unwrap_or_default();
        let mut extra = Extra {
            packed: u64::from(packed),
            size: u64::from(size),
            offset: u64::from(offset),
            mtime: None,
            owner: None,
        };
        extra
            .read(
                rest.get(..extra_len).unwrap_or_default(),
                [size, packed, offset],
            )
            .ok_or_else(|| ExtractError::damaged(name, "its extra fields are broken"))?;
        let clean = inside(name, dest)?;
        if flags & ENCRYPTED != 0 {
            return Err(ExtractError::refused(name, "is encrypted"));
        }
        if disk != 0 {
            return Err(ExtractError::refused(name, "lies on another disk"));
        }
        let (kind, mode) = kind_and_mode(made_by, attributes, name);
        if clean == b"." && !matches!(kind, Kind::Folder) {
            return Err(ExtractError::refused(name, NO_FOLDER));
        }
        let start = self.names.len();
        self.names.extend_from_slice(&clean);
        Ok(Some(Item {
            start,
            len: clean.len(),
            kind,
            method,
            crc,
            packed: extra.packed,
            size: extra.size,
            offset: extra.offset,
            meta: Meta {
                mode,
                mtime: extra.mtime.or_else(|| dos_time(time, date)),
                owner: extra.owner,
            },
            written: lengths[0],
        }))
    }

    /// Whether other entries lie below the name of a link.
    pub(super) fn is_above(&self, link: &Item) -> bool {
        self.links_above.contains(&link.start)
    }

    /// No name twice, nothing below what is neither folder nor link; answers the links below which there is something.
    fn check_names(&self) -> Result<HashSet<usize>, ExtractError> {
        let mut links_above = HashSet::new();
        let mut order: Vec<&Item> = self.items.iter().collect();
        // With slashes before all other letters, what lies below a name follows it.
        order.sort_by(|one, other| {
            let key = |item| {
                self.name(item)
                    .iter()
                    .map(|byte| if *byte == b'/' { 0 } else { *byte })
            };
            key(one).cmp(key(other))
        });
        // Those below whose names the last entry lies, one below the other: links, and one that is neither link nor folder.
        let mut above: Vec<&Item> = Vec::new();
        let mut before: Option<&Item> = None;
        for item in order {
            let name = self.name(item);
            if let Some(before) = before
                && self.name(before) == name
                && (before.kind, item.kind) != (Kind::Folder, Kind::Folder)
            {
                return Err(ExtractError::refused(name, "is in the archive twice"));
            }
            let is_below = |above: &Item| {
                let rest = name.strip_prefix(self.name(above));
                rest.is_some_and(|rest| rest.starts_with(b"/"))
            };
            while above.pop_if(|above| !is_below(above)).is_some() {}
            match above.last() {
                // What is never made needs no folder.
                Some(link) if link.kind == Kind::Symlink && item.kind == Kind::Other => {}
                Some(link) if link.kind == Kind::Symlink => {
                    links_above.insert(link.start);
                }
                Some(_) => {
                    return Err(ExtractError::refused(
                        name,
                        "lies below an entry of the archive that is no folder",
                    ));
                }
                None => {}
            }
            if item.kind != Kind::Folder {
                above.push(item);
            }
            before = Some(item);
        }
        Ok(links_above)
    }

    /// Contents lie before the directory and do not overlap: else few bytes would unpack to many.
    fn check_places(&self) -> Result<(), ExtractError> {
        let mut order: Vec<&Item> = self.items.iter().collect();
        order.sort_by_key(|item| item.offset);
        let mut free = 0;
        for item in order {
            let end = item
                .offset
                .checked_add(LOCAL as u64 + u64::from(item.written))
                .and_then(|start| start.checked_add(item.packed))
                .filter(|end| *end <= self.start);
            match end {
                Some(end) if item.offset >= free => free = end,
                Some(_) => {
                    let name = self.name(item);
                    return Err(ExtractError::refused(name, "overlaps another entry"));
                }
                None => {
                    let name = self.name(item);
                    return Err(ExtractError::damaged(
                        name,
                        "lies behind the end of the contents",
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Size of a local header without name and extra fields.
const LOCAL: usize = 30;

/// Where an entry's content begins.
///
/// # Errors
///
/// [`ExtractError::Damaged`] if its local header is none, or of another name's length.
pub(super) fn content_start(file: &File, item: &Item, name: &[u8]) -> Result<u64, ExtractError> {
    let mut header = [0; LOCAL];
    file.read_exact_at(&mut header, item.offset)
        .map_err(|_| ExtractError::damaged(name, "its local header is cut off"))?;
    let mut fields = Fields(&header);
    let signature = fields.u32();
    fields.skip(22);
    let (name_len, extra_len) = (fields.u16(), fields.u16());
    if signature != u32::from_le_bytes(*b"PK\x03\x04") || name_len != item.written {
        return Err(ExtractError::damaged(
            name,
            "its local header differs from the directory's",
        ));
    }
    Ok(item.offset + LOCAL as u64 + u64::from(name_len) + u64::from(extra_len))
}

fn broken(why: impl Into<String>) -> ExtractError {
    ExtractError::Broken(why.into())
}

struct End {
    count: u64,
    size: u64,
    start: u64,
}

/// Finds and reads the record at the end.
fn find_end(file: &File) -> Result<End, ExtractError> {
    let len = file.metadata().map_err(ExtractError::Read)?.len();
    let tail_len = len.min(END as u64 + MOST_COMMENT);
    let tail_start = len - tail_len;
    let mut tail = vec![0; usize::try_from(tail_len).unwrap_or_default()];
    file.read_exact_at(&mut tail, tail_start)
        .map_err(ExtractError::Read)?;
    // The last one whose comment fits.
    let found = (0..(tail.len() + 1).saturating_sub(END)).rev().find(|at| {
        let rest = tail.get(*at..).unwrap_or_default();
        let comment = Fields(rest.get(20..).unwrap_or_default()).u16();
        rest.starts_with(b"PK\x05\x06") && END as u64 + u64::from(comment) <= rest.len() as u64
    });
    let at = found.ok_or_else(|| broken("it is not a zip, or its end is missing"))?;
    let mut fields = Fields(tail.get(at + 4..).unwrap_or_default());
    let disks = [fields.u16(), fields.u16()];
    let (_here, count) = (fields.u16(), fields.u16());
    let (size, start) = (fields.u32(), fields.u32());
    let mut end = End {
        count: count.into(),
        size: size.into(),
        start: start.into(),
    };
    let record = tail_start + at as u64;
    let mut limit = record;
    if (count == u16::MAX || size == LONG || start == LONG)
        && let Some((long, at)) = long_end(file, record)?
    {
        (end, limit) = (long, at);
    } else if disks.iter().any(|disk| *disk != 0) {
        return Err(broken("it is a part of a zip of several"));
    }
    if end
        .start
        .checked_add(end.size)
        .is_none_or(|end| end > limit)
    {
        return Err(broken("its directory is cut off"));
    }
    Ok(end)
}

/// The record with long fields, and where it lies, if there is one.
fn long_end(file: &File, record: u64) -> Result<Option<(End, u64)>, ExtractError> {
    let mut locator = [0; 20];
    let Some(at) = record.checked_sub(locator.len() as u64) else {
        return Ok(None);
    };
    file.read_exact_at(&mut locator, at)
        .map_err(ExtractError::Read)?;
    if !locator.starts_with(b"PK\x06\x07") {
        return Ok(None);
    }
    let mut fields = Fields(&locator);
    fields.skip(8);
    let place = fields.u64();
    let mut long = [0; 56];
    file.read_exact_at(&mut long, place)
        .map_err(|_| broken("its long end record is cut off"))?;
    if !long.starts_with(b"PK\x06\x06") || place >= at {
        return Err(broken("its long end record is not where it should be"));
    }
    let mut fields = Fields(&long);
    fields.skip(32);
    let end = End {
        count: fields.u64(),
        size: fields.u64(),
        start: fields.u64(),
    };
    Ok(Some((end, place)))
}

/// Kind and permission bits, as Go's library makes them of a header's attributes.
fn kind_and_mode(made_by: u8, attributes: u32, name: &[u8]) -> (Kind, u32) {
    let is_folder = name.ends_with(b"/");
    let mode = attributes >> 16;
    if UNIX.contains(&made_by) && mode != 0 {
        let kind = match mode & 0o170_000 {
            _ if is_folder => Kind::Folder,
            0o040_000 => Kind::Folder,
            0o120_000 => Kind::Symlink,
            0 | 0o100_000 => Kind::File,
            _ => Kind::Other,
        };
        return (kind, mode & 0o7777);
    }
    // MS-DOS: folder and read-only bits.
    let write = if attributes & 1 == 0 { 0o222 } else { 0 };
    if is_folder || attributes & 0x10 != 0 {
        (Kind::Folder, 0o555 | write)
    } else {
        (Kind::File, 0o444 | write)
    }
}

/// MS-DOS's time and date (APPNOTE 4.4.6), read as UTC; none if there is no such date.
fn dos_time(time: u16, date: u16) -> Option<i64> {
    let bits = |value: u16, at: u32, count: u32| i64::from(value >> at & ((1 << count) - 1));
    let (year, month, day) = (1980 + bits(date, 9, 7), bits(date, 5, 4), bits(date, 0, 5));
    if !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    // Days since 1970: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil.
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let year_of_era = shifted_year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = shifted_year.div_euclid(400) * 146_097 + day_of_era - 719_468;
    let seconds = bits(time, 11, 5) * 3600 + bits(time, 5, 6) * 60 + bits(time, 0, 5) * 2;
    Some(days * 86_400 + seconds)
}

/// What extra fields add to a header.
struct Extra {
    packed: u64,
    size: u64,
    offset: u64,
    mtime: Option<i64>,
    owner: Option<(u32, u32)>,
}

impl Extra {
    /// Reads them; `short` are size, compressed size and offset of the header. None if they are broken.
    fn read(&mut self, mut extra: &[u8], short: [u32; 3]) -> Option<()> {
        let mut long = false;
        // Less than a field's head at the end is filling.
        while let Some((head, rest)) = extra.split_first_chunk::<4>() {
            let [a, b, c, d] = *head;
            let len = usize::from(u16::from_le_bytes([c, d]));
            let (field, rest) = rest.split_at_checked(len)?;
            let mut fields = Fields(field);
            match u16::from_le_bytes([a, b]) {
                1 if !long => {
                    long = true;
                    let values = [&mut self.size, &mut self.packed, &mut self.offset];
                    let wanted = values
                        .into_iter()
                        .zip(short)
                        .filter(|(_, short)| *short == LONG);
                    for (value, _) in wanted {
                        if fields.0.len() < 8 {
                            return None;
                        }
                        *value = fields.u64();
                    }
                }
                0x5455 if len >= 5 && fields.u8() & 1 != 0 => {
                    // Without a sign, as Go reads it.
                    self.mtime = Some(i64::from(fields.u32()));
                }
                // Version 1 with numbers of four bytes.
                0x7875 if field.starts_with(&[1, 4]) && field.get(6) == Some(&4) && len >= 11 => {
                    fields.skip(2);
                    let uid = fields.u32();
                    fields.skip(1);
                    self.owner = Some((uid, fields.u32()));
                }
                _ => {}
            }
            extra = rest;
        }
        Some(())
    }
}

/// Little-endian numbers, one after the other; zeros behind the end.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk::<N>() {
            Some((bytes, rest)) => {
                self.0 = rest;
                *bytes
            }
            None => [0; N],
        }
    }

    fn skip(&mut self, count: usize) {
        self.0 = self.0.get(count..).unwrap_or_default();
    }

    fn u8(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}
