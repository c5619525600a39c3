//! Many jobs in one process: what each does on the host around its VM, all at the same time in one state folder.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::runtime::Runtime;
use tokio::sync::{Barrier, Notify};
use tokio::task::{JoinSet, spawn_blocking};
use vk_hub_proto::job::Sources;
use vk_oci::{Digest, ImageSettings, ImageStore, PullEvent, PullPolicy, PullRequest};
use vk_sources::{Checkout, CheckoutRequest, SourceCache, checkout};
use vk_state::{RunDir, StateDir};
use vk_tests::fault_proxy::{Action, FaultProxy};
use vk_tests::git_http::{GitServer, Repos, commit_all, git, write};
use vk_tests::image_maker::{Compression, Image, Tar, compressed};
use vk_tests::noise::noise;
use vk_tests::processes::{in_groups, left_of};
use vk_tests::registry::Registry;
use vk_trace::{OutputSender, output_channel};
use vk_transfer::{ProgressReporting, ProjectCaches, Spool};

use crate::sources::kit::{Flags, TOKEN, files, groups_in, processes_in, request, sources};

/// Jobs at the same time.
const JOBS: usize = 20;

/// Key of the cache that all jobs store.
const SHARED: &str = "all";

/// Where a job is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Pulling,
    Fetching,
    CheckingOut,
    Storing,
}

/// The jobs that are dropped, and where; both branches have some.
const CUTS: [(usize, Cut); 5] = [
    (2, Cut::Pulling),
    (5, Cut::Fetching),
    (8, Cut::Fetching),
    (11, Cut::CheckingOut),
    (17, Cut::Storing),
];

/// A branch of the project, and what its commit holds.
struct Branch {
    sources: Sources,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

/// A host with servers around it.
struct Place {
    state: PathBuf,
    proxy: FaultProxy,
    git: GitServer,
    branches: [Branch; 2],
    /// All jobs begin together.
    start: Barrier,
    /// Process groups of git that ran for a job when it was dropped.
    dropped: Mutex<BTreeSet<u32>>,
}

/// What a job found.
#[derive(Debug)]
struct Found {
    number: usize,
    rootfs: PathBuf,
    head: String,
    files: BTreeMap<PathBuf, Vec<u8>>,
    own: Vec<u8>,
    shared: Vec<u8>,
}

/// A repository with two branches, `other` one commit ahead of `main`.
fn project() -> (GitServer, [Branch; 2]) {
    let origin = tempfile::tempdir().unwrap();
    let mut content = BTreeMap::new();
    let repos = Repos::new();
    let mut commit = |name: &str, bytes: Vec<u8>| {
        write(&origin.path().join(name), &bytes);
        content.insert(PathBuf::from(name), bytes);
        (commit_all(origin.path(), name), content.clone())
    };
    let first = commit("large", noise(1 << 19));
    git(origin.path(), &["branch", "other"], &[]);
    git(origin.path(), &["checkout", "--quiet", "other"], &[]);
    let second = commit("folder/small", b"of the other branch".to_vec());
    repos.mirror(origin.path(), "p");
    let server = repos.serve(TOKEN);
    let branches = [("main", first), ("other", second)].map(|(name, (sha, files))| Branch {
        sources: Sources {
            git_ref: name.to_owned(),
            sha,
            refspecs: vec![format!("+refs/heads/{name}:refs/remotes/origin/{name}")],
            ..sources(&server.repo_url("p"))
        },
        files,
    });
    (server, branches)
}

/// The layer of an image with one file.
fn layer(name: &str) -> Vec<u8> {
    let content = noise(1 << 19);
    Tar::new().file(name, 0o644, &content).finish()
}

/// The digest of that layer's blob.
fn blob(name: &str) -> String {
    Digest::of(&compressed(&layer(name), Compression::Gzip)).to_string()
}

/// What job `number` stores under a key.
fn archive(number: usize, key: &str) -> Vec<u8> {
    format!("{key} of job {number}\n").repeat(5000).into_bytes()
}

impl Place {
    /// How often the layer of an image was asked for.
    fn downloads(&self, name: &str) -> usize {
        let digest = blob(name);
        let requests = self.proxy.requests();
        let downloads = requests
            .iter()
            .filter(|request| request.method == "GET" && request.target.ends_with(&digest));
        downloads.count()
    }

