//! Archives made to do harm, into trees made to help them: each is refused with a line that names its entry, and
//! nothing lands outside.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::kit::{Tree, all_of, listing, options, pack, text, unpack};
use proptest::prelude::*;
use tar::{Builder, EntryType, Header};
use vk_archive::{ExtractOptions, Format, Level, Limits, Owner, extract_tar};

/// An entry of a zip, as hostile as it gets.
#[derive(Clone)]
pub struct Entry {
    pub name: Vec<u8>,
    /// In front of the content, if it differs.
    pub local_name: Option<Vec<u8>>,
    pub mode: u32,
    pub method: u16,
    pub flags: u16,
    pub content: Vec<u8>,
    /// What the directory says.
    pub size: Option<u64>,
    pub crc: Option<u32>,
    pub offset: Option<u64>,
}

pub fn file(name: &str, content: &str) -> Entry {
    Entry {
        name: name.into(),
        local_name: None,
        mode: 0o100_644,
        method: 0,
        flags: 0,
        content: content.into(),
        size: None,
        crc: None,
        offset: None,
    }
}

pub fn link(name: &str, target: &str) -> Entry {
    Entry {
        mode: 0o120_777,
        ..file(name, target)
    }
}

pub fn zip(entries: &[Entry]) -> Vec<u8> {
    zip_counted(entries, entries.len() as u16)
}

fn zip_counted(entries: &[Entry], count: u16) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    let le = |value: u64| u32::try_from(value).unwrap().to_le_bytes();
    for entry in entries {
        let offset = entry.offset.unwrap_or(out.len() as u64);
        let size = entry.size.unwrap_or(entry.content.len() as u64);
        let packed = entry.content.len() as u64;
        let crc = entry.crc.unwrap_or_else(|| crc32fast::hash(&entry.content));
        let local = entry.local_name.as_ref().unwrap_or(&entry.name);
        let common = |name: &[u8]| {
            let mut bytes = entry.flags.to_le_bytes().to_vec();
            bytes.extend(entry.method.to_le_bytes());
            bytes.extend([0, 0, 0x21, 0]);
            bytes.extend(crc.to_le_bytes());
            bytes.extend(le(packed));
            bytes.extend(le(size));
            bytes.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
            bytes.extend([0, 0]);
            bytes
        };
        out.extend(b"PK\x03\x04\x14\0");
        out.extend(common(local));
        out.extend(local);
        out.extend(&entry.content);
        directory.extend(b"PK\x01\x02\x14\x03\x14\0");
        directory.extend(common(&entry.name));
        directory.extend([0; 6]);
        directory.extend((entry.mode << 16).to_le_bytes());
        directory.extend(le(offset));
        directory.extend(&entry.name);
    }
    let start = out.len() as u64;
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(le(directory.len() as u64));
    out.extend(le(start));
    out.extend([0, 0]);
    out
}

fn tar_entry(kind: EntryType, name: &[u8], link: &[u8], content: &[u8]) -> (Header, Vec<u8>) {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1_000_000_000);
    let raw = header.as_gnu_mut().unwrap();
    raw.name[..name.len()].copy_from_slice(name);
    raw.linkname[..link.len()].copy_from_slice(link);
    header.set_cksum();
    (header, content.to_vec())
}

fn tar(entries: &[(Header, Vec<u8>)]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (header, content) in entries {
        tar.append(header, content.as_slice()).unwrap();
    }
    zstd::bulk::compress(&tar.into_inner().unwrap(), 1).unwrap()
}

/// The same entries as a tar: only what a tar can say.
fn as_tar(entries: &[Entry]) -> Vec<u8> {
    let entries: Vec<_> = entries
        .iter()
        .map(|entry| match entry.mode & 0o170_000 {
            0o120_000 => tar_entry(EntryType::Symlink, &entry.name, &entry.content, b""),
            _ if entry.name.ends_with(b"/") => {
                tar_entry(EntryType::Directory, &entry.name, b"", b"")
            }
            _ => tar_entry(EntryType::Regular, &entry.name, b"", &entry.content),
        })
        .collect();
    tar(&entries)
}

