//! The guest's console: its last bytes, and what they tell about the machine's end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt};

use vk_text::{cut, last_lines, printable};

/// How much of the console is kept, in bytes: more than the trace that follows a panic.
const CAPACITY: usize = 16 * 1024;

/// What the kernel says at each boot of a machine without PCI, as ours are: quoted, it would pass for the reason of a
/// failure.
const HARMLESS: &str = "PCI: Fatal: No config space access function found";

/// How the kernel's line about a panic starts (`panic` of Linux's `kernel/panic.c`).
const PANIC: &str = "Kernel panic - not syncing: ";

/// The kernel's line about a halt (`kernel_halt` of Linux's `kernel/reboot.c`): nothing else tells of it.
const HALTED: &str = "reboot: System halted";

/// The last bytes of the console. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Console {
    ring: Arc<Mutex<Ring>>,
}

#[derive(Debug, Default)]
struct Ring {
    /// The last bytes, and up to as many older ones: these are cut off in one go.
    bytes: Vec<u8>,
}

impl Ring {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() >= 2 * CAPACITY {
            self.bytes.drain(..self.bytes.len() - CAPACITY);
        }
    }

    fn tail(&self) -> &[u8] {
        let from = self.bytes.len().saturating_sub(CAPACITY);
        self.bytes.get(from..).unwrap_or_default()
    }
}

/// Finds the kernel's line about a halt among what comes in pieces. It looks at each byte once: a guest may write as
/// much as it likes.
#[derive(Debug, Default)]
struct HaltFinder {
    /// The start of a line whose end is yet to come.
    line: Vec<u8>,
}

impl HaltFinder {
    /// Longest line of interest, in bytes: the text with its time stamp fits well.
    const MAX_LINE: usize = 80;

    /// Whether such a line ends in `chunk`.
    fn push(&mut self, chunk: &[u8]) -> bool {
        let mut found = false;
        let mut rest = chunk;
        while let Some(end) = memchr(b'\n', rest) {
            let (line, behind) = rest.split_at(end);
            self.append(line);
            found |= self.is_halt();
            self.line.clear();
            rest = behind.get(1..).unwrap_or_default();
        }
        self.append(rest);
        found
    }

    /// Keeps one byte more than of interest, so that a longer line does not pass for its start.
    fn append(&mut self, bytes: &[u8]) {
        let room = (Self::MAX_LINE + 1).saturating_sub(self.line.len());
        self.line
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    fn is_halt(&self) -> bool {
        let line = str::from_utf8(self.line.trim_ascii_end());
        self.line.len() <= Self::MAX_LINE && line.ok().and_then(kernel_line) == Some(HALTED)
    }
}

/// What the kernel said about the end of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EndMessage {
    PowerDown,
    Restart,
    Halted,
    Panic(String),
}

impl Console {
    /// Reads to the end, as fast as it comes: a guest whose console is not read stands still.
    pub(super) async fn read(self, mut from: impl AsyncRead + Unpin, halted: impl FnOnce()) {
        let mut halted = Some(halted);
        let mut lines = HaltFinder::default();
        let mut buffer = vec![0; 8192];
        loop {
            // An error is the end as well: the machine's own end follows and is reported.
            let count = from.read(&mut buffer).await.unwrap_or(0);
            if count == 0 {
                return;
            }
            let chunk = buffer.get(..count).unwrap_or_default();
            self.ring().push(chunk);
            if halted.is_some()
                && lines.push(chunk)
                && let Some(halted) = halted.take()
            {
                halted();
            }
        }
    }

    /// The last lines, few and short and fit for printing; in case of a panic, the last up to its message, without the
    /// trace.
    pub(super) fn last_lines(&self) -> String {
        let text = printable(self.ring().tail());
        let mut lines: Vec<_> = text.lines().collect();
        let is_panic = |line: &&str| kernel_line(line).is_some_and(|line| line.starts_with(PANIC));
        if let Some(panic) = lines.iter().rposition(is_panic) {
            lines.truncate(panic + 1);
        }
        lines.retain(|line| kernel_line(line) != Some(HARMLESS));
        last_lines(lines.into_iter())
    }

