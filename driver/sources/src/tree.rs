//! A folder as a tar stream.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tar::{EntryType, Header};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

/// Bytes handed over at a time.
const CHUNK: usize = 256 << 10;

/// Chunks that may wait for the reader: with [`CHUNK`], the memory that a stream holds.
const WAITING: usize = 4;

/// Size of a tar record; headers and contents are padded to it (POSIX, `pax` interchange format).
const RECORD: usize = 512;

/// Name of an entry that holds another's long name, and of the tool that came up with it.
const LONG_NAME: &[u8] = b"././@LongLink";

/// A folder's content as a tar stream, made by a thread while it is read.
///
/// Entries are named relative to the folder, in the order of their bytes, a folder before what is in it: the
/// same tree makes the same stream. Regular files, links and folders, empty ones too, keep their modification
/// time (whole seconds). Owner and group are 0. Modes are what git knows (0755 for folders and programs, 0644
/// for files, 0444 for what is not to be written, such as packs), whatever this process' umask. Names are any
/// bytes of any length (GNU long names). A file of another kind fails the stream.
#[derive(Debug)]
pub struct TreeStream {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

/// Starts to stream `folder`, which nothing else may change meanwhile.
///
/// A failure shows as an error of the stream, never as its early end. Dropping the stream ends the thread.
///
/// # Panics
///
/// Outside a tokio runtime.
#[must_use]
pub fn tar_stream(folder: &Path) -> TreeStream {
    let (sender, chunks) = mpsc::channel(WAITING);
    let folder = folder.to_path_buf();
    tokio::task::spawn_blocking(move || {
        let mut writer = TreeWriter {
            out: Chunks {
                buffer: BytesMut::with_capacity(CHUNK),
                sender,
            },
        };
        if let Err(error) = writer.write(&folder) {
            // Fails when the reader is gone: then it does not matter.
            let _ = writer.out.sender.blocking_send(Err(error));
        }
    });
    TreeStream {
        chunks,
        current: Bytes::new(),
    }
}

impl AsyncRead for TreeStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        target: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.current.is_empty() {
            match ready!(self.chunks.poll_recv(context)) {
                Some(chunk) => self.current = chunk?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let length = self.current.len().min(target.remaining());
        target.put_slice(&self.current.split_to(length));
        Poll::Ready(Ok(()))
    }
}

/// The writing end.
struct Chunks {
    buffer: BytesMut,
    sender: mpsc::Sender<io::Result<Bytes>>,
}

impl Chunks {
    fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while bytes.has_remaining() {
            let length = bytes.len().min(CHUNK - self.buffer.len());
            let (head, rest) = bytes.split_at(length);
            self.buffer.extend_from_slice(head);
            bytes = rest;
            self.send_if_full()?;
        }
        Ok(())
    }