/// A folder beside the destination, which must stay as it is, and the destination.
pub struct Fixture {
    tree: Tree,
    before: Vec<String>,
}

impl Fixture {
    pub fn new() -> Self {
        let tree = Tree::new();
        tree.file("outside/secret", "secret");
        tree.file("outside/sub/x", "x");
        fs::create_dir(tree.path("dest")).unwrap();
        let before = listing(&tree.path("outside"));
        Self { tree, before }
    }

    pub fn dest(&self) -> PathBuf {
        self.tree.path("dest")
    }

    /// The refusal of an archive, on one line.
    pub fn refusal(&self, archive: &[u8], format: Format) -> String {
        self.refusal_with(archive, format, &options())
    }

    fn refusal_with(&self, archive: &[u8], format: Format, options: &ExtractOptions) -> String {
        let error = unpack(archive, format, &self.dest(), options).unwrap_err();
        self.check();
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        format!("{error}{}", source.unwrap_or_default())
    }

    pub fn check(&self) {
        assert_eq!(listing(&self.tree.path("outside")), self.before);
        let around: Vec<_> = fs::read_dir(self.tree.root())
            .unwrap()
            .map(|it| it.unwrap().file_name())
            .collect();
        assert_eq!(around.len(), 2, "{around:?}");
    }
}

pub fn both(entries: &[Entry]) -> [(Vec<u8>, Format); 2] {
    [
        (zip(entries), Format::Zip),
        (as_tar(entries), Format::TarZstd),
    ]
}

#[test]
fn names_that_lead_outside_are_refused() {
    for name in [
        "../x",
        "a/../../x",
        "a/../..",
        "/etc/vk-hostile",
        "..",
        "./../x",
    ] {
        for (archive, format) in both(&[file("fine", "x"), file(name, "y")]) {
            let fixture = Fixture::new();
            let wanted = format!(
                "{name} cannot be extracted outside of chroot ({})",
                fixture.dest().display()
            );
            assert_eq!(fixture.refusal(&archive, format), wanted, "{format:?}");
            if format == Format::Zip {
                assert!(
                    !fixture.dest().join("fine").exists(),
                    "a zip is checked before it is unpacked"
                );
            }
        }
    }
}

#[test]
fn no_file_or_link_takes_the_destinations_place() {
    for name in [".", "a/..", "a/b/../.."] {
        for entry in [file(name, "x"), link(name, "x")] {
            for (archive, format) in both(std::slice::from_ref(&entry)) {
                let refusal = Fixture::new().refusal(&archive, format);

                let wanted = format!("{name}: names the destination, and is no folder");
                assert_eq!(refusal, wanted, "{format:?}");
            }
        }
    }
}

#[test]
fn names_that_lead_out_and_in_again_are_read_as_go_reads_them() {
    for (archive, format) in both(&[file("a/../b", "x"), file("c/./d//../e", "y")]) {
        let fixture = Fixture::new();

        unpack(&archive, format, &fixture.dest(), &options()).unwrap();

        assert_eq!(fs::read(fixture.dest().join("b")).unwrap(), b"x");
        assert_eq!(fs::read(fixture.dest().join("c/e")).unwrap(), b"y");
        fixture.check();
    }
}

#[test]
fn files_below_files_of_the_archive_are_refused() {
    let cases: [&[Entry]; 2] = [
        &[file("l", "x"), file("l/secret", "y")],
        &[link("d", ".."), file("d/l", "x"), file("d/l/secret", "y")],
    ];
    for entries in cases {
        for (archive, format) in both(entries) {
            let refusal = Fixture::new().refusal(&archive, format);

            let name = text(&entries.last().unwrap().name);
            let wanted = format!("{name}: lies below an entry of the archive that is no folder");
            assert_eq!(refusal, wanted, "{format:?}");
        }
    }
}

