//! Cases from the field about artifacts and caches, in VMs.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use vk_tests::gitlab::{Call, Fault, GitLab};
use vk_tests::golden::uploads;
use vk_tests::job::{variable, with_after_script, with_variables};
use vk_tests::processes::{Signal, send};
use vk_tests::registry::{Demands, PASSWORD, Registry, USER};
use vk_tests::vk::Vk;

use crate::artifact_jobs::{artifact, job, outcomes};

/// Variables that steer HTTP clients and their logins, all set to rubbish.
fn rubbish() -> Vec<(String, &'static str)> {
    let proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]
        .iter()
        .flat_map(|name| [(*name).to_owned(), name.to_lowercase()])
        .map(|name| (name, "http://127.0.0.1:9"));
    let paths = [
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "HOME",
        "DOCKER_CONFIG",
        "XDG_CONFIG_HOME",
    ]
    .map(|name| (name.to_owned(), "/nowhere"));
    let others = [
        "AWS_PROFILE",
        "AWS_ACCESS_KEY_ID",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ]
    .map(|name| (name.to_owned(), "rubbish"));
    proxies.chain(paths).chain(others).collect()
}

/// The job's environment steers its own commands, no transfer of this host; what `$GITLAB_ENV` says goes into names
/// and paths, as with GitLab Runner's helper.
#[test]
fn transfers_see_nothing_of_the_jobs_environment() {
    let server = GitLab::start_tls();
    let registry = Registry::with(Demands {
        tls: true,
        login: true,
    });
    let vk = Vk::new();
    let write = |name: &str, text: &str| {
        let path = vk.dir().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let ca = write("gitlab.pem", server.ca_pem());
    write("registry.pem", registry.ca_pem());
    write("password", PASSWORD);
    let config = write(
        "config.toml",
        &format!(
            "[cache]\nregistry = \"{}\"\nusername = \"{USER}\"\npassword_file = \"password\"\n\
             [registries]\nca_files = [\"registry.pem\"]\n",
            registry.host()
        ),
    );
    let written: Vec<String> = rubbish()
        .iter()
        .map(|(name, value)| format!("echo '{name}={value}' >> \"$GITLAB_ENV\""))
        .collect();
    let mut commands = vec![
        "echo VERSION=1.2.3 >> \"$GITLAB_ENV\"; echo TRANSFER_METER_FREQUENCY=1h >> \"$GITLAB_ENV\"",
        "mkdir out-1.2.3; echo x > out-1.2.3/f",
        "test $SSL_CERT_FILE = /nowhere",
    ];
    commands.extend(written.iter().map(String::as_str));
    let variables: Vec<Value> = rubbish()
        .iter()
        .map(|(name, value)| variable(name, value))
        .collect();
    let mut job = with_variables(job(&server, 1, &commands), &variables);
    job["artifacts"] = json!([artifact(&["out-$VERSION/"])]);
    job["artifacts"][0]["name"] = "app-${VERSION}".into();
    job["cache"] = json!([{"key": "k", "paths": ["out-${VERSION}/"], "policy": "pull-push"}]);

    let run = vk.run_job(&job, &["--ca-file", &ca, "--config", &config]);

    let text = run.text();
    assert_eq!(run.status, 0, "{text}\n{}", run.stderr);
    assert_eq!(outcomes(&run), ["uploaded"]);
    let uploaded = server.uploads(1).remove(0);
    assert_eq!(uploaded.file_name, "app-1.2.3.zip");
    for line in [
        "out-1.2.3/: found 2 matching artifact files and directories",
        "\rUploading artifacts ",
        "\rUploading cache ",
        "Created cache",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
}

/// A file that not even root may read is named and left out, others go; a report's odd name stays out of
/// its header; the project's folder may be a link, and what lies beside it is refused.
#[test]
fn odd_files_and_a_project_that_is_a_link() {
    let server = GitLab::start();
    let mut job = job(
        &server,
        1,
        &[
            "cd ..; rmdir \"$CI_PROJECT_DIR\"; mkdir real; ln -s real \"$CI_PROJECT_DIR\"",
            "cd \"$CI_PROJECT_DIR\"; mkdir out; echo beside > ../x",
            "echo locked > out/locked; chmod 000 out/locked",
            "touch out/refused; mount --bind /sys/bus/platform/uevent out/refused",
            "echo '{\"ok\": true}' > raport-ł.json",
        ],
    );
    job["artifacts"] = json!([
        artifact(&["out/"]),
        {"name": "raport-ł.json", "paths": ["raport-ł.json"], "when": "always", "artifact_type": "junit",
         "artifact_format": "gzip"},
    ]);
    job["cache"] =
        json!([{"key": "k", "paths": ["../x", "$CI_PROJECT_DIR/out"], "policy": "pull-push"}]);

    let run = Vk::new().run_job(&job, &[]);

    let text = run.text();
    assert_eq!(run.status, 0, "{text}\n{}", run.stderr);
    assert_eq!(outcomes(&run), ["uploaded", "uploaded"], "{text}");
    let all = server.uploads(1);
    let zip = &uploads::recorded(&all[..1]).unwrap()[0];
    let paths: Vec<&str> = zip["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["out/", "out/locked"], "{text}");
    assert!(
        text.contains("open out/refused: permission denied"),
        "{text}"
    );
    assert_eq!(all[1].file_name, "raport-ł.json.gz");
    let mut report = flate2::read::GzDecoder::new(all[1].content.as_slice());
    let mut content = String::new();
    std::io::Read::read_to_string(&mut report, &mut content).unwrap();
    assert_eq!(content, "{\"ok\": true}\n");
    let name = report.header().unwrap().filename().unwrap();
    assert!(name.is_ascii(), "{name:?}");
    for line in [
        "processPath: artifact path is not a subpath of project directory: ../x",
        "/out: found 3 matching artifact files and directories",
        "Created cache",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
}

/// A job whose script sleeps, whose `after_script` leaves a file, and which wants it whatever happens.
fn sleeper(server: &GitLab) -> Value {
    let secret = json!({"key": "TOK", "value": "hunter2222", "masked": true});
    let job = with_variables(job(server, 1, &["sleep 600"]), &[secret]);
    let mut job = with_after_script(job, &["echo \"$CI_JOB_STATUS\" > after"]);
    job["artifacts"] = json!([artifact(&["after", "$TOK/none"])]);
    job
}

/// The file of [`sleeper`]'s `after_script`, as the server has it.
fn left(server: &GitLab) -> String {
    let content = server.uploads(1).remove(0).content;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.zip"), content).unwrap();
    let unzip = Command::new("unzip")
        .args(["-p", "a.zip", "after"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    String::from_utf8(unzip.stdout).unwrap()
}

/// A script that runs out of time leaves `after_script` its own, and artifacts with `when: always` are
/// uploaded behind that; the lines about them pass the masks.
#[test]
fn after_a_timeout_artifacts_of_after_script_are_uploaded() {
    let server = GitLab::start();
    let job = with_variables(sleeper(&server), &[variable("RUNNER_SCRIPT_TIMEOUT", "3s")]);

    let run = Vk::new().run_job(&job, &[]);

    let text = run.text();
    assert_eq!((run.status, run.failure()), (4, "timeout"), "{text}");
    assert_eq!(outcomes(&run), ["uploaded"], "{text}");
    assert_eq!(left(&server), "timedout\n");
    assert!(text.contains("[MASKED]/none: no matching files"), "{text}");
    assert!(!format!("{run:?}").contains("hunter2222"));
}

/// So after a cancel that is graceful.
#[test]
fn after_a_graceful_cancel_artifacts_of_after_script_are_uploaded() {
    let server = GitLab::start();
    let vk = Vk::new();
    let trace = vk.dir().join("trace");
    let mut child = vk.start_job(&sleeper(&server), &["--trace", trace.to_str().unwrap()]);
    let read = || String::from_utf8_lossy(&fs::read(&trace).unwrap_or_default()).into_owned();
    let end = Instant::now() + Duration::from_secs(240);
    while !read().contains("$ sleep 600") {
        assert!(Instant::now() < end, "{}", read());
        assert!(child.try_wait().unwrap().is_none(), "{}", read());
        std::thread::sleep(Duration::from_millis(20));
    }
    send(child.id(), Signal::INT);

    let run = vk.finish(child);

    let text = read();
    assert_eq!((run.status, run.failure()), (5, "canceled"), "{text}");
    assert_eq!(outcomes(&run), ["uploaded"], "{text}");
    assert_eq!(left(&server), "canceled\n");
}

/// What becomes of each upload is told though the job is ended while one is under way; one that was not begun is skipped.
#[test]
fn an_upload_that_is_stopped_has_failed() {
    let server = GitLab::start();
    server.inject(
        Call::Upload,
        1,
        9,
        Fault::ReadSlowly(Duration::from_secs(600)),
    );
    let vk = Vk::new();
    let mut job = job(&server, 1, &["echo x > f"]);
    job["artifacts"] = json!([artifact(&["none"]), artifact(&["f"]), artifact(&["f"])]);
    let trace = vk.dir().join("trace");
    let mut child = vk.start_job(&job, &["--trace", trace.to_str().unwrap()]);
    let read = || String::from_utf8_lossy(&fs::read(&trace).unwrap_or_default()).into_owned();
    let end = Instant::now() + Duration::from_secs(240);
    while !read().contains("f: found 1 matching artifact files") {
        assert!(Instant::now() < end, "{}", read());
        assert!(child.try_wait().unwrap().is_none(), "{}", read());
        std::thread::sleep(Duration::from_millis(20));
    }
    // The first is graceful, and lets uploads end; two at once may arrive as one.
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "{}", read());
        send(child.id(), Signal::INT);
        std::thread::sleep(Duration::from_millis(300));
    }

    let run = vk.finish(child);

    let text = read();
    assert_eq!((run.status, run.failure()), (5, "canceled"), "{text}");
    assert_eq!(outcomes(&run), ["skipped", "failed", "skipped"], "{text}");
}

/// Makes the only cache of `vk` one that breaks before its end and bears the digest of its bytes, as if it had been
/// stored so.
fn forge_layer(vk: &Vk) {
    let blobs = vk.state().join("cache/blobs/sha256");
    let largest = fs::read_dir(&blobs)
        .unwrap()
        .map(|blob| blob.unwrap().path())
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let put = |bytes: &[u8]| {
        let digest = format!("{:x}", Sha256::digest(bytes));
        fs::write(blobs.join(&digest), bytes).unwrap();
        digest
    };
    let mut layer = fs::read(&largest).unwrap();
    let kept = layer.len() - 5_000_000;
    layer[kept..].fill(0);
    let mut forged = (name(&largest), put(&layer));
    // What names it: its manifest, and the index, which names that.
    let index = vk.state().join("cache/index.json");
    let entry: Value = serde_json::from_slice(&fs::read(&index).unwrap()).unwrap();
    let manifest = entry["manifests"][0]["digest"].as_str().unwrap();
    let manifest = blobs.join(manifest.strip_prefix("sha256:").unwrap());
    let text = fs::read_to_string(&manifest).unwrap();
    forged = (
        name(&manifest),
        put(text.replace(&forged.0, &forged.1).as_bytes()),
    );
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replace(&forged.0, &forged.1)).unwrap();
}

/// What a cache that breaks within leaves behind is removed where the job asks for it, and stays where it does not
/// (gitlab-runner, build §2.9.7).
#[test]
fn what_a_broken_cache_leaves_is_removed_on_demand() {
    let server = GitLab::start();
    let vk = Vk::new();
    let with_cache = |id, command: &str, policy: &str, flag: &str| {
        let own = [
            variable("FF_CLEAN_UP_FAILED_CACHE_EXTRACT", flag),
            variable("NAME", "second one"),
        ];
        let mut job = with_variables(job(&server, id, &[command]), &own);
        job["cache"] = json!([
            {"key": "k", "paths": ["kept/", "$NAME/"], "policy": policy, "fallback_keys": ["none"]},
        ]);
        job
    };
    let fill =
        "mkdir kept 'second one'; head -c 20000000 /dev/urandom > kept/a; echo b > 'second one/b'";
    let stored = vk.run_job(&with_cache(1, fill, "push", "false"), &[]);
    assert!(stored.text().contains("Created cache"), "{stored:?}");
    forge_layer(&vk);

    let kept = vk.run_job(&with_cache(2, "test -e kept", "pull", "false"), &[]);
    let text = kept.text();
    assert_eq!(kept.status, 0, "{text}");
    assert_eq!(text.matches("Failed to extract cache").count(), 2, "{text}");
    assert!(!text.contains("Removing"), "{text}");

    let gone = "test ! -e kept; test ! -e 'second one'";
    let removed = vk.run_job(&with_cache(3, gone, "pull", "true"), &[]);
    let text = removed.text();
    assert_eq!(removed.status, 0, "{text}");
    // Behind the broken cache, and behind the key that has none.
    for path in ["kept/", "$NAME/"] {
        let line = format!("Removing {path}\n");
        assert_eq!(text.matches(&line).count(), 2, "{line:?} in {text}");
    }
}

/// gitlab-runner, wire §3.2 and wire §3.4.5: what cannot be packed is an upload that fails, three times.
#[test]
fn a_raw_artifact_of_two_files_and_a_gzip_of_a_folder_are_failed_uploads() {
    let server = GitLab::start();
    let vk = Vk::new();
    for (id, format, reason) in [
        (1, "raw", "only one file can be sent as raw"),
        (2, "gzip", "the \"o\" is not a regular file"),
    ] {
        let mut job = job(&server, id, &["mkdir o; echo a > o/a; echo b > o/b"]);
        let paths: &[&str] = if format == "raw" { &["o/*"] } else { &["o"] };
        job["artifacts"] = json!([artifact(paths)]);
        job["artifacts"][0]["artifact_format"] = format.into();

        let run = vk.run_job(&job, &[]);

        let text = run.text();
        let failure = format!("/artifacts?artifact_format={format}&artifact_type=archive");
        for (line, count) in [
            (
                "ERROR: Uploading artifacts as \"archive\" to coordinator... error",
                3,
            ),
            ("WARNING: Retrying...", 2),
            ("FATAL: couldn't execute POST against http://", 1),
            (reason, 6),
        ] {
            assert_eq!(text.matches(line).count(), count, "{line:?} in {text}");
        }
        assert!(text.contains(&failure), "no {failure:?} in {text}");
        assert_eq!(outcomes(&run), ["failed"]);
        assert_eq!(run.result["failure"], "external_dependency", "{run:?}");
    }
    assert!(server.exchanges().is_empty());
}
