//! The job's variables with the runner's own around them.

use vk_hub_proto::job::{Variable, variables::Variables};

use super::error::Refusal;
use super::options::{Options, Runner};
use crate::response;

/// Masked values shorter than this, in bytes, are warned of: they mask innocent text.
const SHORT_MASKED_VALUE: usize = 4;

pub(super) fn variable(variable: response::Variable) -> Variable {
    Variable {
        key: variable.key,
        value: variable.value,
        public: variable.public,
        file: variable.file,
        masked: variable.masked,
        raw: variable.raw,
    }
}

/// The list of the spec: the runner's short token, the job's own with those of `options` over them, the runner's
/// version.
pub(super) fn variables(own: Vec<response::Variable>, options: &Options) -> Vec<Variable> {
    let mut list = Vec::with_capacity(own.len() + options.variables.len() + 4);
    if let Some(short_token) = &options.runner.short_token {
        list.push(Variable::public("CI_RUNNER_SHORT_TOKEN", short_token));
    }
    list.extend(own.into_iter().map(variable));
    for (key, value) in &options.variables {
        let replaced = list.iter().rev().find(|variable| variable.key == *key);
        let replacement = match replaced {
            Some(replaced) => Variable {
                value: value.clone(),
                ..replaced.clone()
            },
            None => Variable::public(key, value),
        };
        list.push(replacement);
    }
    let Runner {
        version,
        revision,
        executable_arch,
        ..
    } = &options.runner;
    list.extend([
        Variable::public("CI_RUNNER_VERSION", version),
        Variable::public("CI_RUNNER_REVISION", revision),
        Variable::public("CI_RUNNER_EXECUTABLE_ARCH", executable_arch),
    ]);
    list
}

/// Refuses what no script can hold.
pub(super) fn check(variable: &Variable) -> Result<(), Refusal> {
    let key = &variable.key;
    if key.contains('\0') || variable.value.contains('\0') {
        return Err(Refusal::Nul {
            place: format!("variable {key:?}"),
        });
    }
    let is_file_name = !matches!(key.as_str(), "" | "." | "..") && !key.contains('/');
    if variable.file && !is_file_name {
        return Err(Refusal::FileVariable { key: key.clone() });
    }
    Ok(())
}

/// A warning for each masked variable whose (expanded) value is so short that it will mask innocent text.
pub(super) fn short_masked_values(expanded: &Variables) -> impl Iterator<Item = String> {
    expanded.iter().filter_map(|variable| {
        let len = variable.value.trim().len();
        (variable.masked && (1..SHORT_MASKED_VALUE).contains(&len)).then(|| {
            format!(
                "the masked variable {:?} is only {len} bytes long: \
                 [MASKED] will also stand for other text that contains them",
                variable.key
            )
        })
    })
}
