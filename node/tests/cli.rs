//! The command line's contract where no VM is needed. That these tests use the command also makes `cargo test` build it
//! for the end-to-end tests.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::process::{Command, Output};

fn vk(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_vk"))
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn help_and_version_are_no_errors() {
    for args in [
        ["--help"].as_slice(),
        &["--version"],
        &["gitlab", "run", "--help"],
        &["run", "--help"],
    ] {
        let output = vk(args);

        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(output.stderr.is_empty(), "{args:?}");
        assert!(!output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn every_commands_help_carries_an_example() {
    for args in [
        ["gitlab", "run", "--help"].as_slice(),
        &["run", "--help"],
        &["check", "--help"],
        &["image", "pull", "--help"],
        &["image", "ls", "--help"],
        &["image", "rm", "--help"],
        &["image", "gc", "--help"],
    ] {
        let help = String::from_utf8(vk(args).stdout).unwrap();

        assert!(help.contains("Example:\n  vk "), "{args:?}: {help}");
    }
}

#[test]
fn bad_usage_is_told_on_standard_error_with_status_2() {
    for args in [
        [].as_slice(),
        &["no-such-command"],
        &["gitlab", "run"],
        &["gitlab", "run", "job.json", "--timestamps", "maybe"],
        &["gitlab", "run", "job.json", "--output-limit", "0"],
        &["image"],
        &["image", "pull"],
        &["image", "rm"],
        &["image", "gc", "--max-size", "lots"],
        &["image", "ls", "--config", "/no/such/file"],
        &["run", "--mem", "lots", "local/default", "--", "true"],
        &["run", "--cpus", "0", "local/default", "--", "true"],
        &["run", "--backend", "xen", "local/default", "--", "true"],
    ] {
        let output = vk(args);

        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
}