    async fn run_folder(&self) -> RunDir {
        let state = self.state.clone();
        let made = spawn_blocking(move || StateDir::open(&state)?.create_run()).await;
        made.unwrap().unwrap()
    }

    /// As each job does: a store opened anew, of the same folder.
    async fn images(&self) -> ImageStore {
        let state = self.state.clone();
        let settings = ImageSettings {
            docker_config: None,
            ..ImageSettings::default()
        };
        let opened = spawn_blocking(move || ImageStore::open(&state, settings)).await;
        opened.unwrap().unwrap()
    }

    fn wanted(&self, image: &str) -> PullRequest {
        let name = self.proxy.image(&format!("team/{image}:1"));
        PullRequest::new(&name, PullPolicy::IfNotPresent)
    }

    async fn check_out(
        &self,
        branch: &Branch,
        run: &Path,
        mut line: impl FnMut(&str) + Send,
    ) -> Checkout {
        let cache = SourceCache::new(self.state.join("sources"), 1 << 30);
        let flags = Flags::default();
        let request = CheckoutRequest {
            cache: Some(&cache),
            work_dir: run,
            ..request(&branch.sources, &flags)
        };
        let mut said = String::new();
        let mut tell = |printed: vk_sources::SourceLine| {
            let text = String::from_utf8_lossy(&printed.text).into_owned();
            line(&text);
            said += &text;
        };
        let done = checkout(&request, &mut tell, std::future::pending()).await;
        done.unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    fn caches(&self) -> ProjectCaches {
        let repository = "ci-cache/gitlab.example.com/7".to_owned();
        ProjectCaches::folder(self.state.join("cache"), 1 << 30, repository, false)
    }

    /// A job from its run folder to its end, `reached` told how far it is.
    async fn job(&self, number: usize, run: &RunDir, reached: impl Fn(Cut) + Send + Sync) -> Found {
        let images = self.images().await;
        let tell = |event: PullEvent<'_>| {
            if let PullEvent::Pulling { .. } = event {
                reached(Cut::Pulling);
            }
        };
        let image = images.ensure(&self.wanted("same"), &tell).await.unwrap();

        let branch = &self.branches[number % 2];
        let line = |line: &str| {
            if line.contains("Created fresh repository") {
                reached(Cut::Fetching);
            }
            if line.contains("Checking out") {
                reached(Cut::CheckingOut);
            }
        };
        let tree = self.check_out(branch, run.path(), line).await;
        let project = tree.project_dir();
        let head = fs::read_to_string(project.join(".git/HEAD")).unwrap();
        let files = files(project)
            .into_iter()
            .map(|(path, bytes)| (path.strip_prefix(project).unwrap().to_owned(), bytes))
            .filter(|(path, _)| !path.starts_with(".git"))
            .collect();
        tree.remove().await.unwrap();

        let caches = self.caches();
        let own = format!("own-{number}");
        reached(Cut::Storing);
        for key in [own.as_str(), SHARED] {
            store(&caches, key, &archive(number, key), run.path()).await;
        }
        let own = fetch(&caches, &own, run.path()).await;
        let shared = fetch(&caches, SHARED, run.path()).await;

        // An image that is held stays, however full the store is.
        let collected = spawn_blocking(move || images.collect(Some(0))).await;
        collected.unwrap().unwrap();
        let rootfs = image.rootfs();
        assert!(rootfs.is_file(), "job {number}");
        Found {
            number,
            rootfs,
            head: head.trim().to_owned(),
            files,
            own,
            shared,
        }
    }

    /// A job that is dropped where [`CUTS`] says; `None` for it.
    async fn job_or_cut(&self, number: usize) -> Option<Found> {
        self.start.wait().await;
        let run = self.run_folder().await;
        let cut = CUTS.into_iter().find(|(job, _)| *job == number);
        let there = Notify::new();
        let reached = |point| {
            if cut.is_some_and(|(_, at)| at == point) {
                there.notify_one();
            }
        };
        let dropped = async {
            there.notified().await;
            // The job is still there: what runs for it must end with it.
            let groups = groups_in(run.path());
            self.dropped.lock().unwrap().extend(groups);
        };
        let found = tokio::select! {
            biased;
            () = dropped => None,
            found = self.job(number, &run, reached) => Some(found),
        };
        assert_eq!(found.is_none(), cut.is_some(), "job {number}: {cut:?}");
        spawn_blocking(move || drop(run)).await.unwrap();
        found
    }

