//! Extended headers of POSIX's pax format, with the keys that matter in images.

use super::entry::Part;
use super::{Time, Xattr, number};
use crate::TarFault;

/// What extended headers say of the next entry.
#[derive(Debug, Default)]
pub(crate) struct Extended {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) uid: Option<u64>,
    pub(crate) gid: Option<u64>,
    pub(crate) mtime: Option<Time>,
    pub(crate) xattrs: Vec<Xattr>,
    pub(crate) sparse: Sparse,
}

/// GNU's records for sparse files (GNU tar's manual, "Storing Sparse Files").
#[derive(Debug, Default)]
pub(crate) struct Sparse {
    /// Version 1.0: the map stands before the contents.
    pub(crate) map_in_contents: bool,
    /// The file's name; the entry's own is made up.
    pub(crate) name: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    /// Versions 0.0 and 0.1: offsets and lengths by turns.
    map: Vec<u64>,
}

/// Most parts of a sparse file: their map takes 2 MiB.
pub(crate) const MAX_PARTS: usize = 128 << 10;

/// What the name of a record with an extended attribute begins with.
const XATTR: &[u8] = b"SCHILY.xattr.";

impl Extended {
    /// Adds the records `LENGTH KEY=VALUE\n` of `bytes`. Those of an earlier header give way, an empty value takes
    /// one back, unknown ones are passed over.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) -> Result<(), TarFault> {
        while !bytes.is_empty() {
            let blank = bytes.iter().take(20).position(|byte| *byte == b' ');
            let blank = blank.ok_or(TarFault::Pax)?;
            let len = number::decimal(bytes.get(..blank).unwrap_or_default())
                .and_then(|len| usize::try_from(len).ok())
                .filter(|len| *len <= bytes.len())
                .ok_or(TarFault::Pax)?;
            let record = bytes.get(blank + 1..len).ok_or(TarFault::Pax)?;
            let record = record.strip_suffix(b"\n").ok_or(TarFault::Pax)?;
            let equals = record.iter().position(|byte| *byte == b'=');
            let (key, value) = record.split_at(equals.ok_or(TarFault::Pax)?);
            if key.is_empty() || key.contains(&0) {
                return Err(TarFault::Pax);
            }
            self.record(key, value.get(1..).unwrap_or_default())?;
            bytes = bytes.get(len..).unwrap_or_default();
        }
        Ok(())
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<(), TarFault> {
        match key {
            b"path" => self.path = name(value)?,
            b"linkpath" => self.link = name(value)?,
            b"size" => self.size = whole("size", value)?,
            b"uid" => self.uid = whole("owner", value)?,
            b"gid" => self.gid = whole("group", value)?,
            b"mtime" => {
                self.mtime = match value {
                    b"" => None,
                    _ => Some(number::time(value).ok_or(TarFault::Number("time"))?),
                }
            }
            b"GNU.sparse.major" => self.sparse.map_in_contents = value == b"1",
            b"GNU.sparse.name" => self.sparse.name = name(value)?,
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => {
                self.sparse.size = whole("size", value)?;
            }
            b"GNU.sparse.offset" => self.sparse.add(value, 0)?,
            b"GNU.sparse.numbytes" => self.sparse.add(value, 1)?,
            b"GNU.sparse.map" => {
                self.sparse.map.clear();
                for (at, value) in value.split(|byte| *byte == b',').enumerate() {
                    self.sparse.add(value, at % 2)?;
                }
            }
            _ => {
                if let Some(name) = key.strip_prefix(XATTR) {
                    self.xattr(name, value);
                }
            }
        }
        Ok(())
    }

    fn xattr(&mut self, name: &[u8], value: &[u8]) {
        self.xattrs.push(Xattr {
            name: name.to_vec(),
            value: value.to_vec(),
        });
    }
}

impl Sparse {
    /// Whether this is a sparse file at all.
    pub(crate) fn is_some(&self) -> bool {
        self.map_in_contents || !self.map.is_empty() || self.size.is_some()
    }

    /// The map of versions 0.0 and 0.1.
    pub(crate) fn parts(&self) -> Result<Vec<Part>, TarFault> {
        let (pairs, rest) = self.map.as_chunks::<2>();
        match rest {
            [] => Ok(pairs
                .iter()
                .map(|&[offset, len]| Part { offset, len })
                .collect()),
            _ => Err(TarFault::SparseMap),
        }
    }

