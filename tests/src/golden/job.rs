//! Golden jobs as data.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;

use super::compare::{self, Diff};

/// One golden job.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its folder's name, such as `01-hello`.
    pub name: String,
    /// The job response, with `@HOST@` for the server's host and port.
    pub response: String,
    /// The trace, with placeholders.
    pub trace: Vec<u8>,
    /// What was reported.
    pub expected: Expected,
}

/// What GitLab Runner reported of a job.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// `success` or `failed`.
    pub state: String,
    /// The final update's failure reason.
    pub failure_reason: Option<String>,
    /// The final update's exit code.
    pub exit_code: Option<i32>,
    /// Whether the length and checksum reported were those of the trace the server held.
    #[serde(default)]
    pub trace_bytes_consistent: bool,
    /// Each artifact upload: query, file name, entries.
    #[serde(default)]
    pub uploads: Vec<serde_json::Value>,
    /// What the server did besides answering plainly.
    #[serde(default)]
    pub server: Option<serde_json::Value>,
}

impl Job {
    /// Reads job `name`, such as `01-hello`.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or its files are broken.
    pub fn load(name: &str) -> anyhow::Result<Job> {
        Self::load_from("jobs", name)
    }

    /// Reads job `name` of those about images and services, such as `101-image-plain`.
    ///
    /// # Errors
    ///
    /// As [`Job::load`].
    pub fn load_image(name: &str) -> anyhow::Result<Job> {
        Self::load_from("docker", name)
    }

    fn load_from(set: &str, name: &str) -> anyhow::Result<Job> {
        let folder = folder(set).join(name);
        let read = |file: &str| {
            let path = folder.join(file);
            fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let broken = |file: &str| format!("{file} of golden job {name} is broken");
        Ok(Job {
            name: name.to_owned(),
            response: String::from_utf8(read("job.json")?).with_context(|| broken("job.json"))?,
            trace: read("trace.txt")?,
            expected: serde_json::from_slice(&read("expected.json")?)
                .with_context(|| broken("expected.json"))?,
        })
    }

    /// The job response of a server at `host`, given as host:port.
    pub fn render(&self, host: &str) -> String {
        self.response.replace("@HOST@", host)
    }

    /// Compares `actual`, the trace of this job from a server at `host`, with the recorded one.
    ///
    /// # Errors
    ///
    /// If they differ by the rules of [`compare`](super::compare). For a job that the server
    /// cancels while it counts, how far it counted does not matter.
    pub fn compare(&self, actual: &[u8], host: &str) -> Result<(), Diff> {
        let counts_matter = self.expected.server.is_none();
        compare::compare_with(&self.trace, actual, Some(host), counts_matter)
    }
}

/// The names of all golden jobs, sorted.
///
/// # Errors
///
/// If their folder cannot be read.
pub fn names() -> anyhow::Result<Vec<String>> {
    let jobs = folder("jobs");
    let entries = fs::read_dir(&jobs).with_context(|| format!("cannot list {}", jobs.display()))?;
    let mut names = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<anyhow::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// The bundle of repository `name`: `web`, `lib` or `deep`.
pub fn bundle(name: &str) -> PathBuf {
    folder("repos").join(format!("{name}.bundle"))
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("golden")
        .join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_loads_and_renders_to_json() {
        let names = names().unwrap();
        assert_eq!(names.len(), 81);
        for name in names {
            let rendered = Job::load(&name).unwrap().render("127.0.0.1:4711");
            assert!(!rendered.contains("@HOST@"), "{name}");
            serde_json::from_str::<serde_json::Value>(&rendered).expect(&name);
        }
    }

    #[test]
    fn expected_end_of_a_failed_job_is_read() {
        let expected = Job::load("03-exit-42").unwrap().expected;
        assert_eq!(expected.state, "failed");
        assert_eq!(expected.failure_reason.as_deref(), Some("script_failure"));
        assert_eq!(expected.exit_code, Some(42));
    }

    #[test]
    fn unknown_job_is_an_error_that_names_its_file() {
        let error = Job::load("00-nothing").unwrap_err();
        assert!(error.to_string().contains("00-nothing/job.json"), "{error}");
    }

    #[test]
    fn bundles_are_there() {
        for name in ["web", "lib", "deep"] {
            assert!(bundle(name).is_file(), "{name}");
        }
    }
}
