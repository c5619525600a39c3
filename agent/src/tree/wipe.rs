//! Emptying a folder, however deep a job made it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::dir::{Dir, OwningIter};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

/// Folders that are open at once, each with two descriptors and a listing of 32 KiB.
const WINDOW: usize = 64;

/// Removes all that is in `folder`, following no symbolic link.
///
/// Where it is nested deeper than [`WINDOW`], the folders above are left for a later walk: neither stack,
/// memory nor descriptors grow with the depth.
///
/// # Errors
///
/// What the kernel says to a folder or a removal.
pub(super) fn wipe(folder: &Path) -> io::Result<()> {
    let top = open(folder, flags() & !OFlag::O_NOFOLLOW, Mode::empty())?;
    while !walk(&top)? {}
    Ok(())
}

fn flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

/// A folder on the way down.
struct Level {
    /// In the level above.
    name: CString,
    folder: OwnedFd,
    entries: OwningIter,
}

impl Level {
    fn new(name: CString, folder: OwnedFd) -> Result<Self, Errno> {
        let entries = Dir::openat(&folder, ".", flags(), Mode::empty())?.into_iter();
        Ok(Self {
            name,
            folder,
            entries,
        })
    }

    /// Removes files and empty folders up to the next folder that is not empty; its name.
    fn next_folder(&mut self) -> Result<Option<CString>, Errno> {
        for entry in &mut self.entries {
            let entry = entry?;
            let name = entry.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            match unlinkat(&self.folder, name, UnlinkatFlags::NoRemoveDir) {
                Ok(()) | Err(Errno::ENOENT) => continue,
                Err(Errno::EISDIR) => {}
                Err(errno) => return Err(errno),
            }
            match unlinkat(&self.folder, name, UnlinkatFlags::RemoveDir) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(Errno::ENOTEMPTY | Errno::EEXIST) => return Ok(Some(name.to_owned())),
                Err(errno) => return Err(errno),
            }
        }
        Ok(None)
    }
}

/// One walk through `top`; false if it left folders above a deep one.
fn walk(top: &OwnedFd) -> io::Result<bool> {
    let mut whole = true;
    let mut levels = vec![Level::new(CString::default(), top.try_clone()?)?];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.next_folder()? {
            let folder = openat(
                level.folder.as_fd(),
                name.as_c_str(),
                flags(),
                Mode::empty(),
            )?;
            if levels.len() == WINDOW {
                levels.clear();
                whole = false;
            }
            levels.push(Level::new(name, folder)?);
        } else if let Some(emptied) = levels.pop()
            && let Some(above) = levels.last()
        {
            let name = emptied.name.as_c_str();
            unlinkat(&above.folder, name, UnlinkatFlags::RemoveDir)?;
        }
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A chain of `depth` folders with a file in each. Its path is longer than the kernel takes.
    fn make_chain(top: &Path, depth: usize) {
        let mut at = open(top, flags(), Mode::empty()).unwrap();
        for _ in 0..depth {
            nix::sys::stat::mkdirat(&at, "d", Mode::S_IRWXU).unwrap();
            openat(&at, "f", OFlag::O_CREAT | OFlag::O_WRONLY, Mode::S_IRWXU).unwrap();
            at = openat(&at, "d", flags(), Mode::empty()).unwrap();
        }
    }

    fn on_a_threads_stack(work: impl FnOnce() + Send + 'static) {
        let thread = std::thread::Builder::new().stack_size(crate::STACK);
        thread.spawn(work).unwrap().join().unwrap();
    }

    #[test]
    fn a_folder_deeper_than_stack_and_window_is_emptied() {
        let folder = tempfile::tempdir().unwrap();
        make_chain(folder.path(), 5_000);

        let path = folder.path().to_owned();
        on_a_threads_stack(move || wipe(&path).unwrap());

        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn folders_around_the_windows_edge_are_emptied_with_their_neighbours() {
        for depth in [WINDOW - 2, WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW] {
            let folder = tempfile::tempdir().unwrap();
            for branch in ["a", "b", "c"] {
                fs::create_dir(folder.path().join(branch)).unwrap();
                make_chain(&folder.path().join(branch), depth);
            }

            wipe(folder.path()).unwrap();

            let left = fs::read_dir(folder.path()).unwrap().count();
            assert_eq!(left, 0, "{depth}");
        }
    }

    #[test]
    fn what_links_lead_to_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, wiped) = (folder.path().join("kept"), folder.path().join("wiped"));
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("file"), "").unwrap();
        fs::create_dir_all(wiped.join("inner")).unwrap();
        symlink("../../kept", wiped.join("inner/link")).unwrap();

        wipe(&wiped).unwrap();

        assert!(kept.join("file").exists());
        assert_eq!(fs::read_dir(&wiped).unwrap().count(), 0);
    }
}
