//! Reads the numbers and strings of a test case off the fuzzer's bytes.

/// What is left of the fuzzer's bytes. Past their end all is zero and empty.
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// A number below `end`, which is at most 256.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// Fewer than `end` bytes; the first one says how many.
    pub(super) fn bytes(&mut self, end: usize) -> &'a [u8] {
        let len = self.below(end).min(self.0.len());
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken
    }

    /// As [`Input::bytes`], made valid UTF-8.
    pub(super) fn text(&mut self, end: usize) -> String {
        String::from_utf8_lossy(self.bytes(end)).into_owned()
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }
}
