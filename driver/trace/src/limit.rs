//! Cuts the trace at its limit (gitlab-runner, build §6.6, and wire §1.12).

use super::lines::{BOLD_YELLOW, RESET};

/// How much of the trace there may be, and is.
pub(super) struct Limit {
    limit: u64,
    total: u64,
    reached: bool,
}

impl Limit {
    /// `limit` in bytes, stamps counted, the notice not.
    pub(super) fn new(limit: u64) -> Limit {
        Limit {
            limit,
            total: 0,
            reached: false,
        }
    }

    /// Bytes let through, the notice counted.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Whether nothing more is let through.
    pub(super) fn reached(&self) -> bool {
        self.reached
    }

    /// Counts what `out` holds from `start` on, valid UTF-8. As soon as that fills the limit it is
    /// cut, between two characters, and the notice put behind it (gitlab-runner, build §6.6).
    pub(super) fn apply(&mut self, out: &mut Vec<u8>, start: usize) {
        let added = (out.len() - start) as u64;
        if added == 0 {
            return;
        }
        if self.total + added >= self.limit {
            // Less than what was added.
            let left = usize::try_from(self.limit - self.total).unwrap_or(usize::MAX);
            let mut end = start.saturating_add(left);
            while end > start && out.get(end).is_some_and(|&byte| is_continuation(byte)) {
                end -= 1;
            }
            out.truncate(end);
            out.extend_from_slice(self.notice().as_bytes());
            self.reached = true;
        }
        self.total += (out.len() - start) as u64;
    }

    fn notice(&self) -> String {
        format!(
            "\n{BOLD_YELLOW}Job's log exceeded limit of {} bytes.\n\
             Job execution will continue but no more output will be collected.{RESET}\n",
            self.limit
        )
    }
}

/// Whether `byte` goes on with a character rather than beginning one.
fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(limit: u64, writes: &[&str]) -> String {
        let mut limit = Limit::new(limit);
        let mut out = Vec::new();
        for write in writes {
            if !limit.reached() {
                let start = out.len();
                out.extend_from_slice(write.as_bytes());
                limit.apply(&mut out, start);
            }
            assert_eq!(limit.total(), out.len() as u64);
        }
        String::from_utf8(out).unwrap()
    }

    fn notice(limit: u64) -> String {
        format!(
            "\n\x1b[33;1mJob's log exceeded limit of {limit} bytes.\nJob execution will continue but \
             no more output will be collected.\x1b[0;m\n"
        )
    }

    /// gitlab-runner, build §6.6, build §0.3 and wire §1.12.
    #[test]
    fn text_over_the_limit_is_cut_and_the_notice_follows() {
        assert_eq!(
            limited(10, &["This is the long message", "more"]),
            format!("This is th{}", notice(10))
        );
    }

    #[test]
    fn text_that_fills_the_limit_exactly_brings_the_notice_too() {
        assert_eq!(limited(4, &["ab", "cd"]), format!("abcd{}", notice(4)));
    }

    #[test]
    fn text_under_the_limit_is_let_through() {
        assert_eq!(limited(5, &["ab", "cd"]), "abcd");
    }

    #[test]
    fn cut_falls_between_characters() {
        for (limit, kept) in [
            (1, ""),
            (2, "é"),
            (4, "é"),
            (5, "é€"),
            (8, "é€"),
            (9, "é€😀"),
        ] {
            assert_eq!(
                limited(limit, &["é€😀x"]),
                format!("{kept}{}", notice(limit))
            );
        }
    }
}
