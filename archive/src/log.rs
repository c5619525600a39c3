//! How the helper's log lines look in a trace.

use crate::event::Severity;

/// Width to which a line's prefix and message are filled up.
const WIDTH: usize = 50;

/// A line of GitLab Runner's helper as it stands in a trace, newline included: colour, prefix, message filled up
/// with spaces, reset, then the fields, which the caller gives in order of their keys (gitlab-runner, wire §3.2). The
/// helper writes it to standard error.
#[must_use]
pub fn log_line(severity: Severity, message: &str, fields: &[(&str, &str)]) -> String {
    let (colour, prefix) = match severity {
        Severity::Info => ("", ""),
        Severity::Warning => ("\x1b[0;33m", "WARNING: "),
        Severity::Error => ("\x1b[31;1m", "ERROR: "),
        Severity::Fatal => ("\x1b[31;1m", "FATAL: "),
    };
    let width = WIDTH - prefix.len();
    let mut line = format!("{colour}{prefix}{message:<width$}\x1b[0;m ");
    for (key, value) in fields {
        line.push_str(&format!(" {colour}{key}\x1b[0;m={value}"));
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_filled_up_to_a_column() {
        let line = log_line(Severity::Warning, "No files to cache.", &[]);

        let wanted = format!(
            "\x1b[0;33mWARNING: No files to cache.{}\x1b[0;m \n",
            " ".repeat(23)
        );
        assert_eq!(line, wanted);
    }

    #[test]
    fn fields_follow() {
        let line = log_line(
            Severity::Info,
            &"x".repeat(60),
            &[("id", "1"), ("token", "t")],
        );

        let wanted = format!("{}\x1b[0;m  id\x1b[0;m=1 token\x1b[0;m=t\n", "x".repeat(60));
        assert_eq!(line, wanted);
    }
}
