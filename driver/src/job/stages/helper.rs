//! What GitLab Runner's helper does with its environment, before it chooses files: it expands names and paths, and
//! reads its own settings (gitlab-runner, wire §3.2 and wire §4.5).
//!
//! The helper's environment is the job's variables and, over them, what a script wrote into `$GITLAB_ENV`
//! (gitlab-runner, build §2.4). It decides what is packed and under which name. Where things go to, and how they get
//! there, it does not touch: no transfer of this host sees a job's `HTTPS_PROXY` or `SSL_CERT_FILE`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::pack_error::PackError;
use crate::guest::Guest;
use crate::job::expand::{Budget, expand};
use crate::job::script::ENV_FILE;
use crate::job::variables::JobEnvironment;
use vk_agent_client::{AgentError, ArchiveEvent, ArchiveFormat, ArchiveRequest};
use vk_text::parse_duration;
use vk_trace::OutputSender;

/// Most bytes of `$GITLAB_ENV` that are read. More is told and cut off.
const MAX_ENV_FILE: usize = 1 << 20;

/// How often a transfer's progress is told (gitlab-runner, wire §3.5); 0 for never.
const METER: &str = "TRANSFER_METER_FREQUENCY";

/// The helper's environment.
pub(super) struct HelperEnvironment {
    job: JobEnvironment,
    /// Variables from `$GITLAB_ENV`.
    written: BTreeMap<String, String>,
    /// What all the stage's names and paths together may ask for.
    budget: Budget,
}

impl HelperEnvironment {
    /// The environment of `job` and what its scripts wrote into `$GITLAB_ENV` in `guest`.
    pub(super) async fn read(
        job: JobEnvironment,
        guest: &Guest,
        output: &OutputSender,
    ) -> Result<Self, PackError> {
        let file = env_file(&job.dirs().tmp, guest, output).await?;
        Ok(Self {
            written: assignments(&file),
            job,
            budget: Budget::default(),
        })
    }

    /// The job's part of it.
    pub(super) fn job(&self) -> &JobEnvironment {
        &self.job
    }

    fn value(&self, name: &str) -> &str {
        match self.written.get(name) {
            Some(value) => value,
            None => self.job.variables().value(name),
        }
    }

    fn referenced(&self, name: &str) -> Option<String> {
        if let Some(value) = self.written.get(name) {
            return Some(value.clone());
        }
        let variables = self.job.variables();
        variables
            .find(name)
            .map(|_| variables.referenced(name).into_owned())
    }

    /// `text` with its references replaced; as it is, with a warning, where that cannot be.
    pub(super) async fn expanded(&self, text: &str, what: &str, output: &OutputSender) -> String {
        match expand(text, &|name| self.referenced(name), &self.budget) {
            Ok(text) => text,
            Err(error) => {
                output.warning(&format!("{what}: {error}")).await;
                text.to_owned()
            }
        }
    }

    /// Paths and patterns, each [`Self::expanded`].
    pub(super) async fn expanded_paths(
        &self,
        paths: &[String],
        output: &OutputSender,
    ) -> Vec<String> {
        let mut all = Vec::with_capacity(paths.len());
        for path in paths {
            // The quoted text is what came of the path: nothing (gitlab-runner, wire §3.2).
            all.push(self.expanded(path, "invalid path \"\"", output).await);
        }
        all
    }

    /// The compression level that variable `name` asks for, which is judged where compression begins (gitlab-runner,
    /// wire §3.4).
    pub(super) fn compression(&self, name: &str) -> String {
        self.value(name).to_owned()
    }

    /// How often progress is told.
    pub(super) fn meter(&self) -> Option<Duration> {
        let nanos = parse_duration(self.value(METER))?;
        u64::try_from(nanos)
            .ok()
            .filter(|nanos| *nanos > 0)
            .map(Duration::from_nanos)
    }

    /// The limit in bytes that variable `name` sets; none for 0 and for what is no number.
    pub(super) fn limit(&self, name: &str) -> Option<u64> {
        self.value(name).parse().ok().filter(|limit| *limit > 0)
    }
}

