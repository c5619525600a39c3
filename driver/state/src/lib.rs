//! The state folder: what vk keeps between runs, and the folders of runs under way.
//!
//! A run's folder is locked (flock(2)) for as long as its process lives, however that ends. Whoever opens the state
//! folder next removes the folders whose lock is free.
//!
//! All of it works on the disk and may wait for it: async callers open, make runs and drop them in
//! `tokio::task::spawn_blocking`.

use std::fmt;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Longest path of a Unix socket in bytes, without the final zero (`sun_path` of unix(7)).
const MAX_SOCKET_PATH: usize = 107;

/// What is kept for the name of a socket in a run's folder, slash included.
const MAX_SOCKET_NAME: usize = 50;

/// Something could not be done with the state folder.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot {operation} {}; VK_STATE_DIR or --state-dir chooses another state folder",
    path.display()
)]
pub struct StateError {
    operation: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

fn failed<'a>(
    operation: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> StateError + 'a {
    move |source| StateError {
        operation,
        path: path.to_owned(),
        source,
    }
}

/// An open state folder.
#[derive(Debug, Clone)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// Opens, and if need be makes, the state folder at `root`, for its owner alone (mode 0700), and removes what
    /// killed runs left there.
    ///
    /// # Errors
    ///
    /// The folder cannot be made or is not writable.
    pub fn open(root: &Path) -> Result<Self, StateError> {
        make_folder(root).map_err(failed("make the state folder", root))?;
        let root = fs::canonicalize(root).map_err(failed("open the state folder", root))?;
        let state = Self { root };
        for folder in [state.runs(), state.trash()] {
            make_folder(&folder).map_err(failed("make the folder", &folder))?;
        }
        state.sweep()?;
        Ok(state)
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Makes a folder for one run, for its owner alone.
    ///
    /// # Errors
    ///
    /// The state folder is not writable.
    pub fn create_run(&self) -> Result<RunDir, StateError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);

        // A folder that exists but is not locked yet is safe from another process's sweep.
        let _guard = self.lock()?;
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = self
                .runs()
                .join(format!("{:x}-{number:x}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return RunDir::hold(path),
                // Left by an earlier process of the same number, not yet swept.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed("make the run folder", &path)(error)),
            }
        }
    }

    fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// Where dead runs' folders go: moving is quick, so that the lock is held for a moment only.
    fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    /// Held while run folders are made or judged.
    fn lock(&self) -> Result<File, StateError> {
        let path = self.root.join("lock");
        let lock = || {
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .open(&path)?;
            file.lock()?;
            Ok(file)
        };
        lock().map_err(failed("lock", &path))
    }

    fn sweep(&self) -> Result<(), StateError> {
        let guard = self.lock()?;
        let runs = self.runs();
        for run in fs::read_dir(&runs).map_err(failed("read the folder", &runs))? {
            if let Err(error) = run.and_then(|run| self.discard_if_dead(&run)) {
                tracing::warn!(%error, "cannot look after a run folder in {}", runs.display());
            }
        }
        drop(guard);
        let trash = self.trash();
        for dead in fs::read_dir(&trash).map_err(failed("read the folder", &trash))? {
            // Several processes may be at it: what another one removed is removed.
            match dead.and_then(|dead| fs::remove_dir_all(dead.path())) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, "cannot empty {}", trash.display());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn discard_if_dead(&self, run: &fs::DirEntry) -> io::Result<()> {
        let folder = match File::open(run.path()) {
            // Its run ended just now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            folder => folder?,
        };
        match folder.try_lock() {
            Ok(()) => fs::rename(run.path(), self.trash().join(run.file_name())),
            Err(TryLockError::WouldBlock) => Ok(()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The folder of one run. Removed with all it holds when dropped, or by the next vk if this process dies first.
pub struct RunDir {
    path: PathBuf,
    /// Open, and locked, as long as the run lives.
    folder: File,
}

impl RunDir {
    fn hold(path: PathBuf) -> Result<Self, StateError> {
        let folder = File::open(&path)
            .and_then(|folder| folder.lock().map(|()| folder))
            .map_err(failed("lock the run folder", &path))?;
        Ok(Self { path, folder })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A name of the same folder that is short enough for Unix sockets in it (their own names may have up to 49
    /// bytes), good for this process and its children while the run lives.
    pub fn socket_path(&self) -> PathBuf {
        if self.path.as_os_str().as_bytes().len() + MAX_SOCKET_NAME <= MAX_SOCKET_PATH {
            return self.path.clone();
        }
        let (process, folder) = (std::process::id(), self.folder.as_raw_fd());
        PathBuf::from(format!("/proc/{process}/fd/{folder}"))
    }
}

impl fmt::Debug for RunDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunDir").field(&self.path).finish()
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(%error, "cannot remove the run folder {}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::thread;

    use super::*;

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn folders_and_lock_are_for_their_owner_alone() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::open(&root.path().join("a/b")).unwrap();

        let run = state.create_run().unwrap();

        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for folder in [state.path(), run.path()] {
            assert_eq!(mode(folder), 0o700, "{}", folder.display());
        }
        assert_eq!(mode(&state.path().join("lock")), 0o600);
    }

    #[tokio::test]
    async fn runs_can_be_made_and_dropped_off_the_async_task() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().to_owned();

        let run = tokio::task::spawn_blocking(move || StateDir::open(&path)?.create_run());
        let run: RunDir = run.await.unwrap().unwrap();
        tokio::task::spawn_blocking(move || drop(run))
            .await
            .unwrap();

        assert_eq!(names(&root.path().join("runs")), 0);
    }

    #[test]
    fn dropped_run_is_removed_with_its_files() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::open(root.path()).unwrap();
        let run = state.create_run().unwrap();
        fs::write(run.path().join("scratch"), "data").unwrap();

        drop(run);

        assert_eq!(names(&state.runs()), 0);
    }

    #[test]
    fn opening_removes_dead_runs_and_keeps_live_ones() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::open(root.path()).unwrap();
        let live = state.create_run().unwrap();
        let dead = state.runs().join("dead");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("scratch"), "data").unwrap();

        let _state = StateDir::open(root.path()).unwrap();

        assert!(live.path().exists());
        assert!(!dead.exists());
        assert_eq!(names(&state.trash()), 0);
    }

    #[test]
    fn run_survives_sweeps_that_race_with_its_making() {
        let root = tempfile::tempdir().unwrap();
        let makers: Vec<_> = (0..4)
            .map(|_| {
                let root = root.path().to_owned();
                thread::spawn(move || {
                    for _ in 0..50 {
                        let run = StateDir::open(&root).unwrap().create_run().unwrap();
                        fs::write(run.path().join("file"), "data").unwrap();
                        assert!(run.path().join("file").exists());
                    }
                })
            })
            .collect();

        for maker in makers {
            maker.join().unwrap();
        }

        assert_eq!(names(&root.path().join("runs")), 0);
    }

    #[test]
    fn sockets_work_in_a_state_folder_with_a_long_path() {
        let root = tempfile::tempdir().unwrap();
        let long = root.path().join("long/".repeat(30));
        let state = StateDir::open(&long).unwrap();
        let run = state.create_run().unwrap();
        let socket = run.socket_path().join("x".repeat(MAX_SOCKET_NAME - 1));

        let _listener = UnixListener::bind(&socket).unwrap();

        UnixStream::connect(&socket).unwrap();
        assert_eq!(names(run.path()), 1);
    }

    #[test]
    fn short_path_is_used_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::open(root.path()).unwrap();

        let run = state.create_run().unwrap();

        assert_eq!(run.socket_path(), run.path());
    }

    #[test]
    fn unusable_folder_is_named_with_the_way_out() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();

        let error = StateDir::open(&file.join("vk")).unwrap_err().to_string();

        assert!(error.contains("file/vk"), "{error}");
        assert!(error.contains("VK_STATE_DIR"), "{error}");
    }
}
