//! What one filter hands to the next.

/// What stands in the trace for something hidden (gitlab-runner, build §6.2).
pub(super) const MASK: &[u8] = b"[MASKED]";

/// The next filter of a stream, or its end.
pub(super) trait Sink {
    /// Takes text as it is; `text` is not empty.
    fn text(&mut self, text: &[u8]);

    /// Takes a replacement, [`MASK`], which later filters must not look into.
    fn mask(&mut self);
}

#[cfg(test)]
impl Sink for Vec<u8> {
    fn text(&mut self, text: &[u8]) {
        self.extend_from_slice(text);
    }

    fn mask(&mut self) {
        self.extend_from_slice(MASK);
    }
}
