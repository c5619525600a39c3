//! Objects of a project, kept on this host between jobs (`GIT_STRATEGY: fetch`).
//!
//! A checkout still talks to the job's server with the job's token and asks for what the job asks for; the kept
//! objects only spare it what it has had before. So a job gets the refs that its own token gets, and of the
//! objects those that they reach. Kept are packs, which git checks against the hashes they are named by, the
//! commits they begin at (tips) and end at (shallow): no refs, no settings, nothing that a job wrote, no secret.
//!
//! Below the folder there is one entry for each project of each server. Whoever uses one holds its lock shared, in
//! any process; it is added to by one at a time, in an order that is right wherever it stops (boundaries, packs,
//! tips), and changed otherwise or removed only under the exclusive lock.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::plan::Plan;
use super::request::{CheckoutRequest, Strategy};

/// Most commits that an entry remembers to begin at, the latest first.
const MAX_TIPS: usize = 256;

/// With more packs than this, an entry is made anew from one checkout's.
const MAX_PACKS: usize = 20;

/// Begins the names of the refs that stand for tips while a checkout fetches.
const LENT_REFS: &str = "refs/vk/";

/// Folder of LFS objects, with a folder for each project.
const LFS: &str = "lfs";

/// Flags of `git fetch` that change neither which objects come nor how deep history is.
const PLAIN_FLAGS: [&str; 15] = [
    "--atomic",
    "--force",
    "--no-progress",
    "--no-tags",
    "--progress",
    "--prune",
    "--quiet",
    "--tags",
    "--verbose",
    "-f",
    "-n",
    "-p",
    "-q",
    "-t",
    "-v",
];

/// A folder of kept objects.
#[derive(Clone, Debug)]
pub struct SourceCache {
    root: PathBuf,
    max_bytes: u64,
}

impl SourceCache {
    /// Default bound of all entries together, in bytes.
    pub const MAX_BYTES: u64 = 20 << 30;

    /// The folder `root`, made when it is needed. When its packs have more than `max_bytes`, entries that nobody
    /// uses are removed, those first that were used the longest ago.
    #[must_use]
    pub fn new(root: PathBuf, max_bytes: u64) -> Self {
        Self { root, max_bytes }
    }

    pub(super) fn path(&self) -> &Path {
        &self.root
    }

    /// The entry for a checkout; `None` when it has nothing to gain from one, or must not wait for it.
    pub(super) fn open(&self, request: &CheckoutRequest<'_>, plan: &Plan) -> Option<Entry> {
        let origin = plan.origin.as_ref()?;
        let flags = request.fetch_flags.iter().map(String::as_str);
        let refspecs = plan.refspecs.iter().map(String::as_str);
        // What only FETCH_HEAD names would get lost, and a target of all refs would meet the lent ones.
        let is_usual = |word: &str| {
            PLAIN_FLAGS.contains(&word)
                || (!word.starts_with('-') && word.contains(':') && !word.contains(":refs/*"))
        };
        let is_fit = request.strategy == Strategy::Fetch
            && request.local_repo.is_none()
            && !plan.refspecs.is_empty()
            && flags.chain(refspecs).all(is_usual);
        if !is_fit {
            return None;
        }
        // Histories that end and that do not are kept apart: one would cut the other short.
        let depth = if plan.depth > 0 { "shallow" } else { "full" };
        let format = plan.object_format.name();
        let key = hex(&Sha256::digest(format!(
            "{}\n{format}\n{depth}",
            origin.url
        )));
        self.hold(&key)
            .inspect_err(|error| {
                tracing::warn!(%error, "cannot use the kept sources in {}", self.root.display());
            })
            .ok()?
    }

    /// The folder for a project's LFS objects, each in a file named by its hash; `None` when the job wants nothing
    /// of what is kept. Objects come and go one by one, and need no lock.
    pub(super) fn lfs_folder(&self, request: &CheckoutRequest<'_>, plan: &Plan) -> Option<PathBuf> {
        let origin = plan.origin.as_ref()?;
        if request.strategy != Strategy::Fetch {
            return None;
        }
        let key = hex(&Sha256::digest(origin.url.as_str()));
        Some(self.root.join(LFS).join(key))
    }

    /// Takes the entry's lock, shared. `None` when somebody changes it at the moment.
    fn hold(&self, key: &str) -> io::Result<Option<Entry>> {
        let _guard = self.guard()?;
        let path = self.root.join(key);
        if path.join("bad").exists() {
            self.remove_if_free(&path)?;
        }
        if path.join("bad").exists() {
            return Ok(None);
        }
        make_folder(&path.join("objects/pack"))?;
        let lock = open_lock(&path.join("lock"))?;
        if lock.try_lock_shared().is_err() {
            return Ok(None);
        }
        lock.set_modified(SystemTime::now())?;
        // In this order: what the tips reach ends at boundaries that were there before them.
        let tips = read_hashes(&path.join("tips"))?;
        let shallow = read_hashes(&path.join("shallow"))?;
        Ok(Some(Entry {
            cache: self.clone(),
            path,
            lock,
            tips,
            shallow,
        }))
    }

