//! No child outlives the process that started it, whatever kills that process and whichever thread asked.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use vk_process::spawn;

/// How long a child may take to die on a busy host; by itself it would live for [`CHILD_LIFE`].
const WAIT_LIMIT: Duration = Duration::from_secs(10);

/// What the child sleeps, in seconds.
const CHILD_LIFE: &str = "600";

/// Not a test: the process that the tests kill. Starts a child from a thread that ends, prints its id and hangs.
#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn parent_with_a_child() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut command = Command::new("sleep");
    command
        .arg(CHILD_LIFE)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = thread::spawn(move || runtime.block_on(spawn(command)))
        .join()
        .unwrap()
        .unwrap();
    println!("\nchild {}", child.id());
    loop {
        thread::park();
    }
}

fn start_parent() -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "parent_with_a_child", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn is_running(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn child_dies_with_its_killed_parent_but_not_with_the_asking_thread() {
    let mut parent = start_parent();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let child = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("child ").map(str::to_owned))
        .unwrap();
    // The asking thread is gone: were the signal tied to it, the child would be dead.
    thread::sleep(Duration::from_millis(100));
    assert!(is_running(&child));

    parent.kill().unwrap();
    let killed = Instant::now();
    parent.wait().unwrap();

    while is_running(&child) {
        assert!(killed.elapsed() < WAIT_LIMIT, "child lives on");
        thread::sleep(Duration::from_millis(5));
    }
}