    /// Copies exactly `length` bytes of `source`.
    fn copy(&mut self, source: &mut impl Read, length: u64) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            let room = CHUNK - self.buffer.len();
            let want = usize::try_from(left).unwrap_or(room).min(room);
            let start = self.buffer.len();
            self.buffer.resize(start + want, 0);
            let spare = self.buffer.get_mut(start..).unwrap_or_default();
            let read = source.read(spare)?;
            self.buffer.truncate(start + read);
            if read == 0 {
                return Err(io::Error::other("it became shorter while it was read"));
            }
            left -= read as u64;
            self.send_if_full()?;
        }
        Ok(())
    }

    fn pad(&mut self, length: u64) -> io::Result<()> {
        let over = usize::try_from(length % RECORD as u64).unwrap_or_default();
        let missing = (RECORD - over) % RECORD;
        self.put([0; RECORD].get(..missing).unwrap_or_default())
    }

    fn send_if_full(&mut self) -> io::Result<()> {
        if self.buffer.len() < CHUNK {
            return Ok(());
        }
        self.send()
    }

    fn send(&mut self) -> io::Result<()> {
        let full = std::mem::replace(&mut self.buffer, BytesMut::with_capacity(CHUNK));
        self.sender
            .blocking_send(Ok(full.freeze()))
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

struct TreeWriter {
    out: Chunks,
}

impl TreeWriter {
    fn write(&mut self, folder: &Path) -> io::Result<()> {
        // What is left to write, last first: deep trees cost no stack.
        let mut pending = sorted(folder)?;
        while let Some(path) = pending.pop() {
            let metadata = fs::symlink_metadata(&path).map_err(naming("look at", &path))?;
            let name = path.strip_prefix(folder).unwrap_or(&path);
            self.entry(name.as_os_str().as_bytes(), &path, &metadata)
                .map_err(naming("stream", &path))?;
            if metadata.is_dir() {
                pending.append(&mut sorted(&path)?);
            }
        }
        self.out.put(&[0; 2 * RECORD])?;
        self.out.send()
    }

    fn entry(&mut self, name: &[u8], path: &Path, metadata: &Metadata) -> io::Result<()> {
        let kind = metadata.file_type();
        let mut header = Header::new_gnu();
        header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or_default());
        header.set_mode(mode(metadata));
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        if kind.is_dir() {
            header.set_entry_type(EntryType::Directory);
            self.header(header, name, b"")
        } else if kind.is_symlink() {
            header.set_entry_type(EntryType::Symlink);
            let target = fs::read_link(path)?;
            self.header(header, name, target.as_os_str().as_bytes())
        } else if kind.is_file() {
            let mut file = File::options()
                .read(true)
                .custom_flags(libc::O_NOFOLLOW)
                .open(path)?;
            header.set_entry_type(EntryType::Regular);
            header.set_size(metadata.len());
            self.header(header, name, b"")?;
            self.out.copy(&mut file, metadata.len())?;
            self.out.pad(metadata.len())
        } else {
            Err(io::Error::other(
                "it is neither a file nor a link nor a folder",
            ))
        }
    }

    fn header(&mut self, mut header: Header, name: &[u8], target: &[u8]) -> io::Result<()> {
        if let Some(gnu) = header.as_gnu_mut() {
            if !fits(&mut gnu.linkname, target) {
                self.long(EntryType::GNULongLink, target)?;
            }
            if !fits(&mut gnu.name, name) {
                self.long(EntryType::GNULongName, name)?;
            }
        }
        header.set_cksum();
        self.out.put(header.as_bytes())
    }

    /// A name too long for the next header, in an entry before it (GNU tar manual, "Basic Tar Format").
    fn long(&mut self, kind: EntryType, name: &[u8]) -> io::Result<()> {
        let length = name.len() as u64 + 1;
        let mut header = Header::new_gnu();
        if let Some(gnu) = header.as_gnu_mut() {
            fits(&mut gnu.name, LONG_NAME);
        }
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(length);
        header.set_entry_type(kind);
        header.set_cksum();
        self.out.put(header.as_bytes())?;
        self.out.put(name)?;
        self.out.put(&[0])?;
        self.out.pad(length)
    }
}

/// Puts `name` into a header's field as far as there is room; says whether all of it went in.
fn fits(field: &mut [u8], name: &[u8]) -> bool {
    field
        .iter_mut()
        .zip(name)
        .for_each(|(to, from)| *to = *from);
    name.len() <= field.len()
}

fn mode(metadata: &Metadata) -> u32 {
    let mode = metadata.permissions().mode();
    if metadata.is_symlink() {
        0o777
    } else if metadata.is_dir() || mode & 0o100 != 0 {
        0o755
    } else if mode & 0o200 != 0 {
        0o644
    } else {
        0o444
    }
}

/// What is in a folder, in the reverse order of its names.
fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)
        .and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<io::Result<Vec<PathBuf>>>()
        })
        .map_err(naming("read the folder", folder))?;
    paths.sort_unstable_by(|one, other| other.as_os_str().cmp(one.as_os_str()));
    Ok(paths)
}

fn naming(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    let path = path.to_path_buf();
    move |error| {
        let text = format!("cannot {operation} {}: {error}", path.display());
        io::Error::new(error.kind(), text)
    }
}