#[test]
fn links_that_stand_there_already_lead_nowhere_outside() {
    for target in ["../outside", "../outside/sub/..", "/", "/proc/self/root"] {
        for (archive, format) in both(&[file("l/secret", "y")]) {
            let fixture = Fixture::new();
            symlink(target, fixture.dest().join("l")).unwrap();
            let refusal = fixture.refusal(&archive, format);
            assert!(refusal.starts_with("l/secret: "), "{format:?} {refusal}");
        }
        // The link itself is replaced, never followed.
        for (archive, format) in both(&[file("f", "y"), file("g/", "")]) {
            let fixture = Fixture::new();
            symlink("../outside/secret", fixture.dest().join("f")).unwrap();
            unpack(&archive, format, &fixture.dest(), &options()).unwrap();
            fixture.check();
            assert_eq!(fs::read_to_string(fixture.dest().join("f")).unwrap(), "y");
            assert!(!fixture.dest().join("f").is_symlink());
        }
    }
}

#[test]
fn a_folder_that_is_a_link_to_the_outside_gets_no_mode() {
    for (archive, format) in both(&[file("l/", "")]) {
        let fixture = Fixture::new();
        symlink("../outside", fixture.dest().join("l")).unwrap();
        assert!(fixture.refusal(&archive, format).starts_with("l: "));
    }
}

/// gitlab-runner, wire §3.6.
#[test]
fn links_inside_the_destination_are_followed_as_the_runner_does() {
    for (archive, format) in both(&[file("l/f", "y")]) {
        let fixture = Fixture::new();
        fs::create_dir(fixture.dest().join("real")).unwrap();
        symlink("real", fixture.dest().join("l")).unwrap();
        unpack(&archive, format, &fixture.dest(), &options()).unwrap();
        assert_eq!(
            fs::read_to_string(fixture.dest().join("real/f")).unwrap(),
            "y"
        );
    }
}

#[test]
fn what_stands_there_is_replaced_but_no_full_folder() {
    for (archive, format) in both(&[
        file("a", "new"),
        file("b/", ""),
        file("c/d", "new"),
        link("e", "a"),
    ]) {
        let fixture = Fixture::new();
        let dest = fixture.dest();
        fs::write(dest.join("a"), "old and longer").unwrap();
        fs::hard_link(dest.join("a"), dest.join("keeps")).unwrap();
        fs::write(dest.join("b"), "a file").unwrap();
        fs::write(dest.join("c"), "a file").unwrap();
        fs::create_dir(dest.join("e")).unwrap();
        unpack(&archive, format, &dest, &options()).unwrap();
        assert_eq!(fs::read_to_string(dest.join("a")).unwrap(), "new");
        assert_eq!(
            fs::read_to_string(dest.join("keeps")).unwrap(),
            "old and longer"
        );
        assert!(dest.join("b").is_dir() && dest.join("e").is_symlink());
        assert_eq!(fs::read_to_string(dest.join("c/d")).unwrap(), "new");
    }
    for (archive, format) in both(&[file("full", "x")]) {
        let fixture = Fixture::new();
        fs::create_dir_all(fixture.dest().join("full/inner")).unwrap();
        let refusal = fixture.refusal(&archive, format);
        assert!(refusal.starts_with("full: "), "{refusal}");
        assert!(fixture.dest().join("full/inner").is_dir());
    }
    for (archive, format) in both(&[link("full", "x"), link("other", "x")]) {
        let fixture = Fixture::new();
        let dest = fixture.dest();
        fs::create_dir_all(dest.join("full/inner")).unwrap();
        let extracted = unpack(&archive, format, &dest, &options()).unwrap();
        assert!(extracted.obstructed.unwrap().path.ends_with(b"/full"));
        assert!(dest.join("full/inner").is_dir() && dest.join("other").is_symlink());
    }
}

