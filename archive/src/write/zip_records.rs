//! The records of a zip file (PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.5), with the fields that GitLab
//! Runner's fastzip writes (gitlab-runner, wire §3.4.1 and wire §3.4.2).

use std::io::{self, Write};

use crate::select::{Entry, EntryKind};

/// Compression methods (APPNOTE 4.4.5).
pub(super) const STORED: u16 = 0;
pub(super) const DEFLATED: u16 = 8;
pub(super) const ZSTD: u16 = 93;

/// Largest number of the short fields, which says that the long one holds the value.
const LONG: u64 = 0xffff_ffff;
const LONG_COUNT: u64 = 0xffff;

/// Sizes from which a file's descriptor has long fields. Its compressed form may be a little larger than it.
const LONG_DESCRIPTOR: u64 = 0xff00_0000;

/// "Made by" Unix, version 2.0 of the format.
const MADE_BY: u16 = 0x0314;

/// Flags: sizes and checksum stand behind the content; the name is UTF-8 (APPNOTE 4.4.4).
const DESCRIPTOR: u16 = 1 << 3;
const UTF8: u16 = 1 << 11;

/// What the directory at the end says of an entry, beside what the entry itself does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    /// Where its local header begins.
    pub(super) offset: u64,
    /// Compressed size.
    pub(super) packed: u64,
    /// Size.
    pub(super) size: u64,
    /// Checksum.
    pub(super) crc: u32,
    /// Method.
    pub(super) method: u16,
    /// Whether sizes and checksum stand behind the content.
    pub(super) descriptor: bool,
}

/// Whether a file of this size gets a descriptor with long fields.
fn long_descriptor(record: &Record, size: u64) -> bool {
    record.descriptor && size >= LONG_DESCRIPTOR
}

fn name(entry: &Entry) -> Vec<u8> {
    let mut name = entry.path.clone();
    if entry.kind == EntryKind::Folder {
        name.push(b'/');
    }
    name
}

fn flags(record: &Record, name: &[u8]) -> u16 {
    let special = |byte: &u8| *byte < 0x20 || *byte > 0x7d || *byte == b'\\';
    let utf8 = name.iter().any(special) && std::str::from_utf8(name).is_ok();
    (u16::from(utf8) * UTF8) | (u16::from(record.descriptor) * DESCRIPTOR)
}

/// Version of the format that is needed (APPNOTE 4.4.3).
fn needed(method: u16, long: bool) -> u16 {
    match method {
        ZSTD => 63,
        _ if long => 45,
        _ => 20,
    }
}

/// Time and date as MS-DOS has them (APPNOTE 4.4.6), in UTC, at the ends of their range for what lies outside.
fn dos_time(mtime: i64) -> (u16, u16) {
    // Days from 1970 to a date: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
    let days = mtime.div_euclid(86_400);
    let second = mtime.rem_euclid(86_400);
    let shifted = days.saturating_add(719_468);
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let field = |value: i64| u16::try_from(value).unwrap_or_default();
    match year - 1980 {
        ..0 => (0, 1 << 5 | 1),
        128.. => (0xbf7d, 0xff9f),
        year => (
            field((second / 3600) << 11 | (second / 60 % 60) << 5 | (second % 60 / 2)),
            field(year << 9 | month << 5 | day),
        ),
    }
}

/// Extra fields: the time (0x5455, its flag says that it is the modification's) and the owner (0x7875). The time is
/// without a sign, as Go has it; before 1970 and from 2106 on there is the MS-DOS time alone.
fn extras(entry: &Entry, out: &mut Vec<u8>) {
    if let Ok(mtime) = u32::try_from(entry.mtime) {
        out.extend(0x5455u16.to_le_bytes());
        out.extend(5u16.to_le_bytes());
        out.push(1);
        out.extend(mtime.to_le_bytes());
    }
    out.extend(0x7875u16.to_le_bytes());
    out.extend(11u16.to_le_bytes());
    out.extend([1, 4]);
    out.extend(entry.uid.to_le_bytes());
    out.push(4);
    out.extend(entry.gid.to_le_bytes());
}

fn short(value: u64) -> [u8; 4] {
    u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes()
}

fn len(bytes: &[u8]) -> [u8; 2] {
    u16::try_from(bytes.len()).unwrap_or(u16::MAX).to_le_bytes()
}

