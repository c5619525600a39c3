//! A job with a marker in each place for a secret: none comes out of vk in any way that others could see.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use vk_tests::git_http::Repos;
use vk_tests::gitlab::GitLab;
use vk_tests::golden::Job;
use vk_tests::image_maker::Image;
use vk_tests::job::{one_cpu, variable};
use vk_tests::processes::family;
use vk_tests::registry::{Demands, PASSWORD, Registry, USER};
use vk_tests::vk::Vk;

use crate::artifact_jobs::{artifact, outcomes};

const TOKEN: &str = "marker-of-token";

/// All that no one may see.
const SECRETS: [&str; 10] = [
    TOKEN,
    PASSWORD,
    "marker-of-masked",
    "marker-of-masked-file",
    "marker-of-private",
    "marker-of-file",
    "marker-of-image",
    "marker-of-dependency",
    "marker-of-output",
    // `marker-of-masked` in the cache's key, as base64 has it.
    "bWFya2VyLW9mLW1hc2tlZ",
];

/// The golden job of a clone, with secrets in it.
fn job(server: &GitLab, registry: &Registry) -> Value {
    let golden = Job::load("29-clone").unwrap().render(&server.host());
    let mut job: Value = serde_json::from_str(&golden).unwrap();
    let old_token = job["token"].as_str().unwrap().to_owned();
    job = serde_json::from_str(&golden.replace(&old_token, TOKEN)).unwrap();
    let id = job["id"].as_u64().unwrap();
    server.add_job(id, TOKEN);
    server.add_job(4000, "marker-of-dependency");
    // A zip of nothing: the end of its directory alone (APPNOTE.TXT 4.3.16).
    server.set_archive(4000, &[&b"PK\x05\x06"[..], &[0; 18]].concat());
    job["variables"].as_array_mut().unwrap().extend([
        one_cpu(),
        variable("CI_SERVER_URL", &server.url()),
        json!({"key": "MASKED", "value": "marker-of-masked", "masked": true}),
        json!({"key": "MASKED_FILE", "value": "marker-of-masked-file", "masked": true, "file": true}),
        json!({"key": "PRIVATE", "value": "marker-of-private"}),
        json!({"key": "FILE", "value": "marker-of-file", "file": true}),
    ]);
    job["image"] = json!({
        "name": registry.image("team/busybox:1"),
        "variables": [{"key": "IMAGE", "value": "marker-of-image", "masked": true}],
    });
    job["credentials"] = json!([
        {"type": "registry", "url": registry.host(), "username": USER, "password": PASSWORD},
    ]);
    job["cache"] = json!([{
        "key": "$MASKED-key", "paths": ["README.md"], "policy": "pull-push", "when": "always",
        "fallback_keys": ["other-$MASKED"],
    }]);
    job["dependencies"] = json!([{
        "id": 4000, "name": "before", "token": "marker-of-dependency",
        "artifacts_file": {"filename": "artifacts.zip", "size": 22},
    }]);
    job["artifacts"] = json!([artifact(&["README.md"])]);
    job["steps"] = json!([{"name": "script", "script": [
        "test \"$CI_JOB_TOKEN\" && echo \"<$MASKED> <$CI_JOB_TOKEN> <$(cat \"$MASKED_FILE\")>\"",
        "made=marker-of; made=$made-output; echo \"::add-mask::$made\"; echo \"<$made>\" >&2",
        "test \"$(cat \"$FILE\")\" && test \"$PRIVATE\" && exit 3",
    ]}]);
    job
}

