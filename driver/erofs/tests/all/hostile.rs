//! Layers made to do harm end in an error that says what is wrong, or stay inside the image.

use std::error::Error as _;
use std::io::{self, Read, Write};

use crate::support::layer::{raw, record};
use crate::support::{Entry, convert, convert_streams, convert_with, layer, refusal, tree_of};
use proptest::prelude::*;
use vk_erofs::{Compression, ConvertError, EntryProblem, Limit, Limits, TarFault};

fn fault(layer: Vec<u8>) -> TarFault {
    match convert(&[layer]) {
        Err(ConvertError::Tar { fault, .. }) => fault,
        Err(other) => panic!("{other:?}"),
        Ok(image) => panic!("accepted: {:?}", image.tree().paths()),
    }
}

fn limit(layer: Vec<u8>, limits: Limits) -> Limit {
    match convert_with(&[layer], limits) {
        Err(ConvertError::TooLarge { limit, .. }) => limit,
        Err(other) => panic!("{other:?}"),
        Ok(image) => panic!("accepted: {:?}", image.tree().paths()),
    }
}

#[test]
fn names_and_targets_stay_inside_the_image() {
    let tree = tree_of(&[vec![
        Entry::file("/etc/passwd", "a"),
        Entry::file("//tmp//../b", "b"),
        Entry::symlink("out", "../../../.."),
        Entry::file("out/c", "c"),
        Entry::symlink("host", "/etc"),
        Entry::file("host/d", "d"),
        Entry::hard_link("e", "/etc/passwd"),
    ]]);

    assert_eq!(
        tree.paths(),
        ["b", "c", "e", "etc", "etc/d", "etc/passwd", "host", "out"]
    );
}

