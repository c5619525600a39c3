//! Why git fails, in its words.

use std::io;
use std::path::PathBuf;

use super::super::index::IndexError;

/// Most bytes of a line that git fails with; it cuts the rest off.
pub(super) const MOST_LINE: usize = 4095;

/// Why untracked files cannot be told: what git fails with, or, where that is said below, words of vk's own.
#[derive(Debug, thiserror::Error)]
pub(in crate::select) enum GitError {
    /// Neither the folder nor one above it holds a repository.
    #[error("fatal: not a git repository (or any of the parent directories): .git")]
    NoRepository,
    /// The repository has no work tree, or the folder lies in the repository's own.
    #[error("fatal: this operation must be run in a work tree")]
    NoWorkTree,
    /// A file `.git` is something else.
    #[error("fatal: invalid gitfile format: {}", .0.display())]
    BadGitFile(PathBuf),
    /// A file `.git` names nothing.
    #[error("fatal: no path in gitfile: {}", .0.display())]
    EmptyGitFile(PathBuf),
    /// A file `.git` is too large to be one.
    #[error("fatal: too large to be a .git file: '{}'", .0.display())]
    LargeGitFile(PathBuf),
    /// A file `.git` cannot be read.
    #[error("fatal: error opening '{}': {}", path.display(), words(source))]
    GitFile { path: PathBuf, source: io::Error },
    /// A file `.git` names what is no repository's folder.
    #[error("fatal: not a git repository: {}", .0.display())]
    NotNamed(PathBuf),
    /// The file `commondir` is empty.
    #[error("fatal: failed to read {}: Success", .0.display())]
    EmptyCommonDir(PathBuf),
    /// The file `commondir` cannot be read.
    #[error("fatal: failed to read {}: {}", path.display(), words(source))]
    CommonDir { path: PathBuf, source: io::Error },
    /// A configuration is there and cannot be read.
    #[error("fatal: unable to access '{}': {}", path.display(), words(source))]
    Config { path: PathBuf, source: io::Error },
    /// A line of a configuration is none.
    #[error("fatal: bad config line {line} in file {}", path.display())]
    ConfigLine { line: usize, path: PathBuf },
    /// A value is no number.
    #[error("fatal: bad numeric config value '{value}' for '{name}' in file {}: {why}", path.display())]
    Number {
        value: String,
        name: &'static str,
        path: PathBuf,
        why: &'static str,
    },
    /// A value is neither true nor false.
    #[error("fatal: bad boolean config value '{value}' for '{name}'")]
    Bool { value: String, name: String },
    /// The repository is of a version that git does not know.
    #[error("fatal: Expected git repo version <= 1, found {0}")]
    Version(i64),
    /// The repository has extensions that git does not know. They follow, one a line.
    #[error("fatal: unknown repository extension{} found:", plural(.0))]
    UnknownExtensions(Vec<String>),
    /// The repository has extensions that its version does not allow. They follow, one a line.
    #[error("fatal: repo version is 0, but v1-only extension{} found:", plural(.0))]
    NewerExtensions(Vec<String>),
    /// The repository has no work tree, and where it lies is set.
    #[error("fatal: unable to set up work tree using invalid config")]
    BogusWorkTree,
    /// The work tree that the configuration names cannot be entered.
    #[error("fatal: cannot chdir to '{named}': {}", words(source))]
    WorkTree { named: String, source: io::Error },
    /// The project does not lie in the work tree that the configuration names. git would list the files there.
    #[error("fatal: the project lies outside of core.worktree, which is {}", .0.display())]
    OutsideWorkTree(PathBuf),
    /// The index cannot be opened; vk's words.
    #[error("fatal: cannot read {}: {}", path.display(), words(source))]
    Unreadable { path: PathBuf, source: io::Error },
    /// The index is none, or of a kind that is not read here; vk's words.
    #[error("fatal: {}: {source}", path.display())]
    Index { path: PathBuf, source: IndexError },
}

impl GitError {
    /// Its lines. What they have from the repository makes them neither longer than git's nor more of them, and
    /// control characters show as `?`.
    pub(in crate::select) fn lines(&self) -> Vec<String> {
        let more = match self {
            Self::UnknownExtensions(names) | Self::NewerExtensions(names) => names.as_slice(),
            _ => &[],
        };
        let mut left = MOST_LINE;
        let mut lines = Vec::new();
        let more = more.iter().map(|name| format!("\t{name}"));
        for line in std::iter::once(self.to_string()).chain(more) {
            let line = line.get(..line.floor_char_boundary(left)).unwrap_or("");
            if line.is_empty() {
                break;
            }
            lines.push(line.replace(|it: char| it.is_control() && it != '\t', "?"));
            left = left.saturating_sub(line.len() + 1);
        }
        lines
    }
}

/// An error of the kernel in the C library's words.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error ") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}

fn plural(names: &[String]) -> &'static str {
    if names.len() == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_long_as_gits_at_most_and_have_no_control_characters() {
        let long = GitError::NotNamed(PathBuf::from("ж".repeat(70_000)));
        let odd = GitError::NotNamed(PathBuf::from("a\nfatal: b\u{1b}[31m\tc\u{7f}\u{85}"));
        let many = GitError::UnknownExtensions(vec!["x".repeat(99); 1000]);

        let long = long.lines();
        assert_eq!(long.len(), 1);
        assert!((MOST_LINE - 1..=MOST_LINE).contains(&long[0].len()));
        assert_eq!(
            odd.lines(),
            ["fatal: not a git repository: a?fatal: b?[31m\tc??"]
        );
        let sum: usize = many.lines().iter().map(|line| line.len() + 1).sum();
        assert!(sum <= MOST_LINE + 1);
    }
}
