//! The lines that get_sources prints around git's own output (facts, build §3).
//!
//! The host checks out, so these lines come from it instead of a script; they name guest paths.

use crate::job::settings::{GitStrategy, Settings, SubmoduleStrategy};

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
        Self::plain(format!("\x1b[32;1m{text}\x1b[0;m"))
    }

    fn warning(text: &str) -> Self {
        Self::plain(format!("\x1b[0;33m{text}\x1b[0;m"))
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
    let mut lines = vec![
        SourcesLine::notice(&fetching),
        SourcesLine::plain(format!("{initialized} Git repository in {project}/.git/")),
    ];
    lines.push(SourcesLine::notice("Created fresh repository."));
    lines
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
