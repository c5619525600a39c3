//! How jobs in VMs find and keep their caches: keys, policies, limits, and a host that has no room for them.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;

use serde_json::{Value, json};
use vk_tests::fault_proxy::{Action, FaultProxy};
use vk_tests::gitlab::GitLab;
use vk_tests::job::{script, variable, with_variables};
use vk_tests::registry::Registry;
use vk_tests::small_disk;
use vk_tests::vk::{JobRun, Vk};

use crate::artifact_jobs::{self, artifact, outcomes};

/// A job of project 7 with `caches` and more variables.
fn with_caches(command: &str, caches: Value, variables: &[Value]) -> Value {
    let mut job = with_variables(script(&[command]), variables);
    job["job_info"] = json!({"name": "job", "stage": "test", "project_id": 7});
    job["cache"] = caches;
    job
}

/// The lines of `text` about which cache is looked for and what came of it.
fn looked_for(text: &str) -> Vec<String> {
    const ABOUT: [&str; 3] = [
        "Checking cache for ",
        "Successfully extracted cache",
        "Failed to extract cache",
    ];
    text.lines()
        .filter_map(|line| {
            let at = ABOUT.iter().find_map(|about| line.find(about))?;
            Some(line[at..].trim_end_matches("\x1b[0;m").to_owned())
        })
        .collect()
}

/// gitlab-runner, wire §4.3: a cache's fallback keys, then the variable's, for each cache; a protected ref, or another
/// scheme of keys, finds nothing of it.
#[test]
fn fallback_keys_find_what_other_keys_stored_unless_ref_or_scheme_differ() {
    let vk = Vk::new();
    let stored = vk.run_job(
        &with_caches(
            "test ! -e a; mkdir a b; echo of-a > a/f; echo of-b > b/f",
            json!([
                {"key": "second", "paths": ["a/"], "policy": "push"},
                {"key": "last", "paths": ["b/"], "policy": "push"},
            ]),
            &[],
        ),
        &[],
    );
    let text = stored.text();
    assert_eq!(stored.status, 0, "{stored:?}");
    for key in ["second", "last"] {
        for line in [
            format!("Not downloading cache {key} due to policy"),
            format!("Creating cache {key}..."),
        ] {
            assert!(text.contains(&line), "no {line:?} in {text}");
        }
    }
    assert_eq!(text.matches("Created cache").count(), 2, "{text}");
    assert_eq!(looked_for(&text), [""; 0], "{text}");

    let caches = json!([
        {"key": "none", "fallback_keys": ["first", "second", "third"], "paths": ["a/"], "policy": "pull"},
        {"key": "other", "paths": ["b/"], "policy": "pull"},
    ]);
    let last = [variable("CACHE_FALLBACK_KEY", "last")];
    let find = with_caches("cat a/f b/f", caches, &last);
    let found = vk.run_job(&find, &[]);
    let text = found.text();
    assert_eq!(found.status, 0, "{found:?}");
    let failed = "Failed to extract cache";
    assert_eq!(
        looked_for(&text),
        [
            "Checking cache for none...",
            failed,
            "Checking cache for first...",
            failed,
            "Checking cache for second...",
            "Successfully extracted cache",
            "Checking cache for other...",
            failed,
            "Checking cache for last...",
            "Successfully extracted cache",
        ],
        "{text}"
    );
    for line in [
        "of-a",
        "of-b",
        "Not uploading cache none due to policy",
        "Not uploading cache other due to policy",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }

    let mut protected = find;
    protected["steps"][0]["script"] = json!(["test ! -e a; test ! -e b"]);
    protected["git_info"] = json!({"protected": true});
    let other = vk.run_job(&protected, &[]);
    let text = other.text();
    assert_eq!(other.status, 0, "{other:?}");
    assert_eq!(text.matches(failed).count(), 7, "{text}");
    assert!(!text.contains("Successfully extracted"), "{text}");

    let hashed = with_caches(
        "test ! -e a",
        json!([{"key": "second/", "fallback_keys": ["second"], "paths": ["a/"], "policy": "pull"}]),
        &[
            variable("CACHE_FALLBACK_KEY", "second"),
            variable("FF_HASH_CACHE_KEYS", "true"),
        ],
    );
    let other = vk.run_job(&hashed, &[]);
    let text = other.text();
    assert_eq!(other.status, 0, "{other:?}");
    assert!(!text.contains("sanitized"), "{text}");
    assert_eq!(
        looked_for(&text),
        [
            "Checking cache for second/...",
            failed,
            "Checking cache for second...",
            failed,
            "Checking cache for second...",
            failed,
        ],
        "{text}"
    );
}

/// The `[cache]` of a configuration file, for the registry at `host`.
fn config(vk: &Vk, host: &str) -> String {
    let path = vk.dir().join("config.toml");
    fs::write(&path, format!("[cache]\nregistry = \"{host}\"\n")).unwrap();
    path.to_str().unwrap().to_owned()
}

