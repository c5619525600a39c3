//! `vk run`: how a command starts in its image, with pipes and on a terminal.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Output, Stdio};
use std::time::Duration;

use vk_tests::fault_proxy::{Action, FaultProxy};
use vk_tests::image_maker::{Compression, Image, Tar};
use vk_tests::registry::Registry;
use vk_tests::vk::Vk;

use crate::terminal::TerminalUser;

fn run(args: &[&str]) -> Output {
    Vk::new().run([&["run"], args].concat())
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn user_folder_and_entry_point_can_be_chosen() {
    let output = run(&[
        "--user",
        "nobody",
        "--workdir",
        "/gone/../made/for/this",
        "--entrypoint",
        "/usr/bin/env",
        "--env",
        "A=1",
        "local/default",
        "--",
        "B=2",
        "sh",
        "-c",
        "id -un; pwd; echo $A$B; ls -d /gone 2>/dev/null; true",
    ]);

    assert_eq!(stdout(&output), "nobody\n/made/for/this\n12\n");
}

/// Linux knows bytes.
#[test]
fn arguments_variables_and_the_folder_need_not_be_utf8() {
    let bytes = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let script = "printf '%s\\n' \"$1\"; pwd; tr '\\0' '\\n' < /proc/$$/environ | grep -a marked";
    let output = Vk::new().run([
        &bytes(b"run"),
        &bytes(b"--env"),
        &bytes(b"V\xff\xc0=\xfemarked\xc3"),
        &bytes(b"--workdir"),
        &bytes(b"/srv/\xe9"),
        &bytes(b"--entrypoint"),
        &bytes(b"/bin/sh"),
        &bytes(b"local/default"),
        &bytes(b"--"),
        &bytes(b"-c"),
        OsStr::new(script),
        &bytes(b"sh"),
        &bytes(b"\xff\xfe \xf0\x9f"),
    ]);

    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        OsStr::from_bytes(&output.stdout),
        OsStr::from_bytes(b"\xff\xfe \xf0\x9f\n/srv/\xe9\nV\xff\xc0=\xfemarked\xc3\n")
    );
}

#[test]
fn a_program_that_is_not_there_is_named_whatever_it_is_called() {
    let program = OsString::from_vec(b"no-\xff-such".to_vec());
    let output = Vk::new().run([
        OsStr::new("run"),
        OsStr::new("local/default"),
        OsStr::new("--"),
        &program,
    ]);

    assert_eq!(output.status.code(), Some(127), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("no `no-\u{fffd}-such` in the image's PATH"),
        "{told}"
    );
}

