//! How a job's scripts start in its image: user, entry point, working folder.

use serde_json::{Value, json};
use vk_tests::git_http::Repos;
use vk_tests::job::{script, variable, with_after_script, with_variables};
use vk_tests::vk::{JobRun, Vk};

fn run(image: Value, mut job: Value) -> JobRun {
    job["image"] = image;
    Vk::new().run_job(&job, &["--timestamps", "off"])
}

#[test]
fn a_users_job_owns_all_it_finds_and_git_accepts_it() {
    let server = Repos::golden().serve("glcbt-job");
    let mut job = script(&[
        "id -un; id -gn",
        "git status --short --branch; echo git $?",
        "touch new \"$CI_PROJECT_DIR.tmp/new\" && echo writable",
        "cat $CERT; echo more >> $CERT",
        "ls -ld . .git README.md \"$CI_PROJECT_DIR.tmp\" | awk '{print $3, $4}' | sort -u",
        "echo FROM_SCRIPT=yes >> $GITLAB_ENV",
    ]);
    let head = vk_tests::git_http::git(&server.repos().path("web"), &["rev-parse", "HEAD"], &[]);
    job["token"] = json!("glcbt-job");
    job["git_info"] = json!({
        "repo_url": server.repo_url("web"),
        "sha": head.trim(), "ref": "main", "ref_type": "branch",
        "refspecs": ["+refs/heads/main:refs/remotes/origin/main"], "depth": 1,
    });
    job["variables"] = json!([
        {"key": "CERT", "value": "pem\n", "file": true},
    ]);
    let job = with_after_script(job, &["echo \"after $FROM_SCRIPT\"; id -un"]);

    let run = run(
        json!({"name": "local/default", "executor_opts": {"docker": {"user": "nobody"}}}),
        job,
    );

    assert_eq!(run.status, 0, "{}", run.text());
    run.assert_lines(&[
        "nobody",
        "nogroup",
        "git 0",
        "writable",
        "pem",
        "nobody nogroup",
        "after yes",
    ]);
    assert!(!run.text().contains("dubious"), "{}", run.text());
}

#[test]
fn an_entry_point_of_the_job_starts_each_steps_shell_and_sees_its_variables() {
    let entry = "echo \"entry of $WHO\"; export FROM_ENTRY=yes; exec \"$@\"";
    let job = with_variables(
        with_after_script(
            script(&["echo \"[$FROM_ENTRY] $WHO\"", "exit 3"]),
            &["echo \"after [$FROM_ENTRY]\""],
        ),
        &[variable("WHO", "job")],
    );

    let run = run(
        json!({"name": "local/default", "entrypoint": ["bash", "-c", entry, "entry"]}),
        job,
    );

    assert_eq!((run.status, run.failure()), (1, "script"), "{}", run.text());
    assert_eq!(run.result["exit_code"], 3);
    run.assert_lines(&["entry of job", "[yes] job", "after [yes]"]);
}

#[test]
fn an_entry_point_that_starts_no_shell_ends_the_step_with_its_own_code() {
    let cases = [
        (json!(["git"]), 1, "'sh' is not a git command"),
        (json!(["/no/such/program"]), 127, "/no/such/program"),
        (json!(["/etc/passwd"]), 126, "/etc/passwd"),
    ];
    for (entrypoint, code, line) in cases {
        let run = run(
            json!({"name": "local/default", "entrypoint": entrypoint}),
            script(&["echo never"]),
        );

        assert_eq!((run.status, run.failure()), (1, "script"), "{}", run.text());
        assert_eq!(run.result["exit_code"], code, "{}", run.text());
        assert!(run.text().contains(line), "no {line:?} in {}", run.text());
        assert!(!run.text().contains("never"), "{}", run.text());
    }
}

#[test]
fn a_user_whom_the_image_does_not_know_is_a_mistake_of_the_job() {
    let run = run(
        json!({"name": "local/default", "executor_opts": {"docker": {"user": "nobody-knows"}}}),
        script(&["true"]),
    );

    assert_eq!(run.failure(), "configuration", "{}", run.text());
    assert!(run.text().contains("nobody-knows"), "{}", run.text());
}