/// What was seen of a secret, and where.
type Seen = BTreeSet<(String, &'static str)>;

fn look(place: &str, bytes: &[u8], seen: &mut Seen) {
    for secret in SECRETS {
        if bytes
            .windows(secret.len())
            .any(|window| window == secret.as_bytes())
        {
            seen.insert((place.to_owned(), secret));
        }
    }
}

/// Looks at arguments and environments of `vk` and all that runs below it.
fn look_at_processes(vk: u32, looked_at: &mut BTreeSet<String>, seen: &mut Seen) {
    let below = family(vk).into_iter().map(|process| process.pid);
    for pid in below.chain([vk]) {
        for file in ["cmdline", "environ"] {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let program = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            if file == "cmdline" {
                looked_at.insert(String::from_utf8_lossy(program).into_owned());
            }
            look(&format!("{file} of {pid}"), &bytes, seen);
        }
    }
}

/// Files that others may read, as they were when they were looked at.
#[derive(Default)]
struct Files(BTreeMap<PathBuf, (i64, i64, u64)>);

impl Files {
    /// Looks at those below `folder` that are new or have changed.
    fn look(&mut self, folder: &Path, seen: &mut Seen) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            look("a file's name", path.as_os_str().as_encoded_bytes(), seen);
            let Ok(found) = fs::symlink_metadata(&path) else {
                continue;
            };
            if found.is_dir() {
                self.look(&path, seen);
            } else if found.is_file() && found.mode() & 0o077 != 0 {
                let state = (found.mtime(), found.mtime_nsec(), found.len());
                if self.0.insert(path.clone(), state) != Some(state) {
                    let bytes = fs::read(&path).unwrap_or_default();
                    look(&path.display().to_string(), &bytes, seen);
                }
            }
        }
    }
}

#[test]
fn no_secret_of_a_job_is_seen_in_log_trace_result_processes_or_files() {
    let server = GitLab::with_repos(Repos::golden(), TOKEN);
    let registry = Registry::with(Demands {
        login: true,
        ..Demands::default()
    });
    Image::busybox().push(&registry, "team/busybox:1");
    let vk = Vk::new();
    let temporary = vk.dir().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let folders = [vk.state(), temporary.clone()];
    let file = vk.job_file(&job(&server, &registry));
    vk.wait_for_place();
    let child = vk
        .command()
        .env("TMPDIR", &temporary)
        .args(["gitlab", "run", "-vv"])
        .arg(file)
        .arg("--result")
        .arg(vk.dir().join("result.json"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();

    let pid = child.id();
    let is_over = AtomicBool::new(false);
    let (run, mut seen, mut files, programs) = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let (mut seen, mut files) = (Seen::new(), Files::default());
            let mut programs = BTreeSet::new();
            let mut rounds = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                look_at_processes(pid, &mut programs, &mut seen);
                if rounds.is_multiple_of(20) {
                    folders
                        .iter()
                        .for_each(|folder| files.look(folder, &mut seen));
                }
                rounds += 1;
                thread::sleep(Duration::from_millis(5));
            }
            (seen, files, programs)
        });
        let run = vk.finish(child);
        is_over.store(true, Ordering::Relaxed);
        let (seen, files, programs) = watch.join().unwrap();
        (run, seen, files, programs)
    });
    folders
        .iter()
        .for_each(|folder| files.look(folder, &mut seen));

    let text = run.text();
    // It was a whole job, and its processes and files were looked at.
    assert_eq!(run.result["exit_code"], 3, "{run:?}");
    assert_eq!(outcomes(&run), ["uploaded"], "{run:?}");
    for line in [
        "<[MASKED]> <[MASKED]> <[MASKED]>\n",
        "Created cache",
        "Downloading artifacts",
    ] {
        assert!(text.contains(line), "no {line:?} in {run:?}");
    }
    assert_eq!(text.matches("<[MASKED]>").count(), 4, "{run:?}");
    assert!(run.stderr.contains("DEBUG"), "{}", run.stderr);
    assert!(
        ["git", "qemu"]
            .iter()
            .all(|name| programs.iter().any(|program| program.contains(name))),
        "{programs:?}"
    );
    assert!(!files.0.is_empty());

    look("the trace", &run.trace, &mut seen);
    look("the log", run.stderr.as_bytes(), &mut seen);
    look("the result", run.result.to_string().as_bytes(), &mut seen);
    assert_eq!(seen, Seen::new(), "{}", run.stderr);
}
