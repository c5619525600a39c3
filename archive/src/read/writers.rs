//! Writing files on several threads.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::ExtractError;
use super::place::{Folder, Meta, Place, parent};
use crate::buffer::{Buffer, SpareBuffers};
use crate::threads;
use crate::write::MOST_THREADS;

/// Bytes of memory in which content may wait to be written.
const MOST_WAITING: usize = 8 << 20;

/// Pieces of work that may wait.
const MOST_WORKS: usize = 64;

/// Something to write.
pub(super) enum Work {
    /// Whole files.
    Batch(Batch),
    /// A part of a large file, at this offset.
    Part {
        file: Arc<Large>,
        offset: u64,
        content: Buffer,
    },
}

impl Work {
    fn size(&self) -> usize {
        match self {
            Self::Batch(batch) => batch.content.memory(),
            Self::Part { content, .. } => content.memory(),
        }
    }

    /// The large file that it is a part of.
    fn large(&self) -> Option<u64> {
        match self {
            Self::Batch(_) => None,
            Self::Part { file, .. } => Some(file.number),
        }
    }
}

/// Small files, many at a time: handing each over alone takes as long as writing it.
#[derive(Default)]
pub(super) struct Batch {
    /// Of all files, one after the other.
    pub(super) content: Buffer,
    pub(super) files: Vec<Small>,
}

impl Batch {
    const MOST_FILES: usize = 64;
    const MOST_BYTES: usize = 256 << 10;

    pub(super) fn is_full(&self) -> bool {
        self.files.len() >= Self::MOST_FILES || self.content.len() >= Self::MOST_BYTES
    }
}

/// A small file.
pub(super) struct Small {
    pub(super) folder: Folder,
    pub(super) path: Vec<u8>,
    pub(super) size: usize,
    pub(super) meta: Meta,
}

/// A large file that is being written. Once it is, whoever lets it go last gives it its owner, mode and time.
pub(super) struct Large {
    /// One of its own.
    number: u64,
    file: File,
    pub(super) path: Vec<u8>,
    size: u64,
    meta: Meta,
    /// How much of it was written.
    written: AtomicU64,
}

impl Large {
    pub(super) fn new(number: u64, file: File, path: Vec<u8>, size: u64, meta: Meta) -> Self {
        Self {
            number,
            file,
            path,
            size,
            meta,
            written: AtomicU64::new(0),
        }
    }

    /// Lets go of a file.
    pub(super) fn release(file: Arc<Self>, place: &Place) -> Result<(), ExtractError> {
        let Some(large) = Arc::into_inner(file) else {
            return Ok(());
        };
        if large.written.into_inner() < large.size {
            // Trouble came between. It must not look whole.
            return Ok(());
        }
        // Its end may be a hole.
        let finished = large.file.set_len(large.size);
        finished
            .and_then(|()| place.finish_file(&large.file, &large.meta))
            .map_err(|error| ExtractError::entry(&large.path, error))
    }
}

/// Writes a piece of a file; zeros become a hole.
pub(super) fn write_piece(file: &File, offset: u64, piece: &[u8]) -> io::Result<()> {
    if is_zero(piece) {
        Ok(())
    } else {
        file.write_all_at(piece, offset)
    }
}

/// Smallest run of zeros that is left out: a page cache's page.
const HOLE: usize = 4096;

fn is_zero(piece: &[u8]) -> bool {
    piece.len() >= HOLE && piece.first() == Some(&0) && piece.iter().all(|byte| *byte == 0)
}

/// The threads' queue.
pub(super) struct Writers<'a> {
    place: &'a Place,
    /// For contents.
    pub(super) spare: SpareBuffers,
    queue: Mutex<Queue>,
    /// There may be work.
    work: Condvar,
    /// There may be room for more, or nothing left to write.
    room: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    bytes: usize,
    /// Threads that write just now.
    writing: usize,
    /// Large files that are being written.
    busy: Vec<u64>,
    /// No thread writes: whoever gives work does it.
    is_alone: bool,
    /// Nothing more comes.
    ended: bool,
    error: Option<ExtractError>,
}

