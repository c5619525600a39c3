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

/// Why untracked files cannot be told: git's last line, which it fails with.
#[derive(Debug, thiserror::Error)]
pub(super) enum UntrackedError {
    /// Neither the folder nor one above it holds a repository.
    #[error("fatal: not a git repository (or any of the parent directories): .git")]
    NoRepository,
    /// A file `.git` names none.
    #[error("fatal: invalid gitfile format: {}", .0.display())]
    BadGitFile(PathBuf),
    /// A file `.git` names what is none.
    #[error("fatal: not a git repository: {}", .0.display())]
    NotNamed(PathBuf),
    /// A file of the repository cannot be read.
    #[error("fatal: cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The index is none, or of a kind that is not read here.
    #[error("fatal: {}: {source}", path.display())]
    Index { path: PathBuf, source: IndexError },
}

/// Chooses the untracked files of the project; counts them. Pipes, sockets and devices are none.
///
/// # Errors
///
/// [`UntrackedError`].
pub(super) fn untracked(chooser: &mut Chooser<'_>, count: &mut u64) -> Result<(), UntrackedError> {
    let root = chooser.collector.root();
    let repository = Repository::find(root)?;
    let index = repository.index()?;
    // The index has paths from the top of the work tree on.
    let above = root.strip_prefix(&repository.top).unwrap_or(Path::new(""));
    let above = above.as_os_str().as_bytes().to_vec();
    let in_index = |path: &[u8]| match above.as_slice() {
        b"" => index.look_up(path),
        above => index.look_up(&below(above, path)),
    };
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
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            match in_index(&path) {
                Tracked::Itself | Tracked::Submodule if !kind.is_dir() => {}
                Tracked::Submodule => {}
                Tracked::Below if kind.is_dir() => {
                    waiting.push(Unread::inside(&folder, name.as_bytes()));
                }
                // Another repository is one entry; it is not looked into.
                _ if kind.is_dir() && !is_repository(&entry.path().join(".git")) => {
                    waiting.push(Unread::inside(&folder, name.as_bytes()));
                }
                _ if kind.is_dir() || kind.is_file() || kind.is_symlink() => {
                    *count += chooser.take(&path, 1, entry.metadata());
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// A repository with a work tree.
struct Repository {
    /// The work tree's top.
    top: PathBuf,
    /// Where its index is: `.git`, or what the file `.git` names (gitrepository-layout(5)).
    git_dir: PathBuf,
}

impl Repository {
    /// The one that `folder` lies in.
    fn find(folder: &Path) -> Result<Self, UntrackedError> {
        for top in folder.ancestors() {
            let git_dir = match GitDir::of(&top.join(".git")) {
                GitDir::Valid(git_dir) => git_dir,
                GitDir::None => continue,
                GitDir::BadFile(path) => return Err(UntrackedError::BadGitFile(path)),
                GitDir::NotNamed(path) => return Err(UntrackedError::NotNamed(path)),
            };
            let top = top.to_owned();
            return Ok(Self { top, git_dir });
        }
        Err(UntrackedError::NoRepository)
    }

    fn index(&self) -> Result<Index, UntrackedError> {
        let config = common_dir(&self.git_dir).join("config");
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
        let path = self.git_dir.join("index");
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
}

/// What a `.git` is to git.
enum GitDir {
    /// A repository's own folder.
    Valid(PathBuf),
    /// Nothing: git looks further.
    None,
    /// A file that names nothing.
    BadFile(PathBuf),
    /// A file that names what is no repository's folder.
    NotNamed(PathBuf),
}

impl GitDir {
    fn of(dot_git: &Path) -> Self {
        let Ok(meta) = fs::metadata(dot_git) else {
            return Self::None;
        };
        if !meta.is_file() {
            return match is_git_dir(dot_git) {
                true => Self::Valid(dot_git.to_owned()),
                false => Self::None,
            };
        }
        let text = read_some(dot_git).unwrap_or_default();
        let named = text.strip_prefix(b"gitdir: ").map(<[u8]>::trim_ascii_end);
        let Some(named) = named.filter(|named| !named.is_empty()) else {
            return Self::BadFile(dot_git.to_owned());
        };
        let folder = dot_git.parent().unwrap_or(dot_git).join(as_path(named));
        match is_git_dir(&folder) {
            true => Self::Valid(folder),
            false => Self::NotNamed(folder),
        }
    }
}

/// Whether git takes a folder for a repository's own: it has a HEAD, objects and refs.
fn is_git_dir(folder: &Path) -> bool {
    let common = common_dir(folder);
    has_head(folder)
        && ["objects", "refs"]
            .iter()
            .all(|name| common.join(name).exists())
}

/// Whether HEAD names a branch or a commit, or is a link, as it once was.
fn has_head(folder: &Path) -> bool {
    let path = folder.join("HEAD");
    let Ok(meta) = path.symlink_metadata() else {
        return false;
    };
    if meta.is_symlink() {
        return fs::read_link(&path).is_ok_and(|target| target.starts_with("refs"));
    }
    let text = read_some(&path).unwrap_or_default();
    match text.strip_prefix(b"ref:") {
        Some(name) => name.trim_ascii_start().starts_with(b"refs/"),
        None => text
            .get(..40)
            .is_some_and(|id| id.iter().all(u8::is_ascii_hexdigit)),
    }
}

/// Where a worktree of a repository has what it shares with the others.
fn common_dir(git_dir: &Path) -> PathBuf {
    match read_some(&git_dir.join("commondir")) {
        Ok(named) => git_dir.join(as_path(named.trim_ascii_end())),
        Err(_) => git_dir.to_owned(),
    }
}

fn is_repository(dot_git: &Path) -> bool {
    matches!(GitDir::of(dot_git), GitDir::Valid(_))
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
