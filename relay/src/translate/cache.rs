//! Caches: keys expanded and sanitised, policies read.

use vk_hub_proto::job::cache_key::{default_key, sanitized};
use vk_hub_proto::job::{Cache, CachePolicy, Secret, hidden, variables::Variables};

use super::error::Refusal;
use super::job::when;
use crate::response;

/// What stands for a secret in a refusal, as in the trace.
const MASKED: &str = "[MASKED]";

/// What cache keys are made from.
pub(super) struct KeyContext<'a> {
    /// The job's and the runner's variables, expanded.
    pub(super) variables: &'a Variables,
    /// What a refusal must not show.
    pub(super) secrets: &'a [Secret],
    pub(super) job_name: &'a str,
    pub(super) git_ref: &'a str,
}

pub(super) fn cache(
    cache: response::Cache,
    position: usize,
    context: &KeyContext<'_>,
) -> Result<Cache, Refusal> {
    let raw_key = if cache.key.is_empty() {
        default_key(context.job_name, context.git_ref)
    } else {
        context.variables.expand(&cache.key)
    };
    let key = sanitized(&raw_key);
    let policy = policy(&context.variables.expand(&cache.policy)).map_err(|policy| {
        let shown = |text: &str| hidden(text, context.secrets, MASKED);
        Refusal::CachePolicy {
            policy: shown(&policy),
            key: shown(&raw_key),
        }
    })?;
    let raw_fallback_keys: Vec<String> = cache
        .fallback_keys
        .iter()
        // GitLab Runner expands these twice (gitlab-runner, wire §4.3).
        .map(|key| context.variables.expand(&context.variables.expand(key)))
        .filter(|key| !key.is_empty())
        .collect();
    let fallback_keys = raw_fallback_keys.iter().map(|key| sanitized(key)).collect();
    Ok(Cache {
        key,
        raw_key,
        fallback_keys,
        raw_fallback_keys,
        untracked: cache.untracked,
        policy,
        paths: cache.paths,
        when: when(&cache.when, || format!("cache[{position}].when"))?,
    })
}

/// The policy of that name; the name back, if there is none.
fn policy(policy: &str) -> Result<CachePolicy, String> {
    match policy {
        "" | "pull-push" => Ok(CachePolicy::PullPush),
        "pull" => Ok(CachePolicy::Pull),
        "push" => Ok(CachePolicy::Push),
        unknown => Err(unknown.to_owned()),
    }
}
