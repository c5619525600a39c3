//! Sources from a repository on this host.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tempfile::TempDir;
use vk_hub_proto::job::{Failure, Sources};
use vk_sources::{CheckoutError, CheckoutRequest, GitFailure};
use vk_tests::git_http::{commit_all, git, write};

use super::kit::{Bench, Flags, files, holding, request, sources, unpack};

/// A repository of two commits with a branch `topic`, and the hash of its `HEAD`.
fn repository() -> (TempDir, String) {
    let folder = tempfile::Builder::new()
        .prefix("developer-")
        .tempdir()
        .unwrap();
    write(&folder.path().join("a"), b"one");
    commit_all(folder.path(), "one");
    git(folder.path(), &["tag", "v1"], &[]);
    git(folder.path(), &["branch", "topic"], &[]);
    write(&folder.path().join("a"), b"two");
    let head = commit_all(folder.path(), "two");
    (folder, head)
}

async fn run(
    bench: &mut Bench,
    repo: &Path,
    sources: &Sources,
) -> Result<vk_sources::Checkout, CheckoutError> {
    let flags = Flags::default();
    bench
        .run(CheckoutRequest {
            local_repo: Some(repo),
            ..request(sources, &flags)
        })
        .await
}

#[tokio::test]
async fn an_empty_sha_means_head() {
    let (repo, head) = repository();
    let mut bench = Bench::new();

    let checkout = run(&mut bench, repo.path(), &Sources::default())
        .await
        .unwrap();

    assert_eq!(checkout.sha(), Some(head.as_str()));
    let notice = format!(
        "Checking out {} as detached HEAD (ref is main)...",
        &head[..8]
    );
    assert!(
        bench.shown().iter().any(|line| line.contains(&notice)),
        "{:#?}",
        bench.shown()
    );
    let guest = unpack(checkout.project_dir()).await;
    let run = |arguments: &[&str]| git(guest.path(), arguments, &[]);
    assert_eq!(run(&["log", "--format=%s"]), "two\none");
    assert_eq!(run(&["status", "--short"]), "");
    assert_eq!(run(&["describe", "--tags", "HEAD~"]), "v1");
    assert_eq!(run(&["rev-parse", "origin/main"]), head);
}

#[tokio::test]
async fn what_is_not_committed_is_not_taken() {
    let (repo, _) = repository();
    write(&repo.path().join("a"), b"changed");
    write(&repo.path().join("b"), b"new");
    let mut bench = Bench::new();

    let checkout = run(&mut bench, repo.path(), &Sources::default())
        .await
        .unwrap();

    let read = |name: &str| std::fs::read_to_string(checkout.project_dir().join(name));
    assert_eq!(read("a").unwrap(), "two");
    assert!(read("b").is_err());
}

#[tokio::test]
async fn a_job_s_url_becomes_origin_and_its_refs_are_taken_where_they_are() {
    let (repo, _) = repository();
    let topic = git(repo.path(), &["rev-parse", "topic"], &[]);
    let mut bench = Bench::new();
    let sources = Sources {
        git_ref: "topic".to_owned(),
        sha: topic.clone(),
        refspecs: [
            "+refs/pipelines/7:refs/pipelines/7",
            "+refs/heads/topic:refs/remotes/origin/topic",
        ]
        .map(str::to_owned)
        .into(),
        ..sources("https://gitlab.example.com/acme/web.git")
    };

    let checkout = run(&mut bench, repo.path(), &sources).await.unwrap();

    let run = |arguments: &[&str]| git(checkout.project_dir(), arguments, &[]);
    assert_eq!(
        run(&["rev-parse", "HEAD", "origin/topic"]),
        format!("{topic}\n{topic}")
    );
    assert_eq!(
        run(&["config", "remote.origin.url"]),
        "https://gitlab.example.com/acme/web.git"
    );
}

#[tokio::test]
async fn the_checkout_does_not_name_the_folder_nor_share_its_files() {
    let (repo, _) = repository();
    let mut bench = Bench::new();

    let checkout = run(&mut bench, repo.path(), &Sources::default())
        .await
        .unwrap();

    let project = checkout.project_dir();
    for needle in ["developer-", "vk-host-folder-"] {
        assert_eq!(
            holding(project, needle.as_bytes()),
            Vec::<std::path::PathBuf>::new(),
            "{needle}"
        );
    }
    for (path, _) in files(project) {
        let links = std::fs::symlink_metadata(&path).unwrap().nlink();
        assert_eq!(links, 1, "{}", path.display());
    }
}

#[tokio::test]
async fn shallow_clones_work() {
    let (repo, head) = repository();
    let clones = tempfile::tempdir().unwrap();
    let url = format!("file://{}", repo.path().display());
    git(
        clones.path(),
        &["clone", "--quiet", "--depth", "1", &url, "shallow"],
        &[],
    );
    for depth in [0, 1, 20] {
        let mut bench = Bench::new();
        let sources = Sources {
            depth,
            ..Sources::default()
        };

        let checkout = run(&mut bench, &clones.path().join("shallow"), &sources)
            .await
            .unwrap();

        assert_eq!(checkout.sha(), Some(head.as_str()));
        let log = git(checkout.project_dir(), &["log", "--format=%s"], &[]);
        assert_eq!(log, "two", "depth {depth}");
    }
}

#[tokio::test]
async fn worktrees_detached_heads_and_bare_repositories_work() {
    let (repo, head) = repository();
    let others = tempfile::tempdir().unwrap();
    git(
        repo.path(),
        &["worktree", "add", "--quiet", "--detach"],
        &[&others.path().join("tree")],
    );
    git(
        others.path(),
        &["clone", "--quiet", "--bare"],
        &[repo.path(), Path::new("bare.git")],
    );
    for folder in ["tree", "bare.git"] {
        let mut bench = Bench::new();

        let checkout = run(&mut bench, &others.path().join(folder), &Sources::default())
            .await
            .unwrap();

        assert_eq!(checkout.sha(), Some(head.as_str()), "{folder}");
    }
}

#[tokio::test]
async fn folders_that_are_no_repository_are_told_apart() {
    let empty = tempfile::tempdir().unwrap();
    let unborn = tempfile::tempdir().unwrap();
    git(unborn.path(), &["init", "--quiet"], &[]);
    let missing = empty.path().join("none");
    for (folder, why) in [
        (empty.path(), "not a git repository"),
        (unborn.path(), "no commit yet"),
        (&missing, "No such file"),
    ] {
        let mut bench = Bench::new();

        let error = run(&mut bench, folder, &Sources::default())
            .await
            .unwrap_err();

        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.failure(), Failure::Configuration);
    }
}

#[tokio::test]
async fn a_commit_that_the_repository_lacks_is_missing() {
    let (repo, _) = repository();
    let mut bench = Bench::new();
    let sources = Sources {
        sha: "1".repeat(40),
        ..Sources::default()
    };

    let error = run(&mut bench, repo.path(), &sources).await.unwrap_err();

    assert!(
        matches!(
            error,
            CheckoutError::Git {
                failure: GitFailure::MissingCommit,
                ..
            }
        ),
        "{error}: {:#?}",
        bench.shown()
    );
}
