//! Checkouts whose lines and trees the golden traces show.

use vk_hub_proto::job::Sources;
use vk_sources::{CheckoutRequest, GitFailure, Strategy, Submodules};
use vk_tests::git_http::git;

use super::kit::{Bench, Flags, GUEST_DIR, MAIN, request, serve_golden, sources, unpack, words};

const SUBMODULES: Submodules<'static> = Submodules {
    recursive: true,
    depth: 20,
    paths: &[],
    update_flags: &[],
    force_https: None,
};

fn notice(text: &str) -> String {
    format!("O \x1b[32;1m{text}\x1b[0;m")
}

fn start() -> Vec<String> {
    vec![
        notice("Gitaly correlation ID: 01CORR"),
        notice("Fetching changes with git depth set to 20..."),
        format!("O Initialized empty Git repository in {GUEST_DIR}/.git/"),
        notice("Created fresh repository."),
    ]
}

#[tokio::test]
async fn golden_29_a_branch_is_checked_out() {
    let server = serve_golden();
    let mut bench = Bench::new();
    let (sources, flags) = (sources(&server.repo_url("web")), Flags::default());

    let checkout = bench.run(request(&sources, &flags)).await.unwrap();

    let mut expected = start();
    expected.push(notice(
        "Checking out 5fd52537 as detached HEAD (ref is main)...",
    ));
    expected.push(notice("Skipping Git submodules setup"));
    assert_eq!(bench.shown(), expected);
    let guest = unpack(checkout.project_dir()).await;
    let run = |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        git(guest.path(), &arguments, &[])
    };
    assert_eq!(
        run("log --oneline -5"),
        "5fd5253 commit 3\nd3875e6 commit 2\neb0064c commit 1"
    );
    assert_eq!(run("status --short --branch"), "## HEAD (no branch)");
    assert_eq!(
        run("config --get remote.origin.url"),
        server.repo_url("web")
    );
    assert!(guest.path().join("vendor/lib").is_dir());
}

#[tokio::test]
async fn golden_34_without_checkout_there_are_only_objects() {
    let server = serve_golden();
    let mut bench = Bench::new();
    let (sources, flags) = (sources(&server.repo_url("web")), Flags::default());

    let checkout = bench
        .run(CheckoutRequest {
            checkout: false,
            ..request(&sources, &flags)
        })
        .await
        .unwrap();

    let mut expected = start();
    expected.push(notice("Skipping Git checkout"));
    expected.push(notice("Skipping Git submodules setup"));
    assert_eq!(bench.shown(), expected);
    let head = std::fs::read_to_string(checkout.project_dir().join(".git/HEAD")).unwrap();
    assert_eq!(head, "ref: refs/heads/none\n");
}

/// gitlab-runner, build §3.2.
#[tokio::test]
async fn golden_33_the_strategies_without_sources_only_say_so() {
    let flags = Flags::default();
    for (strategy, first) in [
        (
            Strategy::Empty,
            "Skipping Git repository setup and creating an empty build directory",
        ),
        (Strategy::None, "Skipping Git repository setup"),
    ] {
        let mut bench = Bench::new();
        let nothing = Sources::default();

        let checkout = bench
            .run(CheckoutRequest {
                strategy,
                ..request(&nothing, &flags)
            })
            .await
            .unwrap();

        let expected = [
            notice(first),
            notice("Skipping Git checkout"),
            notice("Skipping Git submodules setup"),
        ];
        assert_eq!(bench.shown(), expected);
        assert_eq!(
            std::fs::read_dir(checkout.project_dir()).unwrap().count(),
            0
        );
    }
}

#[tokio::test]
async fn golden_36_a_missing_commit_fails_with_git_s_words_and_code() {
    let server = serve_golden();
    let mut bench = Bench::new();
    let flags = Flags::default();
    let sources = Sources {
        sha: "1".repeat(40),
        ..sources(&server.repo_url("web"))
    };

    let first = bench.run(request(&sources, &flags)).await.unwrap_err();

    let mut expected = start();
    expected.push(notice(
        "Checking out 11111111 as detached HEAD (ref is main)...",
    ));
    expected.push(format!(
        "E fatal: reference is not a tree: {}",
        "1".repeat(40)
    ));
    assert_eq!(bench.shown(), expected);
    assert_eq!(first.exit_code(), Some(128));
    assert!(
        matches!(
            first,
            vk_sources::CheckoutError::Git {
                failure: GitFailure::MissingCommit,
                ..
            }
        ),
        "{first}"
    );

    // The second attempt of the same job.
    bench.lines.clear();
    let retried = CheckoutRequest {
        retry: true,
        ..request(&sources, &flags)
    };
    bench.run(retried).await.unwrap_err();
    assert_eq!(
        bench.shown()[2],
        format!("O Reinitialized existing Git repository in {GUEST_DIR}/.git/")
    );
}

