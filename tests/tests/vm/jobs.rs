//! Jobs in VMs, end to end.

#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;
use vk_tests::job::{script, variable, with_after_script, with_variables};
use vk_tests::vk::{Vk, workspace};

/// As QEMU's emulation does now and then: here its first guest never runs an instruction.
#[test]
fn an_emulated_guest_that_hangs_at_boot_makes_way_for_another() {
    let vk = Vk::new();
    let qemu = vk.dir().join("bin/qemu-system-x86_64");
    fs::create_dir(vk.dir().join("bin")).unwrap();
    let path = std::env::var("PATH").unwrap();
    let script = "#!/bin/sh\nPATH=${PATH#*:}\n\
        mkdir \"${0%/*}/hung\" 2>/dev/null && exec qemu-system-x86_64 \"$@\" -S\n\
        exec qemu-system-x86_64 \"$@\"\n";
    fs::write(&qemu, script).unwrap();
    fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{path}", vk.dir().join("bin").display());
    vk.wait_for_place();

    let output = vk
        .command()
        .env("PATH", path)
        .args([
            "run",
            "--backend",
            "qemu",
            "local/default",
            "--",
            "echo",
            "up",
        ])
        .output()
        .unwrap();

    let told = String::from_utf8_lossy(&output.stderr);
    assert!(vk.dir().join("bin/hung").is_dir(), "{told}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "up",
        "{told}"
    );
    assert!(told.contains("another guest is started"), "{told}");
}

#[test]
fn the_example_runs_with_a_local_repository() {
    let vk = Vk::new();
    let repo = vk.dir().join("repo");
    git(&["init", "-q", "-b", "main", repo.to_str().unwrap()]);
    fs::write(repo.join("hello.txt"), "hi\n").unwrap();
    let in_repo = [
        "-C",
        repo.to_str().unwrap(),
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
    ];
    git(&[&in_repo[..], &["add", "."]].concat());
    git(&[&in_repo[..], &["commit", "-q", "-m", "first commit"]].concat());
    fs::write(repo.join("not-committed"), "").unwrap();
    let shallow = vk.dir().join("shallow");
    let url = format!("file://{}", repo.display());
    git(&[
        "clone",
        "-q",
        "--depth",
        "1",
        &url,
        shallow.to_str().unwrap(),
    ]);

    for source in [&repo, &shallow] {
        let output = vk.run([
            "gitlab".as_ref(),
            "run".as_ref(),
            workspace().join("examples/hello.json").as_os_str(),
            "--repo".as_ref(),
            source.as_os_str(),
            "--timestamps".as_ref(),
            "off".as_ref(),
        ]);

        let trace = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{trace}");
        for line in [
            "Hello from a microVM",
            "first commit",
            "hello.txt",
            "Job succeeded",
        ] {
            assert!(trace.contains(line), "no {line:?} in {trace}");
        }
        assert!(!trace.contains("not-committed"), "{trace}");
    }
}

fn git(args: &[&str]) {
    assert!(
        Command::new("git").args(args).status().unwrap().success(),
        "git {args:?}"
    );
}

#[test]
fn a_job_finds_the_world_it_expects() {
    let job = script(&[
        "test \"$(id -un)\" = root",
        "test \"$HOME\" = /root",
        "test -d /proc/self && test -d /sys/class && test -c /dev/null && test -e /dev/fd/0",
        "test -d /dev/pts && touch /dev/shm/x /tmp/x /run/x",
        "said=$( (exec 3<>/dev/tcp/127.0.0.1/9) 2>&1 || true); [[ $said == *refused* ]]",
        "grep -q \"$(hostname)\" /etc/hosts",
        "echo \"cpus $(nproc)\"",
        "awk '/MemTotal/ {print \"mib\", int($2 / 1024)}' /proc/meminfo",
        "test \"$PWD\" = \"$CI_PROJECT_DIR\"",
        "echo \"clock $(date +%s)\"",
        "git --version && bash --version | head -1",
        "head -c 16 /dev/random | wc -c",
    ]);
    let sized = [
        variable("MICROVM_CPUS", "1"),
        variable("MICROVM_MEM", "384M"),
    ];

    let run = Vk::new().run_job(&with_variables(job, &sized), &["--timestamps", "off"]);

    let text = run.text();
    assert_eq!(run.status, 0, "{text}");
    assert!(text.contains("cpus 1\n"), "{text}");
    let mib: u32 = number_after(&text, "\nmib ");
    assert!((300..=384).contains(&mib), "{text}");
    // The section's marks are the host's clock before and after the script; a second for what whole seconds hide.
    let clock: u64 = number_after(&text, "\nclock ");
    let mark = |edge: &str| -> u64 {
        let mark = format!("section_{edge}:");
        text.split(&mark)
            .skip(1)
            .filter_map(|rest| rest.split_once(':'))
            .find(|(_, name)| name.starts_with("step_script"))
            .and_then(|(seconds, _)| seconds.parse().ok())
            .unwrap()
    };
    let (start, end) = (mark("start"), mark("end"));
    assert!(
        (start - 1..=end + 1).contains(&clock),
        "{clock} is not between {start} and {end}"
    );
    assert_eq!(
        (
            &run.result["usage"]["cpus"],
            &run.result["usage"]["mem_mib"]
        ),
        (&json!(1), &json!(384))
    );
}