    /// Held while entries appear and go. Nothing that takes long is done under it.
    fn guard(&self) -> io::Result<File> {
        make_folder(&self.root)?;
        let lock = open_lock(&self.root.join("lock"))?;
        lock.lock()?;
        Ok(lock)
    }

    /// Moves an entry away, unless somebody uses it; [`SourceCache::sweep`] removes it. Under the guard.
    fn remove_if_free(&self, entry: &Path) -> io::Result<bool> {
        static COUNT: AtomicU32 = AtomicU32::new(0);

        let lock = match open_lock(&entry.join("lock")) {
            // Gone already.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            lock => lock?,
        };
        if lock.try_lock().is_err() {
            return Ok(false);
        }
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let gone = format!("gone-{}-{count}", std::process::id());
        fs::rename(entry, self.root.join(gone)).map(|()| true)
    }

    /// Removes what was moved away, and entries and LFS objects until the rest fits.
    pub(super) fn sweep(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("gone-") {
                remove(&path);
            } else if name == LFS {
                entries.extend(lfs_objects(&path));
            } else if path.is_dir() {
                let used = fs::metadata(path.join("lock")).and_then(|lock| lock.modified());
                entries.push((used.unwrap_or(SystemTime::UNIX_EPOCH), size(&path), path));
            }
        }
        let mut total: u64 = entries.iter().map(|(_, size, _)| size).sum();
        entries.sort();
        for (_, size, path) in entries {
            if total <= self.max_bytes {
                break;
            }
            if path.is_file() {
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => total = total.saturating_sub(size),
                }
                continue;
            }
            let guard = self.guard()?;
            if self.remove_if_free(&path)? {
                total = total.saturating_sub(size);
            }
            drop(guard);
        }
        for entry in fs::read_dir(&self.root)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("gone-") {
                remove(&path);
            }
        }
        Ok(())
    }
}

/// One project's objects, in use.
pub(super) struct Entry {
    cache: SourceCache,
    path: PathBuf,
    lock: File,
    tips: Vec<String>,
    shallow: Vec<String>,
}

impl Entry {
    /// Whether there is anything in it.
    pub(super) fn has_objects(&self) -> bool {
        !self.tips.is_empty()
    }

    /// Gives the objects to a new repository, which then fetches as if it had had them from its own last fetch.
    pub(super) fn lend(&self, git_dir: &Path) -> io::Result<()> {
        let objects = self.path.join("objects");
        let mut alternates = objects.into_os_string().into_encoded_bytes();
        alternates.push(b'\n');
        fs::create_dir_all(git_dir.join("objects/info"))?;
        fs::write(git_dir.join("objects/info/alternates"), alternates)?;
        let refs = self.tips.iter().enumerate();
        let refs = refs.map(|(number, tip)| format!("{tip} {LENT_REFS}{number:04}"));
        fs::write(git_dir.join("packed-refs"), lines(refs))?;
        write_shallow(git_dir, &self.shallow)
    }

    /// Keeps what a repository fetched; `tips` are the commits and tags of its refs. It still borrows our
    /// objects. When another checkout is at it, nothing is kept.
    pub(super) fn keep(&self, git_dir: &Path, tips: Vec<String>) -> io::Result<()> {
        let update = open_lock(&self.path.join("update"))?;
        if update.try_lock().is_err() {
            return Ok(());
        }
        let known = read_hashes(&self.path.join("tips"))?;
        if known.iter().take(tips.len()).eq(&tips) {
            return Ok(());
        }
        let mut shallow = read_hashes(&self.path.join("shallow"))?;
        shallow.extend(read_hashes(&git_dir.join("shallow"))?);
        replace(&self.path.join("shallow"), lines(distinct(shallow)))?;
        self.add_packs(git_dir)?;
        let tips = distinct(tips.into_iter().chain(known)).take(MAX_TIPS);
        replace(&self.path.join("tips"), lines(tips))
    }

    /// Links a repository's packs: their files never change, and a guest gets copies.
    fn add_packs(&self, git_dir: &Path) -> io::Result<()> {
        let to = self.path.join("objects/pack");
        // git takes a pack for one when it has an index.
        for extension in ["pack", "idx"] {
            for file in fs::read_dir(git_dir.join("objects/pack"))? {
                let file = file?.path();
                if file.extension().is_some_and(|is| is == extension) {
                    link(&file, &to.join(file.file_name().unwrap_or_default()))?;
                }
            }
        }
        Ok(())
    }

