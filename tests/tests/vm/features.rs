//! Features that no golden job has, in VMs: settings that change scripts, hooks, where the sources lie, output.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;

use serde_json::{Value, json};
use vk_tests::git_http::{commit_all, write};
use vk_tests::job::{script, variable, with_after_script, with_variables};
use vk_tests::vk::{JobRun, Vk};

fn with_settings(job: Value, settings: &[(&str, &str)]) -> Value {
    let settings: Vec<Value> = settings.iter().map(|(k, v)| variable(k, v)).collect();
    with_variables(job, &settings)
}

/// Runs `job` on a repository with one file.
fn run_with_repository(mut job: Value, args: &[&str]) -> JobRun {
    let vk = Vk::new();
    let repo = vk.dir().join("repo");
    write(&repo.join("hello.txt"), b"hello");
    commit_all(&repo, "one");
    let variables = job["variables"].as_array_mut().unwrap();
    variables.retain(|variable| variable["key"] != "GIT_STRATEGY");
    let with_repo = [&["--repo", repo.to_str().unwrap()], args].concat();
    vk.run_job(&job, &with_repo)
}

#[track_caller]
fn assert_has(run: &JobRun, lines: &[&str]) {
    for line in lines {
        assert!(
            run.text().contains(line),
            "no {line:?} in {}\n{}",
            run.text(),
            run.stderr
        );
    }
}

/// gitlab-runner, build §2.1, build §2.8 and build §1.5.3.
#[test]
fn flags_of_the_script_and_malformed_limits() {
    let job = with_settings(
        script(&["set +e", "(exit 8)", "echo not reached"]),
        &[
            ("CI_DEBUG_TRACE", "true"),
            ("FF_ENABLE_BASH_EXIT_CODE_CHECK", "true"),
            ("FF_USE_LEGACY_BASH_EVAL", "true"),
            ("RUNNER_SCRIPT_TIMEOUT", "soon"),
            ("RUNNER_AFTER_SCRIPT_TIMEOUT", "-1s"),
        ],
    );

    let run = Vk::new().run_job(&job, &["--timestamps", "off"]);

    assert_eq!((run.status, run.failure()), (1, "script"), "{}", run.text());
    assert_eq!(run.result["exit_code"], 8);
    assert_has(
        &run,
        &[
            "  feature flags: FF_ENABLE_BASH_EXIT_CODE_CHECK:true, FF_USE_LEGACY_BASH_EVAL:true\u{1b}[0;m\n",
            "WARNING: Ignoring malformed RUNNER_SCRIPT_TIMEOUT timeout: soon\u{1b}[0;m\n",
            "WARNING: Ignoring relative RUNNER_AFTER_SCRIPT_TIMEOUT timeout: -1s\u{1b}[0;m\n",
            "+ set +e\n",
            "+ exit 8\n",
            "ERROR: Job failed: exit code 8",
        ],
    );
    assert!(!run.text().contains("\nnot reached"), "{}", run.text());
    let warned = run.text().find("Ignoring malformed").unwrap();
    assert!(warned < run.text().find("Executing \"step_script\"").unwrap());
}

/// gitlab-runner, build §2.3.2 and build §4.4.
#[test]
fn posix_escapes_and_a_clone_path_within_the_builds_folder() {
    let job = with_settings(
        script(&[
            "test \"$PWD\" = /builds/else/where",
            "test \"$CI_PROJECT_DIR\" = /builds/else/where",
            "cat hello.txt && git log --format=%s",
            "echo \"[$V]\"",
            "echo done",
        ]),
        &[
            ("FF_POSIXLY_CORRECT_ESCAPES", "true"),
            ("GIT_CLONE_PATH", "$CI_BUILDS_DIR/else/./where"),
            ("V", "a \"b\" `c` \\ é | d"),
        ],
    );

    let run = run_with_repository(job, &["--timestamps", "off"]);

    assert_eq!(run.status, 0, "{}", run.text());
    let notice = "Initialized empty Git repository in /builds/else/where/.git/\n";
    assert_has(
        &run,
        &[notice, "helloone\n", "[a \"b\" `c` \\ é | d]\n", "\ndone\n"],
    );
}

/// gitlab-runner, build §4.4. No VM is started for it.
#[test]
fn a_clone_path_elsewhere_is_a_configuration_error() {
    let job = with_settings(script(&["true"]), &[("GIT_CLONE_PATH", "/etc")]);

    let run = Vk::new().run_job(&job, &[]);

    assert_eq!((run.status, run.failure()), (3, "configuration"));
    let error = "Job failed: the GIT_CLONE_PATH=\"/etc\" has to be within \"/builds\"";
    assert_has(&run, &[error]);
}

/// gitlab-runner, build §3.1 and build §1.3: a failed hook is a failure of `get_sources`.
#[test]
fn a_hook_that_fails_ends_the_job_before_its_script() {
    let mut job = with_after_script(script(&["echo script"]), &["echo after"]);
    job["hooks"] = json!([
        {"name": "pre_get_sources_script", "script": ["echo pre", "(exit 7)"]},
        {"name": "post_get_sources_script", "script": ["echo post"]},
    ]);

    let run = run_with_repository(job, &["--timestamps", "off"]);

    assert_eq!((run.status, run.failure()), (1, "script"), "{}", run.text());
    assert_eq!(run.result["exit_code"], 7);
    assert_has(
        &run,
        &[
            "$ (exit 7)",
            "cleanup_file_variables",
            "ERROR: Job failed: exit code 7",
        ],
    );
    for unwanted in [
        "Initialized empty",
        "echo post",
        "echo script",
        "echo after",
    ] {
        assert!(!run.text().contains(unwanted), "{unwanted}: {}", run.text());
    }
}

