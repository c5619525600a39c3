//! Cuts a selection into pieces of work. How it is cut depends on the selection alone, so that an archive is the
//! same whatever the number of threads.

use std::sync::Arc;

use super::WriteError;
use crate::pool;
use crate::select::{Entry, EntryKind, Selection};
use crate::spill::SpillError;

/// Entries in one batch at most.
const MOST_ENTRIES: usize = 2000;

/// Most bytes that an archive says of an entry, beside its path and content: headers, and what fills blocks up.
const HEADERS: usize = 2048;

/// Most bytes of where a link leads (`PATH_MAX` of limits.h).
const TARGET: usize = 4096;

/// A piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Whole entries.
    Batch(Vec<Entry>),
    /// A part of a large file.
    Piece(Piece),
}

/// A part of a large file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The file.
    pub(super) entry: Arc<Entry>,
    /// Where the part begins.
    pub(super) offset: u64,
    /// Its length in bytes.
    pub(super) len: usize,
    /// Whether it is the file's last one. The first one has offset 0.
    pub(super) last: bool,
}

/// Cuts a selection into units of `size` bytes, does `work` on so many threads, each with a state of its own, and gives
/// the results to `sink` in the order of the entries.
///
/// # Errors
///
/// The sink's first one, or [`WriteError::Spill`].
pub(super) fn ordered<S, O: Send>(
    selection: &Selection,
    size: usize,
    threads: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, Unit) -> O + Sync,
    sink: impl FnMut(O) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    let mut plan = Plan::new(selection.iter(), size);
    pool::ordered(threads, &mut plan, state, work, sink)?;
    plan.failed.map_or(Ok(()), |error| Err(error.into()))
}

/// Cuts entries.
struct Plan<I> {
    entries: I,
    /// The next one, if it was read.
    next: Option<Entry>,
    /// The large file that is being cut, and how much of it is planned.
    large: Option<(Arc<Entry>, u64)>,
    /// Files over this many bytes are cut into pieces of so many, batches have no more.
    size: usize,
    /// Why there are no more entries.
    failed: Option<SpillError>,
}

impl<I: Iterator<Item = Result<Entry, SpillError>>> Plan<I> {
    fn new(entries: I, size: usize) -> Self {
        Self {
            entries,
            next: None,
            large: None,
            size,
            failed: None,
        }
    }

    fn entry(&mut self) -> Option<Entry> {
        if self.next.is_some() {
            return self.next.take();
        }
        match self.entries.next()? {
            Ok(entry) => Some(entry),
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }

    fn is_large(&self, entry: &Entry) -> bool {
        entry.kind == EntryKind::File && entry.size > self.size as u64
    }

    fn piece(&mut self, entry: Arc<Entry>, offset: u64) -> Piece {
        let left = entry.size - offset;
        let piece = Piece {
            entry,
            offset,
            len: usize::try_from(left).unwrap_or(usize::MAX).min(self.size),
            last: left <= self.size as u64,
        };
        if !piece.last {
            self.large = Some((Arc::clone(&piece.entry), offset + piece.len as u64));
        }
        piece
    }

    fn batch(&mut self, first: Entry) -> Vec<Entry> {
        let mut held = held(&first);
        let mut batch = vec![first];
        while let Some(entry) = self.entry() {
            held += self::held(&entry);
            if self.is_large(&entry) || held > self.size as u64 || batch.len() == MOST_ENTRIES {
                self.next = Some(entry);
                break;
            }
            batch.push(entry);
        }
        batch
    }
}

/// Most bytes that an entry takes in an archive.
fn held(entry: &Entry) -> u64 {
    let target = match entry.kind {
        EntryKind::Symlink => TARGET,
        _ => 0,
    };
    entry.size + (HEADERS + entry.path.len() + target) as u64
}

impl<I: Iterator<Item = Result<Entry, SpillError>>> Iterator for Plan<I> {
    type Item = Unit;

    fn next(&mut self) -> Option<Unit> {
        if let Some((entry, offset)) = self.large.take() {
            return Some(Unit::Piece(self.piece(entry, offset)));
        }
        let first = self.entry()?;
        Some(if self.is_large(&first) {
            Unit::Piece(self.piece(Arc::new(first), 0))
        } else {
            Unit::Batch(self.batch(first))
        })
    }
}
