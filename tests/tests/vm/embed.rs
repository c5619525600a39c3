//! `examples/embed.rs`: the driver in somebody else's executor, with jobs side by side in one process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::Notify;
use vk_driver::{Cancel, Host, Job, JobEvent, Stage, VmSize, run, spec};
use vk_test_base::places;
use vk_tests::vk::images;

/// The example, which cargo builds beside the test programs.
fn embed() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples/embed");
    assert!(
        program.is_file(),
        "{} is missing: run `cargo test --workspace`, or `cargo build -p vk-driver --example embed`",
        program.display()
    );
    program
}

/// Two jobs at once: one fails by its script, the other is cancelled once the first has ended. Each has a VM, a slot and a
/// trace of its own.
#[test]
fn jobs_of_another_executor_run_side_by_side_and_are_cancelled() {
    places::both();
    let state = tempfile::tempdir().unwrap();
    let mut process = Command::new(embed())
        .arg(state.path())
        .arg(images())
        .arg("echo \"here is $CI_CONCURRENT_ID on $(nproc)\"; exit 3")
        .arg("echo \"here is $CI_CONCURRENT_ID\"; sleep 600")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = Pid::from_child(&process);
    let mut lines = Vec::new();
    let mut is_canceled = false;
    for line in BufReader::new(process.stdout.take().unwrap()).lines() {
        lines.push(line.unwrap());
        let has = |start: &str| lines.iter().any(|line| line.starts_with(start));
        // The first one's result, and the other at work: now the other one ends.
        if !is_canceled && has("0: Some(") && has("1: here is 1") {
            is_canceled = true;
            kill_process(id, Signal::INT).unwrap();
        }
    }
    let output = process.wait_with_output().unwrap();
    let events = String::from_utf8_lossy(&output.stderr);

    let text = lines.join("\n");
    assert!(is_canceled, "{text}\n{events}");
    assert_eq!(output.status.code(), Some(1), "{text}\n{events}");
    for line in [
        "0: \x1b[0KRunning with embed\x1b[0;m",
        "1: \x1b[0KRunning with embed\x1b[0;m",
        "0: here is 0 on 1",
        "0: Some(Script), Some(\"exit code 3\")",
        "1: Some(Canceled), Some(\"canceled\")",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}: {text}");
    }
    for number in [0, 1] {
        let size = format!("{number}: GuestStarted(VmSize {{ cpus: 1, memory_mib: 512,");
        assert!(events.contains(&size), "{events}");
    }
    let runs = std::fs::read_dir(state.path().join("runs")).unwrap();
    assert_eq!(runs.count(), 0, "run folders stay");
}

/// Whether a process names `folder` on its command line.
fn is_used(folder: &Path) -> bool {
    let folder = folder.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(folder))
}

/// An embedder may drop a job as any other future.
#[test]
fn a_job_that_is_dropped_leaves_no_vm() {
    places::one();
    let state = tempfile::tempdir().unwrap();
    let host = Host::builder(state.path(), images()).build();
    let spec = spec::CiJob {
        variables: vec![spec::Variable {
            key: "GIT_STRATEGY".into(),
            value: "none".into(),
            ..spec::Variable::default()
        }],
        steps: vec![spec::Step {
            name: "script".into(),
            script: vec!["sleep 600".into()],
            ..spec::Step::default()
        }],
        ..spec::CiJob::default()
    };
    let job = Job::new(spec).size(VmSize::new(1, 512));
    let at_work = Notify::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut trace = tokio::io::sink();
        let mut observer = |event| {
            if matches!(event, JobEvent::StageStarted(Stage::Step(_))) {
                at_work.notify_one();
            }
        };
        let cancel = Cancel::new();
        tokio::select! {
            result = run(&host, job, &mut trace, &cancel, &mut observer) => panic!("{result:?}"),
            () = at_work.notified() => {}
        }
        assert!(is_used(state.path()), "there is no VM to begin with");
        let dropped = Instant::now();
        while is_used(state.path()) {
            assert!(
                dropped.elapsed() < Duration::from_secs(20),
                "the VM lives on"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    drop(runtime);
    let runs = std::fs::read_dir(state.path().join("runs")).unwrap();
    assert_eq!(runs.count(), 0, "run folders stay");
}