#[tokio::test]
async fn golden_66_a_tag_is_there_for_describe() {
    let server = serve_golden();
    let mut bench = Bench::new();
    let flags = Flags::default();
    let sources = Sources {
        git_ref: "v1.0".to_owned(),
        sha: "eb0064cea56efd228693b2da84c41295d5430828".to_owned(),
        refspecs: words("+refs/tags/v1.0:refs/tags/v1.0"),
        ..sources(&server.repo_url("web"))
    };

    let checkout = bench.run(request(&sources, &flags)).await.unwrap();

    let described = git(checkout.project_dir(), &["describe", "--tags"], &[]);
    assert_eq!(described, "v1.0");
}

/// gitlab-runner, build §3.4.2 and build §3.5.
#[tokio::test]
async fn golden_98_and_99_flags_of_clean_and_fetch_are_obeyed() {
    let server = serve_golden();
    let mut bench = Bench::new();
    let sources = sources(&server.repo_url("web"));
    let flags = Flags {
        clean: None,
        fetch: words("--prune --no-tags"),
    };

    let checkout = bench.run(request(&sources, &flags)).await.unwrap();

    assert_eq!(
        bench.errors(),
        format!(
            "E From {}\nE  * [new branch]      main       -> origin/main",
            server.repo_url("web").trim_end_matches(".git")
        )
    );
    assert_eq!(git(checkout.project_dir(), &["tag", "-l"], &[]), "");
}

/// gitlab-runner, build §3.4.2.
#[tokio::test]
async fn the_depth_limits_history_and_0_does_not() {
    let server = serve_golden();
    let flags = Flags::default();
    for (depth, commits) in [(1, "1"), (2, "2"), (0, "3")] {
        let mut bench = Bench::new();
        let sources = Sources {
            depth,
            ..sources(&server.repo_url("web"))
        };

        let checkout = bench.run(request(&sources, &flags)).await.unwrap();

        let count = git(
            checkout.project_dir(),
            &["rev-list", "--count", "HEAD"],
            &[],
        );
        assert_eq!(count, commits, "depth {depth}");
    }
}

/// gitlab-runner, build §3.7.
#[tokio::test]
async fn golden_31_submodules_come_at_any_depth() {
    // The helper answers below submodules, too.
    let server = serve_golden();
    let host = server.url();
    let mut bench = Bench::new();
    let (sources, flags) = (sources(&server.repo_url("web")), Flags::default());

    let checkout = bench
        .run(CheckoutRequest {
            submodules: Some(SUBMODULES),
            guest_config: Some("/builds/repos/web.tmp/git.conf"),
            ..request(&sources, &flags)
        })
        .await
        .unwrap();

    let shown = bench.shown();
    let expected = [
        notice("Updating/initializing submodules recursively with git depth set to 20..."),
        format!("E Submodule 'vendor/lib' ({host}/repos/lib.git) registered for path 'vendor/lib'"),
        "O Synchronizing submodule url for 'vendor/lib'".to_owned(),
        format!("E Cloning into '{GUEST_DIR}/vendor/lib'..."),
        "O Submodule path 'vendor/lib': checked out 'a581ad24be5b6378665a7e22793b91424f336c76'"
            .to_owned(),
        format!("E Submodule 'deep' ({host}/repos/deep.git) registered for path 'vendor/lib/deep'"),
        format!("E Cloning into '{GUEST_DIR}/vendor/lib/deep'..."),
        "O Submodule path 'vendor/lib/deep': checked out 'dd757fff344b235222353347529da07912bb3464'"
            .to_owned(),
        notice("Updated submodules"),
        "O Synchronizing submodule url for 'vendor/lib'".to_owned(),
        "O Synchronizing submodule url for 'vendor/lib/deep'".to_owned(),
        "O Entering 'vendor/lib'".to_owned(),
        "O Entering 'vendor/lib/deep'".to_owned(),
        notice("Configuring submodules to use parent git credentials..."),
        "O Entering 'vendor/lib'".to_owned(),
        "O Entering 'vendor/lib/deep'".to_owned(),
    ];
    // The two streams are not ordered against each other.
    for stream in ["O", "E"] {
        let of_stream = |lines: &[String]| -> Vec<String> {
            lines
                .iter()
                .filter(|line| line.starts_with(stream))
                .cloned()
                .collect()
        };
        assert_eq!(of_stream(&shown[5..]), of_stream(&expected));
    }
    let guest = unpack(checkout.project_dir()).await;
    let read = |name: &str| std::fs::read_to_string(guest.path().join(name)).unwrap();
    assert_eq!(read("vendor/lib/lib.txt"), "lib\n");
    assert_eq!(read("vendor/lib/deep/deep.txt"), "deep\n");
    assert_eq!(git(guest.path(), &["status", "--short"], &[]), "");
    for folder in ["", "vendor/lib", "vendor/lib/deep"] {
        let included = git(
            &guest.path().join(folder),
            &["config", "--local", "include.path"],
            &[],
        );
        assert_eq!(included, "/builds/repos/web.tmp/git.conf", "{folder}");
    }
}

