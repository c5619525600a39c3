//! Why a checkout failed.

use std::io;
use std::path::{Path, PathBuf};

use vk_hub_proto::job::Failure;

/// Why a checkout failed. What git itself said has been given out as lines already.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckoutError {
    /// There is no git on this host.
    #[error("`git` is not on this host: install the package `git`")]
    GitMissing,
    /// A git command failed.
    #[error("`git {command}` ended with exit code {exit_code}: {failure}")]
    Git {
        /// The subcommand.
        command: &'static str,
        /// What went wrong, as far as git's words tell.
        failure: GitFailure,
        /// git's exit code; 128 plus the signal's number when a signal ended it.
        exit_code: i32,
    },
    /// A field of the job's sources cannot be used.
    #[error("git_info.{field} {value:?} {why}")]
    BadSources {
        /// The field, as GitLab names it.
        field: &'static str,
        /// Its value, cut short.
        value: String,
        /// What is wrong and what would be right.
        why: &'static str,
    },
    /// The token cannot be given to git.
    #[error("the job's token has a control character in it")]
    BadToken,
    /// A variable asks for a flag that is not passed to git on the host.
    #[error(
        "{variable} has `{flag}`, which git on the host is not given: it is unknown, or it could run programs or read files outside the repository"
    )]
    RefusedFlag {
        /// The variable.
        variable: &'static str,
        /// The word.
        flag: String,
    },
    /// The local repository cannot be used.
    #[error("cannot take sources from {}: {why}", path.display())]
    LocalRepository {
        /// The folder that was named.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The commit's files are too many or too large.
    #[error(
        "the commit's tree has more than {max_entries} entries or {max_bytes} bytes: the job's disk does not hold it"
    )]
    TreeTooLarge {
        /// Most files, links and folders.
        max_entries: u64,
        /// Most bytes.
        max_bytes: u64,
    },
    /// The checkout takes too much of this host's disk.
    #[error(
        "the sources take {taken} bytes or more on this host, of which a job may take {max_bytes}: fetch less of them (GIT_DEPTH, GIT_LFS_SKIP_SMUDGE, GIT_SUBMODULE_STRATEGY)"
    )]
    DiskBound {
        /// Bytes when it was stopped.
        taken: u64,
        /// Most bytes.
        max_bytes: u64,
    },
    /// The repository wants its LFS files in a way that vk does not go.
    #[error(
        "{setting} {value:?} {why}: change it, or set GIT_LFS_SKIP_SMUDGE to leave the files pointers"
    )]
    RefusedLfs {
        /// Where it says so.
        setting: String,
        /// What it says, cut short.
        value: String,
        /// What is wrong and what would be right.
        why: &'static str,
    },
    /// The checkout was cancelled.
    #[error("the checkout was cancelled")]
    Cancelled,
    /// The host failed.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// How it failed.
        #[source]
        source: io::Error,
    },
}

impl CheckoutError {
    pub(super) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            operation,
            path,
            source,
        }
    }

    /// The exit code that a script doing the same would have ended with; `None` when no command failed.
    #[must_use]
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Git { exit_code, .. } => Some(*exit_code),
            _ => None,
        }
    }

    /// The class of the failure, as the dispatch protocol has it.
    #[must_use]
    pub fn failure(&self) -> Failure {
        match self {
            Self::Git {
                failure: GitFailure::TooLarge,
                ..
            } => Failure::Configuration,
            Self::Git { .. } => Failure::ExternalDependency,
            Self::BadSources { .. }
            | Self::BadToken
            | Self::RefusedFlag { .. }
            | Self::TreeTooLarge { .. }
            | Self::DiskBound { .. }
            | Self::RefusedLfs { .. }
            | Self::LocalRepository { .. } => Failure::Configuration,
            Self::Cancelled => Failure::Canceled,
            Self::GitMissing | Self::Io { .. } => Failure::System,
        }
    }
}

/// What went wrong in git, as far as its words tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GitFailure {
    /// No connection, or one that broke or stalled.
    #[error("the server cannot be reached, or the transfer broke off")]
    Unreachable,
    /// The server wants other credentials, or refuses these.
    #[error("the server refused the job's token")]
    Unauthorized,
    /// There is no such repository, or the token may not see it.
    #[error("the repository was not found")]
    RepositoryNotFound,
    /// The repository lacks the commit.
    #[error("the repository does not have the commit")]
    MissingCommit,
    /// The repository lacks a ref that was asked for.
    #[error("the repository does not have the ref")]
    MissingRef,
    /// A file or object takes more memory than git may have here.
    #[error(
        "the repository has a file that git would hold in memory whole, and it is too large for that"
    )]
    TooLarge,
    /// Something else: its lines tell.
    #[error("see its output")]
    Other,
}

