//! Puts time stamps before lines.
//!
//! gitlab-runner, build §6.5. A record is a header of 32 bytes and a line: the time of the line's first byte,
//! the stream, and whether the record begins a line (space) or goes on with this stream's last one
//! (`+`). Records go out whole, so streams cannot mix within a line.
//!
//! One thing is done better than there: where a line is cut (behind a `\r`, or for its length), a
//! character that is not complete waits for its rest in the next record.

use std::time::{Duration, SystemTime};

use super::utf8::incomplete_tail;

/// Longest unfinished line that is held, header included, in bytes (gitlab-runner, build §6.5).
pub(super) const LINE_LIMIT: usize = 8192;

/// Bytes of a header.
const HEADER_LEN: usize = 32;

/// Which of a process's outputs a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// Standard output, and what vk itself writes.
    Out,
    /// Standard error.
    Err,
}

/// Time since 1970; a clock before that counts as 1970.
pub(super) fn since_epoch(now: SystemTime) -> Duration {
    now.duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
}

/// The stamper of one stream.
pub(super) struct Stamper {
    /// The stream's number and kind as headers have them.
    name: [u8; 3],
    /// The unfinished line with its header, or empty.
    line: Vec<u8>,
    /// Whether the next record goes on with the last one's line.
    continues: bool,
}

impl Stamper {
    pub(super) fn new(id: u8, kind: StreamKind) -> Stamper {
        let letter = match kind {
            StreamKind::Out => b'O',
            StreamKind::Err => b'E',
        };
        Stamper {
            name: [hex(id >> 4), hex(id & 15), letter],
            line: Vec::new(),
            continues: false,
        }
    }

    /// Takes text that came at `now`, and puts into `out` the records it completes.
    pub(super) fn text(&mut self, now: &Stamp, text: &[u8], out: &mut Vec<u8>) {
        let mut header = self.header(now);
        let mut from = 0;
        for end in memchr::memchr_iter(b'\n', text) {
            if self.line.is_empty() {
                header[HEADER_LEN - 1] = self.mark();
                out.extend_from_slice(&header);
            } else {
                out.extend_from_slice(&self.line);
                self.line.clear();
            }
            out.extend_from_slice(text.get(from..=end).unwrap_or_default());
            from = end + 1;
        }
        let rest = text.get(from..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        let long = self.line.len() + rest.len() > LINE_LIMIT;
        if long || memchr::memchr(b'\r', rest).is_some() {
            self.cut_line(header, rest, out);
        } else {
            self.begin(header);
            self.line.extend_from_slice(rest);
        }
    }

    /// Begins a line with `header`, unless one is begun already.
    fn begin(&mut self, mut header: [u8; HEADER_LEN]) {
        if self.line.is_empty() {
            header[HEADER_LEN - 1] = self.mark();
            self.line.extend_from_slice(&header);
        }
    }

    /// Puts the unfinished line out with a line end of its own; the next record goes on with it.
    fn cut_line(&mut self, header: [u8; HEADER_LEN], rest: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        self.begin(header);
        out.append(&mut self.line);
        out.extend_from_slice(rest);
        let end = out.len() - incomplete_tail(out.get(start..).unwrap_or_default());
        self.continues = true;
        if end < out.len() {
            self.begin(header);
            self.line.extend(out.drain(end..));
        }
        out.push(b'\n');
    }

    /// Puts the unfinished line out, at the stream's end.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) {
        if !self.line.is_empty() {
            out.append(&mut self.line);
            out.push(b'\n');
        }
    }

    /// A header without its mark.
    fn header(&self, now: &Stamp) -> [u8; HEADER_LEN] {
        let mut header = [0; HEADER_LEN];
        header[..28].copy_from_slice(&now.text);
        header[28..31].copy_from_slice(&self.name);
        header
    }

    /// The last byte of the next header.
    fn mark(&mut self) -> u8 {
        if std::mem::take(&mut self.continues) {
            b'+'
        } else {
            b' '
        }
    }
}

/// A time as headers have it: `2021-01-01T01:00:00.020010Z `, always 28 bytes.
pub(super) struct Stamp {
    text: [u8; 28],
}