/// Appends the header in front of an entry's content. With a descriptor, sizes and checksum are left out.
pub(super) fn local_header(entry: &Entry, record: &Record, out: &mut Vec<u8>) {
    let name = name(entry);
    let long = long_descriptor(record, entry.size);
    let mut extra = Vec::new();
    if long {
        extra.extend(1u16.to_le_bytes());
        extra.extend(16u16.to_le_bytes());
        extra.extend([0; 16]);
    }
    extras(entry, &mut extra);
    let (time, date) = dos_time(entry.mtime);
    out.extend(b"PK\x03\x04");
    out.extend(needed(record.method, long).to_le_bytes());
    out.extend(flags(record, &name).to_le_bytes());
    out.extend(record.method.to_le_bytes());
    out.extend(time.to_le_bytes());
    out.extend(date.to_le_bytes());
    if record.descriptor {
        out.extend([0; 4]);
        out.extend(if long { [0xff; 8] } else { [0; 8] });
    } else {
        out.extend(record.crc.to_le_bytes());
        out.extend(short(record.packed));
        out.extend(short(record.size));
    }
    out.extend(len(&name));
    out.extend(len(&extra));
    out.extend(name);
    out.extend(extra);
}

/// Sizes and checksum behind an entry's content.
pub(super) fn descriptor(entry: &Entry, record: &Record) -> Vec<u8> {
    let mut out = b"PK\x07\x08".to_vec();
    out.extend(record.crc.to_le_bytes());
    if long_descriptor(record, entry.size) {
        out.extend(record.packed.to_le_bytes());
        out.extend(record.size.to_le_bytes());
    } else {
        out.extend(short(record.packed));
        out.extend(short(record.size));
    }
    out
}

/// Appends an entry's header in the directory at the end.
pub(super) fn central_header(entry: &Entry, record: &Record, out: &mut Vec<u8>) {
    let name = name(entry);
    let mut long = Vec::new();
    for value in [record.size, record.packed, record.offset] {
        if value >= LONG {
            long.extend(value.to_le_bytes());
        }
    }
    let is_long = !long.is_empty() || long_descriptor(record, entry.size);
    let mut extra = Vec::new();
    if !long.is_empty() {
        extra.extend(1u16.to_le_bytes());
        extra.extend(len(&long));
        extra.extend(long);
    }
    extras(entry, &mut extra);
    let (time, date) = dos_time(entry.mtime);
    let folder = u32::from(entry.kind == EntryKind::Folder) * 0x10;
    out.extend(b"PK\x01\x02");
    out.extend(MADE_BY.to_le_bytes());
    out.extend(needed(record.method, is_long).to_le_bytes());
    out.extend(flags(record, &name).to_le_bytes());
    out.extend(record.method.to_le_bytes());
    out.extend(time.to_le_bytes());
    out.extend(date.to_le_bytes());
    out.extend(record.crc.to_le_bytes());
    out.extend(short(record.packed));
    out.extend(short(record.size));
    out.extend(len(&name));
    out.extend(len(&extra));
    // No comment, disk 0, no internal attributes.
    out.extend([0; 6]);
    out.extend((entry.mode << 16 | folder).to_le_bytes());
    out.extend(short(record.offset));
    out.extend(name);
    out.extend(extra);
}

/// Writes what ends a zip whose directory of `count` headers lies at `start..end`.
pub(super) fn write_end(out: &mut impl Write, count: u64, start: u64, end: u64) -> io::Result<()> {
    let size = end - start;
    let mut bytes = Vec::new();
    if count >= LONG_COUNT || size >= LONG || start >= LONG {
        bytes.extend(b"PK\x06\x06");
        bytes.extend(44u64.to_le_bytes());
        bytes.extend(45u16.to_le_bytes());
        bytes.extend(45u16.to_le_bytes());
        bytes.extend([0; 8]);
        for value in [count, count, size, start] {
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend(b"PK\x06\x07");
        bytes.extend([0; 4]);
        bytes.extend(end.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
    }
    let count = u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes();
    bytes.extend(b"PK\x05\x06");
    bytes.extend([0; 4]);
    bytes.extend(count);
    bytes.extend(count);
    bytes.extend(short(size));
    bytes.extend(short(start));
    bytes.extend([0; 2]);
    out.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (mtime, wanted) in [
            (1_764_462_645, (2025, 11, 30, 0, 30, 44)),
            (951_782_399, (2000, 2, 28, 23, 59, 58)),
            (951_782_400, (2000, 2, 29, 0, 0, 0)),
            (315_532_800, (1980, 1, 1, 0, 0, 0)),
            (315_532_799, (1980, 1, 1, 0, 0, 0)),
            (i64::MIN, (1980, 1, 1, 0, 0, 0)),
            (i64::MAX, (2107, 12, 31, 23, 59, 58)),
            (4_354_819_199, (2107, 12, 31, 23, 59, 58)),
        ] {
            let (time, date) = dos_time(mtime);
            let got = (
                1980 + (date >> 9),
                date >> 5 & 15,
                date & 31,
                time >> 11,
                time >> 5 & 63,
                (time & 31) * 2,
            );
            assert_eq!(got, wanted, "{mtime}");
        }
    }
}