/// gitlab-runner, wire §4.5 and wire §4.6.
#[test]
fn a_cache_over_the_jobs_limit_stays_out_of_the_registry() {
    let registry = Registry::start();
    let proxy = FaultProxy::start(registry.host(), |_| Action::Forward);
    let vk = Vk::new();
    let config = config(&vk, &proxy.host());
    let job = with_caches(
        "mkdir a; head -c 50000 /dev/urandom > a/f; mkdir b; echo b > b/f",
        json!([
            {"key": "large", "paths": ["a/"], "policy": "push"},
            {"key": "small", "paths": ["b/"], "policy": "push"},
        ]),
        &[
            variable("CACHE_MAX_UPLOADED_ARCHIVE_SIZE", "20000"),
            variable("CACHE_COMPRESSION_LEVEL", "of-caches"),
        ],
    );

    let run = vk.run_job(&job, &["--config", &config]);

    let text = run.text();
    assert_eq!(run.status, 0, "{run:?}");
    for (line, count) in [
        (
            "is too big (Limit is set to 20000). Cache will not be stored.",
            1,
        ),
        ("Uploading cache to ", 1),
        ("Created cache", 2),
        (
            "compression level \"of-caches\" is invalid, falling back to default",
            2,
        ),
    ] {
        assert_eq!(text.matches(line).count(), count, "{line:?} in {text}");
    }
    let manifests = |request: &&vk_tests::fault_proxy::Request| {
        request.method == "PUT" && request.target.contains("/manifests/")
    };
    assert_eq!(proxy.requests().iter().filter(manifests).count(), 1);
}

/// Dispatch protocol, "Caches": a registry that says nothing for `CACHE_REQUEST_TIMEOUT` is not asked again.
#[test]
fn a_silent_registry_costs_a_stage_one_request() {
    let registry = Registry::start();
    let proxy = FaultProxy::start(registry.host(), |request| {
        if request.target.contains("/manifests/") {
            return Action::Silence;
        }
        Action::Forward
    });
    let vk = Vk::new();
    let config = config(&vk, &proxy.host());
    let job = with_caches(
        "true",
        json!([
            {"key": "a", "fallback_keys": ["b"], "paths": ["a/"], "policy": "pull"},
            {"key": "c", "paths": ["c/"], "policy": "pull"},
        ]),
        &[variable("CACHE_REQUEST_TIMEOUT", "1")],
    );

    let run = vk.run_job(&job, &["--config", &config]);

    let text = run.text();
    assert_eq!(run.status, 0, "{run:?}");
    let asked = |request: &&vk_tests::fault_proxy::Request| request.target.contains("/manifests/");
    assert_eq!(proxy.requests().iter().filter(asked).count(), 1, "{text}");
    assert_eq!(looked_for(&text).len(), 2, "{text}");
    assert_eq!(
        text.matches("Skipping cache extraction due to").count(),
        2,
        "{text}"
    );
}

/// Dispatch protocol, "Caches": a cache that finds no room on the host's disk is a warning, and the job's artifacts go
/// their way.
#[test]
fn a_host_without_room_for_a_cache_fails_no_job_and_keeps_its_artifacts() {
    let server = GitLab::start();
    let vk = Vk::new();
    let mut job = artifact_jobs::job(
        &server,
        1,
        &["mkdir c; head -c 60000000 /dev/urandom > c/f; echo kept > f; sync"],
    );
    job["cache"] = json!([
        {"key": "large", "paths": ["c/"], "policy": "push"},
        {"key": "small", "paths": ["f"], "policy": "push"},
    ]);
    job["artifacts"] = json!([artifact(&["f"])]);
    let file = vk.job_file(&job);
    let result = vk.dir().join("result.json");
    let script = format!(
        "exec \"$VK\" gitlab run {} --result {}",
        file.display(),
        result.display()
    );

    // Room for the scratch disk with the file on it, and for half of the file's archive.
    vk.wait_for_place();
    let output = small_disk::shell(&vk, 90, &script).output().unwrap();

    let run = JobRun {
        status: output.status.code().unwrap(),
        trace: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        result: serde_json::from_slice(&fs::read(result).unwrap()).unwrap(),
    };
    let text = run.text();
    assert_eq!(run.status, 0, "{run:?}");
    for (line, count) in [
        ("cannot keep the archive on this host's disk", 1),
        ("Failed to create cache", 1),
        ("Created cache", 1),
        ("Job succeeded", 1),
    ] {
        assert_eq!(text.matches(line).count(), count, "{line:?} in {text}");
    }
    assert_eq!(server.uploads(1).len(), 1);
    assert_eq!(outcomes(&run), ["uploaded"]);
}