#[test]
fn names_that_come_twice_are_refused() {
    let cases: [&[Entry]; 7] = [
        &[file("twice", "x"), file("twice", "y")],
        &[file("twice", "x"), file("./twice", "y")],
        &[file("twice", "x"), link("twice", "y")],
        &[file("twice", "x"), file("twice/", "")],
        &[link("twice", "x"), file("twice/", "")],
        &[file("twice/", ""), file("twice", "x")],
        &[file("twice/", ""), link("twice", "x")],
    ];
    for entries in cases {
        for (archive, format) in both(entries) {
            let refusal = Fixture::new().refusal(&archive, format);
            assert!(refusal.starts_with("twice"), "{format:?} {refusal}");
        }
    }
}

#[test]
fn names_that_differ_in_case_are_two() {
    for (archive, format) in both(&[
        link("A", "../outside"),
        file("a/secret", "y"),
        file("B", "1"),
        file("b", "2"),
    ]) {
        let fixture = Fixture::new();
        unpack(&archive, format, &fixture.dest(), &options()).unwrap();
        fixture.check();
        assert_eq!(
            fs::read_to_string(fixture.dest().join("a/secret")).unwrap(),
            "y"
        );
    }
}

#[test]
fn hard_links_name_files_of_the_archive_alone() {
    let hard = |name: &str, target: &str| {
        tar_entry(EntryType::Link, name.as_bytes(), target.as_bytes(), b"")
    };
    let regular = |name: &str| tar_entry(EntryType::Regular, name.as_bytes(), b"", b"x");
    for target in ["../outside/secret", "/etc/passwd", "there", "l", "missing"] {
        let fixture = Fixture::new();
        fs::write(fixture.dest().join("there"), "not the archive's").unwrap();
        let symbolic = tar_entry(EntryType::Symlink, b"l", b"../outside/secret", b"");
        let archive = tar(&[symbolic, regular("f"), hard("h", target)]);
        let refusal = fixture.refusal(&archive, Format::TarZstd);
        assert!(
            refusal.starts_with("h: is a hard link to what is no file"),
            "{refusal}"
        );
    }
    let fixture = Fixture::new();
    unpack(
        &tar(&[regular("d/f"), hard("h", "d/f")]),
        Format::TarZstd,
        &fixture.dest(),
        &options(),
    )
    .unwrap();
    assert_eq!(fs::metadata(fixture.dest().join("h")).unwrap().nlink(), 2);
}

#[test]
fn devices_and_pipes_are_refused_in_a_tar_and_left_out_of_a_zip() {
    for kind in [EntryType::Char, EntryType::Block, EntryType::Fifo] {
        let archive = tar(&[tar_entry(kind, b"odd", b"", b"")]);
        let refusal = Fixture::new().refusal(&archive, Format::TarZstd);
        assert!(refusal.starts_with("odd: is neither"), "{refusal}");
    }
    for mode in [0o010_644, 0o020_644, 0o060_644, 0o140_644] {
        let fixture = Fixture::new();
        let odd = Entry {
            mode,
            ..file("odd", "")
        };
        let extracted = unpack(
            &zip(&[odd, file("f", "x")]),
            Format::Zip,
            &fixture.dest(),
            &options(),
        )
        .unwrap();
        assert_eq!(extracted.entries, 1);
        assert!(!fixture.dest().join("odd").exists());
    }
}