    /// A pull of an image whose layer never comes, dropped when that has been asked for.
    async fn cut_pull(&self) {
        let images = self.images().await;
        let request = self.wanted("stuck");
        let asked = async {
            while self.downloads("stuck") == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            end = images.ensure(&request, &|_| ()) => panic!("{end:?}"),
            () = asked => {}
        }
    }
}

async fn store(caches: &ProjectCaches, key: &str, content: &[u8], folder: &Path) {
    let (output, _) = output_channel();
    let mut spool = Spool::create(folder).unwrap();
    spool.write(content).await.unwrap();
    let spooled = spool.finish().await.unwrap();
    caches.store(key, spooled, silent(&output)).await.unwrap();
}

async fn fetch(caches: &ProjectCaches, key: &str, folder: &Path) -> Vec<u8> {
    let (output, _) = output_channel();
    let found = caches.fetch(key, folder, silent(&output)).await;
    let mut content = Vec::new();
    let mut found = found.unwrap().unwrap();
    found.read_to_end(&mut content).await.unwrap();
    content
}

fn silent(output: &OutputSender) -> ProgressReporting<'_> {
    ProgressReporting {
        output,
        every: None,
    }
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The files below a folder, besides its lock, whose names are none that stay.
fn unfinished(folder: &Path, stays: impl Fn(&str) -> bool) -> Vec<String> {
    let all = files(folder)
        .into_iter()
        .map(|(path, _)| path.strip_prefix(folder).unwrap().display().to_string());
    all.filter(|name| name != "lock" && !stays(name)).collect()
}

fn is_hex(name: &str, length: usize) -> bool {
    name.len() == length && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The state folder when nobody uses it: nothing that was only for a while.
fn assert_tidy(state: &Path) {
    let expected = ["cache", "images", "lock", "runs", "sources", "trash"];
    assert_eq!(names(state), expected);
    for folder in ["runs", "trash", "images/tmp"] {
        assert_eq!(names(&state.join(folder)), [""; 0], "{folder}");
    }
    // The image of the jobs and the other one.
    let entries = names(&state.join("images/entries"));
    assert_eq!(entries.len(), 2, "{entries:?}");
    // One project's objects.
    let sources = state.join("sources");
    let projects = names(&sources);
    assert_eq!(projects.len(), 2, "{projects:?}");
    let is_kept = |name: &str| {
        let (project, name) = name.split_once('/').unwrap_or_default();
        let pack = name.strip_prefix("objects/pack/pack-");
        let pack = pack.and_then(|name| name.split_once('.'));
        let is_pack =
            pack.is_some_and(|(id, kind)| is_hex(id, 40) && ["pack", "idx"].contains(&kind));
        is_hex(project, 64) && (is_pack || ["lock", "shallow", "tips", "update"].contains(&name))
    };
    assert_eq!(unfinished(&sources, is_kept), [""; 0]);
    let is_cache = |name: &str| match name.strip_prefix("blobs/sha256/") {
        Some(blob) => is_hex(blob, 64),
        None => ["index.json", "oci-layout"].contains(&name),
    };
    assert_eq!(unfinished(&state.join("cache"), is_cache), [""; 0]);
}

fn place(state: &Path, registry: &Registry) -> Place {
    for name in ["same", "other", "stuck"] {
        let image = Image::new().layer(layer(name), Compression::Gzip);
        image.push(registry, &format!("team/{name}:1"));
    }
    let (same, stuck) = (blob("same"), blob("stuck"));
    let proxy = FaultProxy::start(registry.host(), move |request| {
        if request.target.ends_with(&stuck) {
            Action::Silence
        } else if request.target.ends_with(&same) {
            // Long enough for all to want it meanwhile.
            Action::Slow(64 << 10, Duration::from_millis(50))
        } else {
            Action::Forward
        }
    });
    let (git, branches) = project();
    Place {
        state: state.to_owned(),
        proxy,
        git,
        branches,
        start: Barrier::new(JOBS),
        dropped: Mutex::default(),
    }
}

#[test]
fn twenty_jobs_share_images_sources_and_caches() {
    let root = tempfile::tempdir().unwrap();
    let state = root.path().canonicalize().unwrap().join("state");
    let registry = Registry::start();
    let place = Arc::new(place(&state, &registry));
    let runtime = Runtime::new().unwrap();

    let (found, other) = runtime.block_on(async {
        let other = tokio::spawn({
            let place = Arc::clone(&place);
            async move {
                let images = place.images().await;
                let pulled = images.ensure(&place.wanted("other"), &|_| ()).await;
                pulled.unwrap()
            }
        });
        let stuck = tokio::spawn({
            let place = Arc::clone(&place);
            async move { place.cut_pull().await }
        });
        let mut jobs = JoinSet::new();
        for number in 0..JOBS {
            let place = Arc::clone(&place);
            jobs.spawn(async move { place.job_or_cut(number).await });
        }
        let found = jobs.join_all().await;
        stuck.await.unwrap();
        let found: Vec<Found> = found.into_iter().flatten().collect();
        (found, other.await.unwrap())
    });
    // Waits for what dropped jobs still had at work on the disk.
    drop(runtime);

    assert_eq!(found.len(), JOBS - CUTS.len());
    assert_eq!(place.downloads("same"), 1);
    let rootfs: BTreeSet<&PathBuf> = found.iter().map(|found| &found.rootfs).collect();
    assert_eq!(rootfs.len(), 1, "{rootfs:?}");
    assert!(!rootfs.contains(&other.rootfs()));
    for found in &found {
        let number = found.number;
        let branch = &place.branches[number % 2];
        assert_eq!(found.head, branch.sources.sha, "job {number}");
        assert!(
            found.files == branch.files,
            "job {number}: {:?}",
            found.files.keys()
        );
        assert!(
            found.own == archive(number, &format!("own-{number}")),
            "job {number}"
        );
        let is_whole = (0..JOBS).any(|job| found.shared == archive(job, SHARED));
        assert!(is_whole, "job {number} has a mix");
    }
    let dropped = place.dropped.lock().unwrap().clone();
    assert!(!dropped.is_empty(), "git ran for a dropped job");
    let left = left_of(&in_groups(&dropped), Duration::from_secs(5));
    assert!(left.is_empty(), "{left:?}");
    let left = processes_in(&state);
    assert!(left.is_empty(), "{left:?}");
    assert_tidy(&state);

    // What was kept serves the next job, of either branch.
    let runtime = Runtime::new().unwrap();
    for branch in &place.branches {
        let before = place.git.sent();
        runtime.block_on(async {
            let run = place.run_folder().await;
            drop(place.check_out(branch, run.path(), |_| ()).await);
        });
        let sent = place.git.sent() - before;
        assert!(sent < 50_000, "{sent}");
    }
    drop(runtime);
    assert_tidy(&state);
}

#[test]
fn run_folders_of_one_process_are_their_owners_alone_to_remove() {
    let root = tempfile::tempdir().unwrap();
    let start = std::sync::Barrier::new(JOBS);

    std::thread::scope(|scope| {
        for number in 0..JOBS {
            let (root, start) = (root.path(), &start);
            scope.spawn(move || {
                start.wait();
                let mut held: Vec<RunDir> = Vec::new();
                for round in 0..30 {
                    let run = StateDir::open(root).unwrap().create_run().unwrap();
                    let mark = format!("{number}, {round}");
                    fs::write(run.path().join("mark"), mark).unwrap();
                    held.push(run);
                    // Others open, sweep and drop meanwhile: each keeps some for different times.
                    if held.len() > number % 4 {
                        held.swap_remove(round % held.len());
                    }
                    for run in &held {
                        let mark = fs::read_to_string(run.path().join("mark")).unwrap();
                        assert!(mark.starts_with(&format!("{number}, ")), "{mark}");
                    }
                }
            });
        }
    });

    assert_eq!(names(&root.path().join("runs")), [""; 0]);
    assert_eq!(names(&root.path().join("trash")), [""; 0]);
}
