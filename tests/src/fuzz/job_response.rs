//! A job response of any bytes.

use vk_gitlab::response;
use vk_gitlab::translate::{Options, TranslateError, Translated, translate};
use vk_hub_proto::job::{CiJob, Failure};

/// Parses `bytes` as GitLab's job response and translates it.
///
/// Nothing panics, errors can be printed, and a job that comes out is whole: it survives the wire, no shell
/// chokes on it, and its cache keys stay below their root (gitlab-runner, wire §8.7).
pub fn job_response(bytes: &[u8]) {
    let response = match response::parse(bytes) {
        Ok(response) => response,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    for options in [
        Options::default(),
        Options {
            own_sources: true,
            variables: vec![("GIT_STRATEGY".into(), "none".into())],
            ..Options::default()
        },
    ] {
        match translate(response.clone(), &options) {
            Ok(Translated { job, warnings, .. }) => {
                assert!(warnings.iter().all(|warning| !warning.is_empty()));
                check(&job);
            }
            Err(TranslateError::Refused { refusal, .. }) => {
                assert_eq!(refusal.failure(), Failure::Configuration);
                assert!(!refusal.to_string().is_empty());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn check(job: &CiJob) {
    let wire = serde_json::to_vec(job).unwrap_or_default();
    let read = serde_json::from_slice::<CiJob>(&wire);
    assert!(
        read.is_ok_and(|read| read == *job),
        "a job must survive the wire"
    );
    assert!(job.timeout_secs > 0);
    let scripts = job.steps.iter().map(|step| &step.script);
    for line in scripts
        .chain(job.hooks.iter().map(|hook| &hook.script))
        .flatten()
    {
        assert!(!line.contains('\0'), "NUL in a script");
    }
    for variable in &job.variables {
        assert!(!variable.key.contains('\0') && !variable.value.contains('\0'));
        assert!(!variable.file || !variable.key.contains('/'));
    }
    for cache in &job.caches {
        assert_safe_key(&cache.key);
        assert_eq!(cache.fallback_keys.len(), cache.raw_fallback_keys.len());
        for key in &cache.fallback_keys {
            assert_safe_key(key);
        }
    }
}

/// A key is empty or a relative path within its root (gitlab-runner, wire §8.7).
fn assert_safe_key(key: &str) {
    assert!(
        key.is_empty()
            || !key.contains('\\')
                && key.trim_end() == key
                && key
                    .split('/')
                    .all(|segment| !matches!(segment, "" | "." | "..")),
        "unsafe cache key {key:?}"
    );
}
