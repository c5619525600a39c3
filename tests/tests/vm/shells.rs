//! Images without bash: scripts run by their POSIX `sh`; without any shell the job fails as a script.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use vk_tests::job::{script, variable, with_after_script, with_variables};
use vk_tests::vk::{JobRun, Vk, images};

/// Runs `job` in an image that holds a static busybox under the names `tools`.
fn run_in(tools: &[&str], mut job: Value) -> JobRun {
    let vk = Vk::new();
    let folder = vk.dir().join("images");
    let bin = vk.dir().join("root/bin");
    fs::create_dir_all(&folder).unwrap();
    fs::create_dir_all(&bin).unwrap();
    for file in ["vmlinux", "initramfs.cpio", "default.erofs"] {
        symlink(
            images().canonicalize().unwrap().join(file),
            folder.join(file),
        )
        .unwrap();
    }
    fs::copy("/bin/busybox", bin.join("busybox")).unwrap();
    for tool in tools {
        symlink("busybox", bin.join(tool)).unwrap();
    }
    make_image(&folder.join("busy.erofs"), &vk.dir().join("root"));
    job["image"] = json!({"name": "local/busy"});

    vk.run_job(
        &job,
        &["--images", folder.to_str().unwrap(), "--timestamps", "off"],
    )
}

fn make_image(image: &Path, root: &Path) {
    let made = Command::new("mkfs.erofs")
        .arg("--all-root")
        .arg(image)
        .arg(root)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

const TOOLS: [&str; 8] = [
    "sh", "cat", "hostname", "mkdir", "rm", "touch", "find", "chmod",
];

#[test]
fn an_image_with_sh_alone_runs_scripts_hooks_and_after_script() {
    let job = with_variables(
        with_after_script(
            script(&[
                "echo \"it's $ODD\"",
                "if true; then\n  echo multi\nfi",
                "cat $CERT",
                "exit 7",
            ]),
            &["echo \"after $CI_JOB_STATUS\""],
        ),
        &[
            variable("ODD", "a'b\"c \\ é"),
            json!({"key": "CERT", "value": "pem\n", "file": true}),
        ],
    );

    let run = run_in(&TOOLS, job);

    let text = run.text();
    assert_eq!(
        (run.status, &run.result["exit_code"]),
        (1, &json!(7)),
        "{text}"
    );
    for line in [
        "it's a'b\"c \\ é\n",
        "\nmulti\n",
        "\npem\n",
        "\nafter failed\n",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
    assert!(!text.contains("not found"), "{text}");
}

#[test]
fn an_image_without_a_shell_fails_as_a_script() {
    let run = run_in(&["cat"], script(&["true"]));

    let text = run.text();
    assert_eq!((run.status, run.failure()), (1, "script"), "{text}");
    assert_eq!(run.result["exit_code"], 1, "{text}");
    assert!(text.contains("shell not found\n"), "{text}");
}