impl Stamp {
    pub(super) fn new(now: SystemTime) -> Stamp {
        let now = since_epoch(now);
        let (days, second) = (now.as_secs() / 86_400, now.as_secs() % 86_400);
        let (year, month, day) = date(days);
        let mut text = *b"0000-00-00T00:00:00.000000Z ";
        for (at, len, value) in [
            (0, 4, year),
            (5, 2, month),
            (8, 2, day),
            (11, 2, second / 3600),
            (14, 2, second / 60 % 60),
            (17, 2, second % 60),
            (20, 6, now.subsec_micros().into()),
        ] {
            if let Some(place) = text.get_mut(at..at + len) {
                digits(place, value);
            }
        }
        Stamp { text }
    }
}

/// Writes `value` to the whole of `into`, with zeros before it.
fn digits(into: &mut [u8], mut value: u64) {
    for digit in into.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// The Gregorian date `days` days after 1970-01-01; after the year 9999, its last day.
fn date(days: u64) -> (u64, u64, u64) {
    // Days from 0000-03-01, so that a leap day comes last in its year; up to 9999-12-31.
    let days = days.min(2_932_896) + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months of 31, 30, 31, 30, 31 days, over and over, from March on.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + next, month, day)
}

fn hex(digit: u8) -> u8 {
    match digit {
        0..10 => b'0' + digit,
        _ => b'a' + digit - 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stamp(text: &str) -> Stamp {
        Stamp {
            text: format!("{text:<28}").into_bytes().try_into().unwrap(),
        }
    }

    fn at(nanos: u64) -> String {
        let now = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
        String::from_utf8(Stamp::new(now).text.to_vec()).unwrap()
    }

    /// Stamps `writes` of stream 1, with the stamp cut to its first letter: the write's number.
    fn stamped(writes: &[&str]) -> Vec<String> {
        let mut stamper = Stamper::new(1, StreamKind::Out);
        let mut out = Vec::new();
        for (index, write) in writes.iter().enumerate() {
            stamper.text(&stamp(&index.to_string()), write.as_bytes(), &mut out);
        }
        stamper.close(&mut out);
        stamper.close(&mut out);
        let text = String::from_utf8(out).unwrap();
        text.split_inclusive('\n')
            .map(|r| format!("{}{}", &r[..1], &r[28..]))
            .collect()
    }

    #[test]
    fn fraction_is_padded_on_the_left() {
        assert_eq!(at(20_010), "1970-01-01T00:00:00.000020Z ");
        assert_eq!(
            at(1_609_462_800_020_010_000),
            "2021-01-01T01:00:00.020010Z "
        );
    }

    #[test]
    fn full_second_has_six_digits_too() {
        assert_eq!(
            at(1_609_459_200_000_000_000),
            "2021-01-01T00:00:00.000000Z "
        );
    }

    #[test]
    fn dates_follow_the_gregorian_calendar() {
        for (day, expected) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (10_956, (1999, 12, 31)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (19_782, (2024, 2, 29)),
            (20_786, (2026, 11, 29)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
            (2_932_896, (9999, 12, 31)),
            (u64::MAX / 86_400, (9999, 12, 31)),
        ] {
            assert_eq!(date(day), expected, "day {day}");
        }
    }

    /// gitlab-runner, build §6.5, the table.
    #[test]
    fn writes_become_the_records_of_gitlab_runner() {
        assert_eq!(
            stamped(&["a", "b\nc\rd", "e\n", "f"]),
            ["001O ab\n", "101O c\rd\n", "201O+e\n", "301O f\n"]
        );
        assert_eq!(
            stamped(&["section_start:1:abc\r\x1b[0K", "hello\n", "plain\n"]),
            [
                "001O section_start:1:abc\r\x1b[0K\n",
                "101O+hello\n",
                "201O plain\n"
            ]
        );
        assert_eq!(
            stamped(&["a\r\nb\n", "\r", "x\n"]),
            ["001O a\r\n", "001O b\n", "101O \r\n", "201O+x\n"]
        );
    }

    /// gitlab-runner, wire §8.6, "Time stamps".
    #[test]
    fn lines_progress_bars_and_windows_ends_are_stamped_as_by_gitlab_runner() {
        assert_eq!(stamped(&["a new line\n"]), ["001O a new line\n"]);
        assert_eq!(
            stamped(&["a split ", "up ", "line\n"]),
            ["001O a split up line\n"]
        );
        assert_eq!(
            stamped(&["Progress: ", ".\r", ".\r", "Done.\r\n", "x\r\n"]),
            [
                "001O Progress: .\r\n",
                "201O+.\r\n",
                "301O+Done.\r\n",
                "401O x\r\n"
            ]
        );
        assert_eq!(stamped(&["two\nlines\n"]), ["001O two\n", "001O lines\n"]);
        assert_eq!(
            stamped(&["\nstart", "\nend\n"]),
            ["001O \n", "001O start\n", "101O end\n"]
        );
        assert_eq!(stamped(&["Eat\r\r\r\r\n"]), ["001O Eat\r\r\r\r\n"]);
        assert_eq!(stamped(&["The end"]), ["001O The end\n"]);
    }

    /// gitlab-runner, wire §8.6: markers of the script's own, in stream 1.
    #[test]
    fn a_marker_behind_a_marker_goes_on_with_its_line() {
        assert_eq!(
            stamped(&[
                "section_start:123:foo\r\x1b[0K",
                "section_end:123:foo\r\x1b[0K"
            ]),
            [
                "001O section_start:123:foo\r\x1b[0K\n",
                "101O+section_end:123:foo\r\x1b[0K\n"
            ]
        );
    }

    /// gitlab-runner, wire §8.6.
    #[test]
    fn lines_of_one_second_differ_in_their_microseconds() {
        let second = 1_609_459_200_000_000_000;
        for (nanos, fraction) in [
            (0, "00.000000"),
            (1_000, "00.000001"),
            (123_000, "00.000123"),
            (1_000_000_000, "01.000000"),
            (1_000_007_000, "01.000007"),
        ] {
            let expected = format!("2021-01-01T00:00:{fraction}Z ");
            assert_eq!(at(second + nanos), expected);
        }
    }

    #[test]
    fn line_of_more_than_8_kib_is_cut_behind_the_write() {
        let (first, second) = (".".repeat(8192), ".".repeat(8193));
        assert_eq!(
            stamped(&["incoming", &first, &second, "ended\n"]),
            [
                format!("001O incoming{first}\n"),
                format!("201O+{second}\n"),
                "301O+ended\n".to_owned()
            ]
        );
    }

    #[test]
    fn line_of_8_kib_with_its_header_is_held() {
        let text = ".".repeat(8192 - HEADER_LEN - 1);
        assert_eq!(stamped(&[&text, "x", "\n"]), [format!("001O {text}x\n")]);
        assert_eq!(
            stamped(&[&text, "xx", "\n"]),
            [format!("001O {text}xx\n"), "201O+\n".into()]
        );
    }

    #[test]
    fn stream_number_is_two_hex_digits_and_errors_are_e() {
        let mut out = Vec::new();
        Stamper::new(0xff, StreamKind::Err).text(&stamp(""), b"x\n", &mut out);
        assert_eq!(&out[28..], b"ffE x\n");
    }

    #[test]
    fn character_cut_behind_a_carriage_return_waits_for_its_rest() {
        let mut stamper = Stamper::new(1, StreamKind::Out);
        let mut out = Vec::new();
        stamper.text(&stamp(""), b"a\r\xe2\x82", &mut out);
        stamper.text(&stamp(""), b"\xac\n", &mut out);
        let space = " ".repeat(28);
        assert_eq!(out, format!("{space}01O a\r\n{space}01O+€\n").as_bytes());
    }

    proptest! {
        #[test]
        fn stripping_the_stamps_gives_the_text_back(
            writes in proptest::collection::vec(
                proptest::collection::vec(
                    prop_oneof![Just("\n"), Just("\r"), Just("ab"), Just("é"), Just("€😀"), Just("")],
                    0..8,
                ),
                0..12,
            ),
            cut in 0usize..4,
        ) {
            let writes: Vec<Vec<u8>> = writes.iter().map(|w| w.concat().into_bytes()).collect();
            let text = writes.concat();
            let mut stamper = Stamper::new(1, StreamKind::Out);
            let mut out = Vec::new();
            for write in &writes {
                let (a, b) = write.split_at(cut.min(write.len()));
                stamper.text(&stamp(""), a, &mut out);
                stamper.text(&stamp(""), b, &mut out);
            }
            stamper.close(&mut out);

            let mut plain: Vec<u8> = Vec::new();
            for record in String::from_utf8(out).unwrap().split_inclusive('\n') {
                if record.as_bytes()[31] == b'+' {
                    plain.pop();
                }
                plain.extend_from_slice(&record.as_bytes()[HEADER_LEN..]);
            }
            // A last line without an end gets one.
            let added = plain.strip_suffix(b"\n").filter(|rest| *rest == text);
            prop_assert!(plain == text || added.is_some(), "{plain:?} {text:?}");
        }
    }
}
