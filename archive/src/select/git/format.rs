//! What a repository's configuration says of its format and its work tree.

use std::io;
use std::path::Path;

use super::config::{Set, parse};
use super::error::{GitError, MOST_LINE};
use super::file;
use super::folder::{GitDir, common_dir};
use super::number::{int, truth};
use crate::gopath::show;
use crate::select::index::ObjectFormat;

/// The format of a repository. One without a version is of the first one, and has no other setting.
#[derive(Debug, Default)]
pub(super) struct Format {
    version: Option<i64>,
    /// Whether it has no work tree.
    pub(super) bare: bool,
    /// Where its work tree lies, if that is said.
    pub(super) work_tree: Option<Vec<u8>>,
    /// Which hashes it uses, if that is said.
    hashes: Option<ObjectFormat>,
    /// Whether there is another configuration for each work tree.
    per_work_tree: bool,
    /// Extensions that git does not know.
    unknown: Vec<String>,
    /// Extensions that version 0 has not.
    newer: Vec<String>,
}

impl Format {
    /// Reads the configuration of a repository.
    ///
    /// # Errors
    ///
    /// [`GitError`], also for a repository that git does not know how to read.
    pub(super) fn read(git_dir: &GitDir) -> Result<Self, GitError> {
        let common = common_dir(&git_dir.path)?;
        let (folder, shown) = match &common {
            Some(common) => (common, common),
            None => (&git_dir.path, &git_dir.shown),
        };
        let mut format = Self::default();
        let shown = shown.join("config");
        read(&folder.join("config"), &shown, &mut |name, value| {
            format.set(name, value, &shown)
        })?;
        match format.version {
            None | Some(..0) => return Ok(Self::default()),
            Some(version @ 2..) => return Err(GitError::Version(version)),
            Some(1) if !format.unknown.is_empty() => {
                return Err(GitError::UnknownExtensions(format.unknown));
            }
            Some(0) if !format.newer.is_empty() => {
                return Err(GitError::NewerExtensions(format.newer));
            }
            Some(_) => {}
        }
        if format.per_work_tree {
            let name = "config.worktree";
            let (path, shown) = (git_dir.path.join(name), git_dir.shown.join(name));
            read(&path, &shown, &mut |name, value| {
                format.set_work_tree(name, value)
            })?;
        } else if common.is_some() {
            // What is shared says nothing of this work tree.
            (format.bare, format.work_tree) = (false, None);
        }
        Ok(format)
    }

    /// Which hashes it uses.
    pub(super) fn hashes(&self) -> ObjectFormat {
        self.hashes.unwrap_or(ObjectFormat::Sha1)
    }

    fn set(&mut self, name: &[u8], value: Option<&[u8]>, path: &Path) -> Result<bool, GitError> {
        if name == b"core.repositoryformatversion" {
            let value = value.unwrap_or_default();
            let version = int(value).map_err(|why| GitError::Number {
                value: show(value).into_owned(),
                name: "core.repositoryformatversion",
                path: path.to_owned(),
                why,
            })?;
            self.version = Some(version);
            return Ok(true);
        }
        match name.strip_prefix(b"extensions.") {
            Some(extension) => self.extend(extension, name, value),
            None => self.set_work_tree(name, value),
        }
    }

    fn extend(
        &mut self,
        extension: &[u8],
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<bool, GitError> {
        match extension {
            b"noop" => return Ok(true),
            b"partialclone" => return Ok(value.is_some()),
            b"preciousobjects" => return boolean(name, value).map(|_| true),
            b"worktreeconfig" => {
                self.per_work_tree = boolean(name, value)?;
                return Ok(true);
            }
            b"objectformat" => {
                self.hashes = match value {
                    Some(b"sha1") => Some(ObjectFormat::Sha1),
                    Some(b"sha256") => Some(ObjectFormat::Sha256),
                    _ => return Ok(false),
                };
            }
            // The last three came after git 2.39; none changes what is untracked.
            b"noop-v1" | b"refstorage" | b"compatobjectformat" | b"relativeworktrees" => {}
            _ => {
                note(&mut self.unknown, extension);
                return Ok(true);
            }
        }
        note(&mut self.newer, extension);
        Ok(true)
    }

    fn set_work_tree(&mut self, name: &[u8], value: Option<&[u8]>) -> Result<bool, GitError> {
        match (name, value) {
            (b"core.bare", _) => self.bare = boolean(name, value)?,
            (b"core.worktree", Some(value)) => self.work_tree = Some(value.to_owned()),
            (b"core.worktree", None) => return Ok(false),
            _ => {}
        }
        Ok(true)
    }
}

/// Adds a name to those that git lists, as long as they fit into what it says.
fn note(names: &mut Vec<String>, name: &[u8]) {
    let sum: usize = names.iter().map(String::len).sum();
    if names.len() < 2 || sum < MOST_LINE {
        let name = name.get(..MOST_LINE).unwrap_or(name);
        names.push(show(name).into_owned());
    }
}

/// Reads a configuration, if there is one.
fn read(path: &Path, shown: &Path, set: &mut Set<'_>) -> Result<(), GitError> {
    match file::read(path) {
        Ok(text) => parse(&text, shown, set),
        Err(error) if is_missing(&error) => Ok(()),
        Err(source) => Err(GitError::Config {
            path: shown.to_owned(),
            source,
        }),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn boolean(name: &[u8], value: Option<&[u8]>) -> Result<bool, GitError> {
    truth(value).ok_or_else(|| GitError::Bool {
        value: show(value.unwrap_or_default()).into_owned(),
        name: show(name).into_owned(),
    })
}
