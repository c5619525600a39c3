//! The lines that get_sources prints around git's own output (facts, build §3).
//!
//! The host checks out, so these lines come from it instead of a script; they name guest paths.

use super::writer::{BOLD_GREEN, RESET};
use crate::job::settings::{GitStrategy, Settings, SubmoduleStrategy};

/// Begins a warning of a script (facts, build §0.3).
const YELLOW: &str = "\x1b[0;33m";

/// Where a line goes: standard output or standard error of stream 01.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// One line for the trace, without its line break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcesLine {
    /// Where it goes.
    pub output: Output,
    /// Its bytes, colours included.
    pub text: String,
}

impl SourcesLine {
    fn notice(text: &str) -> Self {
        Self::plain(format!("{BOLD_GREEN}{text}{RESET}"))
    }

    fn warning(text: &str) -> Self {
        Self::plain(format!("{YELLOW}{text}{RESET}"))
    }

    fn plain(text: String) -> Self {
        Self {
            output: Output::Stdout,
            text,
        }
    }

    /// A line of git's standard error.
    #[must_use]
    pub fn stderr(text: &str) -> Self {
        Self {
            output: Output::Stderr,
            text: text.to_owned(),
        }
    }
}

/// All lines of a strategy without sources; `None` for one with sources.
#[must_use]
pub fn without_sources(strategy: GitStrategy) -> Option<Vec<SourcesLine>> {
    let setup = match strategy {
        GitStrategy::None => "Skipping Git repository setup",
        GitStrategy::Empty => "Skipping Git repository setup and creating an empty build directory",
        GitStrategy::Clone | GitStrategy::Fetch => return None,
    };
    Some(vec![
        SourcesLine::notice(setup),
        skipping_checkout(),
        skipping_submodules(),
    ])
}

/// The line that names the correlation ID of the fetch (`FF_USE_GITALY_CORRELATION_ID`).
#[must_use]
pub fn correlation_id(id: &str) -> SourcesLine {
    SourcesLine::notice(&format!("Gitaly correlation ID: {id}"))
}

/// The lines before the fetch: a `depth` of 0 fetches all of the history. `project` is the guest's folder; from the
/// second attempt on it holds a repository already.
#[must_use]
pub fn before_fetch(depth: u32, project: &str, first_attempt: bool) -> Vec<SourcesLine> {
    let fetching = if depth > 0 {
        format!("Fetching changes with git depth set to {depth}...")
    } else {
        "Fetching changes...".to_owned()
    };
    let initialized = if first_attempt {
        "Initialized empty"
    } else {
        "Reinitialized existing"
    };
    vec![
        SourcesLine::notice(&fetching),
        SourcesLine::plain(format!("{initialized} Git repository in {project}/.git/")),
        SourcesLine::notice("Created fresh repository."),
    ]
}

/// The line before the checkout.
#[must_use]
pub fn checking_out(sha: &str, git_ref: &str) -> SourcesLine {
    let short: String = sha.chars().take(8).collect();
    SourcesLine::notice(&format!(
        "Checking out {short} as detached HEAD (ref is {git_ref})..."
    ))
}

/// The line in place of the checkout (`GIT_CHECKOUT: false`).
#[must_use]
pub fn skipping_checkout() -> SourcesLine {
    SourcesLine::notice("Skipping Git checkout")
}

/// The line in place of submodules.
#[must_use]
pub fn skipping_submodules() -> SourcesLine {
    SourcesLine::notice("Skipping Git submodules setup")
}

/// The line before submodules are fetched; `None` when there are none to fetch.
#[must_use]
pub fn updating_submodules(settings: &Settings) -> Option<SourcesLine> {
    let recursively = match settings.submodule_strategy {
        SubmoduleStrategy::Normal => "",
        SubmoduleStrategy::Recursive => " recursively",
        SubmoduleStrategy::None | SubmoduleStrategy::Invalid => return None,
    };
    let depth = match settings.submodule_depth {
        depth if depth > 0 => format!(" with git depth set to {depth}"),
        _ => String::new(),
    };
    Some(SourcesLine::notice(&format!(
        "Updating/initializing submodules{recursively}{depth}..."
    )))
}

/// The line after submodules came.
#[must_use]
pub fn updated_submodules() -> SourcesLine {
    SourcesLine::notice("Updated submodules")
}

