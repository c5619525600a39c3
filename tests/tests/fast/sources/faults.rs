//! Servers that fail, and checkouts that are cancelled.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use vk_hub_proto::job::{Failure, Sources};
use vk_sources::{CheckoutError, CheckoutRequest, GitFailure};
use vk_tests::git_http::{Fault, GitServer};
use vk_tests::processes::in_groups;

use super::kit::{Bench, Flags, TOKEN, groups_in, processes_in, request, serve_golden, sources};

async fn failure(server_url: &str, change: impl FnOnce(&mut CheckoutRequest<'_>)) -> GitFailure {
    let mut bench = Bench::new();
    let (sources, flags) = (sources(server_url), Flags::default());
    let mut request = request(&sources, &flags);
    change(&mut request);

    let error = bench.run(request).await.unwrap_err();

    assert_eq!(error.failure(), Failure::ExternalDependency, "{error}");
    match error {
        CheckoutError::Git {
            failure, exit_code, ..
        } => {
            assert_eq!(exit_code, 128, "{:#?}", bench.shown());
            failure
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_refused_token_is_told_as_such() {
    let server = serve_golden();
    let url = server.repo_url("web");

    assert_eq!(
        failure(&url, |request| request.token = "wrong").await,
        GitFailure::Unauthorized
    );
    assert_eq!(
        failure(&url, |request| request.token = "").await,
        GitFailure::Unauthorized
    );
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("http://127.0.0.1:{port}/repos/web.git");

    assert_eq!(failure(&url, |_| ()).await, GitFailure::Unreachable);
}

#[tokio::test]
async fn a_repository_that_is_not_there_is_not_found() {
    let server = serve_golden();

    let url = server.repo_url("none");

    assert_eq!(failure(&url, |_| ()).await, GitFailure::RepositoryNotFound);
}

#[tokio::test]
async fn a_ref_that_is_not_there_is_missing() {
    let server = serve_golden();
    let mut bench = Bench::new();
    let flags = Flags::default();
    let sources = Sources {
        refspecs: vec!["+refs/heads/nope:refs/remotes/origin/nope".to_owned()],
        ..sources(&server.repo_url("web"))
    };

    let error = bench.run(request(&sources, &flags)).await.unwrap_err();

    assert!(
        matches!(
            error,
            CheckoutError::Git {
                failure: GitFailure::MissingRef,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        bench.errors(),
        "E fatal: couldn't find remote ref refs/heads/nope"
    );
}

#[tokio::test]
async fn a_broken_server_is_unreachable() {
    for fault in [Fault::Status(500), Fault::DropAfter(20)] {
        let server = serve_golden();
        server.inject("git-upload-pack", fault.clone(), 9);
        let url = server.repo_url("web");

        assert_eq!(
            failure(&url, |_| ()).await,
            GitFailure::Unreachable,
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn a_transfer_that_brings_nothing_ends() {
    let server = serve_golden();
    server.inject("git-upload-pack", Fault::Stall, 9);
    let url = server.repo_url("web");

    let failure = failure(&url, |request| request.stall_after = Duration::from_secs(1)).await;

    assert_eq!(failure, GitFailure::Unreachable);
}

async fn wait_for_request(server: &GitServer, path_part: &str) {
    while !server
        .requests()
        .iter()
        .any(|request| request.path.contains(path_part))
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn cancelling_a_stalled_transfer_ends_every_process() {
    let server = serve_golden();
    server.inject("git-upload-pack", Fault::Stall, 9);
    let mut bench = Bench::new();
    let (sources, flags) = (sources(&server.repo_url("web")), Flags::default());
    let folder = bench.work.path().canonicalize().unwrap();

    let mut groups = BTreeSet::new();
    let cancel = async {
        wait_for_request(&server, "git-upload-pack").await;
        groups = groups_in(&folder);
        assert_watched(&groups);
    };
    let error = bench
        .run_until(request(&sources, &flags), cancel)
        .await
        .unwrap_err();

    assert!(matches!(error, CheckoutError::Cancelled), "{error}");
    assert_eq!(processes_in(&folder), Vec::<std::path::PathBuf>::new());
    nobody_left_in(&folder, &groups).await;
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[tokio::test]
async fn dropping_a_checkout_ends_every_process() {
    let server = serve_golden();
    server.inject("git-upload-pack", Fault::Stall, 9);
    let mut bench = Bench::new();
    let (sources, flags) = (sources(&server.repo_url("web")), Flags::default());
    let folder = bench.work.path().canonicalize().unwrap();

    let groups;
    tokio::select! {
        _ = bench.run(request(&sources, &flags)) => panic!("it stalls"),
        () = wait_for_request(&server, "git-upload-pack") => groups = groups_in(&folder),
    }

    nobody_left_in(&folder, &groups).await;
}

#[tokio::test]
async fn killing_this_process_ends_every_process() {
    let server = serve_golden();
    server.inject("git-upload-pack", Fault::Stall, 9);
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().canonicalize().unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "sources::faults::checkout_of_another_process",
        ])
        .env("VK_TEST_URL", server.repo_url("web"))
        .env("VK_TEST_WORK", &folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_request(&server, "git-upload-pack").await;
    // git and git-remote-http.
    assert!(processes_in(&folder).len() >= 2);
    let groups = groups_in(&folder);
    assert_watched(&groups);

    victim.kill().unwrap();
    victim.wait().unwrap();

    nobody_left_in(&folder, &groups).await;
}

/// git's process group is one, and someone who does not stand in its folder leads it: the watchdog.
fn assert_watched(groups: &BTreeSet<u32>) {
    let members = in_groups(groups);
    let [group] = groups.iter().collect::<Vec<_>>()[..] else {
        panic!("{groups:?}");
    };
    assert!(members.iter().any(|process| process.pid == *group));
    let line = std::fs::read_to_string(format!("/proc/{group}/cmdline")).unwrap();
    assert!(line.contains("kill -KILL 0"), "{line}");
}

/// Ends only when the processes do, git's and the watchdog; the test runner's own time limit is the bound.
async fn nobody_left_in(folder: &Path, groups: &BTreeSet<u32>) {
    while !processes_in(folder).is_empty() || !in_groups(groups).is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
#[ignore = "the other half of `killing_this_process_ends_every_process`"]
async fn checkout_of_another_process() {
    let Some(work) = std::env::var_os("VK_TEST_WORK") else {
        return; // Run by itself.
    };
    let (sources, flags) = (
        sources(&std::env::var("VK_TEST_URL").unwrap()),
        Flags::default(),
    );
    let request = CheckoutRequest {
        work_dir: Path::new(&work),
        token: TOKEN,
        ..request(&sources, &flags)
    };
    let _ = vk_sources::checkout(&request, &mut |_| (), std::future::pending()).await;
}
