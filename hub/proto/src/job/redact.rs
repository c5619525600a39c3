//! A job spec without its secrets.

use super::CiJob;

/// What stands in a redacted spec where a secret was.
pub const REDACTED: &str = "[REDACTED]";

impl CiJob {
    /// The spec for records and logs: every token, password and variable value that is not public (or is
    /// masked, or a file) replaced by [`REDACTED`], and scripts as they are.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut job = self.clone();
        job.token = REDACTED.to_owned();
        let service_variables = job
            .services
            .iter_mut()
            .flat_map(|service| &mut service.variables);
        let image_variables = job.image.iter_mut().flat_map(|image| &mut image.variables);
        for variable in job
            .variables
            .iter_mut()
            .chain(service_variables)
            .chain(image_variables)
        {
            if variable.masked || variable.file || !variable.public {
                variable.value = REDACTED.to_owned();
            }
        }
        for credential in &mut job.registry_credentials {
            credential.password = REDACTED.to_owned();
        }
        for dependency in &mut job.dependencies {
            dependency.token = REDACTED.to_owned();
        }
        job
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Dependency, Image, RegistryCredential, Variable};
    use super::*;

    const SECRET: &str = "s3cr3t-4711";

    fn secret_variable() -> Variable {
        Variable {
            key: "K".into(),
            value: SECRET.into(),
            ..Variable::default()
        }
    }

    #[test]
    fn no_secret_survives() {
        let fixture = include_str!("../../tests/fixtures/ci-job.json");
        let mut job: CiJob = serde_json::from_str(fixture).unwrap();
        job.token = SECRET.into();
        job.variables.push(secret_variable());
        job.variables.push(Variable {
            public: true,
            masked: true,
            ..secret_variable()
        });
        job.variables.push(Variable {
            public: true,
            file: true,
            ..secret_variable()
        });
        job.services.push(Image {
            variables: vec![secret_variable()],
            ..Image::default()
        });
        job.image = Some(Image {
            variables: vec![secret_variable()],
            ..Image::default()
        });
        job.registry_credentials.push(RegistryCredential {
            password: SECRET.into(),
            ..RegistryCredential::default()
        });
        job.dependencies.push(Dependency {
            token: SECRET.into(),
            ..Dependency::default()
        });

        let redacted = job.redacted();

        assert!(!format!("{redacted:?}").contains(SECRET));
    }

    #[test]
    fn public_variables_stay_readable() {
        let fixture = include_str!("../../tests/fixtures/ci-job.json");
        let mut job: CiJob = serde_json::from_str(fixture).unwrap();
        job.variables = vec![Variable {
            public: true,
            ..secret_variable()
        }];

        assert_eq!(job.redacted().variables, job.variables);
    }
}