/// What is in `$GITLAB_ENV`; nothing, if there is no such file.
async fn env_file(
    folder: &str,
    guest: &Guest,
    output: &OutputSender,
) -> Result<Vec<u8>, PackError> {
    let mut file = Vec::new();
    match read_env_file(folder, guest, &mut file)
        .await
        .map_err(PackError::from)
    {
        Ok(()) => {}
        // Neither the folder nor the file need be there, and a job may have put something else in the file's place.
        Err(PackError::Refused(why) | PackError::Unmade(why)) => {
            tracing::debug!(%why, "no variables from GITLAB_ENV");
        }
        Err(error) => return Err(error),
    }
    if file.len() > MAX_ENV_FILE {
        file.truncate(MAX_ENV_FILE);
        let text = format!("GITLAB_ENV is larger than {MAX_ENV_FILE} bytes: the rest is not read");
        output.warning(&text).await;
    }
    Ok(file)
}

/// Reads somewhat more than may be read, if there is as much.
async fn read_env_file(folder: &str, guest: &Guest, file: &mut Vec<u8>) -> Result<(), AgentError> {
    let request = ArchiveRequest {
        root: folder.to_owned(),
        paths: vec![ENV_FILE.to_owned()],
        format: ArchiveFormat::Raw,
        ..ArchiveRequest::default()
    };
    let mut archive = guest.agent().archive(request).await?;
    while file.len() <= MAX_ENV_FILE
        && let Some(event) = archive.next().await?
    {
        if let ArchiveEvent::Data(bytes) = event {
            file.extend_from_slice(&bytes);
        }
    }
    Ok(())
}

/// What GitLab Runner's `while read -r line; do export "$line"; done` makes of `file`: whole lines without the blanks
/// around them. Those that no shell would export are passed over; there they fail the stage.
fn assignments(file: &[u8]) -> BTreeMap<String, String> {
    file.split_inclusive(|byte| *byte == b'\n')
        .filter_map(|line| {
            let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
            let (name, value) = line.trim_matches([' ', '\t']).split_once('=')?;
            is_name(name).then(|| (name.to_owned(), value.to_owned()))
        })
        .collect()
}

