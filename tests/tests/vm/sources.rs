//! Sources in VMs: what the job's own git finds there.

#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use vk_tests::git_http::{Fault, GitServer, Repos, commit_all, git, write};
use vk_tests::golden::Job;
use vk_tests::vk::Vk;

/// The golden job `name` with a server for it and `script` in place of its own.
fn job(name: &str, script: &[&str]) -> (GitServer, Value) {
    let job = Job::load(name).unwrap();
    let response: Value = serde_json::from_str(&job.render("host")).unwrap();
    let server = Repos::golden().serve(response["token"].as_str().unwrap());
    let mut response: Value = serde_json::from_str(&job.render(&server.host())).unwrap();
    response["steps"][0]["script"] = script.into();
    (server, response)
}

#[test]
fn git_in_a_script_gets_the_token_for_the_gitlab_host_in_submodules_too_and_for_no_other() {
    let (_server, job) = job(
        "31-submodules-recursive",
        &[
            "export GIT_TERMINAL_PROMPT=0",
            "url=$(git remote get-url origin)",
            "test -z \"$(git config --get credential.helper)\"",
            "for folder in . vendor/lib vendor/lib/deep; do \
               test \"$(echo \"url=$url\" | git -C $folder credential fill | grep ^password=)\" = \"password=$CI_JOB_TOKEN\"; \
               if echo url=http://elsewhere.example.com/x.git | git -C $folder credential fill; then exit 7; fi; \
             done",
            "test \"$(stat -c %a \"$CI_PROJECT_DIR.tmp/.vk-git-credential\")\" = 600",
            "git config --list --show-origin | grep -F \".gitlab-runner.ext.conf\"",
            "if grep -rF \"$CI_JOB_TOKEN\" .; then exit 8; fi",
            "if git config --list | grep -F \"$CI_JOB_TOKEN\"; then exit 9; fi",
            "echo all is well",
        ],
    );

    let run = Vk::new().run_job(&job, &[]);

    assert!(
        run.text().contains("all is well"),
        "{run:?}\n{}",
        run.text()
    );
    assert_eq!(run.result["failure"], Value::Null, "{run:?}");
}

/// GET_SOURCES_ATTEMPTS, with the server down for the first attempt.
#[test]
fn a_failed_attempt_at_the_sources_is_tried_again_as_often_as_the_job_asks() {
    let (server, mut job) = job("29-clone", &["cat README.md", "git log --oneline | wc -l"]);
    let variable =
        |key: &str, value: &str| serde_json::json!({"key": key, "value": value, "public": true});
    let variables = job["variables"].as_array_mut().unwrap();
    variables.push(variable("GIT_STRATEGY", "fetch"));
    variables.push(variable("GET_SOURCES_ATTEMPTS", "2"));
    let vk = Vk::new();
    server.inject("web.git", Fault::Status(500), 1);

    let run = vk.run_job(&job, &[]);

    let text = run.text();
    assert_eq!(run.result["failure"], Value::Null, "{run:?}\n{text}");
    let order = [
        "Initialized empty Git repository in /builds/repos/web/.git/",
        "The requested URL returned error: 500",
        "Reinitialized existing Git repository in /builds/repos/web/.git/",
        "Job succeeded",
    ];
    let found: Vec<_> = order.iter().map(|line| text.find(line)).collect();
    assert!(
        found.iter().all(Option::is_some) && found.is_sorted(),
        "{found:?}\n{text}"
    );

    // What is kept by now changes nothing about it, and one attempt is not two.
    server.inject("web.git", Fault::Status(500), 2);
    let run = vk.run_job(&job, &[]);
    let text = run.text();
    assert_eq!(run.failure(), "external_dependency", "{run:?}\n{text}");
    assert_eq!(text.matches("Initialized empty Git").count(), 1, "{text}");
    assert_eq!(
        text.matches("Reinitialized existing Git").count(),
        1,
        "{text}"
    );
}

/// The project's folder may be there before its first checkout: made for a user who could not, by a hook, or as a
/// folder of the image.
#[test]
fn an_attempt_that_failed_before_there_was_a_repository_is_tried_again() {
    let (server, mut job) = job("29-clone", &["cat README.md"]);
    let attempts = serde_json::json!({"key": "GET_SOURCES_ATTEMPTS", "value": "2"});
    job["variables"].as_array_mut().unwrap().push(attempts);
    let mut of_user = job.clone();
    of_user["image"] =
        serde_json::json!({"name": "", "executor_opts": {"docker": {"user": "nobody"}}});
    let mut of_hook = job.clone();
    of_hook["hooks"] = serde_json::json!([
        {"name": "pre_get_sources_script", "script": ["mkdir -p \"$CI_PROJECT_DIR\""]}
    ]);
    let clone_path = serde_json::json!({"key": "GIT_CLONE_PATH", "value": "$CI_BUILDS_DIR"});
    job["variables"].as_array_mut().unwrap().push(clone_path);

    for job in [of_user, of_hook, job] {
        server.inject("web.git", Fault::Status(500), 1);
        let run = Vk::new().run_job(&job, &[]);
        assert_eq!(
            run.result["failure"],
            Value::Null,
            "{run:?}\n{}",
            run.text()
        );
    }
}

/// gitlab-runner, build §3.5-4 and build §1.5.3.
#[test]
fn lfs_files_are_real_in_the_guest_and_a_policy_s_lines_come_before_the_script() {
    let origin = tempfile::tempdir().unwrap();
    let attributes = b"*.bin filter=lfs diff=lfs merge=lfs -text\n";
    write(&origin.path().join(".gitattributes"), attributes);
    commit_all(origin.path(), "start");
    let repos = Repos::new();
    repos.mirror(origin.path(), "web");
    let pointer = repos.lfs_object("web", b"the content\n");
    write(&origin.path().join("one.bin"), &pointer);
    let sha = commit_all(origin.path(), "files");
    let to = repos.path("web");
    let push = ["push", "--quiet", to.to_str().unwrap(), "HEAD:main"];
    git(origin.path(), &push, &[]);
    let golden = Job::load("29-clone").unwrap();
    let response: Value = serde_json::from_str(&golden.render("host")).unwrap();
    let server = repos.serve(response["token"].as_str().unwrap());
    let mut job: Value = serde_json::from_str(&golden.render(&server.host())).unwrap();
    job["git_info"]["sha"] = sha.into();
    job["steps"][0]["script"] = ["cat one.bin"].as_slice().into();
    job["policy_options"] =
        serde_json::json!({"execution_policy_job": true, "policy_name": "Scan all"});

    let run = Vk::new().run_job(&job, &[]);

    let text = run.text();
    assert_eq!(run.result["failure"], Value::Null, "{run:?}\n{text}");
    let order = [
        "Checking out",
        "Skipping Git submodules setup",
        "Job triggered by policy \"Scan all\".",
        "Variables defined in the policy take precedence over matching",
        "Executing \"step_script\" stage of the job script",
        "the content",
        "Job succeeded",
    ];
    let found: Vec<_> = order.iter().map(|line| text.find(line)).collect();
    assert!(
        found.iter().all(Option::is_some) && found.is_sorted(),
        "{found:?}\n{text}"
    );
}
