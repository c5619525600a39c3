//! Bad input: a clear line, the right class and exit status.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::fs;

use serde_json::{Value, json};
use vk_tests::fault_proxy::{Action, FaultProxy};
use vk_tests::image_maker::{Compression, Image, Tar};
use vk_tests::job::{script, variable, with_variables};
use vk_tests::registry::{Demands, Registry};
use vk_tests::small_disk;
use vk_tests::vk::{JobRun, Vk};

fn usage_error(text: &str) -> String {
    let vk = Vk::without_vm();
    let file = vk.dir().join("job.json");
    fs::write(&file, text).unwrap();

    let output = vk.run(["gitlab".as_ref(), "run".as_ref(), file.as_os_str()]);

    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(
        output.stdout, b"",
        "nothing but a trace belongs on standard output"
    );
    String::from_utf8(output.stderr).unwrap()
}

/// Runs a job that must not get as far as a VM.
fn refused(job: &Value, class: &str) -> JobRun {
    let vk = Vk::without_vm();
    let config = vk.dir().join("config.toml");
    // By default it is tried for 90 s.
    fs::write(&config, "[registries]\nunreachable_for = \"1s\"\n").unwrap();
    let run = vk.run_job(job, &["--config", config.to_str().unwrap()]);
    check_refused(run, class)
}

fn check_refused(run: JobRun, class: &str) -> JobRun {
    assert_eq!(run.status, 3, "{run:?}");
    assert_eq!(run.failure(), class, "{run:?}");
    let message = run.result["message"].as_str().expect("a message");
    assert!(
        run.text().contains(message),
        "the trace tells it too: {run:?}"
    );
    assert!(
        run.stderr.contains(message),
        "and so does standard error: {run:?}"
    );
    run
}

#[test]
fn a_file_that_is_no_json_is_bad_usage_with_line_and_column() {
    let error = usage_error("{\n  \"steps\": nonsense\n}");

    assert!(error.contains("line 2, column 13"), "{error}");
}

#[test]
fn a_file_that_is_cut_short_is_bad_usage() {
    let error = usage_error("{\"steps\": [{\"name\": \"scr");

    assert!(error.contains("line 1, column 24"), "{error}");
}

