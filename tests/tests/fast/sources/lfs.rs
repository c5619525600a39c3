//! Git LFS, by real git-lfs against a server that speaks its API as GitLab does.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use vk_hub_proto::job::{Failure, Sources};
use vk_sources::{Checkout, CheckoutError, CheckoutRequest, GitFailure, SourceCache, Submodules};
use vk_tests::git_http::{Fault, GitServer, Repos, commit_all, git, write};
use vk_tests::git_lfs::{oid, pointer};

use super::kit::{Bench, Flags, TOKEN, files, holding, processes_in, request, sources, unpack};

const ATTRIBUTES: &[u8] = b"*.bin filter=lfs diff=lfs merge=lfs -text\n";

/// Paths of LFS requests.
const BATCH: &str = "/info/lfs/objects/batch";
const OBJECTS: &str = "/gitlab-lfs/objects/";

/// A project with LFS files, and a folder that keeps its objects.
struct Project {
    origin: TempDir,
    server: GitServer,
    kept: TempDir,
}

impl Project {
    /// Three files in two folders, one of them twice.
    fn new() -> Self {
        let files = [
            ("one.bin", "one"),
            ("a/two.bin", "two"),
            ("a/one.bin", "one"),
        ];
        Self::with(|origin, repos| {
            for (name, content) in files {
                let pointer = repos.lfs_object("p", content.as_bytes());
                write(&origin.join(name), &pointer);
            }
        })
    }

    fn with(fill: impl FnOnce(&Path, &Repos)) -> Self {
        let origin = tempfile::tempdir().unwrap();
        write(&origin.path().join(".gitattributes"), ATTRIBUTES);
        write(&origin.path().join("plain"), b"plain");
        let repos = Repos::new();
        commit_all(origin.path(), "start");
        repos.mirror(origin.path(), "p");
        fill(origin.path(), &repos);
        let project = Self {
            origin,
            server: repos.serve(TOKEN),
            kept: tempfile::tempdir().unwrap(),
        };
        project.publish();
        project
    }

    fn publish(&self) {
        commit_all(self.origin.path(), "files");
        let to = self.server.repos().path("p");
        let arguments = ["push", "--quiet", to.to_str().unwrap(), "+HEAD:main"];
        git(self.origin.path(), &arguments, &[]);
    }

    fn sources(&self) -> Sources {
        Sources {
            sha: git(self.origin.path(), &["rev-parse", "HEAD"], &[]),
            ..sources(&self.server.repo_url("p"))
        }
    }

    async fn run(&self) -> (Bench, Result<Checkout, CheckoutError>) {
        self.run_with(|_| ()).await
    }

