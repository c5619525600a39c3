//! Writing files on several threads.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::ExtractError;
use super::place::{Folder, Meta, Place, parent};
use crate::buffer::{Buffer, Spare};

/// Bytes of content that may wait to be written.
const MOST_WAITING: usize = 16 << 20;

/// Files that may wait.
const MOST_FILES: usize = 4096;

/// Something to write.
pub(super) enum Work {
    /// A whole file.
    Whole {
        folder: Folder,
        path: Vec<u8>,
        content: Vec<u8>,
        meta: Meta,
    },
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
            Self::Whole { content, .. } => content.len(),
            Self::Part { content, .. } => content.len(),
        }
    }
}

/// A large file that is being written. Whoever lets it go last gives it its owner, mode and time.
pub(super) struct Large {
    pub(super) file: File,
    pub(super) path: Vec<u8>,
    pub(super) size: u64,
    pub(super) meta: Meta,
}

impl Large {
    /// Lets go of a file.
    pub(super) fn release(file: Arc<Self>, place: &Place) -> Result<(), ExtractError> {
        let Some(large) = Arc::into_inner(file) else {
            return Ok(());
        };
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
    /// For parts, which are large and alike.
    pub(super) spare: Spare,
    queue: Mutex<Queue>,
    /// There may be work.
    work: Condvar,
    /// There may be room for more.
    room: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    bytes: usize,
    /// Nothing more comes.
    ended: bool,
    error: Option<ExtractError>,
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
            spare: Spare::default(),
            queue: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
        };
        let fed = thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(|| writers.write_all());
            }
            let _end = EndOnDrop(&writers);
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
        while queue.error.is_none()
            && !queue.ended
            && (queue.waiting.len() >= MOST_FILES
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

    fn write_all(&self) {
        // A writer that panics must not leave the others waiting; the scope passes its panic on.
        let _end = EndOnDrop(self);
        let mut queue = self.lock();
        loop {
            if let Some(work) = queue.waiting.pop_front() {
                queue.bytes -= work.size();
                self.room.notify_one();
                drop(queue);
                let result = self.write(work);
                queue = self.lock();
                if let Err(error) = result {
                    queue.error.get_or_insert(error);
                    queue.waiting.clear();
                    queue.bytes = 0;
                    self.room.notify_one();
                }
            } else if queue.ended || queue.error.is_some() {
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
            Work::Whole {
                folder,
                path,
                content,
                meta,
            } => {
                let (_, name) = parent(&path);
                let write = || {
                    let file = self.place.file(folder.as_fd(), name)?;
                    file.write_all_at(&content, 0)?;
                    self.place.finish_file(&file, &meta)
                };
                write().map_err(|error| ExtractError::entry(&path, error))
            }
            Work::Part {
                file,
                offset,
                content,
            } => {
                write_piece(&file.file, offset, content.bytes())
                    .map_err(|error| ExtractError::entry(&file.path, error))?;
                self.spare.give(content);
                Large::release(file, self.place)
            }
        }
    }
}

/// Lets the writers end once there is nothing left.
struct EndOnDrop<'a, 'b>(&'a Writers<'b>);

impl Drop for EndOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.work.notify_all();
        self.0.room.notify_all();
    }
}