#[test]
fn limits_of_the_vm_are_told_with_the_options_that_raise_them() {
    let output = run(&[
        "--mem",
        "512M",
        "--pids",
        "64",
        "local/default",
        "--",
        "sh",
        "-c",
        "bash -c 'for i in $(seq 100); do sleep 300 & done' 2>/dev/null; exec tail /dev/zero",
    ]);

    assert_eq!(output.status.code(), Some(137), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    for line in [
        "vk: the VM ran out of its 512 MiB of memory and \"tail\" was killed; the option --mem (such as 1G) gives it more\n",
        "vk: the VM runs 64 processes and threads at most and did not start another one; the option --pids (such as 128) \
         allows more\n",
    ] {
        assert!(told.contains(line), "{told}");
    }
}

/// As `docker run … yes | head -2`.
#[test]
fn a_command_whose_output_nobody_reads_any_more_is_ended() {
    let vk = Vk::new();
    vk.wait_for_place();
    let mut child = vk
        .command()
        .args(["run", "local/default", "--", "yes"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut read = [0; 4];
    child.stdout.take().unwrap().read_exact(&mut read).unwrap();

    let output = child.wait_with_output().unwrap();

    assert_eq!(&read, b"y\ny\n");
    assert_eq!(output.status.code(), Some(141), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!told.contains("vk: "), "{told}");
}

#[test]
fn an_image_without_a_command_wants_one() {
    let output = run(&["local/default"]);

    assert_eq!(output.status.code(), Some(125), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("names no command"), "{told}");
}

#[test]
fn a_shell_without_a_terminal_is_refused_before_anything_boots() {
    let output = run(&["--shell", "local/default"]);

    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_relative_folder_is_refused() {
    let output = run(&["--workdir", "src", "local/default", "--", "true"]);

    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn an_images_entry_point_and_command_are_used_as_docker_run_does() {
    let registry = Registry::start();
    let entry = "echo \"entry of $# in $(pwd) with $OF_IMAGE\"; exec \"$@\"";
    let image = |config: serde_json::Value, name: &str| {
        Image::busybox().config(config).push(&registry, name);
        registry.image(name)
    };
    let both = image(
        serde_json::json!({
            "Entrypoint": ["/bin/sh", "-c", entry, "entry"], "Cmd": ["/bin/sh", "-c", "echo from the image"],
            "Env": ["PATH=/bin", "OF_IMAGE=yes"], "WorkingDir": "/srv",
        }),
        "both:1",
    );
    let vk = Vk::new();
    let run = |args: &[&str]| stdout(&vk.run([&["run"], args].concat()));

    assert_eq!(
        run(&[&both]),
        "entry of 3 in /srv with yes\nfrom the image\n"
    );
    assert_eq!(
        run(&[
            "--env",
            "OF_IMAGE=no",
            &both,
            "--",
            "/bin/sh",
            "-c",
            "echo $OF_IMAGE"
        ]),
        "entry of 3 in /srv with no\nno\n"
    );
    assert_eq!(
        run(&[
            "--entrypoint",
            "/bin/sh",
            &both,
            "--",
            "-c",
            "echo bare $OF_IMAGE"
        ]),
        "bare yes\n"
    );
}

#[test]
fn a_policy_that_is_asked_for_counts_more_than_the_configured_one() {
    let proxy = FaultProxy::start("", |_| Action::status(404));
    let vk = Vk::new();
    let config = vk.dir().join("config.toml");
    std::fs::write(&config, "[images]\npull_policy = \"always\"\n").unwrap();
    let config = config.to_str().unwrap();
    let image = proxy.image("a:1");
    let run = |args: &[&str]| {
        let output = vk.run([&["run", "--config", config], args, &[&image, "--", "true"]].concat());
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };

    let asked_for = run(&["--pull", "never"]);
    assert!(
        asked_for.contains("no such image on this host"),
        "{asked_for}"
    );
    assert!(proxy.requests().is_empty());
    let configured = run(&[]);
    assert!(configured.contains("policies [always]"), "{configured}");
    assert!(!proxy.requests().is_empty());
}

#[test]
fn a_shell_on_a_terminal_has_its_size_its_keys_and_its_signals() {
    let vk = Vk::new();
    let mut terminal_user = TerminalUser::on_terminal(&vk, &["run", "--shell", "local/default"]);

    terminal_user.sees("# ");
    terminal_user.types("stty size; tty; echo kind=$TERM\r");
    terminal_user.sees("30 100");
    terminal_user.sees("/dev/pts/0");
    terminal_user.sees("kind=vt220");
    terminal_user.resizes(132, 40);
    terminal_user
        .types("until [ \"$(stty size)\" = '40 132' ]; do sleep 0.1; done; echo res''ized\r");
    terminal_user.sees("resized");
    // By the child: bash itself may leave when it is interrupted between fork and wait.
    terminal_user.types("sh -c \"echo slee''ping; exec sleep 1000\"\r");
    terminal_user.sees("sleeping");
    terminal_user.types("\x03");
    // What is typed before the shell is back may go with the signal.
    terminal_user.sees("# ");
    terminal_user.types("echo ali''ve\r");
    terminal_user.sees("alive");
    terminal_user.types("exit 7\r");

    assert_eq!(terminal_user.leaves(), Some(7));
}

#[test]
fn a_pull_on_a_terminal_has_a_bar_for_each_of_the_first_layers_and_one_for_the_others() {
    let registry = Registry::start();
    let image = (0..20).fold(Image::new(), |image, number| {
        let name = format!("layer-{number}");
        let tar = Tar::new().file(&name, 0o644, &[b'x'; 30_000]).finish();
        image.layer(tar, Compression::None)
    });
    image.push(&registry, "a:1");
    let proxy = FaultProxy::start(registry.host(), |request| {
        if request.target.contains("/blobs/") {
            Action::Slow(10_000, Duration::from_millis(100))
        } else {
            Action::Forward
        }
    });
    let vk = Vk::new();
    let mut terminal_user = TerminalUser::on_terminal(&vk, &["image", "pull", &proxy.image("a:1")]);

    terminal_user.sees("5 more");
    // Five layers of 30,000 bytes and the folders' headers, all of which come last.
    terminal_user.sees("=>");
    terminal_user.sees(&format!("{} sha256:", proxy.image("a:1")));

    assert_eq!(terminal_user.leaves(), Some(0));
}

#[test]
fn a_command_on_a_terminal_sees_one() {
    let vk = Vk::new();
    let mut terminal_user = TerminalUser::on_terminal(
        &vk,
        &[
            "run",
            "--shell",
            "--user",
            "nobody",
            "local/default",
            "--",
            "sh",
            "-c",
            "test -t 0 && test -t 1 && test -t 2 && echo on > /dev/tty && echo err''or >&2",
        ],
    );

    terminal_user.sees("on");
    terminal_user.sees("error");

    assert_eq!(terminal_user.leaves(), Some(0));
}
