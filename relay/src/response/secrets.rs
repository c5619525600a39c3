//! What of a response must not be shown.

use vk_hub_proto::job::Variable;
use vk_hub_proto::job::variables::Variables;

use super::types::JobResponse;

impl JobResponse {
    /// The job's variables, expanded among themselves.
    #[must_use]
    pub fn expanded_variables(&self) -> Variables {
        self.written_variables().expanded()
    }

    fn written_variables(&self) -> Variables {
        self.variables
            .iter()
            .map(|variable| Variable {
                key: variable.key.clone(),
                value: variable.value.clone(),
                public: variable.public,
                file: variable.file,
                masked: variable.masked,
                raw: variable.raw,
            })
            .collect()
    }

    /// The values to mask where a job that is refused is told of: masked variables, as written and as expanded, tokens
    /// and passwords. None is empty.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        let written = self.written_variables();
        let expanded = written.expanded();
        let masked = written.iter().chain(expanded.iter());
        masked
            .filter(|variable| variable.masked)
            .map(|variable| &variable.value)
            .chain([&self.token])
            .chain(self.dependencies.iter().map(|dependency| &dependency.token))
            .chain(
                self.credentials
                    .iter()
                    .map(|credential| &credential.password),
            )
            .filter(|secret| !secret.trim().is_empty())
            .map(|secret| secret.trim().to_owned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn secrets_are_told_as_written_and_as_expanded() {
        let response = parse(
            br#"{
                "token": "job-token",
                "variables": [
                    {"key": "BASE", "value": "b4se"},
                    {"key": "S", "value": "$BASE-xyz", "masked": true}
                ],
                "dependencies": [{"id": 1, "token": "dep-token"}],
                "credentials": [{"type": "registry", "password": "pass"}]
            }"#,
        )
        .unwrap();

        let secrets = response.secrets();

        assert_eq!(
            secrets,
            ["$BASE-xyz", "b4se-xyz", "job-token", "dep-token", "pass"]
        );
    }
}
