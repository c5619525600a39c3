//! Which folders are a repository's own, and what a `.git` is to git.

use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::config::is_space;
use super::error::GitError;
use super::file::{self, c_text, trim_line};
use crate::gopath::as_path;

/// Most bytes of HEAD that git looks at to tell whether it is one.
const MOST_HEAD: u64 = 255;

/// A repository's own folder.
pub(super) struct GitDir {
    pub(super) path: PathBuf,
    /// How git calls it, from the folder on that it goes to.
    pub(super) shown: PathBuf,
}

impl GitDir {
    /// What is at `dot_git`, a path that ends in `.git`: a folder, a file that names one, or nothing to git.
    ///
    /// # Errors
    ///
    /// [`GitError`], if it is a file and names none, or where git fails over `commondir`.
    pub(super) fn at(dot_git: &Path) -> Result<Option<Self>, GitError> {
        let Ok(meta) = fs::metadata(dot_git) else {
            return Ok(None);
        };
        if !meta.is_file() {
            let found = meta.is_dir() && is_git_dir(dot_git)?;
            return Ok(found.then(|| Self {
                path: dot_git.to_owned(),
                shown: PathBuf::from(".git"),
            }));
        }
        let path = || dot_git.to_owned();
        if meta.len() > file::MOST {
            return Err(GitError::LargeGitFile(path()));
        }
        let text = file::read(dot_git).map_err(|source| GitError::GitFile {
            path: path(),
            source,
        })?;
        let Some(named) = text.strip_prefix(b"gitdir: ") else {
            return Err(GitError::BadGitFile(path()));
        };
        let named = trim_line(named);
        if named.is_empty() {
            return Err(GitError::EmptyGitFile(path()));
        }
        let folder = dot_git.parent().unwrap_or(dot_git);
        let folder = folder.join(as_path(c_text(named)));
        if !is_git_dir(&folder)? {
            return Err(GitError::NotNamed(folder));
        }
        let folder = fs::canonicalize(&folder).unwrap_or(folder);
        Ok(Some(Self {
            path: folder.clone(),
            shown: folder,
        }))
    }
}

/// Whether `folder` is another repository's than the one whose own folder is `own`, a resolved path.
pub(super) fn is_nested(folder: &Path, own: &Path) -> bool {
    let dot_git = folder.join(".git");
    match GitDir::at(&dot_git) {
        Ok(Some(_)) => !fs::canonicalize(dot_git).is_ok_and(|it| it == own),
        // git cannot tell and would rather leave it alone.
        Err(GitError::GitFile { .. }) => true,
        Ok(None) | Err(_) => false,
    }
}

/// Whether git takes a folder for a repository's own: it has a HEAD, objects and refs.
pub(super) fn is_git_dir(folder: &Path) -> Result<bool, GitError> {
    if !has_head(folder) {
        return Ok(false);
    }
    let common = common_dir(folder)?;
    let common = common.as_deref().unwrap_or(folder);
    Ok(["objects", "refs"]
        .iter()
        .all(|name| access(&common.join(name), AccessFlags::X_OK).is_ok()))
}

/// Whether HEAD names a branch or a commit, or is a link, as it once was.
fn has_head(folder: &Path) -> bool {
    let path = folder.join("HEAD");
    let Ok(meta) = path.symlink_metadata() else {
        return false;
    };
    if meta.is_symlink() {
        let target = fs::read_link(&path);
        return target.is_ok_and(|it| it.as_os_str().as_encoded_bytes().starts_with(b"refs/"));
    }
    let text = file::read_start(&path, MOST_HEAD).unwrap_or_default();
    if let Some(mut name) = text.strip_prefix(b"ref:") {
        while let [first, behind @ ..] = name
            && is_space(*first)
        {
            name = behind;
        }
        return name.starts_with(b"refs/");
    }
    text.get(..40)
        .is_some_and(|id| id.iter().all(u8::is_ascii_hexdigit))
}

/// Where a worktree of a repository has what it shares with the others; none where that is its own folder.
///
/// # Errors
///
/// [`GitError`], if `commondir` is there and names nothing.
pub(super) fn common_dir(git_dir: &Path) -> Result<Option<PathBuf>, GitError> {
    let path = git_dir.join("commondir");
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    match file::read(&path) {
        Ok(named) if named.is_empty() => Err(GitError::EmptyCommonDir(path)),
        Ok(named) => {
            let common = git_dir.join(as_path(c_text(trim_line(&named))));
            Ok(Some(fs::canonicalize(&common).unwrap_or(common)))
        }
        Err(source) => Err(GitError::CommonDir { path, source }),
    }
}
