//! What files hold, and what of it takes disk.

use std::fs::File;
use std::io::{Cursor, ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use crate::support::{Entry, Image, Kind, convert, convert_streams, layer};
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use vk_erofs::{Compression, Limits};

/// Bytes that no compression shrinks and no two of which are alike by position.
fn noise(len: usize, mut seed: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.extend_from_slice(&(seed ^ seed >> 29).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn allocated(image: &Image) -> u64 {
    let file = File::open(image.path()).unwrap();
    file.sync_all().unwrap();
    file.metadata().unwrap().blocks() * 512
}

#[test]
fn contents_of_any_length_arrive() {
    let lengths = [
        0, 1, 511, 512, 513, 4095, 4096, 4097, 65_535, 65_536, 65_537, 262_143, 262_144, 262_145,
        3_000_001,
    ];
    let entries: Vec<_> = lengths
        .iter()
        .map(|len| Entry::file(len.to_string(), noise(*len, *len as u64)))
        .collect();

    let image = convert(&[layer(&entries)]).unwrap();
    image.fsck();
    let tree = image.tree();

    for len in lengths {
        let found = tree.get(len.to_string());
        assert!(found.bytes() == noise(len, len as u64), "{len}");
    }
}

#[test]
fn blocks_of_zeros_take_no_disk() {
    let mut data = vec![0; 20 << 20];
    data[10 << 20] = 1;
    data[(5 << 20) - 1] = 3;
    data[(15 << 20) + 17] = 4;
    data.push(2);
    let image = convert(&[layer(&[
        Entry::file("a", &data),
        Entry::file("b", vec![0; 5_000_000]),
    ])])
    .unwrap();

    assert!(image.tree().get("a").bytes() == data);
    assert!(image.tree().get("b").bytes() == vec![0; 5_000_000]);
    assert!(allocated(&image) < 100_000, "{}", allocated(&image));
}

/// Packs `file` with GNU tar's `options`.
fn gnu_tar(dir: &Path, options: &[&str], file: &str) -> Vec<u8> {
    let out = Command::new("tar")
        .args(options)
        .args(["-S", "-c", file])
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    out.stdout
}

#[test]
fn sparse_files_of_gnu_tars_formats_stay_sparse() {
    const FORMATS: [&[&str]; 4] = [
        &["--format=gnu"],
        &["--format=posix", "--sparse-version=0.0"],
        &["--format=posix", "--sparse-version=0.1"],
        &["--format=posix", "--sparse-version=1.0"],
    ];
    let dir = tempfile::tempdir().unwrap();
    let file = File::create(dir.path().join("sparse")).unwrap();
    // 60 parts: more than fit into the headers of the old format.
    for n in 0..60 {
        file.write_all_at(&noise(4096, n), n * 65_536 + 8192)
            .unwrap();
    }
    file.write_all_at(b"odd", 5_000_003).unwrap();
    file.set_len(6_000_001).unwrap();
    let original = std::fs::read(dir.path().join("sparse")).unwrap();

    for format in FORMATS {
        let tar = gnu_tar(dir.path(), format, "sparse");
        assert!(tar.len() < 600_000, "not sparse: {format:?}");
        let image = convert(&[tar]).unwrap();
        image.fsck();
        assert!(image.tree().get("sparse").bytes() == original, "{format:?}");
        assert!(
            allocated(&image) < 400_000,
            "{format:?}: {}",
            allocated(&image)
        );
    }
}

#[test]
fn files_beyond_four_gigabytes_are_kept() {
    const END: u64 = 5 << 30;
    let dir = tempfile::tempdir().unwrap();
    let file = File::create(dir.path().join("big")).unwrap();
    file.write_all_at(b"start", 0).unwrap();
    file.write_all_at(b"end", END).unwrap();
    let tars = [
        gnu_tar(dir.path(), &["--format=gnu"], "big"),
        gnu_tar(dir.path(), &["--format=posix"], "big"),
    ];

    for tar in tars {
        let layers = [tar, layer(&[Entry::file("after", "x")])];
        let image = convert(&layers).unwrap();
        let tree = image.tree();
        let Kind::File(contents) = &tree.get("big").kind else {
            panic!("{:?}", tree.get("big"));
        };
        assert_eq!(contents.size, END + 3);
        let mut bytes = [0; 3];
        let file = File::open(image.path()).unwrap();
        file.read_exact_at(&mut bytes, contents.offset + END)
            .unwrap();
        assert_eq!(&bytes, b"end");
        file.read_exact_at(&mut bytes, contents.offset).unwrap();
        assert_eq!(&bytes, b"sta");
        assert_eq!(tree.text("after"), "x");
    }
}

#[test]
fn files_that_are_hidden_give_their_disk_back() {
    let big = |seed| noise(4 << 20, seed);
    let layers = [
        layer(&[
            Entry::file("whiteout", big(1)),
            Entry::file("folder/in", big(2)),
            Entry::file("replaced", big(3)),
            Entry::file("twice", big(4)),
            Entry::file("twice", "now small"),
            Entry::file("name", big(5)),
            Entry::hard_link("other-name", "name"),
        ]),
        layer(&[
            Entry::file(".wh.whiteout", ""),
            Entry::file(".wh.folder", ""),
            Entry::folder("replaced"),
            Entry::file(".wh.name", ""),
        ]),
    ];
    let image = convert(&layers).unwrap();
    image.fsck();

    assert_eq!(image.tree().paths(), ["other-name", "replaced", "twice"]);
    assert!(image.tree().get("other-name").bytes() == big(5));
    assert!(allocated(&image) < 5 << 20, "{}", allocated(&image));
    // What was hidden is not to be found in the image, either.
    let bytes = image.bytes();
    for seed in 1..=4 {
        let part = &big(seed)[8192..8224];
        assert!(!bytes.windows(32).any(|window| window == part), "{seed}");
    }
}

#[test]
fn equal_layers_give_equal_bytes_however_they_come() {
    let layers = [
        layer(&[
            Entry::file("a", noise(700_000, 1)).xattr("user.b", "1"),
            Entry::file("z", "1"),
            Entry::hard_link("y", "a"),
            Entry::symlink("l", "a"),
        ]),
        layer(&[Entry::file("d/b", noise(5000, 2)), Entry::file(".wh.z", "")]),
    ];
    let plain = convert(&layers).unwrap().bytes();
    let again = convert(&layers).unwrap().bytes();
    let gzip = layers
        .iter()
        .map(|layer| (Pieces::new(gzip(layer)), Compression::Gzip));
    let gzip = convert_streams(gzip, Limits::default()).unwrap();
    let zstd = layers.iter().map(|layer| {
        let bytes = zstd::encode_all(&layer[..], 3).unwrap();
        (Pieces::new(bytes), Compression::Zstd)
    });
    let zstd = convert_streams(zstd, Limits::default()).unwrap();

    assert!(plain == again && plain == gzip.bytes() && plain == zstd.bytes());
    for (layer, summary) in layers.iter().zip(&gzip.layers) {
        assert_eq!(summary.diff_id, *Sha256::digest(layer));
        assert_eq!(summary.bytes, layer.len() as u64);
    }
    assert_eq!(gzip.layers, zstd.layers);
}

/// Comes in pieces of up to 777 bytes, each after an interruption.
struct Pieces {
    bytes: Cursor<Vec<u8>>,
    interrupted: bool,
}

impl Pieces {
    fn new(bytes: Vec<u8>) -> Self {
        let bytes = Cursor::new(bytes);
        Self {
            bytes,
            interrupted: false,
        }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.interrupted = !self.interrupted;
        if self.interrupted {
            return Err(ErrorKind::Interrupted.into());
        }
        let some = buffer.len().min(777);
        self.bytes.read(&mut buffer[..some])
    }
}

#[test]
fn streams_of_several_members_are_one() {
    let tar = layer(&[Entry::file("a", noise(10_000, 1)), Entry::file("b", "x")]);
    let (first, second) = tar.split_at(7000);
    let members = [gzip(first), gzip(b""), gzip(second)].concat();
    let frame = |bytes| zstd::encode_all(bytes, 3).unwrap();
    // The one in between is to be skipped (RFC 8878, 3.1.2): zstd:chunked has such.
    let skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc".to_vec();
    let frames = [frame(first), skipped, frame(second)].concat();

    for (bytes, compression) in [(members, Compression::Gzip), (frames, Compression::Zstd)] {
        let image =
            convert_streams([(&bytes[..], compression)].into_iter(), Limits::default()).unwrap();
        assert_eq!(image.tree().paths(), ["a", "b"], "{compression}");
        assert_eq!(
            image.layers[0].diff_id,
            *Sha256::digest(&tar),
            "{compression}"
        );
    }
}

#[test]
fn what_follows_the_end_of_the_tar_stream_is_read_and_hashed_only() {
    let mut tar = layer(&[Entry::file("a", "x")]);
    // More than what is in flight between the threads.
    tar.extend(noise(5_000_000, 1));
    let mut rest = &tar[..];

    let image = convert_streams(
        [(&mut rest, Compression::None)].into_iter(),
        Limits::default(),
    )
    .unwrap();

    assert_eq!(image.layers[0].diff_id, *Sha256::digest(&tar));
    assert_eq!(image.tree().paths(), ["a"]);
    assert!(rest.is_empty());
}

/// As `umoci insert` writes them.
#[test]
fn a_layer_that_ends_with_its_last_files_contents_is_whole() {
    let mut bytes = Entry::file("greeting", "hello, ").bytes();
    bytes.truncate(512 + 7);

    let tree = convert(&[bytes]).unwrap().tree();

    assert_eq!(tree.text("greeting"), "hello, ");
}
