//! Finds the repository that a folder lies in.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::error::GitError;
use super::file;
use super::folder::{GitDir, is_git_dir, is_nested};
use super::format::Format;
use crate::gopath::{as_path, show};
use crate::select::index::{Index, ObjectFormat};

/// A repository with a work tree, and a folder in that.
pub(in crate::select) struct Repository {
    /// The folder, from the work tree's top on; empty if it is that.
    pub(in crate::select) above: PathBuf,
    /// Its own folder, where its index is; resolved.
    git_dir: PathBuf,
    hashes: ObjectFormat,
}

impl Repository {
    /// The one that `folder`, an absolute path, lies in.
    ///
    /// # Errors
    ///
    /// [`GitError`].
    pub(in crate::select) fn find(folder: &Path) -> Result<Self, GitError> {
        // git starts where the kernel says it is.
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        for top in folder.ancestors() {
            if let Some(git_dir) = GitDir::at(&top.join(".git"))? {
                return Self::with_top(&folder, Some(top), git_dir);
            }
            if is_git_dir(top)? {
                let (path, shown) = (top.to_owned(), PathBuf::from("."));
                return Self::with_top(&folder, None, GitDir { path, shown });
            }
        }
        Err(GitError::NoRepository)
    }

    /// The one with this folder of its own, and its work tree at `top` unless its configuration says otherwise.
    fn with_top(folder: &Path, top: Option<&Path>, git_dir: GitDir) -> Result<Self, GitError> {
        let format = Format::read(&git_dir)?;
        let hashes = format.hashes();
        let git_dir = git_dir.path;
        let top = match (&format.work_tree, top) {
            (Some(_), _) if format.bare => return Err(GitError::BogusWorkTree),
            (Some(named), _) => work_tree(&git_dir, named)?,
            (None, Some(top)) if !format.bare => top.to_owned(),
            (None, _) => return Err(GitError::NoWorkTree),
        };
        match folder.strip_prefix(&top) {
            Ok(above) => Ok(Self {
                above: above.to_owned(),
                git_dir: fs::canonicalize(&git_dir).unwrap_or(git_dir),
                hashes,
            }),
            Err(_) => Err(GitError::OutsideWorkTree(top)),
        }
    }

    /// Reads its index.
    ///
    /// # Errors
    ///
    /// [`GitError`].
    pub(in crate::select) fn index(&self) -> Result<Index, GitError> {
        let path = self.git_dir.join("index");
        match file::open(&path) {
            Ok((file, meta)) => Index::read(io::BufReader::new(file), meta.len(), self.hashes)
                .map_err(|source| GitError::Index { path, source }),
            // Nothing was added yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Index::default()),
            Err(source) => Err(GitError::Unreadable { path, source }),
        }
    }

    /// Whether `folder` holds another repository.
    pub(in crate::select) fn has_nested(&self, folder: &Path) -> bool {
        is_nested(folder, &self.git_dir)
    }
}

/// The work tree that a repository's configuration names.
fn work_tree(git_dir: &Path, named: &[u8]) -> Result<PathBuf, GitError> {
    let path = as_path(named);
    let entered = if named.is_empty() {
        Err(Errno::ENOENT.into())
    } else {
        fs::canonicalize(git_dir.join(path))
            .and_then(|top| fs::metadata(top.join(".")).map(|_| top))
    };
    entered.map_err(|source| match path.is_absolute() {
        true => GitError::NoWorkTree,
        false => GitError::WorkTree {
            named: show(named).into_owned(),
            source,
        },
    })
}