#[test]
fn a_value_that_the_script_makes_is_masked_plain_and_in_base64_over_two_lines() {
    let job = script(&[
        "made=$(head -c 40 /dev/urandom | od -An -tx1 | tr -d ' \\n')",
        "echo \"$made\" > made",
        "printf '::add-mask::%s\\n' \"$made\"",
        "echo \"plain: $made\"",
        "echo wrapped:; echo \"$made\" | base64",
        "echo reversed: $(rev made)",
    ]);
    let job = with_after_script(job, &["echo later: $(cat made)"]);

    let run = Vk::new().run_job(&job, &[]);

    assert_has(
        &run,
        &["plain: [MASKED]\n", "later: [MASKED]\n", "Job succeeded"],
    );
    let text = run.text();
    let (_, wrapped) = text.split_once("wrapped:\n").unwrap();
    let lines: Vec<&str> = wrapped.lines().collect();
    assert!(lines[0].ends_with("[MASKED]"), "{text}");
    let (_, reversed) = text.rsplit_once("reversed: ").unwrap();
    let made: String = reversed.lines().next().unwrap().chars().rev().collect();
    assert_eq!(made.len(), 80, "{text}");
    assert!(!text.contains(&made), "{text}");
    // Once: where the command is shown.
    assert_eq!(text.matches("::add-mask::").count(), 1, "{text}");
}

#[test]
fn both_streams_are_drained_and_lines_stay_whole() {
    let lines = |letter: &str| {
        format!(
            "line=$(printf '{letter}%.0s' {{1..200}}); for i in {{1..2000}}; do echo $line; done"
        )
    };
    let loops = format!("({}) & ({}) >&2; wait", lines("a"), lines("b"));
    let job = script(&[&loops, "head -c 1500000 /dev/zero >&2; echo done"]);

    let run = Vk::new().run_job(&job, &[]);

    assert_eq!(run.status, 0, "{}", run.stderr);
    let text = run.text();
    let (a, b) = ("a".repeat(200), "b".repeat(200));
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for record in text.lines().filter(|record| record.len() > 200) {
        match record.get(28..).unwrap() {
            line if line == format!("01O {a}") => *seen.entry("a").or_default() += 1,
            line if line == format!("01E {b}") => *seen.entry("b").or_default() += 1,
            line => assert!(!line.contains("aaaaa") && !line.contains("bbbbb"), "{line}"),
        }
    }
    assert_eq!((seen.get("a"), seen.get("b")), (Some(&2000), Some(&2000)));
    assert_eq!(text.matches('\0').count(), 1_500_000);
    assert!(text.contains("01O done\n"));
}

/// The trace is cut between two letters, whatever the script's own writes are.
#[test]
fn the_limit_cuts_between_letters_and_the_job_goes_on() {
    let job = script(&[
        "printf x; yes 'é€😀é€😀é€😀é€😀é€😀' | head -c 5000000 || true",
        "echo END",
        "exit 3",
    ]);

    let run = Vk::new().run_job(&job, &["--timestamps", "off"]);

    assert_eq!((run.status, run.failure()), (1, "script"));
    assert_eq!(run.result["exit_code"], 3);
    let notice = "\n\u{1b}[33;1mJob's log exceeded limit of 4194304 bytes.\n\
                  Job execution will continue but no more output will be collected.\u{1b}[0;m\n";
    let kept = run.trace.strip_suffix(notice.as_bytes()).unwrap();
    assert!(
        (4_194_301..=4_194_304).contains(&kept.len()),
        "{}",
        kept.len()
    );
    assert!(std::str::from_utf8(kept).is_ok());
    assert_eq!(run.result["output_len"], run.trace.len());
}

/// Of a file and a folder of the job's own on the root file system, of a file of the image, and in the project's folder;
/// by the numbers of setxattr and getxattr, since an image need not have the tools.
#[test]
fn the_root_file_system_keeps_extended_attributes() {
    let set_and_get = "perl -e 'for (@ARGV) { my ($file, $name) = split /=/; my $value = q(value); \
         syscall(188, $file, $name, $value, 5, 0) == 0 or die qq($_: $!\\n); \
         my $got = q( ) x 16; my $len = syscall(191, $file, $name, $got, 16); \
         print qq($_ ), substr($got, 0, $len), qq(\\n) }'";
    let attributes = [
        "/own=user.x",
        "/folder=user.x",
        "/etc/passwd=user.x",
        "f=user.x",
        "/own=trusted.x",
        "/etc/passwd=trusted.x",
        "f=trusted.x",
    ];
    let job = script(&[
        "touch /own f && mkdir /folder",
        &format!("{set_and_get} {}", attributes.join(" ")),
    ]);

    let run = Vk::new().run_job(&job, &["--timestamps", "off"]);

    assert_eq!(run.status, 0, "{}", run.text());
    let lines = attributes.map(|attribute| format!("{attribute} value\n"));
    assert_has(&run, &lines.each_ref().map(String::as_str));
}
