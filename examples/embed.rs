//! An executor of its own in a hundred lines: each argument behind the first two is a script that runs as a job in a fresh
//! VM, all of them side by side. Lines of their traces come out as they are written; Ctrl-C cancels them all.
//!
//!     cargo run --example embed -- STATE_DIR IMAGES_DIR 'uname -a' 'sleep 60' 'exit 3'

use std::process::ExitCode;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::task::JoinSet;
use vk_driver::{Cancel, CancelMode, Host, Job, JobEvent, JobResult, Slot, VmSize, run, spec};

/// A job without sources: a small VM, and a place of its own among the jobs of this host.
fn job(number: u32, script: String) -> Job {
    let no_sources = spec::Variable::public("GIT_STRATEGY", "none");
    let step = spec::Step {
        name: "script".into(),
        script: vec![script],
        ..spec::Step::default()
    };
    let spec = spec::CiJob {
        variables: vec![no_sources],
        steps: vec![step],
        timeout_secs: 600,
        ..spec::CiJob::default()
    };
    Job::new(spec)
        .timestamps(false)
        .size(VmSize::new(1, 512))
        .slot(Slot::new("/builds", number, number))
}

/// Runs a job whose trace goes, line by line, to standard output behind the job's number.
async fn run_one(host: Host, number: u32, script: String, cancel: Cancel) -> (u32, JobResult) {
    let (mut trace, lines) = tokio::io::duplex(64 << 10);
    let print = async {
        let mut lines = BufReader::new(lines).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            println!("{number}: {line}");
        }
    };
    let work = async move {
        let mut observer = |event: JobEvent| eprintln!("{number}: {event:?}");
        let job = job(number, script);
        run(&host, job, &mut trace, &cancel, &mut observer).await
    };
    let (result, ()) = tokio::join!(work, print);
    (number, result)
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(state), Some(images)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: embed STATE_DIR IMAGES_DIR SCRIPT...");
        return ExitCode::from(2);
    };
    let host = Host::builder(state, images)
        .greeting("Running with embed", "embed")
        .build();
    let cancel = Cancel::new();
    let mut jobs = JoinSet::new();
    for (number, script) in (0..).zip(arguments) {
        jobs.spawn(run_one(host.clone(), number, script, cancel.clone()));
    }
    tokio::spawn(async move {
        while tokio::signal::ctrl_c().await.is_ok() {
            cancel.cancel(CancelMode::Graceful);
        }
    });
    let mut all_succeeded = true;
    while let Some(Ok((number, result))) = jobs.join_next().await {
        all_succeeded &= result.failure.is_none();
        println!("{number}: {:?}, {:?}", result.failure, result.message);
    }
    ExitCode::from(u8::from(!all_succeeded))
}
