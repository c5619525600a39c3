//! Pins the JSON of the job spec and the job result: a changed name is a changed protocol.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};
use vk_hub_proto::job::{
    Artifact, ArtifactFormat, ArtifactOutcome, ArtifactResult, Cache, CachePolicy, CiJob, Failure,
    Hook, HookName, JobResult, JobSpec, RefType, Sources, TraceOptions, UnknownFormat, When,
};

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
        Failure::Other,
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
            "lost",
            "other"
        ])
    );
}

/// What is read where `field` has a code that nobody has invented yet.
fn of_newer<T: serde::de::DeserializeOwned>(mut value: Value, field: &str) -> T {
    value[field] = json!("invented_later");
    serde_json::from_value(value).unwrap()
}

#[test]
fn codes_of_a_newer_peer_are_read_as_other() {
    let other: JobResult = of_newer(json!({}), "failure");
    assert_eq!(other.failure, Some(Failure::Other));
    let other: ArtifactResult = of_newer(json!({"name": "a"}), "outcome");
    assert_eq!(other.outcome, ArtifactOutcome::Other);
    assert_eq!(
        of_newer::<Sources>(json!({}), "ref_type").ref_type,
        RefType::Other
    );
    assert_eq!(of_newer::<JobSpec>(json!({}), "kind"), JobSpec::Other);
}

#[test]
fn what_is_to_be_done_in_an_unknown_case_is_never_done() {
    let artifact: Artifact = of_newer(json!({}), "when");
    assert_eq!(artifact.when, When::Other);
    assert!(!artifact.when.applies(true) && !artifact.when.applies(false));
}

#[test]
fn a_cache_of_an_unknown_policy_is_left_alone() {
    let cache: Cache = of_newer(json!({}), "policy");
    assert_eq!(cache.policy, CachePolicy::Other);
    let ways = |policy: CachePolicy| (policy.restores(), policy.saves());
    assert_eq!(ways(cache.policy), (false, false));
    assert_eq!(ways(CachePolicy::PullPush), (true, true));
    assert_eq!(ways(CachePolicy::Pull), (true, false));
    assert_eq!(ways(CachePolicy::Push), (false, true));
}

#[test]
fn a_hook_of_an_unknown_place_is_never_run() {
    let hook: Hook = of_newer(json!({"script": ["x"]}), "name");
    let job = CiJob {
        hooks: vec![hook],
        ..CiJob::default()
    };
    assert_eq!(job.hooks[0].name, HookName::Other);
    assert_eq!(job.hook(HookName::Other), [""; 0]);
    assert_eq!(job.hook(HookName::PreGetSourcesScript), [""; 0]);
}

#[test]
fn an_unknown_artifact_format_is_refused_by_its_name() {
    let artifact: Artifact = of_newer(json!({}), "artifact_format");
    let name = "invented_later".to_owned();
    assert_eq!(
        artifact.artifact_format,
        ArtifactFormat::Other(name.clone())
    );
    let error = artifact.artifact_format.known().unwrap_err();
    assert_eq!(error, UnknownFormat(name));
    assert!(error.to_string().contains("\"invented_later\""), "{error}");
    // It goes on as it came.
    assert_eq!(
        serde_json::to_value(&artifact).unwrap()["artifact_format"],
        json!("invented_later")
    );
}

#[test]
fn a_code_that_is_no_text_is_still_an_error() {
    assert!(serde_json::from_value::<Cache>(json!({"policy": 5})).is_err());
    assert!(serde_json::from_value::<Artifact>(json!({"artifact_format": 5})).is_err());
}

#[test]
fn limits_that_a_spec_does_not_set_are_gitlabs() {
    let job: CiJob = serde_json::from_value(json!({
        "job": {}, "token": "", "server_url": "", "sources": {}, "steps": []
    }))
    .unwrap();
    assert_eq!(job, CiJob::default());
    assert_eq!((job.timeout_secs, job.trace.limit_bytes), (3600, 4_194_304));

    for (limit, expected) in [(0, 4_194_304), (1, 1)] {
        let trace: TraceOptions = serde_json::from_value(json!({"limit_bytes": limit})).unwrap();
        assert_eq!(trace.limit_bytes, expected);
    }
}
