//! Why a response gives no job.

use vk_hub_proto::job::{CiJob, Failure};

/// A response that gives no job.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TranslateError {
    /// A field is not there that vk needs: the file is not a job's.
    #[error("has no field `{path}`, {need}")]
    Missing {
        /// Where in the JSON.
        path: &'static str,
        /// Why it is needed.
        need: &'static str,
    },
    /// The job asks for what vk does not do: the job fails.
    #[error("{refusal}")]
    Refused {
        /// Why.
        #[source]
        refusal: Refusal,
        /// What is known of the job, for the trace that tells its end: its secrets, variables and how its trace is
        /// made. It is not to be run.
        job: Box<CiJob>,
    },
}

/// Why a translation stops.
#[derive(Debug)]
pub(super) enum Stop {
    /// As [`TranslateError::Missing`].
    Missing {
        path: &'static str,
        need: &'static str,
    },
    /// As [`TranslateError::Refused`].
    Refused(Refusal),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A job that is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It has `secrets`.
    #[error("the job uses `secrets`, which vk does not support: use masked CI/CD variables")]
    Secrets,
    /// It has `run`.
    #[error("the job uses `run`, which vk does not support: use `script`")]
    Run,
    /// An image has `executor_opts` that are not known, in GitLab Runner's words, a line each.
    #[error("{0}")]
    ExecutorOptions(String),
    /// A shell's text has no NUL.
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
    /// A cache's policy is none of those that exist.
    #[error("unknown cache policy {policy} for {key}")]
    CachePolicy {
        /// The policy, expanded, secrets masked.
        policy: String,
        /// The cache's key, expanded, secrets masked.
        key: String,
    },
    /// A field holds a word that has no meaning there.
    #[error("`{path}` is {value:?}: it must be one of {known}")]
    Value {
        /// Where in the JSON.
        path: String,
        /// What stands there.
        value: String,
        /// What may stand there.
        known: &'static str,
    },
    /// A port is not in its range.
    #[error("`{path}` is {number}: a port is a number from 1 to 65535")]
    Port {
        /// Where in the JSON.
        path: String,
        /// What stands there.
        number: i64,
    },
}

impl Refusal {
    /// The class that the job fails with.
    #[must_use]
    pub fn failure(&self) -> Failure {
        Failure::Configuration
    }
}