#[test]
fn entries_that_no_image_can_have_are_refused() {
    let long = "x".repeat(256);
    let path = "d/".repeat(2048);
    for (entry, expected) in [
        (Entry::file("../a", ""), EntryProblem::OutsideRoot),
        (Entry::file("a/../../a", ""), EntryProblem::OutsideRoot),
        (Entry::folder(".."), EntryProblem::OutsideRoot),
        (Entry::file(&long, ""), EntryProblem::NameTooLong),
        (
            Entry::file(format!("{long}/a"), ""),
            EntryProblem::NameTooLong,
        ),
        (Entry::file(&path, ""), EntryProblem::PathTooLong),
        (
            Entry::symlink("a", path.repeat(2)),
            EntryProblem::PathTooLong,
        ),
        (Entry::symlink("a", ""), EntryProblem::EmptyLink),
        (Entry::new(b'6', "/"), EntryProblem::Root),
        (Entry::file("", ""), EntryProblem::Root),
        (Entry::symlink(".", "a"), EntryProblem::Root),
        (Entry::hard_link("./", "a"), EntryProblem::Root),
        (Entry::file(".wh.", ""), EntryProblem::EmptyWhiteout),
        (Entry::file("a/.wh..", ""), EntryProblem::EmptyWhiteout),
        (Entry::file(".wh...", ""), EntryProblem::EmptyWhiteout),
        (Entry::new(b'V', "a"), EntryProblem::UnknownType(b'V')),
        (
            Entry::file("a", "").pax("uid", "4294967296"),
            EntryProblem::Owner,
        ),
        (
            Entry::file("a", "").pax("gid", "18446744073709551615"),
            EntryProblem::Owner,
        ),
        (
            Entry::file("a", "").xattr("user.a", vec![1; 65_536]),
            EntryProblem::XattrTooLong,
        ),
        (
            Entry::file("a", "").xattr(&format!("user.{long}"), "1"),
            EntryProblem::XattrTooLong,
        ),
        (
            Entry {
                device: (4096, 0),
                ..Entry::new(b'3', "a")
            },
            EntryProblem::Device,
        ),
        (
            Entry {
                device: (0, 1 << 20),
                ..Entry::new(b'4', "a")
            },
            EntryProblem::Device,
        ),
    ] {
        match refusal(std::slice::from_ref(&entry)) {
            ConvertError::Entry { problem, .. } => assert_eq!(problem, expected, "{entry:?}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_refused_name_is_shown_shortened_and_without_what_terminals_obey() {
    let name = format!("../\x1b[31m{}", "x".repeat(5000));

    let message = refusal(&[Entry::file(name, "")]).to_string();

    assert!(message.contains("../\\x1b[31mxxx"), "{message}");
    assert!(message.len() < 300, "{message}");
}

#[test]
fn damaged_streams_are_refused_with_the_place() {
    let mut wrong_sum = layer(&[Entry::file("a", "x"), Entry::file("b", "x")]);
    wrong_sum[1024 + 5] ^= 1;
    let error = convert(&[wrong_sum.clone()]).err().unwrap();
    assert!(
        error.to_string().contains("byte 1536: a header's checksum"),
        "{error}"
    );

    let zero_block = [vec![0; 512], layer(&[Entry::file("a", "x")])].concat();
    let pax =
        |records: &[u8]| [raw(b'x', b"pax", records), layer(&[Entry::file("a", "x")])].concat();
    let header_only = |kind, size: &[u8; 12]| {
        let mut header = raw(kind, b"a", b"");
        header[124..136].copy_from_slice(size);
        header[148..156].fill(b' ');
        let sum: u32 = header[..512].iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        header
    };
    for (layer, expected) in [
        (wrong_sum, TarFault::Checksum),
        (vec![b'x'; 4096], TarFault::Checksum),
        (zero_block, TarFault::LoneZeroBlock),
        (pax(b"garbage"), TarFault::Pax),
        (pax(b"999 path=b\n"), TarFault::Pax),
        (pax(b"\0"), TarFault::Pax),
        (pax(&record("path", b"a\0b")), TarFault::Pax),
        (pax(&record("linkpath", b"\0")), TarFault::Pax),
        (pax(&record("size", b"0x10")), TarFault::Number("size")),
        (
            pax(&record("size", b"99999999999999999999")),
            TarFault::Number("size"),
        ),
        (pax(&record("mtime", b"now")), TarFault::Number("time")),
        (pax(&record("size", b"1000000")), TarFault::Truncated),
        (raw(b'x', b"pax", &record("path", b"b")), TarFault::Dangling),
        (raw(b'L', b"long", b"name\0"), TarFault::Dangling),
        (
            header_only(b'x', b"77777777777\0"),
            TarFault::ExtendedTooLong,
        ),
        (
            header_only(b'L', b"77777777777\0"),
            TarFault::ExtendedTooLong,
        ),
        (
            header_only(b'0', b"-0000000001\0"),
            TarFault::Number("size"),
        ),
        (
            header_only(b'0', b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            TarFault::Number("size"),
        ),
        (
            header_only(b'0', b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"),
            TarFault::Number("size"),
        ),
        (
            header_only(b'0', b"00000000009\0"),
            TarFault::Number("size"),
        ),
        (header_only(b'0', b"00000001000\0"), TarFault::Truncated),
        (header_only(b'g', b"00000001000\0"), TarFault::Truncated),
    ] {
        let shown = layer[..layer.len().min(600)].escape_ascii().to_string();
        assert_eq!(fault(layer), expected, "{shown}");
    }
}

#[test]
fn maps_of_sparse_files_that_lie_are_refused() {
    let sparse = |map: &str, size: &str, data: &str| {
        let entry = Entry::file("a", data).pax("GNU.sparse.map", map);
        layer(&[entry.pax("GNU.sparse.size", size)])
    };
    assert!(convert(&[sparse("0,1,10,2", "12", "abc")]).is_ok());
    for (map, size, data) in [
        ("0,1,10,2", "11", "abc"),
        ("0,1,10,2", "12", "abcd"),
        ("10,2,0,1", "12", "abc"),
        ("0,2,1,1", "12", "abc"),
        ("0,1,10", "12", "a"),
        ("0,x", "12", "a"),
        ("18446744073709551615,2", "12", "ab"),
    ] {
        assert_eq!(fault(sparse(map, size, data)), TarFault::SparseMap, "{map}");
    }
    let many = "0,0,".repeat(131_072) + "0,0";
    assert_eq!(
        fault(sparse(&many, "0", "")),
        TarFault::SparseMapTooLong(131_072)
    );

    let in_contents = |data: &str| {
        let entry = Entry::file("x", data).pax("GNU.sparse.major", "1");
        layer(&[entry
            .pax("GNU.sparse.minor", "0")
            .pax("GNU.sparse.realsize", "9")])
    };
    for data in ["", "1\n", "999999\n0\n1\n", "x"] {
        let found = fault(in_contents(data));
        assert!(
            matches!(found, TarFault::SparseMap | TarFault::SparseMapTooLong(_)),
            "{data}: {found:?}"
        );
    }
}

#[test]
fn each_limit_holds() {
    let limits = Limits::default;
    let files = |count: usize| -> Vec<_> {
        (0..count)
            .map(|n| Entry::file(n.to_string(), "x"))
            .collect()
    };
    let entries = Limits {
        max_entries: 10,
        ..limits()
    };
    assert!(convert_with(&[layer(&files(10))], entries.clone()).is_ok());
    assert_eq!(limit(layer(&files(11)), entries.clone()), Limit::Entries);
    // Folders that a name implies count, and the same name again.
    assert_eq!(
        limit(
            layer(&[Entry::file("d/".repeat(10) + "f", "")]),
            entries.clone()
        ),
        Limit::Entries
    );
    assert_eq!(
        limit(layer(&vec![Entry::file("a", ""); 11]), entries),
        Limit::Entries
    );

    let metadata = Limits {
        max_metadata_bytes: 1000,
        ..limits()
    };
    let long = "x".repeat(250);
    let names: Vec<_> = (0..4)
        .map(|n| Entry::file(format!("{n}{long}"), ""))
        .collect();
    assert_eq!(limit(layer(&names), metadata.clone()), Limit::MetadataBytes);
    let links: Vec<_> = (0..4)
        .map(|n| Entry::symlink(n.to_string(), &long))
        .collect();
    assert_eq!(limit(layer(&links), metadata.clone()), Limit::MetadataBytes);
    let xattr = |n: usize| Entry::file(n.to_string(), "").xattr("user.a", format!("{n}{long}"));
    assert_eq!(
        limit(layer(&(0..4).map(xattr).collect::<Vec<_>>()), metadata),
        Limit::MetadataBytes
    );

    let image = Limits {
        max_image_bytes: 1 << 20,
        ..limits()
    };
    assert_eq!(
        limit(layer(&[Entry::file("a", vec![1; 1 << 20])]), image.clone()),
        Limit::ImageBytes
    );
    // Sizes are believed only as far as they are allowed.
    let lie = Entry::file("a", "x").pax("size", "9000000000000000000");
    assert_eq!(
        limit(layer(std::slice::from_ref(&lie)), image.clone()),
        Limit::ImageBytes
    );
    assert_eq!(limit(layer(&[lie]), limits()), Limit::ImageBytes);
    let hole = Entry::file("a", "x").pax("GNU.sparse.map", "1099511627776,1");
    let hole = hole.pax("GNU.sparse.size", "1099511627777");
    assert_eq!(limit(layer(&[hole]), image), Limit::ImageBytes);
}

#[test]
fn short_names_that_lead_a_long_way_end_at_a_limit_of_their_own() {
    let limits = Limits {
        max_entries: 2000,
        ..Limits::default()
    };
    let far = "d/".repeat(1000);
    let start = [Entry::folder(&far), Entry::symlink("far", &far)];
    let files = (0..900).map(|n| Entry::file(format!("far/{n}"), ""));
    let entries: Vec<_> = start.into_iter().chain(files).collect();

    assert_eq!(limit(layer(&entries), limits.clone()), Limit::Steps);
    assert!(convert_with(&[layer(&entries[..150])], limits).is_ok());
}

#[test]
fn a_decompression_bomb_ends_at_the_limit_over_all_layers() {
    let limits = Limits {
        max_bytes: 3 << 20,
        ..Limits::default()
    };
    let file = layer(&[Entry::file("a", vec![0; 2 << 20])]);
    let rest = [layer(&[]), vec![0; 40 << 20]].concat();
    for bomb in [layer(&[Entry::file("b", vec![0; 40 << 20])]), rest] {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&bomb).unwrap();
        let layers = [
            (file.clone(), Compression::None),
            (gzip.finish().unwrap(), Compression::Gzip),
        ];
        let layers = layers
            .iter()
            .map(|(bytes, compression)| (&bytes[..], *compression));

        let error = convert_streams(layers, limits.clone()).err().unwrap();

        assert!(
            matches!(
                error,
                ConvertError::TooLarge {
                    limit: Limit::Bytes,
                    max: 3_145_728
                }
            ),
            "{error:?}"
        );
        assert_eq!(
            error.to_string(),
            "the image is too large: it has more than 3145728 bytes in its unpacked layers"
        );
    }
}

#[test]
fn streams_that_are_not_what_they_are_said_to_be_are_refused() {
    let tar = layer(&[Entry::file("a", vec![7; 100_000])]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(&tar[..], 3).unwrap();
    let mut wrong_sum = gzip.clone();
    let at = wrong_sum.len() - 6;
    wrong_sum[at] ^= 1;
    let junk = [&gzip[..], b"junk"].concat();
    for (bytes, compression) in [
        (&gzip[..gzip.len() - 1], Compression::Gzip),
        (&gzip[..gzip.len() / 2], Compression::Gzip),
        (b"", Compression::Gzip),
        (&wrong_sum, Compression::Gzip),
        (&junk, Compression::Gzip),
        (&zstd, Compression::Gzip),
        (&tar, Compression::Gzip),
        (&zstd[..zstd.len() - 1], Compression::Zstd),
        (&gzip, Compression::Zstd),
    ] {
        let error = convert_streams([(bytes, compression)].into_iter(), Limits::default());
        let error = error.err().unwrap();
        assert!(
            matches!(error, ConvertError::Inflate { .. }),
            "{} {compression}: {error:?}",
            bytes.len()
        );
    }
}

#[test]
fn the_readers_own_error_comes_back() {
    struct Broken(usize);
    impl Read for Broken {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 = self
                .0
                .checked_sub(1)
                .ok_or_else(|| io::Error::other("the digest is wrong"))?;
            buffer[..512].copy_from_slice(&Entry::file("a", "").bytes());
            Ok(512)
        }
    }
    for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
        for reads in [0, 3] {
            if reads > 0 && compression != Compression::None {
                continue;
            }
            let layers = [(Broken(reads), compression)];
            let error = convert_streams(layers.into_iter(), Limits::default())
                .err()
                .unwrap();
            assert!(matches!(error, ConvertError::Read(_)), "{error:?}");
            assert_eq!(error.source().unwrap().to_string(), "the digest is wrong");
        }
    }
}

/// A layer with one of everything.
fn sample() -> Vec<u8> {
    let sparse = Entry::file("sparse", "abc").pax("GNU.sparse.map", "0,1,9000,2");
    layer(&[
        Entry::folder("./"),
        Entry::file("a", "contents").xattr("user.a", "1"),
        Entry::folder("d/"),
        Entry::file("d/".to_owned() + &"n".repeat(200), vec![3; 5000]),
        Entry::symlink("d/l", "../a"),
        Entry::hard_link("d/h", "a"),
        Entry::new(b'3', "d/null"),
        sparse.pax("GNU.sparse.size", "9002"),
        Entry::file("d/.wh.x", ""),
        Entry::file("d/.wh..wh..opq", ""),
    ])
}

#[test]
fn a_stream_cut_off_anywhere_ends_in_an_error_or_between_entries() {
    let whole = sample();
    for len in (0..whole.len()).filter(|len| len % 41 == 0 || (len + 1) % 512 < 3) {
        match convert(&[whole[..len].to_vec()]) {
            // At the end of an entry's contents, or in the zeros behind them.
            Ok(_) => {
                let left_out = &whole[len..len.next_multiple_of(512).min(whole.len())];
                assert!(left_out.iter().all(|byte| *byte == 0), "{len}");
            }
            Err(ConvertError::Tar { fault, .. }) => {
                assert!(
                    matches!(fault, TarFault::Truncated | TarFault::Dangling),
                    "{len}: {fault:?}"
                );
            }
            Err(other) => panic!("{len}: {other:?}"),
        }
    }
}

proptest! {
    /// Whatever happens to a layer's bytes, an image that comes out is sound (its reader would panic).
    #[test]
    fn changed_layers_give_an_error_or_a_sound_image(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..8),
        sum in any::<bool>(),
    ) {
        let mut bytes = sample();
        for (at, byte, in_header) in changes {
            let mut at = at.index(bytes.len());
            if in_header {
                // More likely to matter.
                at = at / 512 * 512 + at % 163;
            }
            bytes[at] = byte;
        }
        if sum {
            for block in bytes.chunks_exact_mut(512) {
                if block[257..262] == *b"ustar" {
                    block[148..156].fill(b' ');
                    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
                    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
                }
            }
        }
        if let Ok(image) = convert(&[bytes]) {
            image.tree();
        }
    }
}
