//! The `vk` command, as a test runs it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;
use vk_test_base::places;

/// The workspace's folder.
#[must_use]
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("/"))
}

/// The folder of guest images; `VK_IMAGES_DIR`, or else where `images/build` puts them.
///
/// # Panics
///
/// If they are not built.
#[must_use]
pub fn images() -> PathBuf {
    let dir = std::env::var_os("VK_IMAGES_DIR")
        .map_or_else(|| workspace().join("images/out"), PathBuf::from);
    assert!(
        dir.join("vmlinux").is_file(),
        "the guest images are not built: run `images/build` first, or set VK_IMAGES_DIR"
    );
    dir
}

/// The `vk` under test: `VK_BIN`, or else the one that cargo built beside the tests.
///
/// # Panics
///
/// If it is not built.
#[must_use]
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let built = std::env::var_os("VK_BIN").map_or_else(beside_the_tests, PathBuf::from);
        assert!(
            built.is_file(),
            "{} is missing: run `cargo test --workspace`, or `cargo build -p vk` before these tests",
            built.display()
        );
        built
    })
}

/// Tests are in `target/<profile>/deps`, commands in the folder above.
fn beside_the_tests() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    test.ancestors().nth(2).unwrap_or(Path::new("")).join("vk")
}

/// A place to run `vk` in: a state folder of its own, and room for files.
pub struct Vk {
    dir: TempDir,
    state: PathBuf,
    boots: bool,
}

/// How a `vk gitlab run` ended.
pub struct JobRun {
    /// Exit status of the command.
    pub status: i32,
    /// The trace.
    pub trace: Vec<u8>,
    /// What vk wrote to standard error.
    pub stderr: String,
    /// The result's JSON; null when none was written.
    pub result: Value,
}

impl std::fmt::Debug for JobRun {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // For failed assertions: the trace is to be read.
        write!(
            out,
            "status {}, result {}\n{}\n{}",
            self.status,
            self.result,
            self.text(),
            self.stderr
        )
    }
}

impl JobRun {
    /// The trace as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.trace).into_owned()
    }

    /// Checks that the trace, of a job without stamps, has each of these as a whole line.
    ///
    /// # Panics
    ///
    /// If one is missing.
    pub fn assert_lines(&self, lines: &[&str]) {
        let text = self.text();
        for line in lines {
            assert!(
                text.lines().any(|found| found == *line),
                "no {line:?} in {text}"
            );
        }
    }

    /// The failure class in the result; empty for success.
    #[must_use]
    pub fn failure(&self) -> &str {
        self.result["failure"].as_str().unwrap_or("")
    }
}

impl Default for Vk {
    fn default() -> Self {
        Self::new()
    }
}

impl Vk {
    /// A new place.
    ///
    /// # Panics
    ///
    /// If no temporary folder can be made.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test without a folder cannot go on")]
    pub fn new() -> Self {
        let dir = TempDir::new().expect("a temporary folder");
        let state = dir.path().join("state");
        Self {
            dir,
            state,
            boots: true,
        }
    }

    /// A new place for what ends before a VM is started: it does not wait for VMs of other tests.
    ///
    /// # Panics
    ///
    /// If no temporary folder can be made.
    #[must_use]
    pub fn without_vm() -> Self {
        Self {
            boots: false,
            ..Self::new()
        }
    }

    /// Waits until fewer than two other tests have a VM; the place is this thread's from then on.
    pub fn wait_for_place(&self) {
        if self.boots {
            places::one();
        }
    }

    /// Another place with the same state folder: a second vk of this host, at the same time. This one must outlive it.
    #[must_use]
    pub fn second(&self) -> Self {
        Self {
            state: self.state(),
            ..Self::new()
        }
    }

    /// The folder for files of the test.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// vk's state folder.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.state.clone()
    }

    /// The command, with images and state folder set, and nothing of this user's configuration.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(binary());
        command
            .env("VK_STATE_DIR", self.state())
            .env("VK_IMAGES_DIR", images())
            .env("XDG_CONFIG_HOME", self.dir.path().join("config"))
            .env("DOCKER_CONFIG", self.dir.path().join("docker"))
            .env_remove("RUST_LOG")
            .stdin(Stdio::null());
        command
    }

    /// Runs `vk` with `args` to its end.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[expect(clippy::expect_used, reason = "a test without vk cannot go on")]
    pub fn run(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
        let args: Vec<_> = args.into_iter().collect();
        let mut command = self.command();
        match args.split_first() {
            Some((first, others)) if first.as_ref() == "run" => {
                self.wait_for_place();
                // More would take longer to emulate.
                command.args(["run", "--cpus", "1"]).args(others);
            }
            _ => {
                command.args(&args);
            }
        }
        command.output().expect("vk starts")
    }

    /// Writes `job` into a file and answers its path.
    ///
    /// # Panics
    ///
    /// If it cannot be written.
    #[expect(clippy::expect_used, reason = "a test without its job cannot go on")]
    pub fn job_file(&self, job: &Value) -> PathBuf {
        let path = self.dir.path().join("job.json");
        fs::write(&path, job.to_string()).expect("the job file is written");
        path
    }

    /// Runs `vk gitlab run` on `job`, with more arguments, to its end.
    pub fn run_job(&self, job: &Value, args: &[&str]) -> JobRun {
        self.finish(self.start_job(job, args))
    }

    /// Starts `vk gitlab run` on `job`; [`Vk::finish`] takes its end.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[expect(clippy::expect_used, reason = "a test without vk cannot go on")]
    pub fn start_job(&self, job: &Value, args: &[&str]) -> Child {
        let file = self.job_file(job);
        let _ = fs::remove_file(self.result_file());
        self.wait_for_place();
        self.command()
            .args(["gitlab", "run"])
            .arg(file)
            .arg("--result")
            .arg(self.result_file())
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("vk starts")
    }

    /// Waits for a job's end.
    ///
    /// # Panics
    ///
    /// If its output cannot be read.
    #[expect(clippy::expect_used, reason = "a test without a trace cannot go on")]
    pub fn finish(&self, child: Child) -> JobRun {
        let output = child.wait_with_output().expect("vk is waited for");
        let result = fs::read(self.result_file())
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or(Value::Null);
        JobRun {
            status: output.status.code().unwrap_or(-1),
            trace: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            result,
        }
    }

    fn result_file(&self) -> PathBuf {
        self.dir.path().join("result.json")
    }
}
