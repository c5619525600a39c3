//! A reader of uncompressed EROFS images that takes nothing from the crate under test, and is strict: what it finds odd,
//! it panics about. Source: Linux 6.1, fs/erofs.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

const BLOCK: u64 = 4096;

/// All that is in an image, by path: `""` is the root, `"a/b"` what is in it.
#[derive(Debug, PartialEq, Eq)]
pub struct Tree(pub BTreeMap<Vec<u8>, Found>);

/// A file of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub nid: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub mtime: (i64, u32),
    pub links: u32,
    pub kind: Kind,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    File(Contents),
    Folder,
    Symlink(Vec<u8>),
    BlockDevice(u32, u32),
    CharDevice(u32, u32),
    Fifo,
}

/// A file's contents: where they are. Small ones are read, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    pub size: u64,
    pub offset: u64,
    pub bytes: Option<Vec<u8>>,
}

/// Largest file that is read into memory.
const READ: u64 = 64 << 20;

struct Image<'a> {
    file: &'a File,
    metadata: u64,
    blocks: u64,
    serials: Vec<u32>,
}

impl Tree {
    pub fn read(file: &File) -> Self {
        let mut block = [0; 4096];
        file.read_exact_at(&mut block, 0).unwrap();
        let superblock = &block[1024..];
        assert_eq!(u32_at(superblock, 0), 0xe0f5_e1e2, "magic");
        assert_eq!(u32_at(superblock, 8), 3, "compatible features");
        assert_eq!(superblock[12], 12, "block size");
        assert_eq!(u32_at(superblock, 80), 0, "incompatible features");
        let blocks = u64::from(u32_at(superblock, 36));
        assert_eq!(blocks * BLOCK, file.metadata().unwrap().len(), "length");
        let mut image = Image {
            file,
            metadata: u64::from(u32_at(superblock, 40)) * BLOCK,
            blocks,
            serials: Vec::new(),
        };
        let mut tree = BTreeMap::new();
        let root = u64::from(u16_at(superblock, 14));
        let mut todo = vec![(Vec::new(), root, root)];
        while let Some((path, nid, parent)) = todo.pop() {
            let (found, data) = image.inode(nid);
            if found.kind == Kind::Folder {
                let names = image.folder(&data, nid, parent);
                let mut folders = 0;
                for (name, child, kind) in names {
                    let mut below = path.clone();
                    if !below.is_empty() {
                        below.push(b'/');
                    }
                    below.extend_from_slice(&name);
                    let (found, _) = image.inode(child);
                    assert_eq!(
                        kind,
                        found.type_number(),
                        "type of {}",
                        below.escape_ascii()
                    );
                    if found.kind == Kind::Folder {
                        folders += 1;
                    }
                    todo.push((below, child, nid));
                }
                assert_eq!(found.links, folders + 2, "links of a folder");
            }
            assert!(tree.insert(path, found).is_none());
        }
        let tree = Self(tree);
        tree.check(superblock, &mut image);
        tree
    }

    /// What holds for the image as a whole: links are counted right, and no two files share blocks.
    fn check(&self, superblock: &[u8], image: &mut Image<'_>) {
        let mut names: BTreeMap<u64, (u32, &Found)> = BTreeMap::new();
        for found in self.0.values() {
            names.entry(found.nid).or_insert((0, found)).0 += 1;
        }
        let mut areas = vec![(0, BLOCK)];
        for (count, found) in names.values() {
            match &found.kind {
                Kind::Folder => assert_eq!(*count, 1, "names of a folder"),
                Kind::File(contents) if contents.size > 0 => {
                    areas.push((contents.offset, contents.size.next_multiple_of(BLOCK)));
                    assert_eq!(found.links, *count);
                }
                _ => assert_eq!(found.links, *count),
            }
        }
        areas.sort_unstable();
        for pair in areas.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "overlap: {pair:?}");
        }
        let last = areas.last().unwrap();
        assert!(
            last.0 + last.1 <= image.metadata,
            "contents among the metadata"
        );
        let inodes = u64::from_le_bytes(superblock[16..24].try_into().unwrap());
        assert_eq!(inodes, names.len() as u64, "number of files");
        image.serials.sort_unstable();
        image.serials.dedup();
        assert_eq!(image.serials.len(), names.len(), "file numbers");
    }

    pub fn get(&self, path: impl AsRef<[u8]>) -> &Found {
        let path = path.as_ref();
        match self.0.get(path) {
            Some(found) => found,
            None => panic!("no {} in {:?}", path.escape_ascii(), self.paths()),
        }
    }

    /// All paths but the root's.
    pub fn paths(&self) -> Vec<String> {
        let paths = self.0.keys().filter(|path| !path.is_empty());
        paths.map(|path| path.escape_ascii().to_string()).collect()
    }

    /// The contents of a file.
    pub fn text(&self, path: impl AsRef<[u8]>) -> String {
        self.get(path).bytes().escape_ascii().to_string()
    }
}

impl Found {
    pub fn bytes(&self) -> &[u8] {
        match &self.kind {
            Kind::File(contents) => contents.bytes.as_deref().expect("a small file"),
            other => panic!("not a file: {other:?}"),
        }
    }

    pub fn xattr(&self, name: &str) -> Option<&[u8]> {
        self.xattrs.get(name.as_bytes()).map(Vec::as_slice)
    }