/// Whether a shell takes `name` for a variable's (POSIX, 3.216).
fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(is_letter)
        && name
            .bytes()
            .all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vk_trace::output_channel;

    use super::*;
    use crate::job::testing::{self, variables};
    use crate::job::variables::Slot;

    fn helper(own: &[(&str, &str)], file: &str) -> HelperEnvironment {
        let job = testing::with_variables(variables(own));
        HelperEnvironment {
            job: JobEnvironment::new(&job, Slot::default()).unwrap(),
            written: assignments(file.as_bytes()),
            budget: Budget::default(),
        }
    }

    /// gitlab-runner, wire §4.5.
    #[test]
    fn a_limit_is_a_number_above_0() {
        for (text, limit) in [
            ("99", Some(99)),
            ("0", None),
            ("", None),
            ("-1", None),
            ("many", None),
        ] {
            assert_eq!(
                helper(&[("LIMIT", text)], "").limit("LIMIT"),
                limit,
                "{text:?}"
            );
        }
    }

    async fn said<T>(work: impl AsyncFnOnce(&OutputSender) -> T) -> (T, Vec<String>) {
        let (output, mut read) = output_channel();
        let result = work(&output).await;
        drop(output);
        let mut lines = Vec::new();
        while let Some(note) = read.recv().await {
            lines.push(note.output.text());
        }
        (result, lines)
    }

    /// gitlab-runner, build §2.4.
    #[test]
    fn the_file_is_read_as_a_shell_reads_it() {
        let read =
            |file: &[u8]| -> Vec<(String, String)> { assignments(file).into_iter().collect() };
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect()
        };
        assert_eq!(
            read(b"A=1\n \tB = x=y \t\nA=2\nC=\n"),
            pairs(&[("A", "2"), ("C", "")]),
            "a name ends in no blank"
        );
        assert_eq!(read(b"_x9='q' \"\n"), pairs(&[("_x9", "'q' \"")]));
        for nothing in [
            &b"A=1"[..],
            b"",
            b"\n\n",
            b"A\n",
            b"9A=1\n",
            b"a-b=1\n",
            b"=1\n",
            b"A=\xff\n",
        ] {
            assert_eq!(read(nothing), [], "{nothing:?}");
        }
    }

    #[tokio::test]
    async fn what_a_script_wrote_counts_before_the_jobs_variables() {
        let helper = helper(
            &[("VERSION", "job"), ("NAME", "app")],
            "VERSION=1.2\nTRANSFER_METER_FREQUENCY=2s\nLIMIT=5\n",
        );
        let (name, _) = said(async |output| {
            let name = "$NAME-${VERSION^^}-${NONE:-none}";
            helper.expanded(name, "invalid artifact name", output).await
        })
        .await;
        assert_eq!(name, "app-1.2-none");
        assert_eq!(helper.meter(), Some(Duration::from_secs(2)));
        assert_eq!(helper.limit("LIMIT"), Some(5));
    }

    #[tokio::test]
    async fn settings_that_are_none_are_told_or_count_as_none() {
        let helper = helper(&[("LEVEL", "best"), ("LIMIT", "0"), ("N", "-1")], "");
        assert_eq!(helper.meter(), None);
        assert_eq!(helper.limit("LIMIT"), None);
        assert_eq!(helper.limit("N"), None);
        assert_eq!(helper.compression("LEVEL"), "best");
        let (path, lines) = said(async |output| {
            let paths = ["a/$(id)".to_owned()];
            helper.expanded_paths(&paths, output).await
        })
        .await;
        assert_eq!(path, ["a/$(id)"]);
        assert!(lines[0].contains("invalid path \"\": unexpected command substitution"));
    }

    #[tokio::test]
    async fn the_paths_of_a_stage_share_what_they_may_ask_for() {
        let large = "a".repeat(1 << 20);
        let helper = helper(&[("LARGE", &large)], "");
        let (paths, lines) = said(async |output| {
            let mut paths = vec!["${LARGE:0:2}/b".to_owned(); 100];
            paths.push("plain".to_owned());
            helper.expanded_paths(&paths, output).await
        })
        .await;
        assert_eq!(paths[0], "aa/b");
        assert_eq!(paths[99..], ["${LARGE:0:2}/b", "plain"]);
        let expanded = paths.iter().filter(|path| *path == "aa/b").count();
        assert_eq!(lines.len(), 100 - expanded);
        assert!(lines[0].contains("invalid path \"\": the references ask for too much work"));
    }

    proptest! {
        #[test]
        fn of_any_file_the_last_whole_line_of_each_name_counts(
            file in "[AB_][AB0_ é]{0,2}=?[=\t x']{0,3}\n([AB0-]{0,2}=?[=\t x\x00]{0,3}\n?){0,8}"
        ) {
            let found = assignments(file.as_bytes());

            for (name, value) in &found {
                let begin = format!("{name}=");
                let whole = &file[..file.rfind('\n').unwrap()];
                let last = whole.split('\n').map(|line| line.trim_matches([' ', '\t']));
                let last = last.filter_map(|line| line.strip_prefix(&begin)).next_back();
                prop_assert_eq!(last, Some(value.as_str()));
                prop_assert!(!name.starts_with(|letter: char| letter.is_ascii_digit()));
                prop_assert!(name.chars().all(|letter| "AB0_x".contains(letter)));
            }
            let again: String = found.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
            prop_assert_eq!(assignments(again.as_bytes()), found);
        }
    }

    /// A real gitlab-runner's helper does not start with such a setting: the transfer fails.
    #[test]
    fn a_number_that_is_none_counts_as_if_it_were_not_set() {
        for text in ["many", "x", "5 minutes", "1e3", "0x10"] {
            let helper = helper(&[(METER, text), ("LIMIT", text)], "");
            assert_eq!(helper.meter(), None, "{text:?}");
            assert_eq!(helper.limit("LIMIT"), None, "{text:?}");
        }
        let written = helper(&[(METER, "5s")], "TRANSFER_METER_FREQUENCY=often\n");
        assert_eq!(written.meter(), None);
    }
}
