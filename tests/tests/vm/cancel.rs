//! Cancel, time-out and the death of vk: nothing is left running, and the trace says what happened.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use vk_tests::git_http::{Fault, Repos};
use vk_tests::golden::Job;
use vk_tests::job::{script, with_after_script};
use vk_tests::processes::{Signal, family, left_after, left_of, marked, send};
use vk_tests::vk::{JobRun, Vk};

const AFTER: &[&str] = &["echo \"after: $CI_JOB_STATUS\""];

/// A running job whose trace goes to a file, so that a test can see how far it is.
struct Running {
    vk: Vk,
    child: Child,
}

impl Running {
    fn start(vk: Vk, lines: &[&str]) -> Self {
        Self::start_job(vk, &with_after_script(script(lines), AFTER))
    }

    fn start_job(vk: Vk, job: &Value) -> Self {
        let trace = vk.dir().join("trace");
        let child = vk.start_job(job, &["--trace", trace.to_str().unwrap()]);
        Self { vk, child }
    }

    fn trace(&self) -> String {
        let bytes = std::fs::read(self.vk.dir().join("trace")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until the trace has `text`.
    fn reach(&mut self, text: &str) {
        let end = Instant::now() + Duration::from_secs(120);
        while !self.trace().contains(text) {
            assert!(Instant::now() < end, "no {text:?} in {}", self.trace());
            assert!(
                self.child.try_wait().unwrap().is_none(),
                "ended: {}",
                self.trace()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn mark(&self) -> String {
        self.vk.state().to_str().unwrap().to_owned()
    }

    /// Waits for the end; answers the run with the trace of the file.
    fn finish(self) -> JobRun {
        let trace = self.vk.dir().join("trace");
        let mut run = self.vk.finish(self.child);
        run.trace = std::fs::read(trace).unwrap_or_default();
        run
    }
}

#[test]
fn the_first_signal_stops_the_script_and_runs_after_script() {
    let mut running = Running::start(Vk::new(), &["echo ready", "sleep 600 # marker-4711-x"]);
    running.reach("\nready".trim_start());
    running.reach("sleep 600");
    send(running.child.id(), Signal::INT);
    let mark = running.mark();

    let run = running.finish();

    assert_eq!(left_after(&mark, Duration::from_secs(1)), [0; 0]);
    assert_eq!(
        (run.status, run.failure()),
        (5, "canceled"),
        "{}",
        run.text()
    );
    assert!(
        run.text()
            .contains("WARNING: script canceled externally (UI, API)")
    );
    assert!(run.text().contains("after: canceled"), "{}", run.text());
    assert!(run.text().contains("ERROR: Job failed: canceled"));
    // Echoed once by the script itself; a shell that prints its program on a signal would show it again.
    assert_eq!(
        run.text().matches("marker-4711-x").count(),
        1,
        "{}",
        run.text()
    );
}

#[test]
fn the_second_signal_ends_after_script() {
    let after = &["echo \"after: $CI_JOB_STATUS\"", "sleep 600"];
    let job = with_after_script(script(&["echo ready", "sleep 600"]), after);
    let mut running = Running::start_job(Vk::new(), &job);
    running.reach("sleep 600");
    send(running.child.id(), Signal::TERM);
    running.reach("after: canceled");
    send(running.child.id(), Signal::TERM);
    let mark = running.mark();

    let run = running.finish();

    assert_eq!(
        (run.status, run.failure()),
        (5, "canceled"),
        "{}",
        run.text()
    );
    assert!(
        run.text().contains("ERROR: Job failed: canceled"),
        "{}",
        run.text()
    );
    assert!(
        !run.text().contains("section_start:cleanup"),
        "{}",
        run.text()
    );
    assert_eq!(left_after(&mark, Duration::from_secs(1)), [0; 0]);
}

#[test]
fn the_second_signal_ends_everything_at_once() {
    let mut running = Running::start(
        Vk::new(),
        &["trap '' TERM", "echo ready", "sleep 600 & wait; sleep 600"],
    );
    running.reach("sleep 600");
    send(running.child.id(), Signal::TERM);
    std::thread::sleep(Duration::from_millis(300));
    send(running.child.id(), Signal::TERM);
    let mark = running.mark();

    let run = running.finish();

    assert_eq!(
        (run.status, run.failure()),
        (5, "canceled"),
        "{}",
        run.text()
    );
    assert!(!run.text().contains("after: "), "{}", run.text());
    assert_eq!(left_after(&mark, Duration::from_secs(1)), [0; 0]);
}

#[test]
fn a_cancel_while_the_vm_boots_ends_the_job() {
    let began = Instant::now();
    let mut running = Running::start(Vk::new(), &["echo not reached"]);
    running.reach("prepare_executor");
    let mark = running.mark();
    while !marked(&mark).iter().any(|pid| is_qemu(*pid)) {
        std::thread::sleep(Duration::from_millis(5));
    }
    send(running.child.id(), Signal::INT);

    let run = running.finish();

    assert_eq!(
        (run.status, run.failure()),
        (5, "canceled"),
        "{}",
        run.text()
    );
    assert!(!run.text().contains("step_script"), "{}", run.text());
    // The time it took, by this clock and vk's, and nothing of a guest that never was.
    let usage = &run.result["usage"];
    let wall_ms = u128::from(usage["wall_ms"].as_u64().unwrap());
    assert!(
        (1..=began.elapsed().as_millis()).contains(&wall_ms),
        "{usage}"
    );
    assert_eq!(usage.as_object().unwrap().len(), 1, "{usage}");
    assert_eq!(left_after(&mark, Duration::from_secs(1)), [0; 0]);
}

#[test]
fn a_timeout_while_the_vm_boots_ends_the_job_as_timeout() {
    let mut job = script(&["echo not reached"]);
    job["runner_info"]["timeout"] = 1.into();

    let run = Vk::new().run_job(&job, &[]);

    assert_eq!(
        (run.status, run.failure()),
        (4, "timeout"),
        "{}",
        run.text()
    );
    assert!(
        run.text().contains("execution took longer than 1s seconds"),
        "{}",
        run.text()
    );
}

#[test]
fn nothing_survives_a_killed_vk() {
    for stage in ["boot", "script"] {
        let mut running = Running::start(Vk::new(), &["echo ready", "sleep 600"]);
        let mark = running.mark();
        if stage == "boot" {
            while !marked(&mark).iter().any(|pid| is_qemu(*pid)) {
                std::thread::sleep(Duration::from_millis(5));
            }
        } else {
            running.reach("sleep 600");
        }
        running.child.kill().unwrap();
        running.child.wait().unwrap();

        assert_eq!(left_after(&mark, Duration::from_secs(1)), [0; 0], "{stage}");

        // What it left in its folder goes at the next start.
        let runs = running.vk.state().join("runs");
        assert_eq!(std::fs::read_dir(&runs).unwrap().count(), 1, "{stage}");
        let next = running.vk.run(["run", "local/default", "--", "true"]);
        assert_eq!(next.status.code(), Some(0), "{next:?}");
        assert_eq!(std::fs::read_dir(&runs).unwrap().count(), 0, "{stage}");
    }
}

/// git, the programs that it starts and the watchdog of their group have nothing of vk's environment.
#[test]
fn nothing_survives_a_vk_killed_while_it_fetches() {
    let job = Job::load("29-clone").unwrap();
    let token: Value = serde_json::from_str(&job.render("host")).unwrap();
    let server = Repos::golden().serve(token["token"].as_str().unwrap());
    let job: Value = serde_json::from_str(&job.render(&server.host())).unwrap();
    server.inject("git-upload-pack", Fault::Stall, 9);
    let mut running = Running::start_job(Vk::new(), &job);
    running.reach("Fetching changes");
    while !server
        .requests()
        .iter()
        .any(|request| request.path.contains("git-upload-pack"))
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    let family = family(running.child.id());
    for name in ["qemu-system", "git", "kill -KILL 0"] {
        let is_there = family.iter().any(|process| {
            let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(name)
        });
        assert!(is_there, "no {name} in {family:?}");
    }

    running.child.kill().unwrap();
    running.child.wait().unwrap();

    assert_eq!(left_of(&family, Duration::from_secs(10)), []);
}

#[test]
fn a_killed_vm_is_a_system_failure_within_moments() {
    let mut running = Running::start(Vk::new(), &["echo ready", "sleep 600"]);
    running.reach("sleep 600");
    let mark = running.mark();
    let qemu = marked(&mark).into_iter().find(|pid| is_qemu(*pid)).unwrap();
    send(qemu, Signal::KILL);

    let run = running.finish();

    assert_eq!((run.status, run.failure()), (3, "system"), "{}", run.text());
    assert!(
        run.text().contains("ERROR: Job failed (system failure): "),
        "{}",
        run.text()
    );
}

#[test]
fn a_trace_that_cannot_be_written_ends_the_job() {
    let vk = Vk::new();
    let file = vk.job_file(&script(&["echo ready", "sleep 600"]));
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    vk.wait_for_place();

    let output = vk
        .command()
        .args(["gitlab", "run"])
        .arg(file)
        .stdout(Stdio::from(full))
        .stderr(Stdio::piped())
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("cannot write the trace"), "{error}");
}

fn is_qemu(pid: u32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe"))
        .is_ok_and(|program| program.to_string_lossy().contains("/qemu-system"))
}
