//! Jobs of a server, and what became of their artifacts.

use serde_json::{Value, json};
use vk_tests::gitlab::GitLab;
use vk_tests::job::{script, variable, with_variables};
use vk_tests::vk::JobRun;

/// A job of project 7 at `server`.
pub(crate) fn job(server: &GitLab, id: u64, commands: &[&str]) -> Value {
    let token = format!("glcbt-64_token-of-{id}");
    server.add_job(id, &token);
    let mut job = with_variables(
        script(commands),
        &[variable("CI_SERVER_URL", &server.url())],
    );
    job["id"] = id.into();
    job["token"] = token.into();
    job["job_info"] = json!({"name": format!("job-{id}"), "stage": "test", "project_id": 7});
    job["features"]["failure_reasons"] = json!(["runner_external_dependency_failure"]);
    job
}

/// An archive of `paths` called `dist`, whatever becomes of the job.
pub(crate) fn artifact(paths: &[&str]) -> Value {
    json!({
        "name": "dist", "paths": paths, "when": "always", "artifact_type": "archive",
        "artifact_format": "zip", "expire_in": "1 day"
    })
}

/// What became of each artifact.
pub(crate) fn outcomes(run: &JobRun) -> Vec<&str> {
    run.result["artifacts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|artifact| artifact["outcome"].as_str().unwrap())
        .collect()
}