#[test]
fn odd_zips_are_refused_by_the_entrys_name() {
    let deflate_bomb = {
        let tree = Tree::new();
        fs::File::create(tree.path("f"))
            .unwrap()
            .set_len(900_000)
            .unwrap();
        let (bytes, ..) = pack(&all_of(tree.root()), Format::Zip, Level::Default, 1);
        // The stream of 900,000 zeros, behind the local header.
        bytes[30 + 1 + 24..].to_vec()
    };
    let packed = |size| Entry {
        method: 8,
        content: deflate_bomb[..deflate_bomb.len() - 22 - 46 - 1 - 24].to_vec(),
        size: Some(size),
        ..file("odd", "")
    };
    let base = || file("odd", "content");
    let cases = [
        ("encrypted", vec![Entry { flags: 1, ..base() }]),
        (
            "method 12",
            vec![Entry {
                method: 12,
                ..base()
            }],
        ),
        (
            "two sizes",
            vec![Entry {
                size: Some(3),
                ..base()
            }],
        ),
        (
            "checksum",
            vec![Entry {
                crc: Some(7),
                ..base()
            }],
        ),
        (
            "differs",
            vec![Entry {
                local_name: Some(b"other".to_vec()),
                ..base()
            }],
        ),
        (
            "behind the end",
            vec![Entry {
                offset: Some(40_000_000),
                ..base()
            }],
        ),
        (
            "overlaps",
            vec![
                file("a", "content"),
                Entry {
                    offset: Some(0),
                    ..base()
                },
            ],
        ),
        // More and less than it says; far more, and of the large kind.
        ("", vec![packed(899_999)]),
        ("not as long", vec![packed(900_001)]),
        ("not as long", vec![packed(20_000_000)]),
        ("target", vec![link("odd", "")]),
        ("target", vec![link("odd", &"x".repeat(5000))]),
        ("NUL", vec![file("odd\0", "x")]),
    ];
    for (why, entries) in cases {
        let refusal = Fixture::new().refusal(&zip(&entries), Format::Zip);
        assert!(
            refusal.starts_with("odd") && refusal.contains(why),
            "{why}: {refusal}"
        );
    }
    let refusal = Fixture::new().refusal(&zip_counted(&[base()], 2), Format::Zip);
    assert!(refusal.contains("ends after 1 of 2 entries"), "{refusal}");
}

#[test]
fn bombs_are_refused_by_count_and_size_and_not_by_ratio() {
    let tree = Tree::new();
    for number in 0..50 {
        tree.file(&format!("d/{number:02}"), vec![0; 100_000]);
    }
    fs::File::create(tree.path("large"))
        .unwrap()
        .set_len(30 << 20)
        .unwrap();
    let limits = |entries, bytes| ExtractOptions {
        limits: Limits { entries, bytes },
        owner: Owner::Archived,
        threads: 2,
    };
    let size = 5_000_000 + (30 << 20);
    for format in [Format::Zip, Format::ZipZstd, Format::TarZstd] {
        let (bytes, ..) = pack(&all_of(tree.root()), format, Level::Default, 2);
        assert!(bytes.len() < 100_000, "a ratio of hundreds");
        let fixture = Fixture::new();
        unpack(&bytes, format, &fixture.dest(), &limits(52, size)).unwrap();

        let refusal = Fixture::new().refusal_with(&bytes, format, &limits(20, size));
        assert!(
            refusal.starts_with("d/19: the archive is over the limit of 20 entries"),
            "{refusal}"
        );
        let refusal = Fixture::new().refusal_with(&bytes, format, &limits(52, size - 1));
        assert!(
            refusal.starts_with("large: the archive is over the limit of "),
            "{refusal}"
        );
    }
}

#[test]
fn links_come_last_and_none_of_an_archive_that_has_too_many() {
    let mut entries = vec![file("f", "")];
    entries.extend((0..20).map(|number| link(&format!("l{number}"), "f")));
    for (archive, format) in both(&entries) {
        let fixture = Fixture::new();
        let mut options = options();
        options.limits.entries = 20;

        let refusal = fixture.refusal_with(&archive, format, &options);

        assert!(refusal.starts_with("l19: "), "{refusal}");
        assert!(!fixture.dest().join("l0").exists(), "{format:?}");
    }
}