fn number_after<N: std::str::FromStr>(text: &str, mark: &str) -> N {
    let rest = text
        .split(mark)
        .nth(1)
        .unwrap_or_else(|| panic!("no {mark:?} in {text}"));
    rest.split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap()
}

#[test]
fn the_exit_code_of_the_failing_line_is_the_jobs() {
    for (line, code) in [
        ("sh -c 'exit 42'", 42),
        ("false | true", 1),
        ("kill -9 $BASHPID", 137),
    ] {
        let run = Vk::new().run_job(&script(&[line, "echo not reached"]), &[]);

        assert_eq!(
            (run.status, run.failure()),
            (1, "script"),
            "{line}: {}",
            run.text()
        );
        assert_eq!(run.result["exit_code"], code, "{line}");
        assert!(
            run.text()
                .contains(&format!("ERROR: Job failed: exit code {code}"))
        );
        assert!(
            !run.text().contains("\u{1b}[32;1m$ echo not reached"),
            "{line}"
        );
    }
}

#[test]
fn a_time_limit_beyond_all_clocks_is_no_limit() {
    let mut job = script(&["true"]);
    job["runner_info"]["timeout"] = i64::MAX.into();

    let run = Vk::new().run_job(&job, &[]);

    assert_eq!(run.status, 0, "{}{}", run.text(), run.stderr);
}

#[test]
fn two_runs_of_the_same_job_at_once_both_work() {
    let vk = Vk::new();
    let other = Vk::new();
    let job = with_after_script(script(&["hostname", "sleep 1"]), &["echo done"]);
    vk_test_base::places::both();

    let first = vk.start_job(&job, &[]);
    let second = other.start_job(&job, &["--state-dir", vk.state().to_str().unwrap()]);
    let runs = [vk.finish(first), other.finish(second)];

    for run in runs {
        assert_eq!(run.status, 0, "{}", run.text());
    }
}

#[test]
fn variables_of_the_command_line_win_and_files_are_files() {
    let job = with_variables(
        script(&[
            "echo \"A=$A\"",
            "cat \"$CERT\"",
            "echo \"mode $(stat -c %a \"$CERT\")\"",
        ]),
        &[
            variable("A", "from the job"),
            json!({"key": "CERT", "value": "pem\ndata\n", "file": true}),
        ],
    );

    let run = Vk::new().run_job(&job, &["--var", "A=from the line", "--timestamps", "off"]);

    assert_eq!(run.status, 0, "{}", run.text());
    assert!(run.text().contains("A=from the line\n"), "{}", run.text());
    assert!(run.text().contains("pem\ndata\n"), "{}", run.text());
    // The shell's umask decides, as under GitLab Runner (gitlab-runner, build §2.4).
    assert!(run.text().contains("mode 644\n"), "{}", run.text());
}

#[test]
fn a_command_passes_its_streams_and_its_status() {
    let vk = Vk::new();
    vk.wait_for_place();
    let script = "cat; echo to stderr >&2; echo \"$NAME\"; exit 7";

    let mut child = vk
        .command()
        .args([
            "run",
            "--cpus",
            "1",
            "--mem",
            "512M",
            "--env",
            "NAME=vk",
            "local/default",
            "--",
        ])
        .args(["bash", "-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"to stdin\n").unwrap();
    let output = child.wait_with_output().unwrap();

    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(output.stdout, b"to stdin\nvk\n");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("to stderr\n"),
        "{output:?}"
    );
}

#[test]
fn a_command_that_is_not_in_the_image_is_told_from_one_that_fails() {
    let output = Vk::new().run(["run", "local/default", "--", "no-such-command"]);

    assert_eq!(output.status.code(), Some(127), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no-such-command"));
}

#[test]
fn check_says_that_jobs_can_run_here() {
    let output = Vk::new().run(["check"]);

    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for subject in ["kvm", "qemu", "images", "git", "state"] {
        assert!(text.contains(subject), "no {subject} in {text}");
    }
}
