//! What no script can be written for.

use vk_hub_proto::job::{CiJob, Failure, Variable, variables::Variables};

/// A job that no script can be written for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ScriptError {
    /// A shell cannot hold a NUL byte.
    #[error("{place} contains a NUL character, which no shell can hold: remove it")]
    Nul {
        /// Where it stands, such as `variable "X"`.
        place: String,
    },
    /// The file would lie outside the job's folder for such files.
    #[error(
        "file variable {key:?} cannot be a file: its name must not be empty, `.`, `..` or contain `/`"
    )]
    FileVariable {
        /// The variable's name.
        key: String,
    },
}

impl ScriptError {
    /// The class that the job fails with.
    #[must_use]
    pub(crate) fn failure(&self) -> Failure {
        Failure::Configuration
    }
}

/// Whether scripts can be written for `job` at all.
pub(super) fn check(job: &CiJob, variables: &Variables) -> Result<(), ScriptError> {
    variables.iter().try_for_each(check_variable)?;
    for step in &job.steps {
        check_script(&format!("the script of step {:?}", step.name), &step.script)?;
    }
    for hook in &job.hooks {
        check_script("the script of a hook", &hook.script)?;
    }
    Ok(())
}

fn check_variable(variable: &Variable) -> Result<(), ScriptError> {
    let key = &variable.key;
    if key.contains('\0') || variable.value.contains('\0') {
        return Err(ScriptError::Nul {
            place: format!("variable {key:?}"),
        });
    }
    let is_file_name = !matches!(key.as_str(), "" | "." | "..") && !key.contains('/');
    if variable.file && !is_file_name {
        return Err(ScriptError::FileVariable { key: key.clone() });
    }
    Ok(())
}

fn check_script(place: &str, commands: &[String]) -> Result<(), ScriptError> {
    if commands.iter().any(|command| command.contains('\0')) {
        return Err(ScriptError::Nul {
            place: place.to_owned(),
        });
    }
    Ok(())
}
