//! Artifacts and caches of jobs in VMs.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;

use serde_json::{Value, json};
use vk_tests::gitlab::{Answer, Call, Fault, GitLab};
use vk_tests::golden::uploads;
use vk_tests::job::{script, variable, with_variables};
use vk_tests::registry::{Demands, PASSWORD, Registry, USER};
use vk_tests::vk::Vk;

use crate::artifact_jobs::{artifact, job, outcomes};

fn dependency(id: u64) -> Value {
    json!({
        "id": id, "name": format!("job-{id}"), "token": format!("glcbt-64_token-of-{id}"),
        "artifacts_file": {"filename": "dist.zip", "size": 1000}
    })
}

/// A zip of files and what is in each.
fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let root = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(root.path().join(name), content).unwrap();
    }
    let request = vk_archive::Request {
        paths: &["*".to_owned()],
        ..vk_archive::Request::default()
    };
    let chosen = vk_archive::select(root.path(), &request, &mut |_| {}).unwrap();
    let (format, level) = (vk_archive::Format::Zip, vk_archive::Level::Default);
    let mut bytes = Vec::new();
    vk_archive::write(&chosen, format, level, 1, &mut bytes, &mut |_| {}).unwrap();
    bytes
}

/// Build, then test: the one's artifacts are the other's dependency, and the other finds the one's cache.
#[test]
fn a_build_and_its_test_share_artifacts_and_cache() {
    let server = GitLab::start_tls();
    let vk = Vk::new();
    let ca = vk.dir().join("ca.pem");
    fs::write(&ca, server.ca_pem()).unwrap();
    let ca = ["--ca-file", ca.to_str().unwrap()];
    let cache = json!([{
        "key": "deps-$CI_JOB_STAGE", "paths": [".cache/"], "policy": "pull-push", "when": "on_success"
    }]);

    let mut build = job(
        &server,
        1,
        &[
            "test ! -e .cache",
            "mkdir -p dist/bin .cache/deep; echo '#!/bin/sh\necho works' > dist/bin/app; chmod 755 dist/bin/app",
            "ln -s bin/app dist/app; mkdir dist/empty; echo 'a b' > \"dist/ä b.txt\"",
            "head -c 3000000 /dev/urandom > .cache/deep/blob; sha256sum .cache/deep/blob > dist/sum",
            "echo '<testsuites/>' > junit.xml; echo VERSION=1.2 > build.env",
        ],
    );
    build["cache"] = cache.clone();
    build["artifacts"] = json!([
        artifact(&["dist/"]),
        {"paths": ["junit.xml"], "name": "junit.xml", "when": "always", "artifact_type": "junit",
         "artifact_format": "gzip"},
        {"paths": ["build.env"], "name": ".env", "when": "always", "artifact_type": "dotenv",
         "artifact_format": "raw"},
        {"paths": ["core"], "when": "on_failure", "artifact_type": "archive", "artifact_format": "zip"},
    ]);
    let built = vk.run_job(&build, &ca);
    assert_eq!(built.status, 0, "{}\n{}", built.text(), built.stderr);
    assert!(
        built.text().contains("Failed to extract cache"),
        "{}",
        built.text()
    );
    assert!(built.text().contains("Created cache"), "{}", built.text());
    assert_eq!(
        outcomes(&built),
        ["uploaded", "uploaded", "uploaded", "skipped"]
    );
    let uploaded = uploads::recorded(&server.uploads(1)).unwrap();
    assert_eq!(uploaded[1]["filename"], "junit.xml.gz");
    assert_eq!(uploaded[2]["filename"], ".env");
    assert_eq!(
        uploaded[2]["entries"],
        json!([{"content": "VERSION=1.2\n"}])
    );

    let mut test = job(
        &server,
        2,
        &[
            "dist/app",
            "test -L dist/app; test -d dist/empty; cat \"dist/ä b.txt\"",
            "sha256sum -c dist/sum",
        ],
    );
    test["dependencies"] = json!([dependency(1)]);
    test["cache"] = cache;
    let tested = vk.run_job(&test, &ca);
    let text = tested.text();
    assert_eq!(tested.status, 0, "{text}\n{}", tested.stderr);
    for line in [
        "Successfully extracted cache",
        "Downloading artifacts for job-1 (1)...",
        "works",
        "a b",
        ".cache/deep/blob: OK",
        "Created cache",
        "Job succeeded",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
    for run in [&built, &tested] {
        assert!(!run.text().contains("glcbt-64_token"), "{}", run.text());
        assert!(!run.stderr.contains("glcbt-64_token"), "{}", run.stderr);
    }
}

/// gitlab-runner, wire §3.1 and wire §3.5: several dependencies come in their order, each over what was there; one
/// without a file is passed over; `FF_USE_DIRECT_DOWNLOAD` and the meter hold for each.
#[test]
fn dependencies_come_in_their_order_and_as_the_job_wants_them() {
    let server = GitLab::start();
    for (id, name) in [(1, "of-1"), (2, "of-2"), (3, "of-3")] {
        server.add_job(id, &format!("glcbt-64_token-of-{id}"));
        server.set_archive(id, &zip(&[(name, "x"), ("same", name)]));
    }
    let commands = &["ls | sort | tr '\\n' ' '; cat same"];
    let mut job = job(&server, 4, commands);
    let mut none = dependency(2);
    none["artifacts_file"]["filename"] = "".into();
    job["dependencies"] = json!([dependency(3), none, dependency(1)]);
    job["artifacts"] = json!([artifact(&["same"])]);
    let job = with_variables(
        job,
        &[
            variable("FF_USE_DIRECT_DOWNLOAD", "false"),
            variable("TRANSFER_METER_FREQUENCY", "1h"),
            variable("ARTIFACT_COMPRESSION_LEVEL", "of-artifacts"),
        ],
    );

    let run = Vk::new().run_job(&job, &[]);

    let text = run.text();
    assert_eq!(run.status, 0, "{run:?}");
    let asked: Vec<String> = server
        .exchanges()
        .iter()
        .filter(|exchange| exchange.request.method == "GET")
        .map(|exchange| exchange.target().to_owned())
        .collect();
    let api = |id| format!("/api/v4/jobs/{id}/artifacts?");
    assert_eq!(asked, [api(3), api(1)], "{text}");
    let downloading: Vec<&str> = text
        .lines()
        .filter_map(|line| Some(&line[line.find("Downloading artifacts for ")?..]))
        .map(|line| line.trim_end_matches("\x1b[0;m"))
        .collect();
    assert_eq!(
        downloading,
        [
            "Downloading artifacts for job-3 (3)...",
            "Downloading artifacts for job-1 (1)..."
        ],
        "{text}"
    );
    for (line, count) in [
        ("of-1 of-3 same of-1", 1),
        // At once and in the end.
        ("\rDownloading artifacts 0 B (0 B/s)", 2),
        ("\rDownloading artifacts ", 4),
        ("\rUploading artifacts 0 B (0 B/s)", 1),
        ("\rUploading artifacts ", 2),
        (
            "compression level \"of-artifacts\" is invalid, falling back to default",
            1,
        ),
    ] {
        assert_eq!(text.matches(line).count(), count, "{line:?} in {text}");
    }
}

/// gitlab-runner, wire §3.2 and wire §8.10.
#[test]
fn an_artifact_without_a_name_is_called_otherwise_than_one_whose_name_is_nothing() {
    let server = GitLab::start();
    let mut job = job(&server, 1, &["echo x > f"]);
    job["artifacts"] = json!([artifact(&["f"]), artifact(&["f"]), artifact(&["f"])]);
    job["artifacts"][0]["name"] = "$CI_COMMIT_TAG".into();
    job["artifacts"][1]["name"] = "".into();
    job["artifacts"][2]["name"] = "${CI_COMMIT_TAG:-none}".into();

    let run = Vk::new().run_job(&job, &[]);

    assert_eq!(run.status, 0, "{run:?}");
    let names: Vec<String> = server
        .uploads(1)
        .into_iter()
        .map(|upload| upload.file_name)
        .collect();
    assert_eq!(names, ["default.zip", "artifacts.zip", "none.zip"]);
}

/// gitlab-runner, wire §3.1.
#[test]
fn an_upload_that_gitlab_refuses_fails_the_job_and_ends_its_uploads() {
    let server = GitLab::start();
    server.inject(Call::Upload, 1, 9, Fault::Answer(Answer::status(413)));
    let mut job = job(&server, 1, &["echo x > f"]);
    job["artifacts"] = json!([artifact(&["f"]), artifact(&["f"])]);

    let run = Vk::new().run_job(&job, &[]);

    let text = run.text();
    assert_eq!(run.failure(), "external_dependency", "{text}");
    assert_eq!(run.status, 3);
    assert_eq!(outcomes(&run), ["too_large", "skipped"]);
    assert_eq!(server.exchanges().len(), 1);
    assert!(text.contains("FATAL: too large"), "{text}");
    assert!(text.contains("ERROR: Job failed: exit code 1"), "{text}");
    assert!(
        run.result["message"]
            .as_str()
            .unwrap()
            .contains("too large")
    );
}

#[test]
fn a_damaged_dependency_fails_the_job_after_the_attempts_it_asked_for() {
    let server = GitLab::start();
    server.add_job(1, "glcbt-64_token-of-1");
    server.set_archive(1, b"PK\x03\x04 this is no zip");
    let mut job = job(&server, 2, &["echo never"]);
    job["dependencies"] = json!([dependency(1)]);
    let job = with_variables(
        job,
        &[
            variable("ARTIFACT_DOWNLOAD_ATTEMPTS", "2"),
            variable("FF_USE_EXPONENTIAL_BACKOFF_STAGE_RETRY", "false"),
        ],
    );

    let run = Vk::new().run_job(&job, &[]);

    let text = run.text();
    assert_eq!(run.failure(), "external_dependency", "{text}");
    assert_eq!(server.exchanges().len(), 2, "{text}");
    assert_eq!(text.matches("coordinator... ok").count(), 2, "{text}");
    assert_eq!(text.matches("FATAL: ").count(), 2, "{text}");
    assert!(text.contains("WARNING: Retrying..."), "{text}");
    assert!(!text.contains("$ echo never"), "{text}");
}

#[test]
fn artifacts_can_be_kept_on_this_host() {
    let vk = Vk::new();
    let folder = vk.dir().join("kept/here");
    let job = script(&["echo x > f; echo y > g"]);
    let mut job = with_variables(job, &[variable("NAME", "folder/of-the-job")]);
    job["artifacts"] = json!([
        artifact(&["f"]),
        {"name": "dist", "paths": ["g"], "when": "always", "artifact_type": "metadata", "artifact_format": "zip"},
        {"name": "${NAME^^}.txt", "paths": ["g"], "when": "always", "artifact_type": "dotenv",
         "artifact_format": "raw"},
    ]);

    let run = vk.run_job(&job, &["--artifacts-dir", folder.to_str().unwrap()]);

    assert_eq!(run.status, 0, "{}", run.text());
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["OF-THE-JOB.txt", "dist.zip", "metadata-dist.zip"]);
    assert_eq!(fs::read(folder.join("OF-THE-JOB.txt")).unwrap(), b"y\n");
    assert_eq!(outcomes(&run), ["uploaded", "uploaded", "uploaded"]);
}

