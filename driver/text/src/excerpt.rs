//! What errors quote of a program's or guest's output: its last lines, few and short.

/// So many lines,
const MAX_LINES: usize = 12;
/// of so many characters.
const MAX_WIDTH: usize = 200;

/// The last of `lines` that are not blank, cut in number and width.
#[must_use]
pub fn last_lines<'a>(lines: impl DoubleEndedIterator<Item = &'a str>) -> String {
    let is_blank = |line: &&str| line.trim().is_empty();
    let lines = lines.rev().filter(|line| !is_blank(line)).map(cut);
    let mut last: Vec<_> = lines.take(MAX_LINES).collect();
    last.reverse();
    last.join("\n")
}

/// The start of a line, if it is long.
#[must_use]
pub fn cut(line: &str) -> String {
    line.chars().take(MAX_WIDTH).collect()
}

/// Lossy text without control characters other than line ends, so that a guest cannot play with a terminal.
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .filter(|letter| *letter == '\n' || *letter == '\t' || !letter.is_control())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_are_cut_in_number_and_width_and_hold_no_escapes() {
        let text = printable(b"first\n\x1b[31mred\x07\xff\r\n \r\n".repeat(50).as_slice());
        let long = "\u{e4}".repeat(500);

        let quoted = last_lines(text.lines().chain([long.as_str()]));

        let lines: Vec<_> = quoted.lines().collect();
        assert_eq!(lines.len(), 12);
        assert_eq!(lines[9..], ["first", "[31mred\u{fffd}", &long[..400]]);
    }

    #[test]
    fn nothing_but_blank_lines_is_nothing() {
        assert_eq!(last_lines("\n \n\t\n".lines()), "");
    }
}
