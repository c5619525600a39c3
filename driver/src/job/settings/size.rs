//! The size of VM that a job asks for.

use vk_hub_proto::job::{Failure, variables::Variables};
use vk_text::{memory_mib, positive};

use crate::guest::{LimitMet, MIN_PIDS, SizeRequest};

const CPUS: &str = "MICROVM_CPUS";
const MEM: &str = "MICROVM_MEM";
const PIDS: &str = "MICROVM_PIDS";

/// A size that is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum SizeError {
    /// `MICROVM_CPUS` is no count.
    #[error("variable {CPUS} is {0:?}: it must be a whole number of vCPUs, at least 1")]
    Cpus(String),
    /// `MICROVM_MEM` is no amount of memory.
    #[error(
        "variable {MEM} is {0:?}: it must be a whole number followed by G or M, such as 2G or 512M"
    )]
    Mem(String),
    /// `MICROVM_PIDS` is no count.
    #[error(
        "variable {PIDS} is {0:?}: it must be a whole number of processes, at least {MIN_PIDS}"
    )]
    Pids(String),
}

impl SizeError {
    /// The class that the job fails with.
    #[must_use]
    pub(crate) fn failure(&self) -> Failure {
        Failure::Configuration
    }
}

/// The size that (expanded) variables ask for.
///
/// # Errors
///
/// When a variable is set but is no size.
pub(crate) fn requested_size(variables: &Variables) -> Result<SizeRequest, SizeError> {
    let cpus = match variables.value(CPUS) {
        "" => None,
        text => Some(positive(text).ok_or_else(|| SizeError::Cpus(text.to_owned()))?),
    };
    let memory_mib = match variables.value(MEM) {
        "" => None,
        text => Some(memory_mib(text).ok_or_else(|| SizeError::Mem(text.to_owned()))?),
    };
    let pids = match variables.value(PIDS) {
        "" => None,
        text => Some(positive(text).ok_or_else(|| SizeError::Pids(text.to_owned()))?),
    };
    Ok(SizeRequest {
        cpus,
        memory_mib,
        pids,
    })
}

/// The line of a trace about a limit of the VM that a script met.
#[must_use]
pub(crate) fn limit_line(limit: &LimitMet) -> String {
    limit.line(
        &format!("the job's variable {MEM}"),
        &format!("the job's variable {PIDS}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use vk_hub_proto::job::Variable;

    fn resolve(key: &str, value: &str) -> Result<SizeRequest, SizeError> {
        let variable = Variable {
            key: key.into(),
            value: value.into(),
            ..Variable::default()
        };
        requested_size(&Variables::new(vec![variable]))
    }

    #[test]
    fn a_job_that_asks_for_nothing_gets_the_defaults() {
        let size = requested_size(&Variables::default()).unwrap();
        assert_eq!(size, SizeRequest::default());
        assert_eq!(resolve(MEM, "").unwrap(), size);
    }

    #[test]
    fn sizes_are_read() {
        let cases = [("1G", 1024), ("16G", 16384), ("512M", 512), ("1M", 1)];
        for (text, mib) in cases {
            assert_eq!(resolve(MEM, text).unwrap().memory_mib, Some(mib), "{text}");
        }
        assert_eq!(resolve(CPUS, "4").unwrap().cpus, Some(4));
        assert_eq!(resolve(PIDS, "4096").unwrap().pids, Some(4096));
    }

    #[test]
    fn what_is_no_size_is_refused_as_configuration() {
        let bad_mem = [
            "0G", "G", "1", "1K", "1g", "1.5G", "-1G", "+1G", " 1G", "1 G", "lots", "4194304G",
            "1GM",
        ];
        for text in bad_mem {
            let error = resolve(MEM, text).unwrap_err();
            assert_eq!(error, SizeError::Mem(text.into()));
            assert_eq!(error.failure(), Failure::Configuration);
        }
        for text in ["0", "-1", "+1", "1.5", "two", "99999999999"] {
            let error = resolve(CPUS, text).unwrap_err();
            assert_eq!(error, SizeError::Cpus(text.into()));
            let error = resolve(PIDS, text).unwrap_err();
            assert_eq!(error, SizeError::Pids(text.into()));
            assert_eq!(error.failure(), Failure::Configuration);
        }
    }
}
