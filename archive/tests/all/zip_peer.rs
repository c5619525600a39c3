//! The `zip` crate reads what we write, and writes what we read: nobody of ours had a hand in it.

use std::fs;
use std::io::{Cursor, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipArchive, ZipWriter};

use crate::kit::{Tree, all_of, listing, options, pack, text, unpack};
use vk_archive::{Format, Level};

/// A text that shrinks, of several of our pieces.
fn long_text() -> String {
    "many words, many words\n".repeat(300_000)
}

fn sample() -> Tree {
    let tree = Tree::new();
    tree.file("a/run.sh", "#!/bin/sh\n");
    fs::set_permissions(tree.path("a/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    tree.file("a/empty", "");
    tree.file("a/deep/er/text", long_text());
    tree.file("日本/ü", "unicode");
    tree.link("a/dangling", "../no/where");
    fs::create_dir(tree.path("private")).unwrap();
    fs::set_permissions(tree.path("private"), fs::Permissions::from_mode(0o700)).unwrap();
    tree
}

/// Path, kind, permissions and content of everything in a tree: the kit's listing without times.
fn content_of(tree: &Tree) -> Vec<String> {
    let words = |line: String| {
        let words: Vec<_> = line
            .split(' ')
            .filter(|word| !word.starts_with('@'))
            .collect();
        words.join(" ")
    };
    listing(tree.root()).into_iter().map(words).collect()
}

/// The same of an archive, by the crate.
fn content_by_peer(bytes: &[u8]) -> Vec<String> {
    let mut zip = ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut lines: Vec<String> = (0..zip.len())
        .map(|index| {
            // Reading to the end checks size and CRC-32.
            let mut entry = zip.by_index(index).unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            assert_eq!(entry.size(), content.len() as u64);
            let name = entry.name_raw().to_vec();
            let name = name.strip_suffix(b"/").unwrap_or(&name).escape_ascii();
            let mode = entry.unix_mode().unwrap();
            if entry.is_symlink() {
                format!("{name} -> {}", text(&content))
            } else if entry.is_dir() {
                format!("{name} folder {mode:o}")
            } else {
                let hash = crc32fast::hash(&content);
                format!("{name} file {mode:o} {} {hash:08x}", content.len())
            }
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn the_zip_crate_reads_our_zips() {
    let tree = sample();
    for level in ["fastest", "default", "slowest"] {
        let level = Level::parse(level).unwrap();
        let (bytes, ..) = pack(&all_of(tree.root()), Format::Zip, level, 2);

        assert_eq!(content_by_peer(&bytes), content_of(&tree), "{level:?}");
        let mut zip = ZipArchive::new(Cursor::new(&bytes[..])).unwrap();
        zip.validate_header_consistency().unwrap();
        assert!(!zip.has_overlapping_entries().unwrap());
    }
}

#[test]
fn we_read_zips_of_the_zip_crate() {
    let plain = SimpleFileOptions::default()
        .last_modified_time(DateTime::from_date_and_time(2021, 3, 4, 5, 6, 6).unwrap());
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = plain.compression_method(CompressionMethod::Stored);
    let deflated = plain.compression_method(CompressionMethod::Deflated);
    for (name, options, content) in [
        ("a/run.sh", stored.unix_permissions(0o755), "#!/bin/sh\n"),
        ("a/empty", deflated.unix_permissions(0o644), ""),
        // With the fields of zip64, though it needs none.
        (
            "a/deep/er/text",
            deflated.unix_permissions(0o644).large_file(true),
            &long_text(),
        ),
        (
            "日本/ü",
            stored.unix_permissions(0o644).large_file(true),
            "unicode",
        ),
    ] {
        zip.start_file(name, options).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.add_symlink("a/dangling", "../no/where", plain).unwrap();
    zip.add_directory("private/", plain.unix_permissions(0o700))
        .unwrap();
    let bytes = zip.finish().unwrap().into_inner();

    let out = Tree::new();
    unpack(&bytes, Format::Zip, out.root(), &options()).unwrap();

    assert_eq!(content_of(&out), content_of(&sample()));
    let modified = fs::metadata(out.path("a/run.sh")).unwrap().modified();
    let since = modified.unwrap().duration_since(std::time::UNIX_EPOCH);
    // DOS times know no zone: UTC counts.
    assert_eq!(since.unwrap().as_secs(), 1_614_834_366);
    let target = fs::read_link(out.path("a/dangling")).unwrap();
    assert_eq!(target.as_os_str().as_bytes(), b"../no/where");
}