#[tokio::test]
async fn golden_32_normal_submodules_are_not_followed_further() {
    let server = serve_golden();
    let mut bench = Bench::new();
    let (sources, flags) = (sources(&server.repo_url("web")), Flags::default());

    let checkout = bench
        .run(CheckoutRequest {
            submodules: Some(Submodules {
                recursive: false,
                ..SUBMODULES
            }),
            ..request(&sources, &flags)
        })
        .await
        .unwrap();

    let deep = checkout.project_dir().join("vendor/lib/deep");
    assert_eq!(std::fs::read_dir(deep).unwrap().count(), 0);
}

#[tokio::test]
async fn submodules_are_not_touched_unless_asked_for() {
    let server = serve_golden();
    let mut bench = Bench::new();
    let (sources, flags) = (sources(&server.repo_url("web")), Flags::default());

    bench.run(request(&sources, &flags)).await.unwrap();

    let seen = server.requests();
    assert!(!seen.is_empty());
    for request in seen {
        assert!(request.path.starts_with("/repos/web.git"), "{request:?}");
    }
}

#[tokio::test]
async fn submodule_paths_select() {
    let server = serve_golden();
    let mut bench = Bench::new();
    let (sources, flags) = (sources(&server.repo_url("web")), Flags::default());
    let paths = words(":(exclude)vendor/lib .");

    let checkout = bench
        .run(CheckoutRequest {
            submodules: Some(Submodules {
                paths: &paths,
                ..SUBMODULES
            }),
            ..request(&sources, &flags)
        })
        .await
        .unwrap();

    let lib = checkout.project_dir().join("vendor/lib");
    assert_eq!(std::fs::read_dir(lib).unwrap().count(), 0);
}

#[tokio::test]
async fn a_sha256_repository_is_checked_out() {
    let origin = tempfile::tempdir().unwrap();
    git(
        origin.path(),
        &["init", "--quiet", "--object-format=sha256"],
        &[],
    );
    std::fs::write(origin.path().join("a"), "a").unwrap();
    let sha = vk_tests::git_http::commit_all(origin.path(), "one");
    let repos = vk_tests::git_http::Repos::new();
    repos.mirror(origin.path(), "long");
    let server = repos.serve(super::kit::TOKEN);
    let mut bench = Bench::new();
    let flags = Flags::default();
    let sources = Sources {
        object_format: "sha256".to_owned(),
        sha: sha.clone(),
        ..sources(&server.repo_url("long"))
    };

    let checkout = bench.run(request(&sources, &flags)).await.unwrap();

    assert_eq!(sha.len(), 64);
    assert_eq!(
        git(checkout.project_dir(), &["rev-parse", "HEAD"], &[]),
        sha
    );
}

/// gitlab-runner, build §3.4.1 and build §3.4.2.
#[tokio::test]
async fn the_server_sees_the_agent_and_the_correlation_id() {
    let server = serve_golden();
    let mut bench = Bench::new();
    let (sources, flags) = (sources(&server.repo_url("web")), Flags::default());

    bench.run(request(&sources, &flags)).await.unwrap();

    assert!(!server.requests().is_empty());
    for seen in server.requests() {
        assert_eq!(seen.headers["user-agent"], "vk 1 linux/amd64");
        assert_eq!(seen.headers["x-gitaly-correlation-id"], "01CORR");
    }
}

#[tokio::test]
async fn two_checkouts_at_once_do_not_meet() {
    let server = serve_golden();
    let work = Bench::new();
    let (sources, flags) = (sources(&server.repo_url("web")), Flags::default());
    let request = CheckoutRequest {
        work_dir: work.work.path(),
        ..request(&sources, &flags)
    };
    let one =
        async |_: u8| vk_sources::checkout(&request, &mut |_| (), std::future::pending()).await;

    let (first, second) = tokio::join!(one(1), one(2));

    let (first, second) = (first.unwrap(), second.unwrap());
    assert_ne!(first.project_dir(), second.project_dir());
    assert_eq!(first.sha(), Some(MAIN));
    first.remove().await.unwrap();
    assert!(second.project_dir().join("README.md").exists());
    second.remove().await.unwrap();
    assert_eq!(std::fs::read_dir(work.work.path()).unwrap().count(), 0);
}
