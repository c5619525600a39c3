//! Cuts a selection into pieces of work. How it is cut depends on the selection alone, so that an archive is the
//! same whatever the number of threads.

use std::ops::Range;

use crate::select::{Entry, EntryKind, Selection};

/// Entries in one batch at most.
const MOST_ENTRIES: usize = 2000;

/// A piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Whole entries, by their numbers.
    Batch(Range<usize>),
    /// A part of a large file.
    Piece(Piece),
}

/// A part of a large file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Number of the file's entry.
    pub(super) entry: usize,
    /// Where the part begins.
    pub(super) offset: u64,
    /// Its length in bytes.
    pub(super) len: usize,
    /// Whether it is the file's last one. The first one has offset 0.
    pub(super) last: bool,
}

/// Cuts a selection.
pub(super) struct Plan<'a> {
    selection: &'a Selection,
    /// Number of the next entry.
    next: usize,
    /// How much of it is planned, if it is a large file.
    offset: u64,
    /// Files over this many bytes are cut into pieces of so many, batches have no more.
    size: usize,
}

impl<'a> Plan<'a> {
    pub(super) fn new(selection: &'a Selection, size: usize) -> Self {
        Self {
            selection,
            next: 0,
            offset: 0,
            size,
        }
    }

    fn is_large(&self, entry: &Entry<'_>) -> bool {
        entry.kind == EntryKind::File && entry.size > self.size as u64
    }
}

impl Iterator for Plan<'_> {
    type Item = Unit;

    fn next(&mut self) -> Option<Unit> {
        let first = self.selection.get(self.next)?;
        if self.is_large(&first) {
            let left = first.size - self.offset;
            let piece = Piece {
                entry: self.next,
                offset: self.offset,
                len: usize::try_from(left).unwrap_or(usize::MAX).min(self.size),
                last: left <= self.size as u64,
            };
            self.offset += piece.len as u64;
            if piece.last {
                self.next += 1;
                self.offset = 0;
            }
            return Some(Unit::Piece(piece));
        }
        let start = self.next;
        let mut held = 0;
        while let Some(entry) = self.selection.get(self.next) {
            held += entry.size;
            let full = held > self.size as u64 || self.next - start == MOST_ENTRIES;
            if self.is_large(&entry) || (full && self.next > start) {
                break;
            }
            self.next += 1;
        }
        Some(Unit::Batch(start..self.next))
    }
}