/// Names and targets are held until all files are there.
#[test]
fn names_and_targets_take_bounded_memory() {
    let target = "t".repeat(4000);
    let mut builder = Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
    for number in 0..70_000 {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        header.set_mode(0o777);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        builder
            .append_link(&mut header, format!("{number}"), &target)
            .unwrap();
    }
    let archive = builder.into_inner().unwrap().finish().unwrap();

    let refusal = Fixture::new().refusal(&archive, Format::TarZstd);

    assert!(refusal.contains("bytes of names"), "{refusal}");
}

#[test]
fn a_tar_with_endless_headers_or_tail_is_refused() {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(1 << 30);
    header.set_cksum();
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    std::io::Write::write_all(&mut encoder, header.as_bytes()).unwrap();
    std::io::copy(
        &mut std::io::Read::take(std::io::repeat(b'x'), 64 << 20),
        &mut encoder,
    )
    .unwrap();
    let refusal = Fixture::new().refusal(&encoder.finish().unwrap(), Format::TarZstd);
    assert!(refusal.contains("names and attributes"), "{refusal}");

    let mut tail = zstd::Encoder::new(Vec::new(), 1).unwrap();
    std::io::copy(
        &mut std::io::Read::take(std::io::repeat(0), 64 << 20),
        &mut tail,
    )
    .unwrap();
    let refusal = Fixture::new().refusal(&tail.finish().unwrap(), Format::TarZstd);
    assert!(refusal.contains("behind its end"), "{refusal}");
}

/// What GNU tar writes with `--sparse --format=posix`.
#[test]
fn a_sparse_file_of_a_tar_is_refused_by_its_name() {
    let mut builder = Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
    builder
        .append_pax_extensions([
            ("GNU.sparse.major", &b"1"[..]),
            ("GNU.sparse.minor", b"0"),
            ("GNU.sparse.name", b"s"),
            ("GNU.sparse.realsize", b"1000000"),
        ])
        .unwrap();
    let (header, content) = tar_entry(EntryType::Regular, b"GNUSparseFile.1/s", b"", b"0\n");
    builder.append(&header, content.as_slice()).unwrap();
    let archive = builder.into_inner().unwrap().finish().unwrap();

    let refusal = Fixture::new().refusal(&archive, Format::TarZstd);

    assert!(
        refusal.starts_with("GNUSparseFile.1/s: is a sparse file"),
        "{refusal}"
    );
}

/// Of a tar, which is unpacked as it comes: whatever stands in the destination.
#[test]
fn nothing_lies_below_a_file_of_the_same_tar() {
    let entries = [file("x", "content"), file("x/y", "below")];
    for (archive, format) in both(&entries) {
        let fixture = Fixture::new();
        fs::create_dir(fixture.dest().join("sub")).unwrap();
        symlink("sub", fixture.dest().join("x")).unwrap();

        let refusal = fixture.refusal(&archive, format);

        assert!(refusal.starts_with("x/y: "), "{format:?} {refusal}");
        assert!(!fixture.dest().join("sub/y").exists(), "{format:?}");
    }
}

#[test]
fn a_window_that_takes_too_much_memory_is_refused() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(27).unwrap();
    std::io::Write::write_all(&mut encoder, &vec![0; 1 << 20]).unwrap();

    let refusal = Fixture::new().refusal(&encoder.finish().unwrap(), Format::TarZstd);

    assert!(refusal.contains("memory"), "{refusal}");
}

