//! Files that git does not track, as `git ls-files --others` lists them: ignored ones too, no folders
//! (gitlab-runner, wire §3.3). The image needs no git.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use super::chooser::Chooser;
use super::git::{GitError, Repository};
use super::index::Tracked;
use super::unread::Unread;
use crate::gopath::below;

/// Chooses the untracked files of the project; counts them. Pipes, sockets and devices are none.
///
/// # Errors
///
/// [`GitError`], before anything is chosen.
pub(super) fn untracked(chooser: &mut Chooser<'_>, count: &mut u64) -> Result<(), GitError> {
    let repository = Repository::find(chooser.collector.root())?;
    let index = repository.index()?;
    // The index has paths from the top of the work tree on.
    let above = repository.above.as_os_str().as_bytes();
    let mut parts = above.split(|byte| *byte == b'/');
    let left_alone = parts.any(|part| part == b".git")
        // It has no repository of its own, or that would have been found.
        || (!above.is_empty() && index.look_up(above) == Tracked::Submodule);
    if left_alone {
        return Ok(());
    }
    let in_index = |path: &[u8]| match above {
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
                _ if kind.is_dir() && !repository.has_nested(&entry.path()) => {
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
