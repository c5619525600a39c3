//! Pins the JSON of the job spec and the job result: a changed name is a changed protocol.

use serde_json::{Value, json};
use vk_hub_proto::job::{CiJob, Failure, JobResult, JobSpec};

const CI_JOB: &str = include_str!("fixtures/ci-job.json");
const JOB_RESULT: &str = include_str!("fixtures/job-result.json");

#[test]
fn a_ci_job_reads_and_writes_as_the_fixture() {
    let fixture: Value = serde_json::from_str(CI_JOB).unwrap();

    let job: CiJob = serde_json::from_str(CI_JOB).unwrap();

    assert_eq!(serde_json::to_value(&job).unwrap(), fixture);
}

#[test]
fn a_job_spec_is_tagged_by_kind() {
    let mut tagged: Value = serde_json::from_str(CI_JOB).unwrap();
    tagged["kind"] = json!("gitlab_ci");

    let spec: JobSpec = serde_json::from_value(tagged.clone()).unwrap();

    assert_eq!(serde_json::to_value(&spec).unwrap(), tagged);
}

#[test]
fn fields_of_a_newer_relay_are_ignored() {
    let mut newer: Value = serde_json::from_str(CI_JOB).unwrap();
    newer["invented_later"] = json!(true);

    let job: CiJob = serde_json::from_value(newer).unwrap();

    assert_eq!(job, serde_json::from_str(CI_JOB).unwrap());
}

#[test]
fn a_job_result_reads_and_writes_as_the_fixture() {
    let fixture: Value = serde_json::from_str(JOB_RESULT).unwrap();

    let result: JobResult = serde_json::from_str(JOB_RESULT).unwrap();

    assert_eq!(serde_json::to_value(&result).unwrap(), fixture);
}

#[test]
fn a_success_says_nothing_of_failure() {
    let result = JobResult {
        output_len: 7,
        ..JobResult::default()
    };

    assert_eq!(
        serde_json::to_value(&result).unwrap(),
        json!({"output_len": 7, "artifacts": []})
    );
}

#[test]
fn failure_classes_have_the_protocols_names() {
    let names: Vec<Value> = [
        Failure::Script,
        Failure::Timeout,
        Failure::ImagePull,
        Failure::Configuration,
        Failure::ExternalDependency,
        Failure::System,
        Failure::Interrupted,
        Failure::Canceled,
        Failure::NoCapacity,
        Failure::Lost,
    ]
    .iter()
    .map(|failure| serde_json::to_value(failure).unwrap())
    .collect();

    assert_eq!(
        Value::from(names),
        json!([
            "script",
            "timeout",
            "image_pull",
            "configuration",
            "external_dependency",
            "system",
            "interrupted",
            "canceled",
            "no_capacity",
            "lost"
        ])
    );
}
