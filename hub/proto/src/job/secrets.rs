//! What is secret in a job: the one list that masks, records and debug output go by.

use super::variables::{Variables, expand};
use super::{CiJob, Dependency, Image, RegistryCredential, Secret, Variable};

impl CiJob {
    /// What is secret in this job, none empty and none twice, without white space around it (gitlab-runner, build §4.5
    /// and build §6.2): the values of masked variables of the job, its image and its services, as written and as
    /// expanded; the tokens of the job and its dependencies; the passwords of its registries.
    ///
    /// Values are expanded against the job's own variables; see [`CiJob::secrets_within`] for others.
    #[must_use]
    pub fn secrets(&self) -> Vec<Secret> {
        self.secrets_within(&Variables::new(self.variables.clone()).expanded())
    }

    /// As [`CiJob::secrets`], with the variables that the job runs with: they hold the job's own and are expanded.
    #[must_use]
    pub fn secrets_within(&self, expanded: &Variables) -> Vec<Secret> {
        let mut list = Collector::default();
        // Taken apart to the last field: whoever adds one has to say whether it is secret. (A cache's key may hold a
        // variable's value, which is listed.)
        let Self {
            job: _,
            token,
            server_url: _,
            server_ca_pem: _,
            sources: _,
            timeout_secs: _,
            variables,
            steps: _,
            image,
            services,
            artifacts: _,
            caches: _,
            registry_credentials,
            dependencies,
            trace: _,
            hooks: _,
        } = self;
        list.add(token.expose());
        list.variables(expanded.iter(), Form::Expanded);
        list.variables(variables.iter(), Form::Written);
        for image in image.iter().chain(services) {
            list.image(image, expanded);
        }
        for RegistryCredential {
            url: _,
            username: _,
            password,
        } in registry_credentials
        {
            list.add(password.expose());
        }
        for Dependency {
            id: _,
            name: _,
            token,
            filename: _,
            size: _,
        } in dependencies
        {
            list.add(token.expose());
        }
        list.finish()
    }
}

/// Whether a value's references are replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Written,
    Expanded,
}

/// Secrets as they are found.
#[derive(Default)]
struct Collector(Vec<Secret>);

impl Collector {
    fn add(&mut self, value: &str) {
        let value = value.trim();
        if !value.is_empty() {
            self.0.push(value.into());
        }
    }

    fn variables<'v>(&mut self, variables: impl Iterator<Item = &'v Variable>, form: Form) {
        for Variable {
            key: _,
            value,
            public: _,
            file: _,
            masked,
            raw,
        } in variables
        {
            // References alone say nothing: hiding `$NAME` would hide it wherever a script has it.
            let says_nothing = form == Form::Written && !raw && only_references(value);
            if *masked && !says_nothing {
                self.add(value);
            }
        }
    }

    fn image(&mut self, image: &Image, expanded: &Variables) {
        let Image {
            name: _,
            aliases: _,
            command: _,
            entrypoint: _,
            ports: _,
            variables,
            pull_policy: _,
            platform: _,
            user: _,
        } = image;
        if !variables.iter().any(|variable| variable.masked) {
            return;
        }
        self.variables(variables.iter(), Form::Written);
        let around: Variables = expanded.iter().chain(variables).cloned().collect();
        let of_image = variables.iter().cloned().map(|mut variable| {
            if !variable.raw {
                variable.value = around.expand(&variable.value);
            }
            variable
        });
        let of_image: Vec<Variable> = of_image.collect();
        self.variables(of_image.iter(), Form::Expanded);
    }

    fn finish(mut self) -> Vec<Secret> {
        self.0.sort_unstable();
        self.0.dedup();
        self.0
    }
}

/// Whether nothing is left of `value` but white space when its references give nothing.
fn only_references(value: &str) -> bool {
    value.contains('$') && expand(value, |_| "".into()).trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(key: &str, value: &str) -> Variable {
        Variable {
            masked: true,
            ..plain(key, value)
        }
    }

    fn plain(key: &str, value: &str) -> Variable {
        Variable {
            key: key.into(),
            value: value.into(),
            ..Variable::default()
        }
    }

    fn of(job: &CiJob) -> Vec<String> {
        let secrets = job.secrets();
        secrets
            .iter()
            .map(|secret| secret.expose().to_owned())
            .collect()
    }

    #[test]
    fn every_kind_of_secret_is_listed_once_trimmed_as_written_and_as_expanded() {
        let image = |key: &str| Image {
            variables: vec![
                masked(key, &format!("{key}-$PART-$OWN")),
                plain("OWN", "own"),
            ],
            ..Image::default()
        };
        let dependency = |token: &str| Dependency {
            token: token.into(),
            ..Dependency::default()
        };
        let job = CiJob {
            token: "tok".into(),
            variables: vec![
                plain("PART", "part"),
                masked("WHOLE", " whole-$PART\n"),
                masked("BLANK", " "),
                Variable {
                    file: true,
                    ..masked("FILE", "content")
                },
            ],
            image: Some(image("image")),
            services: vec![image("service")],
            registry_credentials: vec![RegistryCredential {
                username: "shown".into(),
                password: "pw".into(),
                ..RegistryCredential::default()
            }],
            dependencies: vec![dependency("tok"), dependency("dep"), dependency("")],
            ..CiJob::default()
        };

        assert_eq!(
            of(&job),
            [
                "content",
                "dep",
                "image-$PART-$OWN",
                "image-part-own",
                "pw",
                "service-$PART-$OWN",
                "service-part-own",
                "tok",
                "whole-$PART",
                "whole-part",
            ]
        );
    }

    /// Else `$ echo $SECRET` would lose the name in the trace.
    #[test]
    fn a_value_of_references_alone_is_secret_as_expanded_only() {
        let job = CiJob {
            variables: vec![
                plain("A", "value"),
                masked("M", "$A ${A}"),
                Variable {
                    raw: true,
                    ..masked("R", "$A")
                },
            ],
            ..CiJob::default()
        };

        assert_eq!(of(&job), ["$A", "value value"]);
    }

    #[test]
    fn the_variables_that_a_job_runs_with_count() {
        let job = CiJob {
            variables: vec![masked("M", "x-$CI_PROJECT_DIR")],
            ..CiJob::default()
        };
        let mut list = vec![plain("CI_PROJECT_DIR", "/builds/p")];
        list.extend(job.variables.clone());

        let secrets = job.secrets_within(&Variables::new(list).expanded());

        assert_eq!(
            secrets,
            ["x-$CI_PROJECT_DIR", "x-/builds/p"].map(Secret::from)
        );
    }
}
