//! What a job may take of this host's disk.

use std::path::Path;

use vk_hub_proto::job::{Failure, Sources};
use vk_sources::{Checkout, CheckoutError, CheckoutRequest, Submodules};
use vk_tests::git_http::{GitServer, Repos, commit_all, git, write};

use super::cache::noise;
use super::kit::{Bench, Flags, TOKEN, request, sources, words};

const SUBMODULES: Submodules<'static> = Submodules {
    recursive: true,
    depth: 0,
    paths: &[],
    update_flags: &[],
    force_https: None,
};

/// A repository with what `fill` puts into it, and its head.
fn serve(fill: impl FnOnce(&Path, &Repos)) -> (GitServer, Sources) {
    let origin = tempfile::tempdir().unwrap();
    let repos = Repos::new();
    commit_all(origin.path(), "start");
    fill(origin.path(), &repos);
    let sha = git(origin.path(), &["rev-parse", "HEAD"], &[]);
    repos.mirror(origin.path(), "p");
    let server = repos.serve(TOKEN);
    let sources = Sources {
        sha,
        depth: 0,
        ..sources(&server.repo_url("p"))
    };
    (server, sources)
}

async fn run(
    sources: &Sources,
    fetch: &str,
    change: impl FnOnce(&mut CheckoutRequest<'_>),
) -> (Bench, Result<Checkout, CheckoutError>) {
    let mut bench = Bench::new();
    let flags = Flags {
        fetch: words(fetch),
        ..Flags::default()
    };
    let mut request = request(sources, &flags);
    change(&mut request);
    let result = bench.run(request).await;
    (bench, result)
}

/// The host's memory is not the job's.
#[tokio::test]
async fn a_file_that_git_would_hold_in_memory_whole_is_refused_when_it_is_large() {
    let (_server, sources) = serve(|origin, _| {
        write(&origin.join("big"), &vec![0; 32 << 20]);
        commit_all(origin, "big");
        write(
            &origin.join(".gitattributes"),
            b"big working-tree-encoding=UTF-16LE\n",
        );
        // The file itself stays as it is in the index.
        git(origin, &["add", ".gitattributes"], &[]);
        git(origin, &["commit", "--quiet", "-m", "encoded"], &[]);
    });

    for (max_alloc_bytes, fits) in [(16 << 20, false), (256 << 20, true)] {
        let (_bench, result) = run(&sources, "--quiet", |request| {
            request.max_alloc_bytes = max_alloc_bytes;
        })
        .await;

        match result {
            Ok(_) => assert!(fits),
            Err(error) => {
                assert!(!fits, "{error}");
                assert_eq!(error.failure(), Failure::Configuration, "{error}");
            }
        }
    }
}

/// A repository with a submodule, whose file does not compress.
fn with_submodule(origin: &Path, repos: &Repos) {
    let library = tempfile::tempdir().unwrap();
    write(&library.path().join("large"), &noise(1));
    let commit = commit_all(library.path(), "one");
    repos.mirror(library.path(), "lib");
    let text = b"[submodule \"lib\"]\n\tpath = lib\n\turl = ./../lib.git\n";
    write(&origin.join(".gitmodules"), text);
    git(origin, &["add", ".gitmodules"], &[]);
    let entry = format!("160000,{commit},lib");
    git(
        origin,
        &["update-index", "--add", "--cacheinfo", &entry],
        &[],
    );
    git(origin, &["commit", "--quiet", "-m", "submodule"], &[]);
}

#[tokio::test]
async fn submodules_count_against_the_bound_of_the_tree() {
    let (_server, sources) = serve(with_submodule);

    for (max_tree_bytes, fits) in [(280_000, false), (1_000_000, true)] {
        let (_bench, result) = run(&sources, "--quiet", |request| {
            request.submodules = Some(SUBMODULES);
            request.max_tree_bytes = max_tree_bytes;
        })
        .await;

        match result {
            Ok(_) => assert!(fits),
            Err(error) => {
                // Its pack and its file together are over the host's share already.
                let is_bound = matches!(
                    error,
                    CheckoutError::TreeTooLarge { .. } | CheckoutError::DiskBound { .. }
                );
                assert!(is_bound && !fits, "{error}");
                assert_eq!(error.failure(), Failure::Configuration);
            }
        }
    }
}

#[tokio::test]
async fn the_files_of_a_partial_clone_count_against_the_bound_of_the_tree() {
    // It compresses to nothing: no pack tells of it.
    let (_server, sources) = serve(|origin, _| {
        write(&origin.join("large"), &vec![0; 3_000_000]);
        commit_all(origin, "large");
    });
    let filter = "--quiet --filter=blob:none";

    for (max_tree_bytes, fits) in [(1_000_000, false), (2_000_000, false), (4_000_000, true)] {
        let (_bench, result) = run(&sources, filter, |request| {
            request.max_tree_bytes = max_tree_bytes;
        })
        .await;

        match result {
            Ok(_) => assert!(fits, "{max_tree_bytes}"),
            Err(CheckoutError::TreeTooLarge { max_bytes, .. }) => {
                assert_eq!((max_bytes, fits), (2_000_000, false));
            }
            Err(CheckoutError::DiskBound { max_bytes, .. }) => {
                assert_eq!((max_bytes, fits), (2_000_000, false));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_history_too_large_for_the_host_s_disk_is_told_with_the_figures() {
    let (_server, sources) = serve(|origin, _| {
        for seed in 0..4 {
            write(&origin.join("large"), &noise(seed));
            commit_all(origin, "one more");
        }
    });

    let (bench, result) = run(&sources, "--quiet", |request| {
        request.max_tree_bytes = 400_000;
    })
    .await;

    let error = result.unwrap_err();
    assert!(
        matches!(error, CheckoutError::DiskBound { taken, max_bytes: 800_000 } if taken > 800_000),
        "{error}"
    );
    assert_eq!(error.failure(), Failure::Configuration);
    assert!(
        error.to_string().contains("a job may take 800000"),
        "{error}"
    );
    // Nothing of it is left.
    assert_eq!(std::fs::read_dir(bench.work.path()).unwrap().count(), 0);
    let (_bench, result) = run(&sources, "--quiet --depth=1", |request| {
        request.max_tree_bytes = 400_000;
    })
    .await;
    result.unwrap();
}
