//! From a layer's compressed stream to its tar stream.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use crate::ConvertError;

/// How a layer is compressed: the suffix of its media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// `…tar`.
    None,
    /// `…tar+gzip`, `…tar.gzip`. Several members in a row are one stream (RFC 1952, 2.2).
    Gzip,
    /// `…tar+zstd`. Several frames in a row are one stream (RFC 8878, 3).
    Zstd,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "tar",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        })
    }
}

/// Largest window of a zstd frame, as a power of two: 128 MiB, what the `zstd` command accepts unasked, and what its
/// highest level (22) makes.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Bytes read from the layer at once.
const READ: usize = 128 << 10;

/// Inflates `layer`, piece by piece, each of the length of a buffer but the last: `next_buffer` brings an empty one,
/// `filled` takes it back with what it holds. Ends early, without an error, when either has no more use for it.
pub(crate) fn inflate<B: AsMut<[u8]>>(
    layer: &mut (dyn Read + Send),
    compression: Compression,
    mut next_buffer: impl FnMut() -> Option<B>,
    mut filled: impl FnMut(B, usize) -> Result<bool, ConvertError>,
) -> Result<(), ConvertError> {
    let failed = Cell::new(false);
    let source = Source {
        layer,
        failed: &failed,
    };
    let error = |source: io::Error| match failed.get() || compression == Compression::None {
        true => ConvertError::Read(source),
        false => ConvertError::Inflate {
            compression,
            source,
        },
    };
    let buffered = BufReader::with_capacity(READ, source);
    let mut stream: Box<dyn Read> = match compression {
        Compression::None => Box::new(buffered),
        Compression::Gzip => Box::new(MultiGzDecoder::new(buffered)),
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(buffered).map_err(error)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(error)?;
            Box::new(decoder)
        }
    };
    while let Some(mut buffer) = next_buffer() {
        let len = fill(&mut stream, buffer.as_mut()).map_err(error)?;
        let full = len == buffer.as_mut().len();
        if !filled(buffer, len)? || !full {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads until `buffer` is full or the stream ends.
fn fill(stream: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while let Some(rest) = buffer.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// The layer, with a mark if it is the one that failed.
struct Source<'a> {
    layer: &'a mut (dyn Read + Send),
    failed: &'a Cell<bool>,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.layer.read(buffer);
        let interrupted = |error: &io::Error| error.kind() == io::ErrorKind::Interrupted;
        if read.as_ref().is_err_and(|error| !interrupted(error)) {
            self.failed.set(true);
        }
        read
    }
}
