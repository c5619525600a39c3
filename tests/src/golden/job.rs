//! Golden jobs as data.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

use super::compare::{self, Diff};
use crate::job::one_cpu;

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
    /// Where vk means to differ.
    pub differs: Differs,
}

/// Where vk means to differ from what was recorded: `differs.json` beside a job, if it does.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Differs {
    /// Why.
    pub why: String,
    /// The job is not run.
    pub not_run: bool,
    /// How vk's job ends.
    pub end: Option<End>,
    /// The failure of a job whose image cannot be had.
    pub refused: Option<Refused>,
    /// It shows all its variables: none may be added.
    pub shows_variables: bool,
    /// Members of the job response that are others.
    pub response: serde_json::Map<String, Value>,
    /// Words of vk's trace, and the recorded ones for them.
    pub trace: Vec<(String, String)>,
    /// How far the job counted does not matter.
    pub counts_differ: bool,
}

/// What a final update tells of a failure.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// The failure reason.
    pub failure_reason: Option<String>,
    /// The exit code.
    pub exit_code: Option<i64>,
}

/// What the last line of a trace names.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// The image, with `@REGISTRY@` for the registry's host and port.
    pub image: String,
    /// A word of the cause.
    pub cause: String,
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

    /// Reads job `name` of the corners, such as `220-step-name-quoted`.
    ///
    /// # Errors
    ///
    /// As [`Job::load`].
    pub fn load_corner(name: &str) -> anyhow::Result<Job> {
        Self::load_from("corners", name)
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
        let differs = match fs::read(folder.join("differs.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| broken("differs.json"))?,
            Err(_) => Differs::default(),
        };
        Ok(Job {
            name: name.to_owned(),
            response: String::from_utf8(read("job.json")?).with_context(|| broken("job.json"))?,
            trace: read("trace.txt")?,
            expected: serde_json::from_slice(&read("expected.json")?)
                .with_context(|| broken("expected.json"))?,
            differs,
        })
    }

    /// The job response of a server at `host`, given as host:port.
    pub fn render(&self, host: &str) -> String {
        self.response.replace("@HOST@", host)
    }

    /// The job response of [`Job::render`], with what is other for vk, and with one vCPU unless that would be seen: two
    /// make a job a third dearer to emulate.
    ///
    /// # Errors
    ///
    /// If it is no JSON.
    pub fn response(&self, host: &str) -> anyhow::Result<Value> {
        let mut response = serde_json::from_str(&self.render(host))?;
        merge(&mut response, &self.differs.response);
        let variables = response.get_mut("variables").and_then(Value::as_array_mut);
        if let Some(variables) = variables.filter(|_| !self.differs.shows_variables) {
            variables.push(one_cpu());
        }
        Ok(response)
    }

    /// How vk's job is to end.
    #[must_use]
    pub fn end(&self) -> End {
        self.differs.end.clone().unwrap_or_else(|| End {
            failure_reason: self.expected.failure_reason.clone(),
            exit_code: self.expected.exit_code.map(i64::from),
        })
    }

    /// Compares `actual`, the trace of this job from a server at `host`, with the recorded one.
    ///
    /// # Errors
    ///
    /// If they differ by the rules of [`compare`](super::compare) and otherwise than the job
    /// [`differs`](Job::differs).
    pub fn compare(&self, actual: &[u8], host: &str) -> Result<(), Diff> {
        let mut actual = actual.to_vec();
        for (own, recorded) in &self.differs.trace {
            actual = compare::replaced(&actual, own, recorded);
        }
        compare::compare_with(
            &self.trace,
            &actual,
            Some(host),
            !self.differs.counts_differ,
        )
    }
}

/// Puts `members` into `value`, those of objects into the objects there.
fn merge(value: &mut Value, members: &serde_json::Map<String, Value>) {
    for (name, member) in members {
        match member {
            Value::Object(members) => merge(&mut value[name.as_str()], members),
            member => value[name.as_str()] = member.clone(),
        }
    }
}

/// The names of all golden jobs, sorted.
///
/// # Errors
///
/// If their folder cannot be read.
pub fn names() -> anyhow::Result<Vec<String>> {
    names_of("jobs")
}

/// The names of all golden jobs in corners, sorted.
///
/// # Errors
///
/// As [`names`].
pub fn corner_names() -> anyhow::Result<Vec<String>> {
    names_of("corners")
}

/// The names of all golden jobs about images, sorted.
///
/// # Errors
///
/// As [`names`].
pub fn image_names() -> anyhow::Result<Vec<String>> {
    names_of("docker")
}

fn names_of(set: &str) -> anyhow::Result<Vec<String>> {
    let jobs = folder(set);
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
    fn a_job_that_differs_says_why_and_how() {
        let job = Job::load("26-job-timeout").unwrap();
        let response = job.response("127.0.0.1:4711").unwrap();
        assert_eq!(response["runner_info"]["timeout"], 60);
        let plain: Value = serde_json::from_str(&job.render("127.0.0.1:4711")).unwrap();
        assert_eq!(plain["runner_info"]["timeout"], 6);
        assert_eq!(plain["id"], response["id"]);

        let all = names().unwrap().into_iter().map(|name| Job::load(&name));
        let images = image_names()
            .unwrap()
            .into_iter()
            .map(|name| Job::load_image(&name));
        let corners = corner_names()
            .unwrap()
            .into_iter()
            .map(|name| Job::load_corner(&name));
        let differ = all
            .chain(images)
            .chain(corners)
            .map(Result::unwrap)
            .filter(|job| job.differs != Differs::default());
        let mut count = 0;
        for job in differ {
            assert_ne!(job.differs.why, "", "{}", job.name);
            count += 1;
        }
        assert_eq!(count, 11);
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
