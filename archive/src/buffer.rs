//! Bytes in the making, in memory that is used again: neither allocated nor cleared anew for each piece of work.

use std::sync::{Mutex, PoisonError};

/// Bytes with room behind them.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    /// The bytes, then the room, which holds what was there before.
    memory: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// All bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.get(..self.len).unwrap_or_default()
    }

    /// The bytes from `start` on.
    pub(crate) fn bytes_mut(&mut self, start: usize) -> &mut [u8] {
        self.memory.get_mut(start..self.len).unwrap_or_default()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.memory.len()
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Forgets all bytes behind the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Room for so many bytes behind the last one, filled with anything.
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        let end = self.len + len;
        if self.memory.len() < end {
            self.memory.resize(end, 0);
        }
        self.memory.get_mut(self.len..end).unwrap_or_default()
    }

    /// Takes so many bytes of the room, at most as many as it has.
    pub(crate) fn fill(&mut self, len: usize) {
        self.len = (self.len + len).min(self.memory.len());
    }

    /// Appends bytes.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.fill(bytes.len());
    }
}

/// Buffers that wait to be used again.
#[derive(Debug, Default)]
pub(crate) struct SpareBuffers(Mutex<Vec<Buffer>>);

/// Largest buffer that is kept. Few are larger: those of long names.
const MOST_KEPT: usize = 8 << 20;

impl SpareBuffers {
    /// An empty one.
    pub(crate) fn take(&self) -> Buffer {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = spare.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Gives one back. There are never more than were in use at once.
    pub(crate) fn give(&self, buffer: Buffer) {
        if buffer.memory.len() <= MOST_KEPT {
            let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            spare.push(buffer);
        }
    }

    /// Lets go of all.
    pub(crate) fn clear(&self) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spare.clear();
    }
}
