//! Why a stage failed.

use vk_hub_proto::job::Failure;

/// Why a stage failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StageFailure {
    /// The class that is reported.
    pub class: Failure,
    /// Exit code of the script, where a script failed.
    pub exit_code: Option<i32>,
    /// What the job's last line says.
    pub message: String,
    /// More about it, for the result: what the trace has told already.
    pub detail: Option<String>,
}

impl StageFailure {
    /// A failure of `class` without an exit code, about which `message` says all there is.
    pub(crate) fn new(class: Failure, message: impl Into<String>) -> Self {
        Self {
            class,
            exit_code: None,
            message: message.into(),
            detail: None,
        }
    }

    /// A script that ended with `code`, in the Docker executor's words.
    #[must_use]
    pub(crate) fn exit(code: i32) -> Self {
        let exit_code = Some(code);
        Self {
            exit_code,
            ..Self::new(Failure::Script, format!("exit code {code}"))
        }
    }
}
