//! Objects that are kept between jobs.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use vk_hub_proto::job::Sources;
use vk_sources::{Checkout, CheckoutRequest, SourceCache, Strategy, Submodules};
use vk_tests::git_http::{GitServer, Repos, commit_all, git, write};

use super::kit::{Bench, Flags, TOKEN, files, holding, request, serve_golden, sources, words};

const DISCARDED: &str = "The sources kept from earlier jobs cannot be updated";

/// A project whose history grows, and a folder that keeps its objects.
struct Project {
    origin: TempDir,
    server: GitServer,
    kept: TempDir,
}

impl Project {
    /// One commit with a file of 300 kB that does not compress.
    fn new() -> Self {
        let origin = tempfile::tempdir().unwrap();
        write(&origin.path().join("large"), &noise(1));
        commit_all(origin.path(), "one");
        let repos = Repos::new();
        repos.mirror(origin.path(), "p");
        Self {
            origin,
            server: repos.serve(TOKEN),
            kept: tempfile::tempdir().unwrap(),
        }
    }

    fn push(&self, name: &str, content: &[u8]) -> String {
        self.push_to("main", name, content)
    }

    fn push_to(&self, branch: &str, name: &str, content: &[u8]) -> String {
        write(&self.origin.path().join(name), content);
        let sha = commit_all(self.origin.path(), name);
        self.publish(branch);
        sha
    }

    fn publish(&self, branch: &str) {
        let refspec = format!("+HEAD:refs/heads/{branch}");
        let to = self.server.repos().path("p");
        git(
            self.origin.path(),
            &["push", "--quiet", to.to_str().unwrap(), &refspec],
            &[],
        );
    }

    fn head(&self) -> String {
        git(self.origin.path(), &["rev-parse", "HEAD"], &[])
    }

    fn cache(&self) -> SourceCache {
        SourceCache::new(self.kept.path().join("sources"), 1 << 30)
    }

    /// A job for the head; gives the lines that it printed and the bytes that the server sent, too.
    async fn job(&self, depth: u32) -> (Bench, Checkout, u64) {
        let sources = Sources {
            sha: self.head(),
            depth,
            ..sources(&self.server.repo_url("p"))
        };
        self.job_for(&sources, &Flags::default()).await
    }

    async fn job_for(&self, sources: &Sources, flags: &Flags) -> (Bench, Checkout, u64) {
        let mut bench = Bench::new();
        let before = self.server.sent();
        let cache = self.cache();
        let request = CheckoutRequest {
            cache: Some(&cache),
            ..request(sources, flags)
        };
        let checkout = bench.run(request).await.unwrap();
        (bench, checkout, self.server.sent() - before)
    }

    fn packs(&self) -> Vec<PathBuf> {
        packs(self.kept.path())
    }
}

fn packs(folder: &Path) -> Vec<PathBuf> {
    let all = files(folder).into_iter().map(|(path, _)| path);
    all.filter(|path| path.extension().is_some_and(|is| is == "pack"))
        .collect()
}

pub(crate) fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed;
    std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as u8
    })
    .take(300_000)
    .collect()
}

