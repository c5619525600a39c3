//! Nothing of a VM survives the process that started it, and its files go when the next one starts.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::support::{SECOND, WAIT_LIMIT, config, is_running, processes_of};
use vk_state::StateDir;
use vk_vm::{Backend, scratch, start};

const FOLDER: &str = "VK_TEST_LIFETIME_FOLDER";

/// Not a test: the process that the tests kill. Boots a VM with a scratch disk, says so and waits.
#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn parent_with_a_vm() {
    let state = StateDir::open(Path::new(&std::env::var_os(FOLDER).unwrap())).unwrap();
    let run = state.create_run().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let disk = run.path().join("scratch.img");
        scratch::create(&disk, scratch::MIN_SIZE, vk_process::SEARCH_PATH.as_ref())
            .await
            .unwrap();
        let config = config("chatter", &run.socket_path());
        let machine = start(Backend::Auto, &config).await.unwrap();
        while !machine.console_tail().contains("chatter chatter") {
            tokio::time::sleep(SECOND / 20).await;
        }
        println!("\nrunning");
        machine.wait().await;
    });
}

struct Parent {
    process: Child,
    folder: tempfile::TempDir,
    children: Vec<u32>,
}

fn start_parent() -> Parent {
    let folder = tempfile::tempdir().unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "lifetime::parent_with_a_vm",
            "--ignored",
            "--nocapture",
        ])
        .env(FOLDER, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let running = lines.map_while(Result::ok).any(|line| line == "running");
    assert!(running, "the parent failed");
    let mut children = processes_of(folder.path());
    children.retain(|child| *child != process.id());
    assert_eq!(children.len(), 1, "QEMU, and nothing else");
    Parent {
        process,
        folder,
        children,
    }
}

fn runs(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("runs")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn killed_parent_takes_the_vm_along_and_the_next_start_removes_its_files() {
    let mut parent = start_parent();

    parent.process.kill().unwrap();
    let killed = Instant::now();
    parent.process.wait().unwrap();

    while parent.children.iter().any(|child| is_running(*child)) {
        assert!(killed.elapsed() < WAIT_LIMIT, "QEMU lives on");
        std::thread::sleep(SECOND / 100);
    }
    let left = runs(parent.folder.path());
    assert!(left.iter().any(|run| run.join("scratch.img").exists()));
    StateDir::open(parent.folder.path()).unwrap();
    assert_eq!(runs(parent.folder.path()), Vec::<PathBuf>::new());
}

#[test]
fn start_of_another_process_leaves_the_running_vm_alone() {
    let mut parent = start_parent();

    StateDir::open(parent.folder.path()).unwrap();

    assert_eq!(runs(parent.folder.path()).len(), 1);
    assert!(parent.children.iter().all(|child| is_running(*child)));
    parent.process.kill().unwrap();
    parent.process.wait().unwrap();
}
