//! Where the job token goes, and where it does not.

use std::process::Command;

use vk_sources::{CheckoutRequest, Submodules};
use vk_tests::git_http::{Fault, GitServer, Repos, git, write};

use super::kit::{
    Bench, Flags, TOKEN, files, holding, processes_in, request, serve_golden, sources,
};

const SUBMODULES: Submodules<'static> = Submodules {
    recursive: true,
    depth: 0,
    paths: &[],
    update_flags: &[],
    force_https: None,
};

fn was_told_the_token(server: &GitServer) -> bool {
    server
        .requests()
        .iter()
        .any(|request| request.headers.contains_key("authorization"))
}

#[tokio::test]
async fn the_checkout_holds_neither_token_nor_host() {
    let server = serve_golden();
    let mut bench = Bench::new();
    let (sources, flags) = (sources(&server.repo_url("web")), Flags::default());

    let checkout = bench
        .run(CheckoutRequest {
            submodules: Some(SUBMODULES),
            ..request(&sources, &flags)
        })
        .await
        .unwrap();

    let project = checkout.project_dir();
    assert!(files(project).len() > 30);
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for needle in [TOKEN, "vk-host-folder-", "/proc/", hostname.trim()] {
        assert_eq!(
            holding(project, needle.as_bytes()),
            Vec::<std::path::PathBuf>::new(),
            "{needle}"
        );
    }
    let shown = bench.shown().join("\n");
    assert!(!shown.contains(TOKEN) && !shown.contains("vk-host-folder-"));
}

