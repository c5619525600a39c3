//! The lines that vk itself writes to the trace, and the control sequences in them.
//!
//! Each function gives the bytes of one line, to be written to a stream as any output is, so that
//! they pass the same filters.

use std::time::SystemTime;

use super::stamp::since_epoch;

/// Clears to the end of the line: before plain lines, behind section markers (gitlab-runner, build §0.3).
pub(crate) const CLEAR: &str = "\x1b[0K";
/// Ends every coloured stretch. `0;m`, not `0m` (gitlab-runner, build §0.3).
pub const RESET: &str = "\x1b[0;m";
/// Echoed commands, notices, information (gitlab-runner, build §0.3).
pub const BOLD_GREEN: &str = "\x1b[32;1m";
/// Titles of stages (gitlab-runner, build §0.3).
pub(crate) const BOLD_CYAN: &str = "\x1b[36;1m";
/// Errors (gitlab-runner, build §0.3).
pub(crate) const BOLD_RED: &str = "\x1b[31;1m";
/// Warnings (gitlab-runner, build §0.3).
pub const YELLOW: &str = "\x1b[0;33m";
/// The notice at the trace's limit (gitlab-runner, build §0.3).
pub(crate) const BOLD_YELLOW: &str = "\x1b[33;1m";

/// A plain line: GitLab Runner's `Println` (gitlab-runner, build §1.9.1).
pub fn plain(text: &str) -> String {
    format!("{CLEAR}{text}{RESET}\n")
}

/// A line in green: GitLab Runner's `Infoln` (gitlab-runner, build §1.9.1).
pub fn info(text: &str) -> String {
    format!("{BOLD_GREEN}{text}{RESET}\n")
}

/// A warning: GitLab Runner's `Warningln` (gitlab-runner, build §1.9.1).
pub fn warning(text: &str) -> String {
    format!("{YELLOW}WARNING: {text}{RESET}\n")
}

/// An error: GitLab Runner's `Errorln` and `SoftErrorln` (gitlab-runner, build §1.9.1).
pub fn error(text: &str) -> String {
    format!("{BOLD_RED}ERROR: {text}{RESET}\n")
}

/// The title of a stage: a plain line in cyan, with a reset of its own (gitlab-runner, build §1.9.2).
pub fn title(text: &str) -> String {
    plain(&format!("{BOLD_CYAN}{text}{RESET}"))
}

/// What opens section `name`; no line end follows it (gitlab-runner, build §1.9.3).
pub fn section_start(now: SystemTime, name: &str) -> String {
    section("start", now, name)
}

/// What closes section `name`; no line end follows it (gitlab-runner, build §1.9.3).
pub fn section_end(now: SystemTime, name: &str) -> String {
    section("end", now, name)
}

fn section(edge: &str, now: SystemTime, name: &str) -> String {
    format!(
        "section_{edge}:{}:{name}\r{CLEAR}",
        since_epoch(now).as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// gitlab-runner, build §1.9.1 and build §0.3.
    #[test]
    fn lines_have_gitlab_runners_shapes() {
        assert_eq!(plain("a"), "\x1b[0Ka\x1b[0;m\n");
        assert_eq!(info("Job succeeded"), "\x1b[32;1mJob succeeded\x1b[0;m\n");
        assert_eq!(
            warning("Retrying..."),
            "\x1b[0;33mWARNING: Retrying...\x1b[0;m\n"
        );
        assert_eq!(
            error("Job failed: x"),
            "\x1b[31;1mERROR: Job failed: x\x1b[0;m\n"
        );
        assert_eq!(
            title("Preparing environment"),
            "\x1b[0K\x1b[36;1mPreparing environment\x1b[0;m\x1b[0;m\n"
        );
    }

    /// gitlab-runner, build §1.9.3.
    #[test]
    fn section_markers_carry_whole_seconds_and_no_line_end() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_560_896_352_999);
        assert_eq!(
            section_start(now, "get_sources"),
            "section_start:1560896352:get_sources\r\x1b[0K"
        );
        assert_eq!(
            section_end(now, "get_sources"),
            "section_end:1560896352:get_sources\r\x1b[0K"
        );
    }
}
