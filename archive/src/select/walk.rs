//! Finding what paths and patterns name, and all that is below it.
//!
//! The helper finds a pattern's matches first and then walks through each of them; a file is counted for every
//! match above it and for its own. One walk does both here: a folder knows how many of its parents, and itself,
//! matched.

use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use super::chooser::Chooser;
use super::pattern::{Pattern, PatternError, States, split};
use super::unread::Unread;
use crate::gopath::below;

/// A folder that is yet to be read.
struct Waiting {
    folder: Unread,
    /// Where the pattern stands behind its slash; none if nothing below can match.
    states: States,
    /// How often it, and what is below it, matched.
    times: u64,
}

/// A folder that is being read; the rest as in [`Waiting`].
struct Folder {
    /// In the project.
    path: Rc<[u8]>,
    states: States,
    times: u64,
}

/// Chooses the one thing that `path`, clean and without patterns, names, with all below it; counts visits.
///
/// It must exist with links followed (gitlab-runner, wire §3.3: a dangling link is no match).
pub(super) fn literal(chooser: &mut Chooser<'_>, path: &[u8]) -> u64 {
    let place = chooser.collector.place(path);
    match fs::metadata(&place) {
        Ok(_) => {}
        Err(error) => {
            if !is_absence(&error) {
                chooser.unreadable("stat", path, &error);
            }
            return 0;
        }
    }
    let meta = fs::symlink_metadata(&place);
    let is_folder = meta.as_ref().is_ok_and(fs::Metadata::is_dir);
    let mut count = chooser.take(path, 1, meta);
    if is_folder {
        count += folders(
            chooser,
            None,
            Waiting {
                folder: Unread::at(path),
                states: States::default(),
                times: 1,
            },
        );
    }
    count
}

/// Chooses all that `path`, clean and with a pattern, matches, with all below it; counts visits.
///
/// # Errors
///
/// [`PatternError`] if it is no pattern.
pub(super) fn pattern(chooser: &mut Chooser<'_>, path: &[u8]) -> Result<u64, PatternError> {
    let (base, rest) = split(path);
    let pattern = Pattern::new(rest)?;
    let place = chooser.collector.place(&base);
    if !fs::metadata(&place).is_ok_and(|meta| meta.is_dir()) {
        return Ok(0);
    }
    let mut count = 0;
    let mut times = 0;
    // `dir/**` matches `dir`; `dir/*` does not, though `*` matches nothing at all.
    let itself = Pattern::new(&[b"x/", rest].concat())?;
    if itself.matches(b"x") {
        let meta = fs::symlink_metadata(&place);
        // A link is entered by the pattern, and not by the walk through what it matched.
        times = u64::from(meta.as_ref().is_ok_and(fs::Metadata::is_dir));
        count += chooser.take(&base, 1, meta);
    }
    let states = pattern.start().clone();
    count += folders(
        chooser,
        Some(&pattern),
        Waiting {
            folder: Unread::at(&base),
            states,
            times,
        },
    );
    Ok(count)
}

fn is_absence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Goes through a folder and all below it.
fn folders(chooser: &mut Chooser<'_>, pattern: Option<&Pattern>, top: Waiting) -> u64 {
    let mut count = 0;
    let mut waiting = vec![top];
    while let Some(Waiting {
        folder,
        states,
        times,
    }) = waiting.pop()
    {
        let folder = Folder {
            path: folder.path(),
            states,
            times,
        };
        let place = chooser.collector.place(&folder.path);
        let entries = match fs::read_dir(place) {
            Ok(entries) => entries,
            Err(error) => {
                chooser.unreadable("open", &folder.path, &error);
                continue;
            }
        };
        for entry in entries {
            match entry {
                Ok(entry) => {
                    let (taken, inner) = member(chooser, pattern, &folder, &entry);
                    count += taken;
                    waiting.extend(inner);
                }
                Err(error) => {
                    chooser.unreadable("readdirent", &folder.path, &error);
                    break;
                }
            }
        }
    }
    count
}

/// One name in a folder: how often it was taken, and what is to be read below it.
fn member(
    chooser: &mut Chooser<'_>,
    pattern: Option<&Pattern>,
    folder: &Folder,
    entry: &DirEntry,
) -> (u64, Option<Waiting>) {
    let name = entry.file_name();
    let name = name.as_bytes();
    let path = below(&folder.path, name);
    let mut times = folder.times;
    let mut states = States::default();
    if let Some(pattern) = pattern {
        states = pattern.advance(&folder.states, name);
        times += u64::from(pattern.accepts(&states));
        states = pattern.advance(&states, b"/");
    }
    let taken = match times {
        0 => 0,
        times => chooser.take(&path, times, entry.metadata()),
    };
    let enter =
        (times > 0 || !states.is_empty()) && entry.file_type().is_ok_and(|kind| kind.is_dir());
    let inner = enter.then(|| Waiting {
        folder: Unread::inside(&folder.path, name),
        states,
        times,
    });
    (taken, inner)
}