#[tokio::test]
async fn the_token_is_in_no_argument_environment_or_file() {
    let server = serve_golden();
    // Only a request that has been let in gets so far.
    server.inject("git-upload-pack", Fault::Stall, 9);
    let mut bench = Bench::new();
    let (sources, flags) = (sources(&server.repo_url("web")), Flags::default());
    let folder = bench.work.path().canonicalize().unwrap();

    let look = async {
        while !server
            .requests()
            .iter()
            .any(|request| request.path.ends_with("git-upload-pack"))
        {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let processes = processes_in(&folder);
        assert!(processes.len() >= 2);
        for process in processes {
            for file in ["cmdline", "environ"] {
                let text = std::fs::read(process.join(file)).unwrap();
                assert!(
                    !String::from_utf8_lossy(&text).contains(TOKEN),
                    "{process:?} {file}"
                );
            }
        }
        assert!(holding(&folder, TOKEN.as_bytes()).is_empty());
    };
    bench
        .run_until(request(&sources, &flags), look)
        .await
        .unwrap_err();

    assert!(was_told_the_token(&server));
}

#[tokio::test]
async fn a_redirect_to_another_host_does_not_get_the_token() {
    let server = serve_golden();
    let other = serve_golden();
    let mut bench = Bench::new();
    let (sources, flags) = (sources(&server.repo_url("web")), Flags::default());
    // The other one is another host by its name; its port differs too.
    let elsewhere = other.url().replace("127.0.0.1", "localhost");
    server.inject("info/refs", Fault::RedirectTo(elsewhere), 9);

    let error = bench.run(request(&sources, &flags)).await.unwrap_err();

    assert!(!other.requests().is_empty());
    assert!(!was_told_the_token(&other), "{error}");
}

#[tokio::test]
async fn a_redirect_after_the_challenge_does_not_carry_the_token() {
    let server = serve_golden();
    let other = serve_golden();
    let mut bench = Bench::new();
    let (sources, flags) = (sources(&server.repo_url("web")), Flags::default());
    let elsewhere = other.url().replace("127.0.0.1", "localhost");
    server.inject_after("info/refs", 1, Fault::RedirectTo(elsewhere), 9);

    bench.run(request(&sources, &flags)).await.unwrap_err();

    assert!(was_told_the_token(&server));
    assert!(!other.requests().is_empty());
    assert!(!was_told_the_token(&other));
}

#[tokio::test]
async fn a_submodule_on_another_host_does_not_get_the_token() {
    let other = serve_golden();
    let elsewhere = other.repo_url("lib").replace("127.0.0.1", "localhost");
    let origin = tempfile::tempdir().unwrap();
    git(origin.path(), &["init", "--quiet"], &[]);
    write(
        &origin.path().join(".gitmodules"),
        format!("[submodule \"x\"]\n\tpath = x\n\turl = {elsewhere}\n").as_bytes(),
    );
    let entry = "160000,a581ad24be5b6378665a7e22793b91424f336c76,x";
    git(
        origin.path(),
        &["update-index", "--add", "--cacheinfo", entry],
        &[],
    );
    git(origin.path(), &["add", ".gitmodules"], &[]);
    git(origin.path(), &["commit", "--quiet", "-m", "one"], &[]);
    let sha = git(origin.path(), &["rev-parse", "HEAD"], &[]);
    let repos = Repos::new();
    repos.mirror(origin.path(), "web");
    let server = repos.serve(TOKEN);
    let mut bench = Bench::new();
    let flags = Flags::default();
    let mut sources = sources(&server.repo_url("web"));
    sources.sha = sha;

    bench
        .run(CheckoutRequest {
            submodules: Some(SUBMODULES),
            ..request(&sources, &flags)
        })
        .await
        .unwrap_err();

    assert!(was_told_the_token(&server));
    assert!(!other.requests().is_empty(), "{:#?}", bench.shown());
    assert!(!was_told_the_token(&other));
}

#[test]
fn settings_and_environment_of_the_user_are_not_used() {
    let server = serve_golden();
    let evil = tempfile::tempdir().unwrap();
    let marker = evil.path().join("marker");
    let touch = format!("touch {}", marker.display());
    write(
        &evil.path().join("hooks/post-checkout"),
        format!("#!/bin/sh\n{touch}\n").as_bytes(),
    );
    Command::new("chmod")
        .args(["-R", "+x"])
        .arg(evil.path())
        .status()
        .unwrap();
    let hooks = evil.path().join("hooks");
    write(
        &evil.path().join(".gitconfig"),
        format!(
            "[core]\n\thooksPath = {}\n\tfsmonitor = {touch}\n[http]\n\tproxy = http://127.0.0.1:1\n[url \"http://127.0.0.1:1/\"]\n\tinsteadOf = http://\n[submodule]\n\trecurse = true\n",
            hooks.display()
        )
        .as_bytes(),
    );
    write(
        &evil.path().join(".netrc"),
        b"machine 127.0.0.1 login a password b\n",
    );
    write(
        &evil.path().join("template/hooks/post-checkout"),
        b"#!/bin/false\n",
    );
    let work = tempfile::tempdir().unwrap();

    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "sources::secrets::checkout_under_odd_settings",
        ])
        .env("VK_TEST_URL", server.repo_url("web"))
        .env("VK_TEST_WORK", work.path())
        .env("HOME", evil.path())
        .env("XDG_CONFIG_HOME", evil.path())
        .env("GIT_CONFIG_GLOBAL", evil.path().join(".gitconfig"))
        .env("GIT_CONFIG_SYSTEM", evil.path().join(".gitconfig"))
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "core.hooksPath")
        .env("GIT_CONFIG_VALUE_0", hooks)
        .env("GIT_DIR", evil.path())
        .env("GIT_WORK_TREE", evil.path())
        .env("GIT_TEMPLATE_DIR", evil.path().join("template"))
        .env("GIT_ASKPASS", &touch)
        .env("GIT_PROXY_COMMAND", &touch)
        .env("GIT_SSL_CAINFO", "/nonexistent")
        .env("GIT_EXEC_PATH", "/nonexistent")
        .env("LANG", "de_DE.UTF-8")
        .env("AWS_PROFILE", "rubbish")
        .output()
        .unwrap();

    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
    assert!(!marker.exists());
}

#[tokio::test]
#[ignore = "the other half of `settings_and_environment_of_the_user_are_not_used`"]
async fn checkout_under_odd_settings() {
    let Some(work) = std::env::var_os("VK_TEST_WORK") else {
        return; // Run by itself.
    };
    let (sources, flags) = (
        sources(&std::env::var("VK_TEST_URL").unwrap()),
        Flags::default(),
    );
    let request = CheckoutRequest {
        work_dir: std::path::Path::new(&work),
        ..request(&sources, &flags)
    };
    let checkout = vk_sources::checkout(
        &request,
        &mut |line| println!("{line:?}"),
        std::future::pending(),
    )
    .await
    .unwrap();
    assert!(!checkout.project_dir().join(".git/hooks").exists());
}

#[tokio::test]
async fn a_server_s_own_certificate_is_trusted_when_it_is_given_and_else_not() {
    let server = Repos::golden().serve_tls(TOKEN);
    let (sources, flags) = (sources(&server.repo_url("web")), Flags::default());
    let with = |ca_pem| CheckoutRequest {
        ca_pem,
        ..request(&sources, &flags)
    };

    Bench::new().run(with(Some(server.ca_pem()))).await.unwrap();
    let mut bench = Bench::new();
    let error = bench.run(with(None)).await.unwrap_err();

    assert!(bench.errors().contains("certificate"), "{error}");
}
