//! Any bytes where archives belong, and entries of the fuzzer's choice.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use vk_archive::{
    ExtractError, ExtractOptions, Extracted, Limits, Owner, extract_tar_zstd, extract_zip,
};

use super::input::Input;

/// Bounds that a test case can reach.
const LIMITS: Limits = Limits {
    entries: 20,
    bytes: 100_000,
};

/// Unpacks a zip: `bytes` themselves, or one of the entries that they spell out.
///
/// Nothing lands outside the destination, and no more in it than the limits say.
pub fn zip(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let archive = if input.byte().is_multiple_of(2) {
        input.rest().to_vec()
    } else {
        zip_of(&entries(&mut input))
    };
    check(|dest, options| {
        let mut file = tempfile::tempfile().map_err(ExtractError::Read)?;
        file.write_all(&archive).map_err(ExtractError::Read)?;
        extract_zip(&file, dest, options)
    });
}

/// As [`zip`], for a tar in zstd: `bytes` as they are, compressed, or as entries, in one frame or in several.
pub fn tar(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let choice = input.byte();
    let cuts: Vec<u8> = match choice {
        0x80.. => input.bytes(12).to_vec(),
        _ => Vec::new(),
    };
    let archive = match choice % 3 {
        0 => input.rest().to_vec(),
        1 => packed(input.rest(), &cuts),
        _ => packed(&tar_of(&entries(&mut input)), &cuts),
    };
    check(|dest, options| extract_tar_zstd(archive.as_slice(), dest, options));
}

/// In frames that begin at the cuts, which say what kind of frame comes before each.
fn packed(mut tar: &[u8], cuts: &[u8]) -> Vec<u8> {
    let mut frames = Vec::new();
    for cut in cuts {
        let len = tar.len() * usize::from(cut / 4) / 64;
        let (content, rest) = tar.split_at_checked(len).unwrap_or((tar, &[]));
        tar = rest;
        frames.extend(match cut % 4 {
            0 => zstd::bulk::compress(content, 1).unwrap_or_default(),
            1 => streamed(content).unwrap_or_default(),
            2 => [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"any"].concat(),
            // Content that was not packed.
            _ => content.to_vec(),
        });
    }
    frames.extend(zstd::bulk::compress(tar, 1).unwrap_or_default());
    frames
}

/// A frame that does not say how large it is.
fn streamed(content: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1)?;
    encoder.include_checksum(true)?;
    encoder.write_all(content)?;
    encoder.finish()
}

/// An entry: its kind, name, content or target.
type Entry = (u8, Vec<u8>, Vec<u8>);

fn entries(input: &mut Input<'_>) -> Vec<Entry> {
    let mut entries = Vec::new();
    while !input.is_empty() && entries.len() < 30 {
        let kind = input.byte();
        entries.push((kind, input.bytes(12).to_vec(), input.bytes(24).to_vec()));
    }
    entries
}

fn zip_of(entries: &[Entry]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    let short = |value: usize| u16::try_from(value).unwrap_or_default().to_le_bytes();
    let long = |value: usize| u32::try_from(value).unwrap_or_default().to_le_bytes();
    for (kind, name, content) in entries {
        let mode: u32 = match kind % 4 {
            0 => 0o100_644,
            1 => 0o040_755,
            2 => 0o120_777,
            _ => u32::from(*kind) << 9,
        };
        let mut common = vec![0, 0, 0, 0, 0, 0, 0x21, 0];
        common.extend(checksum(content).to_le_bytes());
        common.extend(long(content.len()));
        common.extend(long(content.len()));
        common.extend(short(name.len()));
        common.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\x03\x14\0");
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend((mode << 16).to_le_bytes());
        directory.extend(long(out.len()));
        directory.extend(name);
        out.extend(b"PK\x03\x04\x14\0");
        out.extend(common);
        out.extend(name);
        out.extend(content);
    }
    let start = out.len();
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(short(entries.len()));
    out.extend(short(entries.len()));
    out.extend(long(directory.len()));
    out.extend(long(start));
    out.extend([0, 0]);
    out
}

/// CRC-32 of a zip, bit by bit.
fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 * (crc & 1));
        }
    }
    !crc
}

fn tar_of(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, name, content) in entries {
        let flag = b"0512134LKxgSI"[usize::from(*kind) % 13];
        let is_link = flag == b'1' || flag == b'2';
        let mut header = [0u8; 512];
        let (body, target) = if is_link {
            (&[][..], content.as_slice())
        } else {
            (content.as_slice(), &[][..])
        };
        for (at, text) in [
            (0, name.as_slice()),
            (100, b"0000644\x000000000\x000000000\0"),
            (124, format!("{:011o}\0", body.len()).as_bytes()),
            (136, b"00000000000\0        "),
            (156, &[flag]),
            (157, target),
            (257, b"ustar  \0"),
        ] {
            header[at..at + text.len()].copy_from_slice(text);
        }
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out.extend(header);
        out.extend(body);
        out.resize(out.len().next_multiple_of(512), 0);
    }
    out.resize(out.len() + 1024, 0);
    out
}

fn check(unpack: impl Fn(&Path, &ExtractOptions) -> Result<Extracted, ExtractError>) {
    let Ok(scene) = tempfile::tempdir() else {
        return;
    };
    let dest = scene.path().join("dest");
    let outside = scene.path().join("outside");
    let ready = fs::create_dir_all(dest.join("a"))
        .and_then(|()| fs::write(&outside, "outside"))
        .and_then(|()| symlink("../outside", dest.join("b")))
        .and_then(|()| symlink("..", dest.join("a/c")));
    if ready.is_err() {
        return;
    }
    let options = ExtractOptions {
        limits: LIMITS,
        owner: Owner::Archived,
        threads: 2,
    };
    let result = unpack(&dest, &options);
    if let Err(error) = &result {
        assert!(!error.to_string().is_empty());
    }
    assert_eq!(fs::read(&outside).ok().as_deref(), Some(&b"outside"[..]));
    let around = fs::read_dir(scene.path()).map(Iterator::count);
    assert_eq!(around.ok(), Some(2), "something landed outside");
    let mut bytes = 0;
    let mut waiting = vec![dest];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.path().symlink_metadata() else {
                continue;
            };
            if meta.is_dir() {
                waiting.push(entry.path());
            } else if meta.is_file() {
                bytes += meta.len();
            }
        }
    }
    assert!(bytes <= LIMITS.bytes, "{bytes}");
    if let Ok(extracted) = result {
        assert!(extracted.entries <= LIMITS.entries && extracted.bytes <= LIMITS.bytes);
    }
}