    fn add(&mut self, value: &[u8], turn: usize) -> Result<(), TarFault> {
        if self.map.len() % 2 != turn {
            return Err(TarFault::SparseMap);
        }
        if self.map.len() >= 2 * MAX_PARTS {
            return Err(TarFault::SparseMapTooLong(MAX_PARTS));
        }
        self.map
            .push(number::decimal(value).ok_or(TarFault::SparseMap)?);
        Ok(())
    }
}

fn name(value: &[u8]) -> Result<Option<Vec<u8>>, TarFault> {
    match value {
        b"" => Ok(None),
        _ if value.contains(&0) => Err(TarFault::Pax),
        _ => Ok(Some(value.to_vec())),
    }
}

fn whole(what: &'static str, value: &[u8]) -> Result<Option<u64>, TarFault> {
    match value {
        b"" => Ok(None),
        _ => number::decimal(value)
            .map(Some)
            .ok_or(TarFault::Number(what)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, value: &[u8]) -> Vec<u8> {
        let rest = key.len() + value.len() + 3;
        let len = (rest..).find(|len| rest + len.to_string().len() == *len);
        let mut record = format!("{} {key}=", len.unwrap()).into_bytes();
        record.extend_from_slice(value);
        record.push(b'\n');
        record
    }

    fn read(records: &[u8]) -> Result<Extended, TarFault> {
        let mut extended = Extended::default();
        extended.add(records).map(|()| extended)
    }

    #[test]
    fn values_may_hold_line_breaks_and_equals_signs() {
        let value = b"\x01\0\0\x02\n\n=\0 12 user.x=y\n";

        let extended = read(&record("SCHILY.xattr.security.capability", value)).unwrap();

        assert_eq!(extended.xattrs.len(), 1);
        assert_eq!(extended.xattrs[0].name, b"security.capability");
        assert_eq!(extended.xattrs[0].value, value);
    }

    #[test]
    fn the_last_record_counts_and_an_empty_one_takes_it_back() {
        let records = [
            record("path", b"a"),
            record("path", b"b"),
            record("uid", b"7"),
        ]
        .concat();
        let extended = read(&records).unwrap();
        assert_eq!(extended.path.as_deref(), Some(&b"b"[..]));

        let extended = read(&[&records[..], &record("path", b"")].concat()).unwrap();
        assert_eq!((extended.path, extended.uid), (None, Some(7)));
    }

    #[test]
    fn malformed_records_are_refused() {
        for wrong in [
            &b"5 a=b"[..],
            b"6 a=bc",
            b"x a=b\n",
            b" a=b\n",
            b"6 a=b\n junk",
            b"99999999999999999999999 a=b\n",
            b"2 a=b\n",
            b"0 a=b\n",
            b"5 ab\n",
            b"5 =b\n",
            b"7 a\0b=\n",
            b"10 path=\0\n\n",
            b"\0\0\0\0",
        ] {
            assert_eq!(
                read(wrong).unwrap_err(),
                TarFault::Pax,
                "{}",
                wrong.escape_ascii()
            );
        }
        let wrong = read(&record("size", b"-1")).unwrap_err();
        assert_eq!(wrong, TarFault::Number("size"));
        assert_eq!(
            read(&record("mtime", b"x")).unwrap_err(),
            TarFault::Number("time")
        );
    }

    #[test]
    fn maps_of_sparse_files_are_read_in_both_forms() {
        let pairs = [
            record("GNU.sparse.offset", b"0"),
            record("GNU.sparse.numbytes", b"5"),
            record("GNU.sparse.offset", b"4096"),
            record("GNU.sparse.numbytes", b"1"),
        ]
        .concat();
        let list = record("GNU.sparse.map", b"0,5,4096,1");
        for records in [&pairs, &list] {
            let parts = read(records).unwrap().sparse.parts().unwrap();
            let parts: Vec<_> = parts.iter().map(|part| (part.offset, part.len)).collect();
            assert_eq!(parts, [(0, 5), (4096, 1)]);
        }

        let odd = read(&record("GNU.sparse.map", b"0,5,4096")).unwrap();
        assert_eq!(odd.sparse.parts(), Err(TarFault::SparseMap));
        let twice = [
            record("GNU.sparse.offset", b"0"),
            record("GNU.sparse.offset", b"0"),
        ]
        .concat();
        assert_eq!(read(&twice).unwrap_err(), TarFault::SparseMap);
    }
}
