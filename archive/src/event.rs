//! What is said while archives are made and opened.

use std::fmt;

use vk_archive_format::Severity;

use crate::gopath::show;

/// Something that GitLab Runner's helper would log; its text is the helper's (gitlab-runner, wire §3.3 and wire §3.4).
/// Bytes of names that are no UTF-8 show as U+FFFD.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A path to choose is empty.
    EmptyPath,
    /// A path to choose lies outside the project.
    PathOutside(String),
    /// A rule to exclude lies outside the project. It ends the list of rules.
    RuleOutside(String),
    /// A path to choose is no pattern.
    BadPattern(String),
    /// A path chose nothing.
    NoMatch {
        /// As it was given.
        path: String,
        /// The project's folder.
        root: String,
    },
    /// A path chose something.
    Found {
        /// As it was given.
        path: String,
        /// Files, folders and links, counted as often as they matched.
        count: u64,
    },
    /// Something that matched cannot be looked at.
    Unreadable {
        /// Its path in the project.
        path: Vec<u8>,
        /// The operation's error, in Go's words.
        error: String,
    },
    /// What git says where it cannot tell untracked files.
    Git(String),
    /// Untracked files cannot be told from tracked ones: git failed.
    UntrackedFailed,
    /// Every file is tracked.
    NoUntracked,
    /// There are untracked files.
    Untracked(u64),
    /// A rule kept something out.
    Excluded {
        /// As it was given.
        rule: String,
        /// How often.
        count: u64,
    },
    /// A file that was chosen cannot be read and is left out, or its end is; a large one, once for all that is missing.
    Ignored(String),
}

impl Event {
    /// How grave it is.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::Found { .. } | Self::Untracked(_) | Self::Excluded { .. } => Severity::Info,
            Self::Git(_) => Severity::Plain,
            _ => Severity::Warning,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyPath => write!(out, "No matching files. Path is empty."),
            Self::PathOutside(path) => write!(
                out,
                "processPath: artifact path is not a subpath of project directory: {path}"
            ),
            Self::RuleOutside(rule) => write!(
                out,
                "isExcluded: artifact path is not a subpath of project directory: {rule}"
            ),
            Self::BadPattern(path) => write!(out, "{path}: syntax error in pattern"),
            Self::NoMatch { path, root } => write!(
                out,
                "{path}: no matching files. Ensure that the artifact path is relative to the \
                 working directory ({root})"
            ),
            Self::Found { path, count } => write!(
                out,
                "{path}: found {count} matching artifact files and directories"
            ),
            Self::Unreadable { path, error } => write!(out, "{}: {error}", show(path)),
            Self::Git(line) => write!(out, "{line}"),
            Self::UntrackedFailed => write!(out, "untracked: exit status 128"),
            Self::NoUntracked => write!(out, "untracked: no files"),
            Self::Untracked(count) => write!(out, "untracked: found {count} files"),
            Self::Excluded { rule, count } => write!(out, "{rule}: excluded {count} files"),
            Self::Ignored(error) => write!(out, "File ignored: {error}"),
        }
    }
}
