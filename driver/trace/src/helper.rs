//! Lines in the shape of `gitlab-runner-helper`'s log, which is what artifacts and caches write to a job's standard
//! error (gitlab-runner, wire §3.2: `log/runner_formatter.go`).

use super::lines::{BOLD_RED, RESET, YELLOW};

/// Columns that prefix and message fill at least.
const WIDTH: usize = 50;

/// Longest message in characters: a server's words are among them.
const MAX_MESSAGE: usize = 8192;

/// How grave a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For information.
    Info,
    /// Something is unusual, or is tried again.
    Warning,
    /// Something failed.
    Error,
    /// The work ends here.
    Fatal,
}

impl Level {
    fn colour_and_prefix(self) -> (&'static str, &'static str) {
        match self {
            Self::Info => ("", ""),
            Self::Warning => (YELLOW, "WARNING: "),
            Self::Error => (BOLD_RED, "ERROR: "),
            Self::Fatal => (BOLD_RED, "FATAL: "),
        }
    }
}

/// One line with its line end: `text`, then `fields` in their order. Control characters become spaces: names and
/// answers of servers are among the words.
#[must_use]
pub fn line(level: Level, text: &str, fields: &[(&str, &str)]) -> String {
    let (colour, prefix) = level.colour_and_prefix();
    let width = WIDTH - prefix.len();
    let mut line = format!("{colour}{prefix}{:<width$}{RESET} ", cleaned(text));
    for (key, value) in fields {
        line.push_str(&format!(" {colour}{key}{RESET}={}", cleaned(value)));
    }
    line.push('\n');
    line
}

fn cleaned(text: &str) -> String {
    text.chars()
        .take(MAX_MESSAGE)
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gitlab-runner, wire §3.2.
    #[test]
    fn a_line_is_padded_and_its_fields_follow_in_its_colour() {
        assert_eq!(
            line(Level::Info, "x", &[]),
            format!("x{}\x1b[0;m \n", " ".repeat(49))
        );
        assert_eq!(
            line(
                Level::Warning,
                "Retrying...",
                &[("error", "invalid argument")]
            ),
            format!(
                "\x1b[0;33mWARNING: Retrying...{}\x1b[0;m  \x1b[0;33merror\x1b[0;m=invalid argument\n",
                " ".repeat(30)
            )
        );
        assert_eq!(
            line(Level::Fatal, "file does not exist", &[]),
            format!(
                "\x1b[31;1mFATAL: file does not exist{}\x1b[0;m \n",
                " ".repeat(24)
            )
        );
    }

    #[test]
    fn a_long_line_is_not_cut_to_the_width() {
        let text = "a".repeat(60);
        assert_eq!(line(Level::Info, &text, &[]), format!("{text}\x1b[0;m \n"));
    }

    #[test]
    fn a_servers_words_cannot_steer_a_terminal() {
        let text = line(Level::Error, "a\x1b[2Jb\nc", &[("k", "\r")]);
        assert_eq!(text.matches('\n').count(), 1);
        assert!(!text.contains("\x1b[2J"));
        assert!(text.contains("a [2Jb c"));
    }
}