/// Every flip of a byte is noticed, or changes nothing that is unpacked but times, modes and owners.
#[test]
fn damage_is_noticed() {
    let tree = Tree::new();
    tree.file("a/file", "some text, some text, some text");
    tree.file("b", "");
    tree.link("c", "a/file");
    let content = |root: &Path| -> Vec<String> {
        let strip = |line: String| {
            let words: Vec<&str> = line.split(' ').collect();
            let kept = words
                .iter()
                .filter(|word| !word.starts_with('@') && word.parse::<u32>().is_err());
            kept.copied().collect::<Vec<_>>().join(" ")
        };
        listing(root).into_iter().map(strip).collect()
    };
    let wanted = content(tree.root());
    for format in [Format::Zip, Format::ZipZstd, Format::TarZstd] {
        let (bytes, ..) = pack(&all_of(tree.root()), format, Level::Default, 1);
        let directory = bytes.windows(4).position(|window| window == b"PK\x01\x02");
        for at in 0..directory.unwrap_or(bytes.len()) {
            for change in [0xff, 1, 4, 0x20, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                let fixture = Fixture::new();
                if unpack(&damaged, format, &fixture.dest(), &options()).is_ok() {
                    assert_eq!(content(&fixture.dest()), wanted, "{format:?} {at} {change}");
                }
                fixture.check();
            }
        }
    }
}

#[test]
fn an_archive_that_is_cut_off_is_refused() {
    let tree = Tree::new();
    tree.file("a", "some text");
    tree.file("b", vec![1; 3_000_000]);
    for format in [Format::Zip, Format::TarZstd] {
        let (bytes, ..) = pack(&all_of(tree.root()), format, Level::Default, 1);
        // The end of a tar is a frame of its own: a cut before it is no less a cut.
        let frame = bytes.windows(4).rposition(|it| it == b"\x28\xb5\x2f\xfd");
        let cuts = (0..bytes.len()).step_by(bytes.len() / 40 + 1);
        for len in cuts.chain([bytes.len() - 1]).chain(frame) {
            let fixture = Fixture::new();
            let result = unpack(&bytes[..len], format, &fixture.dest(), &options());
            assert!(result.is_err(), "{format:?} {len} of {}", bytes.len());
        }
    }
}

/// As with the helper, which unpacks a tar as it comes.
#[test]
fn of_a_tar_that_is_cut_off_what_came_before_is_there() {
    let tree = Tree::new();
    for number in 0..10 {
        tree.file(&format!("a/{number}"), format!("text {number}"));
    }
    tree.file("b", vec![1; 9_000_000]);
    let (bytes, ..) = pack(&all_of(tree.root()), Format::TarZstd, Level::Default, 1);
    let fixture = Fixture::new();

    let result = unpack(
        &bytes[..bytes.len() - 100],
        Format::TarZstd,
        &fixture.dest(),
        &options(),
    );

    assert!(result.is_err());
    let mode = std::fs::metadata(fixture.dest().join("b"))
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600, "not whole");
    for number in 0..10 {
        let file = fixture.dest().join(format!("a/{number}"));
        assert_eq!(
            std::fs::read_to_string(file).unwrap(),
            format!("text {number}")
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Entries of chance never reach the outside, whatever stands in the destination.
    #[test]
    fn nothing_lands_outside(
        entries in proptest::collection::vec((0..3u8, "[ab./]{1,5}", "(\\.\\./|/|a|b|outside){1,3}"), 1..6),
        there in proptest::collection::vec(("[ab]", "(\\.\\./|a|b|outside){1,3}"), 0..3),
    ) {
        let entries: Vec<Entry> = entries
            .iter()
            .map(|(kind, name, target)| match kind {
                0 => file(name, "content"),
                1 => link(name, target),
                _ => file(&format!("{name}/"), ""),
            })
            .collect();
        let fixture = || {
            let fixture = Fixture::new();
            for (name, target) in &there {
                let _ = symlink(target, fixture.dest().join(name));
            }
            fixture
        };
        for (archive, format) in both(&entries) {
            let fixture = fixture();
            let _ = unpack(&archive, format, &fixture.dest(), &options());
            fixture.check();
        }
        let fixture = fixture();
        let tar = zstd::bulk::decompress(&as_tar(&entries), 1 << 20).unwrap();
        let _ = extract_tar(tar.as_slice(), &fixture.dest(), &options());
        fixture.check();
    }
}