#[test]
fn a_mistyped_field_is_named_by_its_path() {
    let error = usage_error(r#"{"steps": [{"name": "script", "script": ["a", {}]}]}"#);

    assert!(error.contains("steps[0].script[1]"), "{error}");
}

#[test]
fn missing_steps_and_sources_are_named() {
    let no_steps = usage_error("{}");
    let no_sources = usage_error(r#"{"steps": [{"name": "script", "script": ["true"]}]}"#);

    assert!(no_steps.contains("steps"), "{no_steps}");
    assert!(no_sources.contains("git_info"), "{no_sources}");
}

#[test]
fn a_file_that_does_not_exist_is_bad_usage() {
    let output = Vk::without_vm().run(["gitlab", "run", "no-such-file.json"]);

    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no-such-file.json"));
}

#[test]
fn secrets_and_run_are_refused() {
    let mut secrets = script(&["true"]);
    secrets["secrets"] = json!({"TOKEN": {"vault": {"path": "x"}}});
    let mut run = script(&["true"]);
    run["run"] = json!("[{\"name\": \"a\", \"script\": \"true\"}]");

    refused(&secrets, "configuration");
    refused(&run, "configuration");
}

#[test]
fn a_refusal_is_told_as_the_job_wants_its_trace() {
    let unstamped = variable("FF_TIMESTAMPS", "false");
    let mut secrets = script(&["true"]);
    secrets["secrets"] = json!({"TOKEN": {"vault": {"path": "x"}}});
    let of_response = with_variables(secrets, std::slice::from_ref(&unstamped));
    let outside = variable("GIT_CLONE_PATH", "/etc/corp-abcdefghij");
    let mut of_driver = with_variables(script(&["true"]), &[unstamped, outside]);
    of_driver["features"] = json!({"token_mask_prefixes": ["corp-"]});

    for job in [of_response, of_driver] {
        let run = refused(&job, "configuration");

        let stamped = run.text().lines().any(|line| line.starts_with("20"));
        assert!(!stamped, "{run:?}");
        assert!(!run.text().contains("abcdefghij"), "{run:?}");
    }
}

#[test]
fn a_file_variable_cannot_leave_its_folder() {
    for key in ["../../x", "a/b", "..", ""] {
        let file = json!({"key": key, "value": "v", "file": true});

        refused(&with_variables(script(&["true"]), &[file]), "configuration");
    }
}

#[test]
fn nul_in_scripts_and_variables_is_refused() {
    refused(&script(&["echo a\u{0}b"]), "configuration");
    let nul = variable("A", "a\u{0}b");
    refused(&with_variables(script(&["true"]), &[nul]), "configuration");
}

#[test]
fn a_bad_size_is_refused_by_name() {
    for (key, value) in [
        ("MICROVM_MEM", "lots"),
        ("MICROVM_MEM", "1M"),
        ("MICROVM_CPUS", "0"),
        ("MICROVM_CPUS", "x"),
        ("MICROVM_PIDS", "many"),
        ("MICROVM_PIDS", "31"),
    ] {
        let job = with_variables(script(&["true"]), &[variable(key, value)]);

        refused(&job, "configuration");
    }
}

#[test]
fn services_are_refused_until_they_run() {
    let mut job = script(&["true"]);
    job["services"] = json!([{"name": "postgres:16"}]);

    refused(&job, "configuration");
}

#[test]
fn an_unknown_image_fails_as_image_pull() {
    for name in [
        "debian:12",
        "local/nope",
        "registry.example.com/a/b@sha256:00",
    ] {
        let mut job = script(&["true"]);
        job["image"] = json!({"name": name});

        let run = refused(&job, "image_pull");

        assert!(run.text().contains(name), "{run:?}");
    }
}

#[test]
fn a_masked_value_in_an_error_stays_masked() {
    let mut job = with_variables(
        script(&["true"]),
        &[json!({"key": "TOK", "value": "hunter2222", "masked": true})],
    );
    job["image"] = json!({"name": "registry.test/$TOK/x:1"});

    let run = refused(&job, "image_pull");

    for place in [run.text(), run.stderr.clone(), run.result.to_string()] {
        assert!(!place.contains("hunter2222"), "{place}");
    }
}

#[test]
fn a_masked_value_in_a_refusal_stays_masked_as_expanded_too() {
    let masked = json!({"key": "S", "value": "$BASE-hunter", "masked": true});
    let job = with_variables(
        script(&["true"]),
        &[
            variable("BASE", "b4se"),
            masked,
            variable("GIT_CLONE_PATH", "/elsewhere/$S"),
        ],
    );

    let run = Vk::without_vm().run_job(&job, &[]);

    assert_eq!((run.status, run.failure()), (3, "configuration"), "{run:?}");
    for place in [run.text(), run.stderr.clone(), run.result.to_string()] {
        assert!(!place.contains("b4se-hunter"), "{place}");
    }
}

#[test]
fn a_platform_that_cannot_run_here_is_refused_before_a_registry_is_asked() {
    let proxy = FaultProxy::start("", |_| Action::status(404));
    for name in ["local/default", &proxy.image("a:1")] {
        for (platform, named) in [
            ("linux/arm64", "linux/arm64"),
            ("arm64", "linux/arm64"),
            ("windows/amd64", "windows/amd64"),
            ("no platform", "no platform"),
        ] {
            let mut job = script(&["true"]);
            job["image"] = json!({
                "name": name,
                "executor_opts": {"docker": {"platform": platform}},
            });

            let run = refused(&job, "image_pull");

            let text = run.text();
            assert!(text.contains(name) && text.contains(named), "{run:?}");
            let knows = named == "no platform" || text.contains("linux/amd64");
            assert!(knows, "{run:?}");
        }
    }
    assert!(proxy.requests().is_empty());
}

/// Golden 110 to 114 have the names, the registry that is down and the policies.
#[test]
fn whatever_keeps_an_image_away_is_named_with_image_and_registry() {
    let closed = Registry::with(Demands {
        login: true,
        tls: false,
    });
    let open = Registry::start();
    Image::new().platform("linux/arm64").push(&open, "arm:1");
    Image::busybox().push(&open, "a:1");
    let corrupt = FaultProxy::start(open.host(), |request| {
        if request.target.contains("/blobs/") {
            Action::Corrupt(5)
        } else {
            Action::Forward
        }
    });
    let busy = FaultProxy::start("", |_| Action::with_header(429, "Retry-After", "9999"));
    let unknown_authority = Registry::with(Demands {
        tls: true,
        login: false,
    });
    for (name, host, cause) in [
        (closed.image("a:1"), closed.host(), "access denied"),
        (open.image("arm:1"), open.host(), "linux/arm64"),
        (corrupt.image("a:1"), &corrupt.host(), "digest mismatch"),
        (busy.image("a:1"), &busy.host(), "status 429"),
        (
            unknown_authority.image("a:1"),
            unknown_authority.host(),
            "TLS",
        ),
    ] {
        let mut job = script(&["true"]);
        job["image"] = json!({"name": name});

        let run = refused(&job, "image_pull");

        let message = run.result["message"].as_str().unwrap();
        for part in [&name, host, cause] {
            assert!(message.contains(part), "no {part:?} in {run:?}");
        }
    }
}

/// The first of these is refused up front, the second when the disk fills.
#[test]
fn an_image_that_finds_no_room_fails_as_image_pull_with_figures() {
    let registry = Registry::start();
    let zeros = Tar::new().file("a", 0o644, &vec![7; 400 << 20]).finish();
    Image::busybox().push(&registry, "small:1");
    Image::new()
        .layer(zeros, Compression::Gzip)
        .push(&registry, "bomb:1");
    for (name, megabytes) in [("small:1", 48), ("bomb:1", 200)] {
        let vk = Vk::without_vm();
        let mut job = script(&["true"]);
        let image = registry.image(name);
        job["image"] = json!({"name": image});
        let file = vk.job_file(&job);
        let script = format!("exec \"$VK\" gitlab run {}", file.display());
        let output = small_disk::shell(&vk, megabytes, &script).output().unwrap();

        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let trace = String::from_utf8_lossy(&output.stdout);
        for part in ["not enough disk space for image", &image, "MiB free"] {
            assert!(trace.contains(part), "no {part:?} in {trace}");
        }
    }
}

#[test]
fn a_result_that_cannot_be_written_is_found_before_the_job_runs() {
    let vk = Vk::without_vm();
    let file = vk.job_file(&script(&["true"]));

    let output = vk
        .command()
        .args(["gitlab", "run", "--result", "no/such/folder/result.json"])
        .arg(file)
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(output.stdout, b"");
}

#[test]
fn images_that_are_not_built_name_the_command() {
    let vk = Vk::without_vm();
    let empty = vk.dir().join("empty");
    fs::create_dir(&empty).unwrap();

    let run = vk.run_job(&script(&["true"]), &["--images", empty.to_str().unwrap()]);

    assert_eq!((run.status, run.failure()), (3, "system"), "{run:?}");
    assert!(run.stderr.contains("images/build"), "{run:?}");
}

#[test]
fn a_host_without_qemu_names_the_package() {
    let vk = Vk::without_vm();
    let file = vk.job_file(&script(&["true"]));
    let bin = vk.dir().join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink("/usr/sbin/mke2fs", bin.join("mke2fs")).unwrap();

    let output = vk
        .command()
        .args(["gitlab", "run"])
        .arg(file)
        .env("PATH", &bin)
        .output()
        .unwrap();

    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("qemu-system-x86"), "{error}");
}

#[test]
fn a_state_folder_that_cannot_be_written_is_a_system_failure_that_names_it() {
    let vk = Vk::without_vm();
    // A file where the folder should be: not writable even for root.
    fs::write(vk.state(), b"").unwrap();

    let run = vk.run_job(&script(&["true"]), &[]);

    assert_eq!((run.status, run.failure()), (3, "system"), "{run:?}");
    assert!(run.stderr.contains(vk.state().to_str().unwrap()), "{run:?}");
}

#[test]
fn a_variable_without_a_value_is_bad_usage() {
    let output = Vk::without_vm().run(["gitlab", "run", "job.json", "--var", "NOVALUE"]);

    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("KEY=VALUE"));
}