impl Queue {
    /// The first work that can be done now: one thread at a time writes to a file. The kernel would let the others
    /// spin.
    fn next(&mut self) -> Option<Work> {
        let is_free = |work: &Work| work.large().is_none_or(|large| !self.busy.contains(&large));
        let at = self.waiting.iter().position(is_free)?;
        let work = self.waiting.remove(at)?;
        self.bytes -= work.size();
        self.busy.extend(work.large());
        Some(work)
    }

    fn done(&mut self, large: Option<u64>, result: Result<(), ExtractError>) {
        self.busy.retain(|busy| Some(*busy) != large);
        if let Err(error) = result {
            self.error.get_or_insert(error);
            self.waiting.clear();
            self.bytes = 0;
        }
    }
}

impl<'a> Writers<'a> {
    /// Runs `feed`, which gives work to the writers, and waits for the end of all that it gave.
    ///
    /// # Errors
    ///
    /// The writers' first error, else `feed`'s.
    pub(super) fn run(
        place: &'a Place,
        threads: usize,
        feed: impl FnOnce(&Self) -> Result<(), ExtractError>,
    ) -> Result<(), ExtractError> {
        let writers = Self {
            place,
            spare: SpareBuffers::default(),
            queue: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
        };
        let fed = thread::scope(|scope| {
            let _end = EndOnDrop(&writers);
            let count = threads.clamp(1, MOST_THREADS);
            let started = threads::spawn(scope, count, || writers.write_all());
            writers.lock().is_alone = started == 0;
            feed(&writers)
        });
        let queue = writers
            .queue
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        match queue.error {
            Some(error) => Err(error),
            None => fed,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives work; waits for room. False once a writer has failed: then there is no use in going on.
    pub(super) fn give(&self, work: Work) -> bool {
        let size = work.size();
        let mut queue = self.lock();
        if queue.is_alone {
            drop(queue);
            let result = self.write(work);
            let is_written = result.is_ok();
            self.lock().done(None, result);
            return is_written;
        }
        while queue.error.is_none()
            && !queue.ended
            && (queue.waiting.len() >= MOST_WORKS
                || (queue.bytes > 0 && queue.bytes + size > MOST_WAITING))
        {
            queue = self
                .room
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if queue.error.is_some() || queue.ended {
            return false;
        }
        queue.bytes += size;
        queue.waiting.push_back(work);
        self.work.notify_one();
        true
    }

    /// Waits until all that was given is written. False once a writer has failed.
    pub(super) fn settle(&self) -> bool {
        let mut queue = self.lock();
        while queue.error.is_none()
            && !queue.ended
            && (queue.writing > 0 || !queue.waiting.is_empty())
        {
            queue = self
                .room
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        queue.error.is_none() && !queue.ended
    }

    fn write_all(&self) {
        // A writer that panics must not leave the others waiting; the scope passes its panic on.
        let _end = EndOnDrop(self);
        let mut queue = self.lock();
        loop {
            if let Some(work) = queue.next() {
                queue.writing += 1;
                self.room.notify_one();
                drop(queue);
                let large = work.large();
                let result = self.write(work);
                queue = self.lock();
                queue.writing -= 1;
                queue.done(large, result);
                if queue.error.is_some() || queue.writing == 0 {
                    self.room.notify_one();
                }
            } else if queue.error.is_some() || (queue.ended && queue.waiting.is_empty()) {
                return;
            } else {
                queue = self
                    .work
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn write(&self, work: Work) -> Result<(), ExtractError> {
        match work {
            Work::Batch(batch) => {
                let mut content = batch.content.bytes();
                for file in &batch.files {
                    let (own, rest) = content.split_at_checked(file.size).unwrap_or_default();
                    content = rest;
                    self.small(file, own)
                        .map_err(|error| ExtractError::entry(&file.path, error))?;
                }
                self.spare.give(batch.content);
                Ok(())
            }
            Work::Part {
                file,
                offset,
                content,
            } => {
                write_piece(&file.file, offset, content.bytes())
                    .map_err(|error| ExtractError::entry(&file.path, error))?;
                let len = content.len() as u64;
                file.written.fetch_add(len, Ordering::Relaxed);
                self.spare.give(content);
                Large::release(file, self.place)
            }
        }
    }

    fn small(&self, small: &Small, content: &[u8]) -> io::Result<()> {
        let (_, name) = parent(&small.path);
        let file = self.place.file(small.folder.as_fd(), name)?;
        file.write_all_at(content, 0)?;
        self.place.finish_file(&file, &small.meta)
    }
}

/// Lets the writers end once there is nothing left.
struct EndOnDrop<'a, 'b>(&'a Writers<'b>);

impl Drop for EndOnDrop<'_, '_> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.ended = true;
        if thread::panicking() {
            // Nobody will write what waits for this thread.
            queue.waiting.clear();
        }
        drop(queue);
        self.0.work.notify_all();
        self.0.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::place::Rules;
    use super::*;

    fn part(large: &Arc<Large>) -> Work {
        Work::Part {
            file: Arc::clone(large),
            offset: 0,
            content: Buffer::default(),
        }
    }

    fn large(number: u64) -> Arc<Large> {
        let meta = Meta {
            mode: 0o640,
            mtime: None,
            owner: None,
        };
        let file = tempfile::tempfile().unwrap();
        let mode = std::fs::Permissions::from_mode(0o600);
        file.set_permissions(mode).unwrap();
        Arc::new(Large::new(number, file, Vec::new(), 100, meta))
    }

    #[test]
    fn one_thread_at_a_time_writes_to_a_large_file() {
        let (one, other) = (large(1), large(2));
        let mut queue = Queue::default();
        queue.waiting.extend([
            part(&one),
            part(&one),
            Work::Batch(Batch::default()),
            part(&other),
        ]);
        let next = |queue: &mut Queue| queue.next().map(|work| work.large());

        assert_eq!(next(&mut queue), Some(Some(1)));
        assert_eq!(next(&mut queue), Some(None));
        assert_eq!(next(&mut queue), Some(Some(2)));
        assert_eq!(next(&mut queue), None);
        queue.done(Some(2), Ok(()));
        assert_eq!(next(&mut queue), None);
        queue.done(Some(1), Ok(()));
        assert_eq!(next(&mut queue), Some(Some(1)));
    }

    #[test]
    fn a_file_of_which_all_was_written_looks_whole_and_no_other() {
        let dest = tempfile::tempdir().unwrap();
        let place =
            Place::open(dest.path(), super::super::Owner::Archived, Rules::Archive).unwrap();
        let files = [large(1), large(2), large(3)];
        let contents: Vec<File> = files
            .iter()
            .map(|it| it.file.try_clone().unwrap())
            .collect();

        Writers::run(&place, 3, |writers| {
            for offset in 0..100 {
                for file in files.iter().filter(|it| it.number < 3 || offset < 99) {
                    let mut content = writers.spare.take();
                    content.extend(&[u8::try_from(file.number).unwrap()]);
                    assert!(writers.give(Work::Part {
                        file: Arc::clone(file),
                        offset,
                        content,
                    }));
                }
            }
            files
                .into_iter()
                .try_for_each(|file| Large::release(file, &place))
        })
        .unwrap();

        for (content, number) in contents.iter().zip(1..) {
            let mut bytes = [0; 101];
            let len = content.read_at(&mut bytes, 0).unwrap();
            assert_eq!(bytes[..len], vec![number; len]);
            let mode = content.metadata().unwrap().permissions().mode() & 0o777;
            let wanted = if number < 3 {
                (100, 0o640)
            } else {
                (99, 0o600)
            };
            assert_eq!((len, mode), wanted);
        }
    }

    #[test]
    #[should_panic(expected = "as it happens")]
    fn a_panic_ends_the_others() {
        let dest = tempfile::tempdir().unwrap();
        let place =
            Place::open(dest.path(), super::super::Owner::Archived, Rules::Archive).unwrap();
        let file = large(1);
        let _ = Writers::run(&place, 3, |writers| {
            writers.lock().waiting.extend([part(&file), part(&file)]);
            writers.lock().busy.push(1);
            panic!("as it happens");
        });
    }
}