/// Words of git and curl (untranslated), and what they mean. The first that is found counts.
const SIGNS: [(&str, GitFailure); 32] = [
    ("attempting to allocate", GitFailure::TooLarge),
    ("reference is not a tree", GitFailure::MissingCommit),
    ("unable to read tree", GitFailure::MissingCommit),
    ("not our ref", GitFailure::MissingCommit),
    ("no such remote ref", GitFailure::MissingRef),
    ("couldn't find remote ref", GitFailure::MissingRef),
    ("Remote branch", GitFailure::MissingRef),
    ("could not read Username", GitFailure::Unauthorized),
    ("could not read Password", GitFailure::Unauthorized),
    ("Authentication failed", GitFailure::Unauthorized),
    ("Access denied", GitFailure::Unauthorized),
    ("returned error: 401", GitFailure::Unauthorized),
    ("returned error: 403", GitFailure::Unauthorized),
    ("returned error: 404", GitFailure::RepositoryNotFound),
    ("' not found", GitFailure::RepositoryNotFound),
    (
        "does not appear to be a git repository",
        GitFailure::RepositoryNotFound,
    ),
    // git-lfs'.
    ("Authorization error", GitFailure::Unauthorized),
    ("credentials for", GitFailure::Unauthorized),
    ("dial tcp", GitFailure::Unreachable),
    ("Could not resolve", GitFailure::Unreachable),
    ("Failed to connect", GitFailure::Unreachable),
    ("Couldn't connect", GitFailure::Unreachable),
    ("Connection", GitFailure::Unreachable),
    ("timed out", GitFailure::Unreachable),
    ("Operation too slow", GitFailure::Unreachable),
    ("hung up", GitFailure::Unreachable),
    ("early EOF", GitFailure::Unreachable),
    ("disconnect", GitFailure::Unreachable),
    ("RPC failed", GitFailure::Unreachable),
    ("Empty reply", GitFailure::Unreachable),
    ("returned error: 5", GitFailure::Unreachable),
    ("unable to access", GitFailure::Unreachable),
];

impl GitFailure {
    /// Reads the lines of git's standard error.
    pub(super) fn of(lines: &[&[u8]]) -> Self {
        SIGNS
            .into_iter()
            .find(|(sign, _)| lines.iter().any(|line| contains(line, sign.as_bytes())))
            .map_or(Self::Other, |(_, failure)| failure)
    }
}

fn contains(line: &[u8], sign: &[u8]) -> bool {
    line.windows(sign.len()).any(|window| window == sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_s_words_are_understood() {
        let cases = [
            (
                "fatal: reference is not a tree: 1111",
                GitFailure::MissingCommit,
            ),
            (
                "fatal: couldn't find remote ref refs/heads/x",
                GitFailure::MissingRef,
            ),
            (
                "fatal: Authentication failed for 'http://h/r.git/'",
                GitFailure::Unauthorized,
            ),
            (
                "fatal: could not read Username for 'http://h': terminal prompts disabled",
                GitFailure::Unauthorized,
            ),
            (
                "fatal: repository 'http://h/r.git/' not found",
                GitFailure::RepositoryNotFound,
            ),
            (
                "fatal: unable to access 'http://h/': Failed to connect to h port 1",
                GitFailure::Unreachable,
            ),
            (
                "fatal: unable to access 'http://h/': The requested URL returned error: 500",
                GitFailure::Unreachable,
            ),
            ("error: something new", GitFailure::Other),
        ];
        for (line, failure) in cases {
            assert_eq!(GitFailure::of(&[line.as_bytes()]), failure, "{line}");
        }
    }

    #[test]
    fn a_failed_command_is_an_external_dependency_with_its_exit_code() {
        let error = CheckoutError::Git {
            command: "checkout",
            failure: GitFailure::MissingCommit,
            exit_code: 128,
        };

        assert_eq!(error.failure(), Failure::ExternalDependency);
        assert_eq!(error.exit_code(), Some(128));
    }
}
