//! A host without QEMU is told which package to install.
#![allow(clippy::panic, clippy::unwrap_used)]

use std::process::Command;

use vk_driver::vm::{Backend, MachineConfig, start};

/// Not a test: tries to start a VM and prints the error.
#[test]
#[ignore = "run by the other test, without a PATH"]
fn start_a_vm() {
    let folder = tempfile::tempdir().unwrap();
    let config = MachineConfig {
        name: "vm".into(),
        cpus: 1,
        memory_mib: 64,
        kernel: "/dev/null".into(),
        initramfs: "/dev/null".into(),
        cmdline: Vec::new(),
        disks: Vec::new(),
        run_dir: folder.path().to_owned(),
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let error = runtime.block_on(start(Backend::Qemu, &config)).unwrap_err();
    println!("\nerror: {error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn missing_qemu_is_named_with_its_package() {
    let empty = tempfile::tempdir().unwrap();

    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "start_a_vm", "--ignored", "--nocapture"])
        .env("PATH", empty.path())
        .output()
        .unwrap();

    let stdout = String::from_utf8(output.stdout).unwrap();
    let line = "error: QEMU is not installed: install the package `qemu-system-x86`";
    assert!(stdout.lines().any(|found| found == line), "{stdout}");
    assert!(output.status.success(), "files were left");
}