    /// Leaves the entry. When its packs have become many, it is made anew from `git_dir`, a repository that does
    /// not borrow. Keeps the cache within its bound.
    pub(super) fn leave(self, git_dir: &Path, tips: Vec<String>) -> io::Result<()> {
        let packs = self.path.join("objects/pack");
        if fs::read_dir(&packs)?.count() > 2 * MAX_PACKS {
            let guard = self.cache.guard()?;
            self.lock.unlock()?;
            // Whoever has the name's lock has the entry: names change under the guard only.
            let lock = open_lock(&self.path.join("lock"))?;
            if lock.try_lock().is_ok() {
                fs::write(self.path.join("bad"), "")?;
                drop(guard);
                for file in ["tips", "shallow"] {
                    fs::write(self.path.join(file), "")?;
                }
                fs::remove_dir_all(&packs)?;
                make_folder(&packs)?;
                self.keep(git_dir, tips)?;
                fs::remove_file(self.path.join("bad"))?;
            }
        }
        let Self { cache, lock, .. } = self;
        drop(lock);
        cache.sweep()
    }

    /// Throws the entry away: what is in it does not serve. While others use it, it is only marked.
    pub(super) fn discard(self) -> io::Result<()> {
        let guard = self.cache.guard()?;
        fs::write(self.path.join("bad"), "")?;
        self.lock.unlock()?;
        self.cache.remove_if_free(&self.path)?;
        drop(guard);
        self.cache.sweep()
    }
}

/// Takes the lent refs back; what the fetch itself brought stays.
pub(super) fn take_back_refs(git_dir: &Path) -> io::Result<()> {
    let path = git_dir.join("packed-refs");
    let refs = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        refs => refs?,
    };
    let lent = format!(" {LENT_REFS}");
    let own: Vec<&str> = refs.lines().filter(|line| !line.contains(&lent)).collect();
    if own.iter().all(|line| line.starts_with('#')) {
        return fs::remove_file(path);
    }
    fs::write(path, lines(own))
}

/// Makes a repository that has all its objects stop borrowing; `commits` are all it has.
pub(super) fn stop_borrowing(git_dir: &Path, commits: &HashSet<String>) -> io::Result<()> {
    fs::remove_file(git_dir.join("objects/info/alternates"))?;
    let mut shallow = read_hashes(&git_dir.join("shallow"))?;
    shallow.retain(|commit| commits.contains(commit));
    write_shallow(git_dir, &shallow)
}

fn write_shallow(git_dir: &Path, shallow: &[String]) -> io::Result<()> {
    let path = git_dir.join("shallow");
    if !shallow.is_empty() {
        return fs::write(path, lines(shallow));
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The object hashes in a file, one a line; none when it is missing.
fn read_hashes(path: &Path) -> io::Result<Vec<String>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let is_hash = |line: &&str| {
        matches!(line.len(), 40 | 64) && line.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    Ok(text.lines().filter(is_hash).map(str::to_owned).collect())
}

fn lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    lines
        .into_iter()
        .flat_map(|line| [line.as_ref().to_owned(), "\n".to_owned()])
        .collect()
}

fn distinct(hashes: impl IntoIterator<Item = String>) -> impl Iterator<Item = String> {
    let mut seen = HashSet::new();
    hashes
        .into_iter()
        .filter(move |hash| seen.insert(hash.clone()))
}

/// A reader, or a killed writer, finds the old content or the new.
fn replace(path: &Path, content: String) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, content)?;
    fs::rename(new, path)
}

/// Gives a file another name, or copies it where that cannot be: to another file system, or of another user.
pub(super) fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::CrossesDevices | io::ErrorKind::PermissionDenied
            ) =>
        {
            let new = to.with_extension("new");
            fs::copy(from, &new)?;
            fs::rename(new, to)
        }
        linked => linked,
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn size(entry: &Path) -> u64 {
    fs::read_dir(entry.join("objects/pack")).map_or(0, |files| {
        files
            .filter_map(|file| Some(file.ok()?.metadata().ok()?.len()))
            .sum()
    })
}

/// Every LFS object with its last use and its size.
fn lfs_objects(folder: &Path) -> Vec<(SystemTime, u64, PathBuf)> {
    let projects = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = projects.flat_map(|project| fs::read_dir(project.path()).into_iter().flatten());
    files
        .filter_map(|file| {
            let file = file.ok()?;
            let found = file.metadata().ok()?;
            let used = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            Some((used, found.len(), file.path()))
        })
        .collect()
}

/// Several processes may be at it: what another one removed is removed.
fn remove(path: &Path) {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, "cannot remove {}", path.display());
        }
        _ => {}
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
