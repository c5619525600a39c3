//! `examples/embed.rs`: the driver in somebody else's executor, with jobs side by side in one process.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::Notify;
use vk_driver::{ArtifactStore, CacheStore, Cancel, Host, Job, JobEvent, Stage, VmSize, run, spec};
use vk_test_base::places;
use vk_tests::vk::images;
use vk_trace::OutputSender;
use vk_transfer::{
    BoxFuture, CacheArchive, CacheError, Download, DownloadError, ProgressReporting, Spool,
    Spooled, Stored, Upload, UploadError,
};

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

/// A job of one script, without sources.
fn script(line: &str) -> spec::CiJob {
    spec::CiJob {
        variables: vec![spec::Variable::public("GIT_STRATEGY", "none")],
        steps: vec![spec::Step {
            name: "script".into(),
            script: vec![line.into()],
            ..spec::Step::default()
        }],
        ..spec::CiJob::default()
    }
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
    let job = Job::new(script("sleep 600")).size(VmSize::new(1, 512));
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
        let mut running = Box::pin(run(&host, job, &mut trace, &cancel, &mut observer));
        tokio::select! {
            result = &mut running => panic!("{result:?}"),
            () = at_work.notified() => {}
        }
        assert!(is_used(state.path()), "there is no VM to begin with");
        drop(running);
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

/// Keeps archives in memory, by name.
#[derive(Debug, Default)]
struct InMemory(Mutex<BTreeMap<String, Vec<u8>>>);

impl InMemory {
    fn keep(&self, name: &str, archive: &Spooled) {
        let bytes = std::fs::read(archive.path()).unwrap();
        self.0.lock().unwrap().insert(name.to_owned(), bytes);
    }

    /// The archive of that name as a file in `folder`.
    async fn give(&self, name: &str, folder: &Path) -> Option<Spooled> {
        let bytes = self.0.lock().unwrap().get(name).cloned()?;
        let mut spool = Spool::create(folder).unwrap();
        spool.write(&bytes).await.unwrap();
        Some(spool.finish().await.unwrap())
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().keys().cloned().collect()
    }
}

impl ArtifactStore for InMemory {
    fn upload<'a>(
        &'a self,
        upload: Upload<'a>,
        output: &'a OutputSender,
    ) -> BoxFuture<'a, Result<(), UploadError>> {
        Box::pin(async move {
            output.info("kept in memory").await;
            self.keep(&upload.job_id.to_string(), upload.file);
            Ok(())
        })
    }

    fn download<'a>(
        &'a self,
        download: Download<'a>,
        _: &'a OutputSender,
    ) -> BoxFuture<'a, Result<Spooled, DownloadError>> {
        Box::pin(async move {
            let name = download.job_id.to_string();
            let found = self.give(&name, download.folder).await;
            found.ok_or(DownloadError::NotFound)
        })
    }
}

impl CacheStore for InMemory {
    fn remote_name(&self) -> Option<String> {
        Some("memory".to_owned())
    }

    fn fetch<'a>(
        &'a self,
        key: &'a str,
        spool: &'a Path,
        _: ProgressReporting<'a>,
    ) -> BoxFuture<'a, Result<Option<CacheArchive>, CacheError>> {
        Box::pin(async move {
            let Some(found) = self.give(key, spool).await else {
                return Ok(None);
            };
            // Open, it outlives its name.
            Ok(Some(found.open().await.unwrap().into()))
        })
    }

    fn store<'a>(
        &'a self,
        key: &'a str,
        archive: Spooled,
        _: ProgressReporting<'a>,
    ) -> BoxFuture<'a, Result<Stored, CacheError>> {
        Box::pin(async move {
            self.keep(key, &archive);
            Ok(Stored::Written)
        })
    }
}

/// Two jobs of an embedder's: what the first one leaves, the second one finds.
#[test]
fn artifacts_and_caches_go_to_the_stores_of_the_embedder() {
    places::one();
    let state = tempfile::tempdir().unwrap();
    let host = Host::builder(state.path(), images()).build();
    let (artifacts, caches) = (Arc::new(InMemory::default()), Arc::new(InMemory::default()));
    let run_job = |spec: spec::CiJob| {
        let job = Job::new(spec)
            .size(VmSize::new(1, 512))
            .artifacts(artifacts.clone())
            .caches(caches.clone());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let mut trace = Vec::new();
            let result = run(&host, job, &mut trace, &Cancel::new(), &mut ()).await;
            (result, String::from_utf8(trace).unwrap())
        })
    };
    let cache = spec::Cache {
        key: "k".into(),
        raw_key: "k".into(),
        paths: vec!["kept".into()],
        ..spec::Cache::default()
    };
    let mut first = script("echo artifact > made; echo cache > kept");
    first.job.id = 7;
    first.caches = vec![cache.clone()];
    first.artifacts = vec![spec::Artifact {
        paths: vec!["made".into()],
        ..spec::Artifact::default()
    }];

    let (result, trace) = run_job(first);

    assert_eq!(result.failure, None, "{trace}");
    assert_eq!(result.artifacts[0].outcome, spec::ArtifactOutcome::Uploaded);
    assert!(trace.contains("kept in memory"), "{trace}");
    assert!(trace.contains("Uploading cache to memory"), "{trace}");
    assert_eq!(
        (artifacts.names(), caches.names()),
        (vec!["7".into()], vec!["k".into()])
    );

    let mut second = script("cat made kept");
    second.caches = vec![cache];
    second.dependencies = vec![spec::Dependency {
        id: 7,
        name: "first".into(),
        filename: "artifacts.zip".into(),
        ..spec::Dependency::default()
    }];
    let (result, trace) = run_job(second);
    assert_eq!(result.failure, None, "{trace}");
    assert!(
        trace.contains("artifact\n") && trace.contains("cache\n"),
        "{trace}"
    );
}
