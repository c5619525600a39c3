//! Jobs like those that GitLab Runner's own tests run (upstream: `GetRemoteSuccessfulMultistepBuild`,
//! `GetFailedBuild`, `getStepsBuildResponse` of `common/support.go`), from the answer to the spec.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use vk_gitlab::response;
use vk_gitlab::translate::{Options, Refusal, TranslateError, Translated, translate};
use vk_hub_proto::job::{RefType, When};

/// A job of the test project with these fields beside.
fn job(fields: &Value) -> Value {
    let mut job = json!({
        "id": 3,
        "token": "glcbt-3",
        "allow_git_fetch": true,
        "job_info": {"name": "test", "stage": "test", "project_id": 1, "project_name": "gitlab-test"},
        "git_info": {
            "repo_url": "https://gitlab-ci-token:glcbt-3@gitlab.example.com/tests/gitlab-test.git",
            "repo_object_format": "",
            "ref": "main",
            "ref_type": "branch",
            "sha": "69b18e5ed3610cf646119c3e38f462c64ec462b7",
            "before_sha": "1ea27a9695f80d7816d9e8ce025d9b2df83d0dd7",
            "refspecs": ["+refs/heads/*:refs/origin/heads/*", "+refs/tags/*:refs/tags/*"],
            "depth": 0
        },
        "runner_info": {"timeout": 7200}
    });
    let fields = fields.as_object().unwrap().clone();
    job.as_object_mut().unwrap().extend(fields);
    job
}

fn translated(fields: &Value) -> Result<Translated, TranslateError> {
    let bytes = job(fields).to_string();
    let response = response::parse(bytes.as_bytes()).unwrap();
    translate(response, &Options::default())
}

#[test]
fn a_job_of_several_steps_keeps_their_order_and_conditions() {
    let steps = json!([
        {"name": "script", "script": ["echo Hello World"], "when": "on_success"},
        {"name": "release", "script": ["echo Release"], "when": "on_success"},
        {"name": "after_script", "script": ["echo Bye"], "when": "always", "timeout": 300, "allow_failure": true},
    ]);

    let job = translated(&json!({ "steps": steps })).unwrap().job;

    let names: Vec<&str> = job.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["script", "release", "after_script"]);
    let last = job.steps.last().unwrap();
    assert_eq!(
        (last.when, last.timeout_secs, last.allow_failure),
        (When::Always, 300, true)
    );
}

#[test]
fn a_failing_job_is_a_job_like_any_other() {
    let steps = json!([{"name": "script", "script": ["exit 1"], "when": "on_success"}]);

    let Translated { job, warnings, .. } = translated(&json!({ "steps": steps })).unwrap();

    assert!(warnings.is_empty());
    assert_eq!(job.steps[0].script, ["exit 1"]);
    assert_eq!(job.timeout_secs, 7200);
    let sources = job.sources;
    assert_eq!(
        sources.repo_url,
        "https://gitlab.example.com/tests/gitlab-test.git"
    );
    assert_eq!(
        (
            sources.object_format.as_str(),
            sources.depth,
            sources.ref_type
        ),
        ("sha1", 0, RefType::Branch)
    );
}

/// gitlab-runner, wire §1.8.4: steps as one string of JSON.
#[test]
fn a_job_of_steps_to_run_is_refused_whether_or_not_it_has_a_script() {
    let run = json!("[{\"name\":\"hello\",\"script\":\"echo hello world\"}]");
    for fields in [
        json!({ "run": run }),
        json!({ "run": run, "steps": [{"name": "script", "script": ["true"]}] }),
        json!({ "run": run, "variables": [{"key": "STEPS", "value": "x"}] }),
    ] {
        let error = translated(&fields).unwrap_err();
        assert!(matches!(
            error,
            TranslateError::Refused {
                refusal: Refusal::Run,
                ..
            }
        ));
    }
}