    fn type_number(&self) -> u8 {
        match self.kind {
            Kind::File(_) => 1,
            Kind::Folder => 2,
            Kind::CharDevice(..) => 3,
            Kind::BlockDevice(..) => 4,
            Kind::Fifo => 5,
            Kind::Symlink(_) => 7,
        }
    }
}

impl Image<'_> {
    fn bytes(&self, offset: u64, len: u64) -> Vec<u8> {
        assert!(offset + len <= self.blocks * BLOCK, "beyond the end");
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, offset).unwrap();
        bytes
    }

    /// The record, and for folders and links what they hold.
    fn inode(&mut self, nid: u64) -> (Found, Vec<u8>) {
        let place = self.metadata + nid * 32;
        assert!(place % BLOCK <= BLOCK - 64, "a record across blocks");
        let record = self.bytes(place, 64);
        let format = u16_at(&record, 0);
        assert_eq!(format & 1, 1, "extended form");
        let units = u64::from(u16_at(&record, 2));
        let xattrs = match units {
            0 => Vec::new(),
            units => self.bytes(place + 64, 12 + (units - 1) * 4),
        };
        let mode = u32::from(u16_at(&record, 4));
        let size = u64::from_le_bytes(record[8..16].try_into().unwrap());
        let first = u32_at(&record, 16);
        self.serials.push(u32_at(&record, 20));
        let is_file = mode & 0o170_000 == 0o100_000;
        let offset = u64::from(first) * BLOCK;
        let data = match format >> 1 {
            0 if size > READ || size == 0 => Vec::new(),
            0 => self.bytes(offset, size),
            2 => {
                assert!(!is_file, "files have blocks of their own");
                let tail = size % BLOCK;
                let at = place + 64 + xattrs.len() as u64;
                assert!(
                    tail > 0 && at % BLOCK + tail <= BLOCK,
                    "a tail across blocks"
                );
                let mut data = self.bytes(offset, size - tail);
                data.extend(self.bytes(at, tail));
                data
            }
            other => panic!("layout {other}"),
        };
        let device = (first >> 8 & 0xfff, first & 0xff | first >> 12 & 0xf_ff00);
        let kind = match mode & 0o170_000 {
            0o100_000 => Kind::File(Contents {
                size,
                offset,
                bytes: (size <= READ).then(|| data.clone()),
            }),
            0o040_000 => Kind::Folder,
            0o120_000 => Kind::Symlink(data.clone()),
            0o060_000 => Kind::BlockDevice(device.0, device.1),
            0o020_000 => Kind::CharDevice(device.0, device.1),
            0o010_000 => Kind::Fifo,
            other => panic!("type {other:o}"),
        };
        let found = Found {
            nid,
            mode: mode & 0o7777,
            uid: u32_at(&record, 24),
            gid: u32_at(&record, 28),
            mtime: (
                i64::from_le_bytes(record[32..40].try_into().unwrap()),
                u32_at(&record, 40),
            ),
            links: u32_at(&record, 44),
            kind,
            xattrs: read_xattrs(&xattrs),
        };
        (found, data)
    }

    /// The names in a folder but `.` and `..`, with numbers and types.
    fn folder(&self, data: &[u8], here: u64, parent: u64) -> Vec<(Vec<u8>, u64, u8)> {
        let mut names = Vec::new();
        for block in data.chunks(BLOCK as usize) {
            let count = usize::from(u16_at(block, 8)) / 12;
            assert!(count > 0);
            let start = |at: usize| usize::from(u16_at(block, at * 12 + 8));
            for at in 0..count {
                let end = if at + 1 < count {
                    start(at + 1)
                } else {
                    block.len()
                };
                let name = &block[start(at)..end];
                let name = name.split(|byte| *byte == 0).next().unwrap();
                assert!(!name.is_empty() && !name.contains(&b'/'));
                let nid = u64::from_le_bytes(block[at * 12..at * 12 + 8].try_into().unwrap());
                names.push((name.to_vec(), nid, block[at * 12 + 10]));
            }
        }
        assert!(names.is_sorted_by(|a, b| a.0 < b.0), "names out of order");
        let before = names.len();
        names.retain(|(name, nid, kind)| match &name[..] {
            b"." => {
                assert_eq!((*nid, *kind), (here, 2));
                false
            }
            b".." => {
                assert_eq!((*nid, *kind), (parent, 2));
                false
            }
            _ => true,
        });
        assert_eq!(names.len() + 2, before, "`.` and `..`");
        names
    }
}

fn read_xattrs(set: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut xattrs = BTreeMap::new();
    let Some(mut rest) = set.get(12..) else {
        return xattrs;
    };
    assert_eq!(&set[..12], [0; 12], "no shared attributes");
    while !rest.is_empty() {
        let (name, value) = (usize::from(rest[0]), usize::from(u16_at(rest, 2)));
        let prefix: &[u8] = match rest[1] {
            1 => b"user.",
            2 => b"system.posix_acl_access",
            3 => b"system.posix_acl_default",
            4 => b"trusted.",
            6 => b"security.",
            other => panic!("namespace {other}"),
        };
        let end = 4 + name + value;
        let full = [prefix, &rest[4..4 + name]].concat();
        let old = xattrs.insert(full, rest[4 + name..end].to_vec());
        assert!(old.is_none(), "twice the same attribute");
        rest = &rest[end.next_multiple_of(4)..];
    }
    xattrs
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}