    /// What the kernel said last, if it spoke of an end. A guest can make this up, about itself.
    pub(super) fn end_message(&self) -> Option<EndMessage> {
        let text = printable(self.ring().tail());
        let mut lines = text.lines().rev().filter_map(kernel_line);
        let last = lines.next()?;
        match last {
            "reboot: Power down" => Some(EndMessage::PowerDown),
            HALTED => Some(EndMessage::Halted),
            "reboot: Restarting system" => Some(EndMessage::Restart),
            _ => {
                let panic = |line: &str| {
                    let message = line.strip_prefix(PANIC)?;
                    Some(EndMessage::Panic(cut(message)))
                };
                panic(last).or_else(|| lines.find_map(panic))
            }
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text behind the time stamp of a line that the kernel wrote.
fn kernel_line(line: &str) -> Option<&str> {
    let (stamp, text) = line.strip_prefix('[')?.split_once("] ")?;
    let is_stamp = stamp
        .trim_start()
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_stamp.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console(text: &[u8]) -> Console {
        let console = Console::default();
        console.ring().push(text);
        console
    }

    #[test]
    fn end_is_read_from_the_kernels_last_line() {
        let cases: [(&[u8], _); 6] = [
            (
                b"[    2.281739] reboot: Power down\r\n",
                Some(EndMessage::PowerDown),
            ),
            (
                b"[   12.5] reboot: System halted\r\n",
                Some(EndMessage::Halted),
            ),
            (
                b"[    1.0] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100\n[    1.1] CPU: 0\n[    1.2] ---[ end",
                Some(EndMessage::Panic(
                    "Attempted to kill init! exitcode=0x00000100".into(),
                )),
            ),
            (
                b"[    1.0] reboot: Restarting system",
                Some(EndMessage::Restart),
            ),
            (b"reboot: Power down\n", None),
            (b"", None),
        ];
        for (text, words) in cases {
            assert_eq!(console(text).end_message(), words);
        }
    }

    #[test]
    fn halt_that_was_followed_by_other_lines_does_not_count() {
        let text = b"[    1.0] reboot: System halted\n[    2.0] more\n";
        assert_eq!(console(text).end_message(), None);
    }

    #[test]
    fn memory_is_bounded_and_the_last_bytes_are_kept() {
        let console = Console::default();
        for _ in 0..100 {
            console.ring().push(&[b'x'; 8192]);
        }
        console.ring().push(b"end");

        assert!(console.ring().bytes.capacity() <= 4 * CAPACITY);
        assert_eq!(console.ring().tail().len(), CAPACITY);
        assert!(console.ring().tail().ends_with(b"xend"));
    }

    #[test]
    fn what_the_kernel_always_says_is_not_quoted() {
        let text = format!("[    0.2] {HARMLESS}\r\n[    0.9] more\r\n");

        assert_eq!(console(text.as_bytes()).last_lines(), "[    0.9] more");
    }

    #[test]
    fn panic_is_quoted_with_what_came_before_rather_than_its_trace() {
        let trace = "[    1.2]  do_exit+0x15\n".repeat(40);
        let text = format!("before\n[    1.1] {PANIC}why\n{trace}");

        let quoted = console(text.as_bytes()).last_lines();

        assert_eq!(quoted, format!("before\n[    1.1] {PANIC}why"));
    }

    #[tokio::test]
    async fn halt_is_told_once_even_when_it_comes_in_pieces() {
        let mut told = 0;
        let pieces = b"[ 1.0] reboot: Sys".chain(&b"tem halted"[..]);
        let pieces = pieces.chain(&b"\r\n[ 1.1] reboot: System halted\r\n"[..]);

        Console::default().read(pieces, || told += 1).await;

        assert_eq!(told, 1);
    }

    #[test]
    fn only_a_whole_line_of_the_kernel_is_a_halt() {
        let cases: [(&[u8], bool); 6] = [
            (b"boot\n[    1.0] reboot: System halted\nmore", true),
            (b"[    1.0] reboot: System halted", false),
            (b"reboot: System halted\n", false),
            (b"[    1.0] reboot: System halted not\n", false),
            (b"[    1.0] a\n reboot: System halted\n", false),
            (b"[    1.0] reboot: Power down\n", false),
        ];
        for (text, is_halt) in cases {
            let mut finder = HaltFinder::default();
            let in_pieces = text.chunks(1).filter(|piece| finder.push(piece)).count();

            assert_eq!(HaltFinder::default().push(text), is_halt, "{text:?}");
            assert_eq!(in_pieces, usize::from(is_halt), "{text:?}");
        }
    }

    #[test]
    fn endless_line_is_neither_kept_nor_searched_again() {
        let mut finder = HaltFinder::default();
        for _ in 0..1000 {
            assert!(!finder.push(&[0; 8192]));
        }

        assert!(finder.line.len() <= HaltFinder::MAX_LINE + 1);
        assert!(!finder.push(b"\n"));
        assert!(finder.push(b"[ 1.0] reboot: System halted\n"));
    }
}