/// The line after submodules failed to come, before the second try.
#[must_use]
pub fn retrying_submodules() -> SourcesLine {
    SourcesLine::warning("Updating submodules failed. Retrying...")
}

/// The line before submodules learn the parent's credentials.
#[must_use]
pub fn configuring_submodules() -> SourcesLine {
    SourcesLine::notice("Configuring submodules to use parent git credentials...")
}

/// The line before submodules' LFS files are fetched.
#[must_use]
pub fn pulling_lfs_files() -> SourcesLine {
    SourcesLine::notice("Pulling LFS files...")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::testing::variables;
    use vk_hub_proto::job::variables::Variables;

    fn texts(lines: &[SourcesLine]) -> Vec<&str> {
        assert!(lines.iter().all(|line| line.output == Output::Stdout));
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let variables: Variables = variables(pairs).into_iter().collect();
        Settings::resolve(&variables, true, 20).0
    }

    /// Golden jobs 01 and 33.
    #[test]
    fn strategies_without_sources_say_what_they_skip() {
        assert_eq!(
            texts(&without_sources(GitStrategy::None).unwrap()),
            [
                "\x1b[32;1mSkipping Git repository setup\x1b[0;m",
                "\x1b[32;1mSkipping Git checkout\x1b[0;m",
                "\x1b[32;1mSkipping Git submodules setup\x1b[0;m",
            ]
        );
        assert_eq!(
            texts(&without_sources(GitStrategy::Empty).unwrap())[0],
            "\x1b[32;1mSkipping Git repository setup and creating an empty build directory\x1b[0;m"
        );
        assert_eq!(without_sources(GitStrategy::Fetch), None);
        assert_eq!(without_sources(GitStrategy::Clone), None);
    }

    /// Golden job 29.
    #[test]
    fn the_fetch_is_told_with_its_depth_and_the_guests_folder() {
        assert_eq!(
            texts(&before_fetch(20, "/builds/repos/web", true)),
            [
                "\x1b[32;1mFetching changes with git depth set to 20...\x1b[0;m",
                "Initialized empty Git repository in /builds/repos/web/.git/",
                "\x1b[32;1mCreated fresh repository.\x1b[0;m",
            ]
        );
        assert_eq!(
            checking_out("5fd525374cdb44f81d5accdb9e299d5bafe898ab", "main").text,
            "\x1b[32;1mChecking out 5fd52537 as detached HEAD (ref is main)...\x1b[0;m"
        );
    }

    #[test]
    fn a_sha_shorter_than_it_is_shown_is_shown_whole() {
        assert_eq!(
            checking_out("5fd", "main").text,
            "\x1b[32;1mChecking out 5fd as detached HEAD (ref is main)...\x1b[0;m"
        );
    }

    #[test]
    fn later_attempts_and_full_history_are_told_otherwise() {
        assert_eq!(
            texts(&before_fetch(0, "/builds/p", false))[..2],
            [
                "\x1b[32;1mFetching changes...\x1b[0;m",
                "Reinitialized existing Git repository in /builds/p/.git/",
            ]
        );
    }

    /// Golden jobs 31 and 32.
    #[test]
    fn submodules_are_told_with_strategy_and_depth() {
        let normal = ("GIT_SUBMODULE_STRATEGY", "normal");
        let recursive = ("GIT_SUBMODULE_STRATEGY", "recursive");
        let cases: [(Settings, Option<&str>); 5] = [
            (settings(&[]), None),
            (
                settings(&[normal]),
                Some("Updating/initializing submodules with git depth set to 20..."),
            ),
            (
                settings(&[recursive]),
                Some("Updating/initializing submodules recursively with git depth set to 20..."),
            ),
            (
                settings(&[recursive, ("GIT_SUBMODULE_DEPTH", "0")]),
                Some("Updating/initializing submodules recursively..."),
            ),
            (
                settings(&[normal, ("GIT_SUBMODULE_DEPTH", "-1")]),
                Some("Updating/initializing submodules..."),
            ),
        ];
        for (settings, expected) in cases {
            let line = updating_submodules(&settings).map(|line| line.text);
            let expected = expected.map(|text| format!("\x1b[32;1m{text}\x1b[0;m"));
            assert_eq!(line, expected, "{settings:?}");
        }
    }
}