    async fn run_with(
        &self,
        change: impl FnOnce(&mut CheckoutRequest<'_>),
    ) -> (Bench, Result<Checkout, CheckoutError>) {
        let mut bench = Bench::new();
        let (sources, flags) = (self.sources(), Flags::default());
        let cache = SourceCache::new(self.kept.path().join("sources"), 1 << 30);
        let mut request = CheckoutRequest {
            cache: Some(&cache),
            ..request(&sources, &flags)
        };
        change(&mut request);
        let result = bench.run(request).await;
        (bench, result)
    }

    fn asked(&self, path: &str) -> usize {
        asked(&self.server, path)
    }
}

fn asked(server: &GitServer, path: &str) -> usize {
    let requests = server.requests();
    let asked = requests.iter().filter(|seen| seen.path.contains(path));
    asked.count()
}

fn read(checkout: &Checkout, name: &str) -> String {
    let content = fs::read(checkout.project_dir().join(name)).unwrap();
    String::from_utf8_lossy(&content).into_owned()
}

/// gitlab-runner, build §3.5-4.
#[tokio::test]
async fn lfs_files_are_real_in_the_job_s_tree() {
    let project = Project::new();

    let (bench, checkout) = project.run().await;

    let checkout = checkout.unwrap();
    let guest = unpack(checkout.project_dir()).await;
    for (name, content) in [
        ("one.bin", "one"),
        ("a/two.bin", "two"),
        ("a/one.bin", "one"),
    ] {
        assert_eq!(
            fs::read_to_string(guest.path().join(name)).unwrap(),
            content
        );
    }
    let shown = bench.shown();
    let at = |text: &str| shown.iter().position(|line| line.contains(text));
    let (checked_out, blank) = (
        at("Checking out"),
        shown.iter().position(|line| line == "O "),
    );
    let order = [checked_out, blank, at("Skipping Git submodules setup")];
    assert!(
        order.iter().all(Option::is_some) && order.is_sorted(),
        "{shown:#?}"
    );
    // No hooks that want git-lfs in the job's image, and nothing of the host.
    assert!(!checkout.project_dir().join(".git/hooks").exists());
    assert!(!checkout.project_dir().join(".git/lfs").exists());
    for needle in [TOKEN, "vk-host-folder-"] {
        let found = holding(checkout.project_dir(), needle.as_bytes());
        assert_eq!(found, Vec::<PathBuf>::new(), "{needle}");
    }
    assert!(!shown.join("\n").contains("vk-host-folder-"), "{shown:#?}");
}

#[tokio::test]
async fn files_stay_pointers_when_the_job_says_so() {
    let project = Project::new();

    let (bench, checkout) = project.run_with(|request| request.lfs = false).await;

    assert!(read(&checkout.unwrap(), "one.bin").starts_with("version https://git-lfs"));
    assert_eq!(project.asked(BATCH), 0);
    assert!(!bench.shown().contains(&"O ".to_owned()));
}

/// What looks like LFS to `.gitattributes` only is no reason to run anything.
#[tokio::test]
async fn nothing_is_done_for_a_repository_without_lfs_files() {
    let project = Project::with(|origin, _| write(&origin.join("x.bin"), b"a plain file of old"));

    let (bench, checkout) = project.run().await;

    assert_eq!(read(&checkout.unwrap(), "x.bin"), "a plain file of old");
    assert_eq!(project.asked("lfs"), 0);
    assert!(!bench.shown().contains(&"O ".to_owned()));
}

#[tokio::test]
async fn a_later_job_fetches_only_new_objects() {
    let project = Project::new();
    project.run().await.1.unwrap();
    assert_eq!(project.asked(OBJECTS), 2);
    let new = project.server.repos().lfs_object("p", b"three");
    write(&project.origin.path().join("three.bin"), &new);
    project.publish();

    let (_bench, checkout) = project.run().await;

    let checkout = checkout.unwrap();
    assert_eq!(project.asked(OBJECTS), 3);
    for (name, content) in [
        ("one.bin", "one"),
        ("a/two.bin", "two"),
        ("three.bin", "three"),
    ] {
        assert_eq!(read(&checkout, name), content);
    }
    let batches = project.asked(BATCH);
    project.run().await.1.unwrap();
    assert_eq!((project.asked(OBJECTS), project.asked(BATCH)), (3, batches));
    assert_eq!(
        holding(project.kept.path(), TOKEN.as_bytes()),
        Vec::<PathBuf>::new()
    );
}

#[tokio::test]
async fn a_kept_object_that_is_damaged_is_fetched_anew() {
    let project = Project::new();
    project.run().await.1.unwrap();
    let is_one = |path: &Path| path.ends_with(oid(b"one"));
    let kept = files(project.kept.path());
    let (path, _) = kept.iter().find(|(path, _)| is_one(path)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(path, "eno").unwrap();

    let (_bench, checkout) = project.run().await;

    assert_eq!(read(&checkout.unwrap(), "one.bin"), "one");
    assert_eq!(project.asked(OBJECTS), 3);
    assert_eq!(fs::read(path).unwrap(), b"one");
}

#[tokio::test]
async fn kept_objects_stay_within_the_cache_s_bound() {
    let project = Project::new();
    project.run().await.1.unwrap();
    let root = project.kept.path().join("sources");
    let is_one = |path: &Path| path.ends_with(oid(b"one"));
    assert!(files(&root).iter().any(|(path, _)| is_one(path)));
    let tight = SourceCache::new(root.clone(), 1);

    let mut bench = Bench::new();
    let (sources, flags) = (project.sources(), Flags::default());
    bench
        .run(CheckoutRequest {
            cache: Some(&tight),
            ..request(&sources, &flags)
        })
        .await
        .unwrap();

    let left = files(&root).into_iter().map(|(path, _)| path);
    let objects: Vec<PathBuf> = left
        .filter(|path| path.starts_with(root.join("lfs")))
        .collect();
    assert_eq!(objects, Vec::<PathBuf>::new());
}

#[tokio::test]
async fn an_object_that_the_server_lacks_fails_with_git_lfs_words() {
    let missing = pointer(&oid(b"missing"), 7);
    let project = Project::with(|origin, _| write(&origin.join("x.bin"), &missing));

    let (bench, result) = project.run().await;

    let error = result.unwrap_err();
    assert_eq!(error.failure(), Failure::ExternalDependency, "{error}");
    assert_eq!(error.exit_code(), Some(2));
    assert!(
        bench.errors().contains(&oid(b"missing")),
        "{}",
        bench.errors()
    );
}

#[tokio::test]
async fn pointers_that_say_too_much_are_refused_before_anything_comes() {
    let project = Project::with(|origin, _| {
        write(&origin.join("x.bin"), &pointer(&oid(b"x"), 900_000));
        write(&origin.join("y.bin"), &pointer(&oid(b"x"), 900_000));
    });

    let (_bench, result) = project
        .run_with(|request| request.max_tree_bytes = 1_000_000)
        .await;

    let error = result.unwrap_err();
    assert!(
        matches!(error, CheckoutError::TreeTooLarge { .. }),
        "{error}"
    );
    assert_eq!(error.failure(), Failure::Configuration);
    assert_eq!(project.asked(BATCH), 0);
}

#[tokio::test]
async fn a_server_that_sends_more_than_a_pointer_says_is_cut_off() {
    let project = Project::with(|origin, repos| {
        write(&origin.join("x.bin"), &repos.lfs_object("p", b"x"));
    });
    project.server.inject(OBJECTS, Fault::Endless, 99);

    let (bench, result) = project
        .run_with(|request| request.max_tree_bytes = 5_000_000)
        .await;

    let error = result.unwrap_err();
    assert!(
        matches!(
            error,
            CheckoutError::DiskBound {
                max_bytes: 10_000_000,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.failure(), Failure::Configuration);
    assert_eq!(processes_in(bench.work.path()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn another_lfs_server_does_not_get_the_token() {
    let elsewhere = Repos::new().serve("another token");
    let url = format!("{}/x.git/info/lfs", elsewhere.url());
    let project = Project::with(|origin, repos| {
        write(&origin.join("one.bin"), &repos.lfs_object("p", b"one"));
        let config =
            format!("[lfs]\n\turl = {url}\n\taccess = basic\n[lfs \"{url}\"]\n\taccess = basic\n");
        write(&origin.join(".lfsconfig"), config.as_bytes());
    });

    let (bench, result) = project.run().await;

    assert_eq!(result.unwrap_err().failure(), Failure::ExternalDependency);
    assert!(!bench.shown().join("\n").contains(TOKEN));
    for seen in elsewhere.requests() {
        assert!(!seen.headers.contains_key("authorization"), "{seen:?}");
    }
}

#[tokio::test]
async fn a_redirect_or_an_object_elsewhere_does_not_get_the_token() {
    let elsewhere = Repos::new().serve("another token");
    let object = oid(b"one");
    let answer = format!(
        r#"{{"objects":[{{"oid":"{object}","size":3,"actions":{{"download":{{"href":"{}/x"}}}}}}]}}"#,
        elsewhere.url()
    );
    for (path, fault) in [
        (OBJECTS, Fault::RedirectTo(elsewhere.url())),
        (BATCH, Fault::Answer(answer)),
    ] {
        let project = Project::with(|origin, repos| {
            write(&origin.join("one.bin"), &repos.lfs_object("p", b"one"));
        });
        project.server.inject(path, fault.clone(), 99);
        let before = elsewhere.requests().len();

        // git-lfs would go on trying. Long enough for its first requests on a slow machine.
        let brief = Duration::from_secs(8);
        let (_bench, result) = project
            .run_with(|request| request.stall_after = brief)
            .await;

        result.unwrap_err();
        let seen = elsewhere.requests();
        assert!(seen.len() > before, "{fault:?}");
        for seen in seen {
            assert!(!seen.headers.contains_key("authorization"), "{seen:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_leaves_git_lfs_waiting_is_given_up_on() {
    let project = Project::new();
    let answer = r#"{"objects":[]}"#.to_owned();
    project.server.inject(BATCH, Fault::Answer(answer), 99);
    let brief = Duration::from_secs(2);

    let (bench, result) = project
        .run_with(|request| request.stall_after = brief)
        .await;

    let error = result.unwrap_err();
    assert!(
        matches!(
            error,
            CheckoutError::Git {
                command: "lfs",
                failure: GitFailure::Unreachable,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(processes_in(bench.work.path()), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn servers_that_are_not_http_are_refused_and_nothing_of_the_repository_runs() {
    let marker = tempfile::tempdir().unwrap();
    let touch = format!("touch {}/ran", marker.path().display());
    for url in [
        format!("ssh://-oProxyCommand={touch}/x"),
        "git@127.0.0.1:x.git".to_owned(),
        "file:///etc".to_owned(),
        "/etc".to_owned(),
    ] {
        let project = Project::with(|origin, repos| {
            write(&origin.join("one.bin"), &repos.lfs_object("p", b"one"));
            let config = format!("[lfs]\n\turl = \"{url}\"\n");
            write(&origin.join(".lfsconfig"), config.as_bytes());
        });

        let (_bench, result) = project.run().await;

        let error = result.unwrap_err();
        assert!(matches!(error, CheckoutError::RefusedLfs { .. }), "{error}");
        assert_eq!(error.failure(), Failure::Configuration);
    }
    let program = marker.path().join("program");
    write(&program, format!("#!/bin/sh\n{touch}\n").as_bytes());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let project = Project::with(|origin, repos| {
        let program = program.display();
        write(&origin.join("one.bin"), &repos.lfs_object("p", b"one"));
        let config = format!(
            "[lfs]\n\tstandalonetransferagent = evil\n\tsshtransfer = always\n\tstorage = /nonexistent\n\
             [lfs \"customtransfer.evil\"]\n\tpath = {program}\n\
             [lfs \"extension.evil\"]\n\tsmudge = {program}\n\tclean = {program}\n\tpriority = 0\n\
             [filter \"lfs\"]\n\tclean = {program}\n\tsmudge = {program}\n\tprocess = {program}\n\
             [core]\n\tsshCommand = {program}\n\tfsmonitor = {program}\n\taskPass = {program}\n\
             [credential]\n\thelper = !{program}\n"
        );
        write(&origin.join(".lfsconfig"), config.as_bytes());
    });

    let (_bench, checkout) = project.run().await;

    assert_eq!(read(&checkout.unwrap(), "one.bin"), "one");
    assert!(!marker.path().join("ran").exists());
}

#[tokio::test]
async fn a_link_for_a_config_is_not_followed() {
    let secret = tempfile::tempdir().unwrap();
    let config = secret.path().join("config");
    write(
        &config,
        b"[lfs]\n\turl = https://user:hidden@127.0.0.1:1/x\n",
    );
    let project = Project::with(|origin, repos| {
        write(&origin.join("one.bin"), &repos.lfs_object("p", b"one"));
        std::os::unix::fs::symlink(&config, origin.join(".lfsconfig")).unwrap();
    });

    let (bench, result) = project.run().await;

    let error = result.unwrap_err();
    assert!(matches!(error, CheckoutError::RefusedLfs { .. }), "{error}");
    assert!(!bench.shown().join("\n").contains("hidden"));
}

#[tokio::test]
async fn a_repository_may_want_a_part_of_its_files() {
    let project = Project::with(|origin, repos| {
        write(&origin.join("one.bin"), &repos.lfs_object("p", b"one"));
        write(&origin.join("huge.bin"), &pointer(&oid(b"huge"), 1 << 60));
        write(
            &origin.join(".lfsconfig"),
            b"[lfs]\n\tfetchexclude = huge.bin\n",
        );
    });

    let (_bench, checkout) = project.run().await;

    let checkout = checkout.unwrap();
    assert_eq!(read(&checkout, "one.bin"), "one");
    assert!(read(&checkout, "huge.bin").starts_with("version https://git-lfs"));
}

/// gitlab-runner, build §3.7-12.
#[tokio::test]
async fn submodules_get_theirs() {
    let project = Project::with(|origin, repos| {
        let library = tempfile::tempdir().unwrap();
        write(&library.path().join(".gitattributes"), ATTRIBUTES);
        commit_all(library.path(), "start");
        repos.mirror(library.path(), "lib");
        write(
            &library.path().join("l.bin"),
            &repos.lfs_object("lib", b"of the library"),
        );
        let commit = commit_all(library.path(), "files");
        let to = repos.path("lib");
        let arguments = ["push", "--quiet", to.to_str().unwrap(), "+HEAD:main"];
        git(library.path(), &arguments, &[]);
        write(
            &origin.join(".gitmodules"),
            b"[submodule \"lib\"]\n\tpath = sub/lib\n\turl = ./../lib.git\n",
        );
        let entry = format!("160000,{commit},sub/lib");
        git(
            origin,
            &["update-index", "--add", "--cacheinfo", &entry],
            &[],
        );
        fs::create_dir_all(origin.join("sub/lib")).unwrap();
        git(origin, &["add", ".gitmodules"], &[]);
        git(origin, &["commit", "--quiet", "-m", "submodule"], &[]);
    });
    let submodules = Submodules {
        recursive: false,
        depth: 0,
        paths: &[],
        update_flags: &[],
        force_https: None,
    };

    let (bench, checkout) = project
        .run_with(|request| {
            request.submodules = Some(submodules);
            request.guest_config = Some("/builds/p.tmp/git.conf");
        })
        .await;

    let checkout = checkout.unwrap();
    let shown = bench.shown();
    assert_eq!(
        read(&checkout, "sub/lib/l.bin"),
        "of the library",
        "{shown:#?}"
    );
    let last: Vec<&str> = shown
        .iter()
        .map(String::as_str)
        .filter(|line| line.starts_with("O ") && !line.contains("LFS objects"))
        .collect();
    assert_eq!(
        last[last.len() - 4..],
        [
            "O \x1b[32;1mConfiguring submodules to use parent git credentials...\x1b[0;m",
            "O Entering 'sub/lib'",
            "O \x1b[32;1mPulling LFS files...\x1b[0;m",
            "O Entering 'sub/lib'",
        ]
    );
    assert!(!checkout.project_dir().join(".git/modules/lib/lfs").exists());
}

#[tokio::test]
async fn a_repository_on_this_host_lends_its_own_objects() {
    let repo = tempfile::tempdir().unwrap();
    write(&repo.path().join(".gitattributes"), ATTRIBUTES);
    let object = oid(b"one");
    write(&repo.path().join("one.bin"), &pointer(&object, 3));
    commit_all(repo.path(), "files");
    let place = format!(
        ".git/lfs/objects/{}/{}/{object}",
        &object[..2],
        &object[2..4]
    );
    write(&repo.path().join(place), b"one");
    let mut bench = Bench::new();
    let (nothing, flags) = (Sources::default(), Flags::default());

    let checkout = bench
        .run(CheckoutRequest {
            local_repo: Some(repo.path()),
            ..request(&nothing, &flags)
        })
        .await
        .unwrap();

    assert_eq!(read(&checkout, "one.bin"), "one", "{:#?}", bench.shown());
}

/// What is masked is masked across the pieces that a long line comes in: for that, they must be one line.
#[tokio::test]
async fn a_line_too_long_to_be_kept_is_still_one_line() {
    let long = "0123456789".repeat(2_000);
    let project = Project::with(|origin, repos| {
        write(&origin.join("one.bin"), &repos.lfs_object("p", b"one"));
    });
    let object = oid(b"one");
    let answer = format!(
        r#"{{"objects":[{{"oid":"{object}","size":3,"error":{{"code":422,"message":"{long}"}}}}]}}"#
    );
    project.server.inject(BATCH, Fault::Answer(answer), 99);

    let (bench, result) = project.run().await;

    result.unwrap_err();
    let mut text = String::new();
    for line in &bench.lines {
        assert!(line.text.len() <= 8192);
        text += &String::from_utf8_lossy(&line.text);
        text += if line.ends { "\n" } else { "" };
    }
    assert!(text.contains(&long), "{} bytes", text.len());
}
