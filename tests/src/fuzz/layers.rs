//! Any bytes as the layers of an image.

use std::fs::File;
use std::io::{self, Read};

use vk_erofs::{Compression, ConvertError, Converter, Limits};

use super::input::Input;

/// Converts `bytes` as up to three layers, at once and in pieces.
///
/// Both ways give the same image or the same error, and the image keeps to its bound.
pub fn layers(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let count = 1 + input.below(3);
    let compression = match input.below(8) {
        0 => Compression::Gzip,
        1 => Compression::Zstd,
        _ => Compression::None,
    };
    let right_sums = input.byte() & 1 == 0;
    let piece = 1 + input.below(256);
    let mut stream = input.rest().to_vec();
    if right_sums {
        stream.chunks_exact_mut(512).for_each(correct_sum);
    }
    // Whole blocks, as far as there are any.
    let each = stream.len().div_ceil(count).max(1).next_multiple_of(512);
    let layers: Vec<&[u8]> = stream.chunks(each).collect();

    let at_once = convert(&layers, compression, usize::MAX);
    let in_pieces = convert(&layers, compression, piece);
    assert_eq!(at_once, in_pieces);
    if let Ok(image) = at_once {
        assert_eq!(image.len() % 4096, 0);
        assert!(image.len() <= 4 << 20);
        assert_eq!(image.get(1024..1028), Some(&b"\xe2\xe1\xf5\xe0"[..]));
    }
}

/// Gives what looks like a header its right checksum, which the fuzzer would hardly find.
fn correct_sum(block: &mut [u8]) {
    if block.get(257..262) == Some(b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

#[expect(
    clippy::expect_used,
    reason = "a fuzz target without a file cannot go on"
)]
fn convert(layers: &[&[u8]], compression: Compression, piece: usize) -> Result<Vec<u8>, String> {
    let file = tempfile::tempfile().expect("a temporary file");
    let out = file.try_clone().expect("a second handle");
    match try_convert(out, layers, compression, piece) {
        Ok(()) => Ok(read(&file).expect("the image is read")),
        Err(error) => Err(format!("{error:?}")),
    }
}

fn try_convert(
    out: File,
    layers: &[&[u8]],
    compression: Compression,
    piece: usize,
) -> Result<(), ConvertError> {
    let limits = Limits {
        max_entries: 300,
        max_bytes: 2 << 20,
        max_image_bytes: 4 << 20,
        max_metadata_bytes: 32 << 10,
    };
    let mut converter = Converter::new(out, limits)?;
    for layer in layers {
        let mut layer = Pieces(layer, piece);
        converter.add_layer(&mut layer, compression)?;
    }
    converter.finish().map(|_| ())
}

fn read(file: &File) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let some = buffer.len().min(self.1);
        self.0.read(&mut buffer[..some])
    }
}
