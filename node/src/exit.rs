//! Exit statuses: the contract that scripts around `vk` rely on.

use std::process::ExitCode;

use vk_hub_proto::job::Failure;

/// An exit status of `vk`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) u8);

/// All went well.
pub(crate) const SUCCESS: Status = Status(0);
/// The job's script failed.
pub(crate) const SCRIPT: Status = Status(1);
/// `vk check`: jobs cannot run here.
pub(crate) const CANNOT_RUN: Status = Status(1);
/// Bad usage or input that cannot be read.
pub(crate) const USAGE: Status = Status(2);
/// Any failure that has no status of its own.
pub(crate) const SYSTEM: Status = Status(3);
/// The job timed out.
pub(crate) const TIMEOUT: Status = Status(4);
/// The job was cancelled.
pub(crate) const CANCELED: Status = Status(5);
/// `vk run` could not run the command; what `docker run` answers then.
pub(crate) const NOT_RUN: Status = Status(125);

/// The reader of the command's output went away: what a shell reports of a command that SIGPIPE ends.
pub(crate) const OUTPUT_CLOSED: Status = Status(141);

impl Status {
    /// The status of a job that ended so.
    pub(crate) fn of_job(failure: Option<Failure>) -> Self {
        match failure {
            None => SUCCESS,
            Some(Failure::Script) => SCRIPT,
            Some(Failure::Timeout) => TIMEOUT,
            Some(Failure::Canceled) => CANCELED,
            Some(_) => SYSTEM,
        }
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_without_a_status_of_its_own_counts_as_the_systems_failure() {
        for failure in [Failure::System, Failure::Configuration, Failure::Other] {
            assert_eq!(Status::of_job(Some(failure)), SYSTEM, "{failure:?}");
        }
        assert_eq!(Status::of_job(None), SUCCESS);
    }
}
