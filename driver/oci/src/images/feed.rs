//! Layers on their way from the network to the converter, which reads one after the other.
//!
//! The first layer goes through memory: the converter waits for it. The others come at the same time and wait in
//! files; a file can be read while it grows.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes};
use tokio::sync::mpsc;
use vk_erofs::Compression;

use crate::registry::{Blob, RegistryError};

/// Pieces of the first layer in memory; each has some ten thousand bytes.
const PIECES: usize = 32;

/// How many bytes are written to a file at a time.
const BATCH: usize = 1 << 20;

/// What a layer's file keeps no room for, if it is all zeros, in bytes: a block of most file systems.
const BLOCK: usize = 4096;

/// Why a layer did not come.
#[derive(Debug)]
pub(crate) enum FeedError {
    /// The registry does not give it.
    Registry(RegistryError),
    /// It cannot be kept.
    File(io::Error),
}

/// The converter's end of a layer.
pub(crate) enum Feed {
    Memory {
        pieces: mpsc::Receiver<Bytes>,
        current: Bytes,
        /// Set when all has come: a sender that merely went away is no end.
        whole: Arc<AtomicBool>,
    },
    File {
        spool: Arc<Spool>,
        /// Once something is in it.
        file: Option<File>,
        offset: u64,
    },
}

/// The network's end of a layer.
pub(crate) enum Sink {
    Memory {
        pieces: mpsc::Sender<Bytes>,
        whole: Arc<AtomicBool>,
    },
    File(SpoolWriter),
}

/// A file that grows. Each end opens it when it needs it: of hundreds of layers few are on their way at a time.
pub(crate) struct Spool {
    path: PathBuf,
    state: Mutex<SpoolState>,
    changed: Condvar,
}

#[derive(Default)]
struct SpoolState {
    written: u64,
    end: Option<End>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    Broken,
}

/// The one that writes; the reader learns of its end, whatever it is.
pub(crate) struct SpoolWriter(Arc<Spool>);

/// Both ends of a layer that goes through memory.
pub(crate) fn through_memory() -> (Sink, Feed) {
    let (sender, pieces) = mpsc::channel(PIECES);
    let whole = Arc::new(AtomicBool::new(false));
    let sink = Sink::Memory {
        pieces: sender,
        whole: Arc::clone(&whole),
    };
    let current = Bytes::new();
    let feed = Feed::Memory {
        pieces,
        current,
        whole,
    };
    (sink, feed)
}

/// Both ends of a layer that waits in a file at `path`, where there is none yet.
pub(crate) fn through_file(path: PathBuf) -> (Sink, Feed) {
    let spool = Arc::new(Spool {
        path,
        state: Mutex::default(),
        changed: Condvar::new(),
    });
    let sink = Sink::File(SpoolWriter(Arc::clone(&spool)));
    let feed = Feed::File {
        spool,
        file: None,
        offset: 0,
    };
    (sink, feed)
}

impl Sink {
    /// Takes all of `blob`, and counts it in `received`.
    pub(crate) async fn fill(self, mut blob: Blob, received: &AtomicU64) -> Result<(), FeedError> {
        let count = |size: usize| {
            let size = u64::try_from(size).unwrap_or(u64::MAX);
            received.fetch_add(size, Ordering::Relaxed);
        };
        match self {
            Self::Memory { pieces, whole } => {
                while let Some(piece) = blob.chunk().await.map_err(FeedError::Registry)? {
                    count(piece.len());
                    if pieces.send(piece).await.is_err() {
                        // The converter has given up, and says why.
                        return Ok(());
                    }
                }
                whole.store(true, Ordering::Release);
                Ok(())
            }
            Self::File(writer) => {
                let file = writer.create().await.map_err(FeedError::File)?;
                let mut batch = Vec::new();
                let mut size = 0;
                loop {
                    let piece = blob.chunk().await.map_err(FeedError::Registry)?;
                    let is_end = piece.is_none();
                    if let Some(piece) = piece {
                        count(piece.len());
                        size += piece.len();
                        batch.push(piece);
                    }
                    if size >= BATCH || is_end {
                        writer
                            .write(&file, std::mem::take(&mut batch))
                            .await
                            .map_err(FeedError::File)?;
                        size = 0;
                    }
                    if is_end {
                        writer.0.finish(End::Whole);
                        return Ok(());
                    }
                }
            }
        }
    }
}