/// Complete, and on its own.
fn assert_sound(checkout: &Checkout) {
    let project = checkout.project_dir();
    git(project, &["fsck", "--strict", "--full"], &[]);
    assert_eq!(git(project, &["status", "--porcelain"], &[]), "");
    assert!(!project.join(".git/objects/info/alternates").exists());
    assert_eq!(holding(project, b"refs/vk/"), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_later_job_fetches_only_what_is_new() {
    for depth in [0, 20] {
        let project = Project::new();
        let (_first, first, sent) = project.job(depth).await;
        assert!(sent > 300_000, "{sent}");
        assert_sound(&first);
        project.push("small", b"new");

        let (bench, second, sent) = project.job(depth).await;

        assert!(sent < 50_000, "{sent}");
        assert_sound(&second);
        let content = fs::read(second.project_dir().join("large")).unwrap();
        assert_eq!(content, noise(1));
        let count = git(second.project_dir(), &["rev-list", "--count", "HEAD"], &[]);
        assert_eq!(count, "2");
        assert!(
            bench.shown()[2].starts_with("O Initialized empty Git repository in"),
            "{:?}",
            bench.shown()
        );
        let (_later, third, sent) = project.job(depth).await;
        assert!(sent < 50_000, "{sent}");
        assert_sound(&third);
    }
}

#[tokio::test]
async fn what_is_printed_is_the_same_with_and_without_kept_objects() {
    let project = Project::new();
    let (first, _, _) = project.job(20).await;

    let (second, _, _) = project.job(20).await;

    assert_eq!(first.shown(), second.shown());
}

#[tokio::test]
async fn history_ends_where_the_job_s_depth_says_whatever_is_kept() {
    let project = Project::new();
    for number in 0..6 {
        project.push("file", format!("{number}").as_bytes());
    }
    for depth in [5, 2, 0, 3, 6, 1] {
        let (_bench, checkout, _) = project.job(depth).await;

        assert_sound(&checkout);
        let count = git(
            checkout.project_dir(),
            &["rev-list", "--count", "HEAD"],
            &[],
        );
        let expected = if depth == 0 { 7 } else { depth };
        assert_eq!(count, expected.to_string());
        let shallow = checkout.project_dir().join(".git/shallow");
        let boundaries = fs::read_to_string(shallow).unwrap_or_default();
        assert_eq!(boundaries.lines().count(), usize::from(depth != 0));
    }
}

#[tokio::test]
async fn rewritten_history_is_followed() {
    for depth in [0, 2] {
        let project = Project::new();
        project.push("a", b"a");
        project.push("b", b"b");
        project.job(depth).await;
        git(
            project.origin.path(),
            &["reset", "--quiet", "--hard", "HEAD~2"],
            &[],
        );
        let sha = project.push("c", b"c");

        let (bench, checkout, _) = project.job(depth).await;

        assert_sound(&checkout);
        assert_eq!(
            git(checkout.project_dir(), &["rev-parse", "HEAD"], &[]),
            sha
        );
        assert!(!bench.errors().contains("fatal"), "{}", bench.errors());
        assert!(!checkout.project_dir().join("a").exists());
    }
}

#[tokio::test]
async fn a_job_gets_nothing_of_what_only_other_jobs_fetched() {
    let project = Project::new();
    git(
        project.origin.path(),
        &["checkout", "--quiet", "-b", "secret"],
        &[],
    );
    write(&project.origin.path().join("hidden"), b"hidden content");
    let hidden = commit_all(project.origin.path(), "hidden");
    project.publish("secret");
    let secret = Sources {
        sha: hidden.clone(),
        refspecs: vec!["+refs/heads/secret:refs/remotes/origin/secret".to_owned()],
        ..sources(&project.server.repo_url("p"))
    };
    project.job_for(&secret, &Flags::default()).await;
    git(project.origin.path(), &["checkout", "--quiet", "main"], &[]);

    let (_bench, checkout, _) = project.job(20).await;

    assert_sound(&checkout);
    let folder = checkout.project_dir();
    let objects = git(
        folder,
        &["cat-file", "--batch-all-objects", "--batch-check"],
        &[],
    );
    assert!(!objects.contains(&hidden), "{objects}");
    assert_eq!(
        git(folder, &["for-each-ref", "--format=%(refname)"], &[]),
        "refs/remotes/origin/main"
    );
}

#[tokio::test]
async fn the_token_is_not_kept_and_the_kept_folder_is_not_named() {
    let project = Project::new();

    let (_bench, first, _) = project.job(20).await;
    let (_other, second, _) = project.job(20).await;

    assert_eq!(
        holding(project.kept.path(), TOKEN.as_bytes()),
        Vec::<PathBuf>::new()
    );
    let kept = project.kept.path().to_str().unwrap().as_bytes();
    for checkout in [first, second] {
        assert_eq!(holding(checkout.project_dir(), kept), Vec::<PathBuf>::new());
    }
}

#[tokio::test]
async fn damaged_objects_are_thrown_away_once_with_a_line_in_the_log() {
    let project = Project::new();
    project.job(20).await;
    for pack in project.packs() {
        let mut permissions = fs::metadata(&pack).unwrap().permissions();
        #[expect(clippy::permissions_set_readonly_false, reason = "a test's own file")]
        permissions.set_readonly(false);
        fs::set_permissions(&pack, permissions).unwrap();
        let mut file = fs::File::options().write(true).open(&pack).unwrap();
        file.seek(SeekFrom::Start(100)).unwrap();
        file.write_all(&[0; 20_000]).unwrap();
    }
    project.push("small", b"new");

    let (bench, checkout, _) = project.job(20).await;
    let (later, again, sent) = project.job(20).await;

    let told = |bench: &Bench| {
        let lines = bench.shown();
        lines.iter().filter(|line| line.contains(DISCARDED)).count()
    };
    assert_eq!((told(&bench), told(&later)), (1, 0), "{:?}", bench.shown());
    assert_sound(&checkout);
    assert_sound(&again);
    assert!(sent < 50_000, "{sent}");
}

#[tokio::test]
async fn what_a_killed_writer_left_does_no_harm() {
    let project = Project::new();
    project.job(20).await;
    let pack = project.packs().remove(0);
    let folder = pack.parent().unwrap();
    let entry = folder.parent().unwrap().parent().unwrap();
    // Killed between two packs' files, and while it wrote the tips.
    fs::write(
        folder.join("pack-0000000000000000000000000000000000000000.pack"),
        "PACK",
    )
    .unwrap();
    fs::write(entry.join("tips.new"), "0123").unwrap();
    // Killed before the tips were there.
    let known = fs::read_to_string(entry.join("tips")).unwrap();
    fs::write(entry.join("shallow"), known).unwrap();
    project.push("small", b"new");

    let (bench, checkout, sent) = project.job(20).await;

    assert_sound(&checkout);
    assert!(sent < 50_000, "{sent}");
    assert!(!bench.shown().join("\n").contains(DISCARDED));
}

#[tokio::test]
async fn jobs_at_the_same_time_share_what_is_kept() {
    let project = Project::new();
    for round in 0..3 {
        project.push("file", format!("{round}").as_bytes());

        let jobs = tokio::join!(
            project.job(3),
            project.job(3),
            project.job(0),
            project.job(3)
        );

        for (bench, checkout, _) in [jobs.0, jobs.1, jobs.2, jobs.3] {
            assert_sound(&checkout);
            assert!(!bench.shown().join("\n").contains(DISCARDED));
        }
    }
}

#[tokio::test]
async fn packs_do_not_pile_up() {
    let project = Project::new();
    for round in 0..24 {
        project.push("file", format!("{round}").as_bytes());
        project.job(3).await;
    }

    let packs = project.packs().len();
    let (_bench, checkout, sent) = project.job(3).await;

    assert!(packs <= 21, "{packs}");
    assert_sound(&checkout);
    assert!(sent < 50_000, "{sent}");
}

#[tokio::test]
async fn a_server_that_fails_leaves_what_is_kept_alone() {
    let project = Project::new();
    project.job(20).await;
    let packs = project.packs();
    project
        .server
        .inject("p.git", vk_tests::git_http::Fault::Status(500), 1);
    let mut bench = Bench::new();
    let sources = Sources {
        sha: project.head(),
        ..sources(&project.server.repo_url("p"))
    };
    let (cache, flags) = (project.cache(), Flags::default());

    let failed = bench
        .run(CheckoutRequest {
            cache: Some(&cache),
            ..request(&sources, &flags)
        })
        .await;

    assert!(failed.is_err());
    assert!(!bench.shown().join("\n").contains(DISCARDED));
    assert_eq!(project.packs(), packs);
}

#[tokio::test]
async fn projects_and_servers_are_kept_apart() {
    let (one, other) = (serve_golden(), serve_golden());
    let kept = tempfile::tempdir().unwrap();
    let cache = SourceCache::new(kept.path().join("sources"), 1 << 30);
    let flags = Flags::default();
    for (server, count) in [(&one, 1), (&other, 2), (&one, 2)] {
        let sources = sources(&server.repo_url("web"));
        let mut bench = Bench::new();

        bench
            .run(CheckoutRequest {
                cache: Some(&cache),
                ..request(&sources, &flags)
            })
            .await
            .unwrap();

        assert_eq!(packs(kept.path()).len(), count);
    }
}

#[tokio::test]
async fn beyond_the_bound_the_longest_unused_goes_first() {
    let kept = tempfile::tempdir().unwrap();
    let root = kept.path().join("sources");
    let cache = SourceCache::new(root.clone(), 700_000);
    let projects = [Project::new(), Project::new(), Project::new()];
    let flags = Flags::default();
    // The last use of the first is later than the second's.
    for number in [0, 1, 0, 2] {
        let project = &projects[number];
        let sources = Sources {
            sha: project.head(),
            ..sources(&project.server.repo_url("p"))
        };
        let mut bench = Bench::new();
        bench
            .run(CheckoutRequest {
                cache: Some(&cache),
                ..request(&sources, &flags)
            })
            .await
            .unwrap();
    }

    assert_eq!(packs(&root).len(), 2);
    for (project, is_kept) in projects.iter().zip([true, false, true]) {
        let before = project.server.sent();
        let sources = Sources {
            sha: project.head(),
            ..sources(&project.server.repo_url("p"))
        };
        let roomy = SourceCache::new(root.clone(), 1 << 30);
        let mut bench = Bench::new();
        bench
            .run(CheckoutRequest {
                cache: Some(&roomy),
                ..request(&sources, &flags)
            })
            .await
            .unwrap();
        assert_eq!(project.server.sent() - before < 50_000, is_kept);
    }
}

#[tokio::test]
async fn strategy_clone_and_flags_that_change_what_comes_neither_use_nor_keep_anything() {
    let project = Project::new();
    let sources = Sources {
        sha: project.head(),
        ..sources(&project.server.repo_url("p"))
    };
    let (cache, usual) = (project.cache(), Flags::default());
    let partial = Flags {
        fetch: words("--quiet --filter=blob:none"),
        ..Flags::default()
    };
    let requests = [
        CheckoutRequest {
            strategy: Strategy::Clone,
            ..request(&sources, &usual)
        },
        request(&sources, &partial),
    ];
    for request in requests {
        let mut bench = Bench::new();

        bench
            .run(CheckoutRequest {
                cache: Some(&cache),
                ..request
            })
            .await
            .unwrap();

        assert_eq!(project.packs(), Vec::<PathBuf>::new());
    }
}

/// A submodule at `path/to`, then at `path/to/sub`; the jobs are for the new, the old and the new commit. Here
/// every tree is new, so none has to be thrown away.
#[tokio::test]
async fn a_submodule_that_moved_into_its_own_old_place_breaks_no_later_job() {
    let server = serve_golden();
    let lib = git(&server.repos().path("lib"), &["rev-parse", "main"], &[]);
    let origin = tempfile::tempdir().unwrap();
    let commit_at = |path: &str| {
        let text = format!("[submodule \"lib\"]\n\tpath = {path}\n\turl = ./../lib.git\n");
        write(&origin.path().join(".gitmodules"), text.as_bytes());
        git(origin.path(), &["add", ".gitmodules"], &[]);
        git(
            origin.path(),
            &[
                "rm",
                "--quiet",
                "--cached",
                "-r",
                "--ignore-unmatch",
                "path",
            ],
            &[],
        );
        let entry = format!("160000,{lib},{path}");
        git(
            origin.path(),
            &["update-index", "--add", "--cacheinfo", &entry],
            &[],
        );
        git(origin.path(), &["commit", "--quiet", "-m", path], &[]);
        git(origin.path(), &["rev-parse", "HEAD"], &[])
    };
    commit_all(origin.path(), "start");
    let old = (commit_at("path/to"), "path/to/lib.txt");
    let new = (commit_at("path/to/sub"), "path/to/sub/lib.txt");
    server.repos().mirror(origin.path(), "moved");
    let kept = tempfile::tempdir().unwrap();
    let cache = SourceCache::new(kept.path().join("sources"), 1 << 30);
    let flags = Flags::default();

    for (sha, file) in [&new, &old, &new] {
        let sources = Sources {
            sha: sha.clone(),
            ..sources(&server.repo_url("moved"))
        };
        let mut bench = Bench::new();
        let checkout = bench
            .run(CheckoutRequest {
                cache: Some(&cache),
                submodules: Some(Submodules {
                    recursive: true,
                    depth: 0,
                    paths: &[],
                    update_flags: &[],
                    force_https: None,
                }),
                ..request(&sources, &flags)
            })
            .await
            .unwrap_or_else(|error| panic!("{error}: {:#?}", bench.shown()));

        let content = fs::read_to_string(checkout.project_dir().join(file)).unwrap();
        assert_eq!(content, "lib\n");
        assert_sound(&checkout);
    }
}

/// git takes along every tag whose commit it has, and with kept objects it has more. A tag that is gone on the server
/// is gone for the job.
#[tokio::test]
async fn tags_of_commits_that_other_jobs_fetched_are_shown_while_the_server_has_them() {
    let project = Project::new();
    let origin = project.origin.path();
    let server = project.server.repos().path("p");
    let server = server.to_str().unwrap();
    git(origin, &["checkout", "--quiet", "-b", "other"], &[]);
    let sha = project.push_to("other", "elsewhere", b"elsewhere");
    git(origin, &["tag", "light"], &[]);
    git(origin, &["tag", "-a", "-m", "annotated", "annotated"], &[]);
    git(origin, &["push", "--quiet", server, "--tags"], &[]);
    git(origin, &["checkout", "--quiet", "main"], &[]);
    let tags = |checkout: &Checkout| {
        let folder = checkout.project_dir();
        git(folder, &["tag", "--list"], &[])
    };

    for depth in [0, 20] {
        let (_bench, fresh, _) = project.job(depth).await;
        assert_eq!(tags(&fresh), "");

        let other = Sources {
            sha: sha.clone(),
            depth,
            refspecs: vec!["+refs/heads/other:refs/remotes/origin/other".to_owned()],
            ..sources(&project.server.repo_url("p"))
        };
        project.job_for(&other, &Flags::default()).await;

        let (_bench, later, _) = project.job(depth).await;
        assert_sound(&later);
        assert_eq!(tags(&later), "annotated\nlight");
    }

    git(origin, &["push", "--quiet", server, ":light"], &[]);
    for depth in [0, 20] {
        let (_bench, later, _) = project.job(depth).await;
        assert_sound(&later);
        assert_eq!(tags(&later), "annotated");
    }
}
