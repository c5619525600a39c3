//! How a job's scripts are started in its image, as GitLab Runner's Docker executor starts them.
//!
//! A step's shell runs as the image's user, with the image's variables, through its entry point. The scripts around
//! the steps, which GitLab Runner runs in a helper image of its own, run as the same user without the entry point: so
//! all that a job finds in its folders belongs to the one who works there.

use std::ffi::OsString;

use vk_hub_proto::job::Image;
use vk_hub_proto::job::variables::Variables;

use crate::guest::{FIND_SHELL, ProcessDefaults};
use vk_agent_client::ExecRequest;

/// How processes of the job start in its image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ImageProcess {
    env: Vec<(String, String)>,
    user: Option<String>,
    working_dir: Option<String>,
    entrypoint: Vec<String>,
    volumes: Vec<String>,
}

impl ImageProcess {
    /// From what the image says and what the job says of it.
    ///
    /// An entry point of the job replaces the image's; that of one empty word leaves none, as with Docker.
    pub(super) fn new(
        defaults: ProcessDefaults,
        image: Option<&Image>,
        variables: &Variables,
    ) -> Self {
        let ProcessDefaults {
            env,
            user,
            working_dir,
            entrypoint,
            cmd: _,
            volumes,
        } = defaults;
        let wanted = image.and_then(|image| image.user.as_deref());
        let wanted = wanted.map(|user| variables.expand(user));
        let entrypoint = match image {
            Some(image) if !image.entrypoint.is_empty() => image.entrypoint.clone(),
            _ => entrypoint,
        };
        Self {
            env,
            user: wanted
                .filter(|user| !user.is_empty())
                .or(user)
                .filter(|user| !is_root(user)),
            working_dir,
            volumes,
            entrypoint: match entrypoint.as_slice() {
                [word] if word.is_empty() => Vec::new(),
                _ => entrypoint,
            },
        }
    }

    /// Who the scripts run as, in the agent's notation; none is root.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The folder that steps start in, if the image names one.
    pub(super) fn working_dir(&self) -> Option<&str> {
        self.working_dir.as_deref()
    }

    /// Folders that the image wants to be there.
    pub(super) fn volumes(&self) -> &[String] {
        &self.volumes
    }

    /// Whether the steps' shells are started by a program of the image.
    pub(super) fn has_entrypoint(&self) -> bool {
        !self.entrypoint.is_empty()
    }

    /// A program of the scripts around the steps.
    pub(super) fn plain(&self, argv: Vec<String>) -> ExecRequest {
        ExecRequest {
            argv: argv.into_iter().map(Into::into).collect(),
            env: in_bytes(self.env.clone()).collect(),
            user: self.user.clone(),
            ..ExecRequest::default()
        }
    }

    /// The shell of a step: `shell`, or what the entry point makes of it. An entry point sees the job's variables,
    /// which the script exports only later.
    pub(super) fn step(&self, shell: &str, variables: &Variables) -> ExecRequest {
        let mut request = self.plain(vec![shell.to_owned()]);
        request.cwd = self.working_dir.as_ref().map(Into::into);
        if self.has_entrypoint() {
            let finder = ["sh", "-c", FIND_SHELL].map(Into::into);
            request.argv = self.entrypoint.iter().map(Into::into).collect();
            request.argv.extend(finder);
            request.env.extend(in_bytes(exported(variables)));
        }
        request
    }
}

/// Variables as a process has them.
fn in_bytes(
    variables: impl IntoIterator<Item = (String, String)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    let variables = variables.into_iter();
    variables.map(|(name, value)| (name.into(), value.into()))
}

fn is_root(user: &str) -> bool {
    matches!(user, "0" | "0:0")
}

/// What can be a variable of a process; the path in place of a file variable's content.
fn exported(variables: &Variables) -> impl Iterator<Item = (String, String)> {
    variables
        .iter()
        .filter(|variable| {
            !variable.key.is_empty()
                && !variable.key.contains(['=', '\0'])
                && !variable.value.contains('\0')
        })
        .map(|variable| {
            let value = if variable.file {
                variables.file_path(&variable.key)
            } else {
                variable.value.clone()
            };
            (variable.key.clone(), value)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vk_hub_proto::job::Variable;

    fn defaults() -> ProcessDefaults {
        ProcessDefaults {
            env: vec![("FROM".into(), "image".into())],
            user: Some("nobody".into()),
            working_dir: Some("/srv".into()),
            entrypoint: vec!["/ep.sh".into()],
            volumes: vec!["/data".into()],
            cmd: vec!["bash".into()],
        }
    }

    fn variables(list: &[(&str, &str, bool)]) -> Variables {
        Variables::new(
            list.iter()
                .map(|(key, value, file)| Variable {
                    key: (*key).into(),
                    value: (*value).into(),
                    file: *file,
                    ..Variable::default()
                })
                .collect(),
        )
    }

    fn with(image: &Image) -> ImageProcess {
        ImageProcess::new(defaults(), Some(image), &variables(&[("U", "ci", false)]))
    }

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn a_step_goes_through_the_images_entry_point_and_sees_the_jobs_variables() {
        let process = ImageProcess::new(defaults(), None, &Variables::default());
        let job = variables(&[
            ("FROM", "job", false),
            ("CERT", "pem", true),
            ("RUNNER_TEMP_PROJECT_DIR", "/b.tmp", false),
            ("NOT=A NAME", "x", false),
        ]);

        let request = process.step("/bin/bash", &job);

        assert_eq!(request.argv, ["/ep.sh", "sh", "-c", FIND_SHELL]);
        assert_eq!(request.user.as_deref(), Some("nobody"));
        assert_eq!(request.cwd, Some("/srv".into()));
        let env = |key: &str| {
            let mut of_key = request.env.iter().filter(|(name, _)| name == key);
            of_key.next_back().and_then(|(_, value)| value.to_str())
        };
        assert_eq!(env("FROM"), Some("job"));
        assert_eq!(env("CERT"), Some("/b.tmp/CERT"));
        assert_eq!(env("NOT=A NAME"), None);
    }

    #[test]
    fn scripts_around_the_steps_run_as_the_same_user_without_the_entry_point() {
        let process = ImageProcess::new(defaults(), None, &Variables::default());

        let request = process.plain(words(&["/bin/sh"]));

        assert_eq!(request.argv, ["/bin/sh"]);
        assert_eq!(request.env, [("FROM".into(), "image".into())]);
        assert_eq!(request.user.as_deref(), Some("nobody"));
    }

    #[test]
    fn the_jobs_entry_point_and_user_replace_the_images() {
        let process = with(&Image {
            entrypoint: words(&["/usr/bin/env", "X=1"]),
            user: Some("$U:100".into()),
            ..Image::default()
        });

        let request = process.step("bash", &Variables::default());

        assert_eq!(request.argv[..2], ["/usr/bin/env", "X=1"]);
        assert_eq!(request.user.as_deref(), Some("ci:100"));
    }

    #[test]
    fn an_entry_point_of_one_empty_word_is_none() {
        let process = with(&Image {
            entrypoint: words(&[""]),
            ..Image::default()
        });

        assert_eq!(process.step("bash", &Variables::default()).argv, ["bash"]);
    }

    #[test]
    fn root_by_number_needs_no_user() {
        for user in ["0", "0:0"] {
            let image = Image {
                user: Some(user.into()),
                ..Image::default()
            };
            assert_eq!(with(&image).user(), None, "{user}");
        }
    }
}
