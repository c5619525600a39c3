//! Job files for tests.

use serde_json::{Value, json};

/// A job without sources that runs `script`, in the smallest VM that can: a second vCPU makes each a third dearer to
/// emulate.
#[must_use]
pub fn script(script: &[&str]) -> Value {
    json!({
        "id": 4711,
        "variables": [variable("GIT_STRATEGY", "none"), one_cpu()],
        "steps": [{"name": "script", "script": script}],
        "features": {"trace_sections": true},
        "runner_info": {"timeout": 300}
    })
}

/// The variable that asks for one vCPU.
#[must_use]
pub fn one_cpu() -> Value {
    variable("MICROVM_CPUS", "1")
}

/// A plain variable.
#[must_use]
pub fn variable(key: &str, value: &str) -> Value {
    json!({"key": key, "value": value, "public": true})
}

/// `job` with more variables.
///
/// # Panics
///
/// If `job` has no list of variables.
#[must_use]
#[expect(clippy::expect_used, reason = "a test's own job")]
pub fn with_variables(mut job: Value, variables: &[Value]) -> Value {
    job["variables"]
        .as_array_mut()
        .expect("a list")
        .extend_from_slice(variables);
    job
}

/// `job` with an `after_script`.
///
/// # Panics
///
/// If `job` has no list of steps.
#[must_use]
#[expect(clippy::expect_used, reason = "a test's own job")]
pub fn with_after_script(mut job: Value, script: &[&str]) -> Value {
    let step = json!({"name": "after_script", "script": script});
    job["steps"].as_array_mut().expect("a list").push(step);
    job
}
