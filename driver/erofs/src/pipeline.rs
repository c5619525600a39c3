//! Inflating, checksumming and unpacking a layer at the same time.
//!
//! Buffers go round: the inflater fills them, the hasher reads them, the unpacker uses them up and gives them back.

use std::io::Read;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use sha2::{Digest as _, Sha256};

use crate::inflate::inflate;
use crate::{Compression, ConvertError, Limit};

/// Bytes of a buffer: large beside the cost of passing it on, small beside a processor's cache.
const BUFFER: usize = 256 << 10;
/// Buffers in use at a time. A stage can be as far ahead of the next.
const BUFFERS: usize = 8;

struct Buffer {
    bytes: Box<[u8]>,
    len: usize,
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// A layer's tar stream, as the unpacker sees it.
pub(crate) struct Stream {
    hashed: Receiver<Buffer>,
    spare: Sender<Buffer>,
    current: Option<Buffer>,
    used: usize,
    /// There is no more, as far as the unpacker has seen.
    ended: bool,
}

impl Stream {
    /// What comes next; empty at the end only.
    pub(crate) fn fill(&mut self) -> &[u8] {
        while self.current.as_ref().is_none_or(|b| self.used >= b.len) {
            if let Some(buffer) = self.current.take() {
                // The inflater may be done already.
                let _ = self.spare.send(buffer);
            }
            self.used = 0;
            match self.hashed.recv() {
                Ok(buffer) => self.current = Some(buffer),
                Err(_) => {
                    self.ended = true;
                    return &[];
                }
            }
        }
        self.current
            .as_ref()
            .and_then(|buffer| buffer.bytes.get(self.used..buffer.len))
            .unwrap_or_default()
    }

    /// Uses up `len` bytes of what [`Self::fill`] returned.
    pub(crate) fn consume(&mut self, len: usize) {
        self.used += len;
    }
}

/// What is known of a stream when it has been read.
pub(crate) struct Measured {
    /// Its length.
    pub(crate) bytes: u64,
    /// Its sha256.
    pub(crate) sha256: [u8; 32],
}

/// Runs `unpack` on the tar stream of `layer`, which is read to its end whatever `unpack` leaves of it.
///
/// # Errors
///
/// The first one in the stream, be it the layer's or of `unpack`; [`Limit::Bytes`] if the stream has more than `max` bytes of the `allowed` ones.
pub(crate) fn run<T>(
    layer: &mut (dyn Read + Send),
    compression: Compression,
    max: u64,
    allowed: u64,
    unpack: impl FnOnce(&mut Stream) -> Result<T, ConvertError>,
) -> Result<(T, Measured), ConvertError> {
    thread::scope(|scope| {
        let (spare, spares) = channel::<Buffer>();
        let (inflated, to_hash) = channel::<Buffer>();
        let (hashed, to_unpack) = channel::<Buffer>();
        for _ in 0..BUFFERS {
            let bytes = vec![0; BUFFER].into_boxed_slice();
            let _ = spare.send(Buffer { bytes, len: 0 });
        }
        let mut room = max;
        let inflater = thread::Builder::new()
            .name("inflate".to_owned())
            .spawn_scoped(scope, move || {
                let next = || spares.recv().ok();
                inflate(layer, compression, next, |mut buffer, len| {
                    buffer.len = len;
                    room = room.checked_sub(len as u64).ok_or(ConvertError::TooLarge {
                        limit: Limit::Bytes,
                        max: allowed,
                    })?;
                    Ok(inflated.send(buffer).is_ok())
                })
            })
            .map_err(ConvertError::Thread)?;
        let hasher = thread::Builder::new()
            .name("sha256".to_owned())
            .spawn_scoped(scope, move || {
                let mut sha256 = Sha256::new();
                let mut bytes = 0;
                for buffer in to_hash {
                    let filled = buffer.bytes.get(..buffer.len).unwrap_or_default();
                    sha256.update(filled);
                    bytes += filled.len() as u64;
                    if hashed.send(buffer).is_err() {
                        break;
                    }
                }
                Measured {
                    bytes,
                    sha256: sha256.finalize().into(),
                }
            })
            .map_err(ConvertError::Thread)?;

        let mut stream = Stream {
            hashed: to_unpack,
            spare,
            current: None,
            used: 0,
            ended: false,
        };
        let unpacked = unpack(&mut stream).inspect(|_| {
            loop {
                let rest = stream.fill().len();
                if rest == 0 {
                    break;
                }
                stream.consume(rest);
            }
        });
        let ended = stream.ended;
        // Tells the others, should they still run.
        drop(stream);
        let inflated = inflater
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let measured = hasher
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // A layer that broke off looks truncated to the unpacker: then the cause is the inflater's. What the unpacker
        // found before that comes first, however far the inflater got meanwhile.
        if ended {
            inflated?;
        }
        Ok((unpacked?, measured))
    })
}