impl SpoolWriter {
    async fn create(&self) -> io::Result<Arc<File>> {
        let path = self.0.path.clone();
        let create = move || File::options().write(true).create_new(true).open(path);
        let file = tokio::task::spawn_blocking(create).await;
        file.map_err(io::Error::other)?.map(Arc::new)
    }

    async fn write(&self, file: &Arc<File>, batch: Vec<Bytes>) -> io::Result<()> {
        let (spool, file) = (Arc::clone(&self.0), Arc::clone(file));
        let write = tokio::task::spawn_blocking(move || {
            let mut offset = spool.state().written;
            for piece in batch {
                write_data(&file, offset, &piece)?;
                offset += u64::try_from(piece.len()).unwrap_or(u64::MAX);
            }
            // It may end with a hole.
            file.set_len(offset)?;
            spool.state().written = offset;
            spool.changed.notify_all();
            Ok(())
        });
        write.await.map_err(io::Error::other)?
    }
}

/// Writes to a place of `file` where nothing was written yet, and leaves holes where `bytes` has zeros: a layer that is
/// not compressed may have gigabytes of them.
fn write_data(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    const ZEROS: [u8; BLOCK] = [0; BLOCK];
    let into_block = usize::try_from(offset % BLOCK as u64).unwrap_or_default();
    let (first, rest) = bytes.split_at((BLOCK - into_block).min(bytes.len()));
    let mut at = offset;
    let mut blocks = std::iter::once(first).chain(rest.chunks(BLOCK)).peekable();
    let is_zero = |block: &&[u8]| ZEROS.get(..block.len()) == Some(*block);
    let mut from = 0;
    while blocks.peek().is_some() {
        let zeros: usize = std::iter::from_fn(|| blocks.next_if(is_zero))
            .map(<[u8]>::len)
            .sum();
        from += zeros;
        at += zeros as u64;
        let data: usize = std::iter::from_fn(|| blocks.next_if(|block| !is_zero(block)))
            .map(<[u8]>::len)
            .sum();
        let some = bytes.get(from..from + data).unwrap_or_default();
        file.write_all_at(some, at)?;
        from += data;
        at += data as u64;
    }
    Ok(())
}

impl Drop for SpoolWriter {
    fn drop(&mut self) {
        self.0.finish(End::Broken);
    }
}

impl Spool {
    fn state(&self) -> MutexGuard<'_, SpoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first end counts.
    fn finish(&self, end: End) {
        self.state().end.get_or_insert(end);
        self.changed.notify_all();
    }
}

/// What the converter is told when a layer breaks off; the cause is the network side's to tell.
fn broken_off() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the download broke off")
}

impl Read for Feed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Memory {
                pieces,
                current,
                whole,
            } => {
                while current.is_empty() {
                    match pieces.blocking_recv() {
                        Some(piece) => *current = piece,
                        None if whole.load(Ordering::Acquire) => return Ok(0),
                        None => return Err(broken_off()),
                    }
                }
                let size = current.len().min(buffer.len());
                current.copy_to_slice(buffer.get_mut(..size).unwrap_or_default());
                Ok(size)
            }
            Self::File {
                spool,
                file,
                offset,
            } => {
                let mut state = spool.state();
                while state.written <= *offset {
                    match state.end {
                        Some(End::Whole) => return Ok(0),
                        Some(End::Broken) => return Err(broken_off()),
                        None => {
                            state = spool
                                .changed
                                .wait(state)
                                .unwrap_or_else(PoisonError::into_inner);
                        }
                    }
                }
                drop(state);
                let file = match file {
                    Some(file) => file,
                    None => file.insert(File::open(&spool.path)?),
                };
                let size = file.read_at(buffer, *offset)?;
                *offset += u64::try_from(size).unwrap_or(u64::MAX);
                Ok(size)
            }
        }
    }
}

