//! Files that git does not track, as `git ls-files --others` lists them: ignored ones too, no folders
//! (gitlab-runner, wire §3.3). The image needs no git.

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::chooser::Chooser;
use super::index::{Index, IndexError, ObjectFormat, Tracked};
use super::unread::Unread;
use crate::gopath::{as_path, below};

/// Most bytes of a `.git/config` that are looked at, or of a `.git` file.
const MOST_CONFIG: u64 = 1 << 20;

/// Why untracked files cannot be told.
#[derive(Debug, thiserror::Error)]
pub(super) enum UntrackedError {
    /// The folder holds no repository.
    #[error("not a git repository: {}", .0.display())]
    NoRepository(PathBuf),
    /// A file of the repository cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The index is none, or of a kind that is not read here.
    #[error("{}: {source}", path.display())]
    Index { path: PathBuf, source: IndexError },
}

/// Chooses the untracked files of the project; counts them.
///
/// # Errors
///
/// [`UntrackedError`].
pub(super) fn untracked(chooser: &mut Chooser<'_>, count: &mut u64) -> Result<(), UntrackedError> {
    let index = read_index(chooser.collector.root())?;
    let mut waiting = vec![Unread::at(b".")];
    while let Some(folder) = waiting.pop() {
        let folder = folder.path();
        let place = chooser.collector.place(&folder);
        let entries = match fs::read_dir(place) {
            Ok(entries) => entries,
            Err(error) => {
                chooser.unreadable("open", &folder, &error);
                continue;
            }
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.as_bytes() == b".git" {
                continue;
            }
            let path = below(&folder, name.as_bytes());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            match index.look_up(&path) {
                Tracked::Itself | Tracked::Submodule if !is_folder => {}
                Tracked::Submodule => {}
                Tracked::Below if is_folder => {
                    waiting.push(Unread::inside(&folder, name.as_bytes()));
                }
                // Another repository is one entry; it is not looked into.
                _ if is_folder && !is_repository(&entry.path().join(".git")) => {
                    waiting.push(Unread::inside(&folder, name.as_bytes()));
                }
                _ => *count += chooser.take(&path, 1, entry.metadata()),
            }
        }
    }
    Ok(())
}

fn read_index(root: &Path) -> Result<Index, UntrackedError> {
    let dot_git = root.join(".git");
    let git_dir = git_dir(&dot_git).ok_or_else(|| UntrackedError::NoRepository(root.to_owned()))?;
    let config = git_dir.join("config");
    let format = match read_some(&config) {
        Ok(text) => object_format(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => ObjectFormat::Sha1,
        Err(source) => {
            return Err(UntrackedError::Unreadable {
                path: config,
                source,
            });
        }
    };
    let path = git_dir.join("index");
    match open(&path).and_then(|file| Ok((file.metadata()?, file))) {
        Ok((meta, _)) if !meta.is_file() => Err(UntrackedError::Unreadable {
            path,
            source: io::Error::other("no regular file"),
        }),
        Ok((meta, file)) => Index::read(io::BufReader::new(file), meta.len(), format)
            .map_err(|source| UntrackedError::Index { path, source }),
        // Nothing was added yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Index::default()),
        Err(source) => Err(UntrackedError::Unreadable { path, source }),
    }
}

/// The repository's own folder: `.git`, or what the file `.git` names (gitrepository-layout(5)).
fn git_dir(dot_git: &Path) -> Option<PathBuf> {
    let is_one = |folder: &PathBuf| folder.join("HEAD").symlink_metadata().is_ok();
    if dot_git.is_dir() {
        return Some(dot_git.to_owned()).filter(is_one);
    }
    let text = read_some(dot_git).ok()?;
    let named = text.strip_prefix(b"gitdir:")?.trim_ascii();
    Some(dot_git.parent()?.join(as_path(named))).filter(is_one)
}

fn is_repository(dot_git: &Path) -> bool {
    dot_git.symlink_metadata().is_ok() && git_dir(dot_git).is_some()
}

fn read_some(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    open(path)?.take(MOST_CONFIG).read_to_end(&mut text)?;
    Ok(text)
}

/// Opens a file of a repository.
fn open(path: &Path) -> io::Result<fs::File> {
    // A pipe in its place must not hold us up.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut options = fs::OpenOptions::new();
    options.read(true).custom_flags(flags.bits()).open(path)
}

/// `extensions.objectformat` of a repository's configuration (git-config(1)).
fn object_format(config: &[u8]) -> ObjectFormat {
    let text = String::from_utf8_lossy(config).to_lowercase();
    let mut section = "";
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.split(']').next().unwrap_or_default().trim();
        } else if section == "extensions"
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == "objectformat"
            && value.trim().trim_matches('"') == "sha256"
        {
            return ObjectFormat::Sha256;
        }
    }
    ObjectFormat::Sha1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_format_is_read_from_the_configuration() {
        for (config, wanted) in [
            ("", ObjectFormat::Sha1),
            (
                "[extensions]\n\tobjectformat = sha256\n",
                ObjectFormat::Sha256,
            ),
            ("[Extensions]\nObjectFormat=SHA256", ObjectFormat::Sha256),
            ("[core]\nobjectformat = sha256\n", ObjectFormat::Sha1),
        ] {
            assert_eq!(object_format(config.as_bytes()), wanted, "{config}");
        }
    }
}
