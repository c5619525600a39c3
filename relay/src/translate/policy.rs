//! What the trace says of a job that a security policy brought (gitlab-runner, build §1.5.3).

use crate::response::PolicyOptions;

/// GitLab Runner's lines; none for any other job.
pub(super) fn lines(policy: &PolicyOptions) -> Vec<String> {
    if !policy.execution_policy_job {
        return Vec::new();
    }
    let variables = match policy.policy_variables_override_allowed {
        None => "Variables defined in the policy take precedence over matching user-defined CI/CD variables \
                 for this job."
            .to_owned(),
        Some(is_allowed) => {
            let what = if is_allowed { "allowed" } else { "ignored" };
            let exceptions = &policy.policy_variables_override_exceptions;
            let except = if exceptions.is_empty() {
                String::new()
            } else {
                format!(" (except for {})", exceptions.join(", "))
            };
            format!(
                "User-defined CI/CD variables are {what} in this job{except} according to the policy."
            )
        }
    };
    vec![
        format!("Job triggered by policy \"{}\".", policy.policy_name),
        variables,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str) -> Vec<String> {
        let response = format!(r#"{{"policy_options": {json}}}"#);
        lines(
            &crate::response::parse(response.as_bytes())
                .unwrap()
                .policy_options,
        )
    }

    /// gitlab-runner, build §1.5.3.
    #[test]
    fn a_job_of_a_policy_says_so_and_whose_variables_count() {
        let first = "Job triggered by policy \"Scan all\".";
        let with = |more: &str| {
            of(&format!(
                r#"{{"execution_policy_job": true, "policy_name": "Scan all"{more}}}"#
            ))
        };

        assert_eq!(
            with(""),
            [
                first,
                "Variables defined in the policy take precedence over matching user-defined CI/CD variables \
                 for this job."
            ]
        );
        assert_eq!(
            with(r#", "policy_variables_override_allowed": true"#),
            [
                first,
                "User-defined CI/CD variables are allowed in this job according to the policy."
            ]
        );
        assert_eq!(
            with(
                r#", "policy_variables_override_allowed": false, "policy_variables_override_exceptions": ["A", "B"]"#
            ),
            [
                first,
                "User-defined CI/CD variables are ignored in this job (except for A, B) according to the policy."
            ]
        );
    }

    #[test]
    fn any_other_job_says_nothing() {
        for json in [
            "null",
            "{}",
            r#"{"execution_policy_job": false, "policy_name": "x"}"#,
        ] {
            assert_eq!(of(json), [""; 0], "{json}");
        }
    }
}