/// How the stream that `reader` gives is compressed, as its first bytes tell, and the whole stream again.
pub(crate) fn sniff(mut reader: impl Read) -> io::Result<(Compression, impl Read)> {
    // RFC 1952, section 2.3.1; RFC 8878, section 3.1.1.
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

    let mut start = Vec::new();
    reader.by_ref().take(4).read_to_end(&mut start)?;
    let compression = if start.starts_with(&ZSTD) {
        Compression::Zstd
    } else if start.starts_with(&GZIP) {
        Compression::Gzip
    } else {
        Compression::None
    };
    Ok((compression, Read::chain(io::Cursor::new(start), reader)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_seen_in_the_first_bytes_and_none_are_lost() {
        for (bytes, expected) in [
            (&b"\x1f\x8b\x08rest"[..], Compression::Gzip),
            (b"\x28\xb5\x2f\xfdrest", Compression::Zstd),
            (b"a/file", Compression::None),
            (b"\x1f", Compression::None),
            (b"", Compression::None),
        ] {
            let (compression, mut stream) = sniff(bytes).unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();

            assert_eq!((compression, all.as_slice()), (expected, bytes));
        }
    }

    #[tokio::test]
    async fn a_file_is_read_while_it_grows_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let (sink, mut feed) = through_file(folder.path().join("layer"));
        let Sink::File(writer) = sink else { panic!() };
        let file = writer.create().await.unwrap();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            feed.read_to_end(&mut all).map(|_| all)
        });

        for piece in ["one ", "two ", "three"] {
            writer.write(&file, vec![Bytes::from(piece)]).await.unwrap();
        }
        writer.0.finish(End::Whole);
        drop(writer);

        assert_eq!(reader.join().unwrap().unwrap(), b"one two three");
    }

    #[tokio::test]
    async fn zeros_of_a_layer_take_no_room_in_its_file() {
        use std::os::unix::fs::MetadataExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("layer");
        let (sink, mut feed) = through_file(path.clone());
        let Sink::File(writer) = sink else { panic!() };
        let file = writer.create().await.unwrap();
        let mut expected = Vec::new();
        let mut write = async |bytes: Vec<u8>| {
            expected.extend_from_slice(&bytes);
            writer.write(&file, vec![Bytes::from(bytes)]).await.unwrap();
        };

        write(b"begin".to_vec()).await;
        // Pieces as the network brings them: no multiples of anything.
        for len in (0..400).map(|n| 10_000 + n) {
            write(vec![0; len]).await;
        }
        write([vec![0; 5000], vec![7; 9000], vec![0; 4096]].concat()).await;
        write(vec![]).await;
        write(vec![0; 1 << 20]).await;
        let blocks = std::fs::metadata(&path).unwrap().blocks();
        writer.0.finish(End::Whole);
        drop(writer);
        let read = tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            feed.read_to_end(&mut all).map(|_| all)
        });

        assert!(read.await.unwrap().unwrap() == expected);
        // Of 5 MB. In pages that may be larger than blocks.
        assert!(blocks * 512 <= 256 << 10, "{blocks} blocks of 512 bytes");
    }

    #[tokio::test]
    async fn a_writer_that_goes_away_is_an_error_and_no_end() {
        let (sink, mut feed) = through_file("/no/such/file".into());
        let (other_sink, mut other_feed) = through_memory();

        drop((sink, other_sink));
        let read = tokio::task::spawn_blocking(move || {
            (feed.read(&mut [0; 8]), other_feed.read(&mut [0; 8]))
        });

        let (file, memory) = read.await.unwrap();
        assert!(file.is_err() && memory.is_err());
    }
}