#[test]
fn without_a_server_artifacts_are_left_out_with_a_warning() {
    let mut job = script(&["echo x > f"]);
    job["artifacts"] = json!([artifact(&["f"])]);

    let run = Vk::new().run_job(&job, &[]);

    assert_eq!(run.status, 0, "{}", run.text());
    assert!(
        run.text().contains("WARNING: artifacts are not uploaded"),
        "{}",
        run.text()
    );
    assert_eq!(outcomes(&run), ["skipped"]);
}

/// Jobs of two hosts share a registry's caches; without the registry, a job goes on without them.
#[test]
fn a_registry_keeps_caches_between_hosts_and_its_absence_costs_no_job() {
    let server = GitLab::start();
    let mut registry = Registry::with(Demands {
        tls: true,
        login: true,
    });
    let files = Vk::new();
    let write = |name: &str, text: &str| {
        let path = files.dir().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    write("ca.pem", registry.ca_pem());
    write("password", PASSWORD);
    let config = write(
        "config.toml",
        &format!(
            "[cache]\nregistry = \"{}\"\nrepo = \"team/vk\"\nusername = \"{USER}\"\n\
             password_file = \"password\"\n[registries]\nca_files = [\"ca.pem\"]\nunreachable_for = \"1s\"\n",
            registry.host()
        ),
    );
    let config = ["--config", config.to_str().unwrap()];
    let with_cache = |id, command: &str| {
        let mut job = job(&server, id, &[command]);
        job["cache"] = json!([
            {"key": "a", "paths": ["a/"], "policy": "pull-push", "fallback_keys": ["b", "c"]},
            {"key": "d", "paths": ["d/"], "policy": "pull-push"},
        ]);
        job
    };

    let first = with_cache(1, "mkdir a d; echo cached > a/f; echo more > d/f");
    let stored = Vk::new().run_job(&first, &config);
    assert_eq!(stored.status, 0, "{}\n{}", stored.text(), stored.stderr);
    assert_eq!(
        stored.text().matches("Created cache").count(),
        2,
        "{}",
        stored.text()
    );

    let found = Vk::new().run_job(&with_cache(2, "cat a/f d/f"), &config);
    let text = found.text();
    assert_eq!(found.status, 0, "{text}\n{}", found.stderr);
    assert_eq!(
        text.matches("Successfully extracted cache").count(),
        2,
        "{text}"
    );
    assert_eq!(
        text.matches("Uploading cache was not needed").count(),
        2,
        "{text}"
    );
    for run in [&stored, &found] {
        assert!(!format!("{run:?}").contains(PASSWORD));
    }

    registry.stop();
    let without = Vk::new().run_job(&with_cache(3, "mkdir a d; echo x > a/f"), &config);
    let text = without.text();
    assert_eq!(without.status, 0, "{text}\n{}", without.stderr);
    assert!(text.contains("the registry cannot be reached"), "{text}");
    // One request a stage: the fallback keys and the other cache are not asked for.
    assert_eq!(text.matches("Checking cache for").count(), 1, "{text}");
    assert_eq!(
        text.matches("Skipping cache extraction due to").count(),
        2,
        "{text}"
    );
    assert_eq!(text.matches("Creating cache").count(), 1, "{text}");
    assert_eq!(
        text.matches("Skipping cache archiving due to").count(),
        1,
        "{text}"
    );
    assert!(text.contains("Job succeeded"), "{text}");
}
