//! The size a job asks its machine to have.

use vk_hub_proto::job::{Failure, variables::Variables};

const CPUS: &str = "MICROVM_CPUS";
const MEM: &str = "MICROVM_MEM";

/// What a job asks for; `None` leaves the host's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineSize {
    /// `MICROVM_CPUS`: vCPUs, at least 1.
    pub cpus: Option<u32>,
    /// `MICROVM_MEM`: memory in MiB, at least 1.
    pub mem_mib: Option<u32>,
}

/// A size that is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MachineSizeError {
    /// `MICROVM_CPUS` is no count.
    #[error("variable {CPUS} is {0:?}: it must be a whole number of vCPUs, at least 1")]
    Cpus(String),
    /// `MICROVM_MEM` is no amount of memory.
    #[error(
        "variable {MEM} is {0:?}: it must be a whole number followed by G or M, such as 2G or 512M"
    )]
    Mem(String),
}

impl MachineSizeError {
    /// The class that the job fails with.
    #[must_use]
    pub fn failure(&self) -> Failure {
        Failure::Configuration
    }
}

impl MachineSize {
    /// Reads the size from expanded variables.
    ///
    /// # Errors
    ///
    /// When a variable is set but is no size.
    pub fn resolve(variables: &Variables) -> Result<Self, MachineSizeError> {
        let cpus = match variables.value(CPUS) {
            "" => None,
            text => Some(count(text).ok_or_else(|| MachineSizeError::Cpus(text.to_owned()))?),
        };
        let mem_mib = match variables.value(MEM) {
            "" => None,
            text => Some(memory_mib(text).ok_or_else(|| MachineSizeError::Mem(text.to_owned()))?),
        };
        Ok(Self { cpus, mem_mib })
    }
}

/// Reads `<n>G` or `<n>M` as MiB; `None` for anything else, and for nothing.
#[must_use]
pub fn memory_mib(text: &str) -> Option<u32> {
    if let Some(gibibytes) = text.strip_suffix('G') {
        return count(gibibytes)?.checked_mul(1024);
    }
    count(text.strip_suffix('M')?)
}

/// A number of at least 1, digits only.
fn count(text: &str) -> Option<u32> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vk_hub_proto::job::Variable;

    fn resolve(key: &str, value: &str) -> Result<MachineSize, MachineSizeError> {
        let variable = Variable {
            key: key.into(),
            value: value.into(),
            ..Variable::default()
        };
        MachineSize::resolve(&Variables::new(vec![variable]))
    }

    #[test]
    fn a_job_that_asks_for_nothing_gets_the_defaults() {
        let size = MachineSize::resolve(&Variables::default()).unwrap();
        assert_eq!(size, MachineSize::default());
        assert_eq!(resolve(MEM, "").unwrap(), size);
    }

    #[test]
    fn sizes_are_read() {
        let cases = [("1G", 1024), ("16G", 16384), ("512M", 512), ("1M", 1)];
        for (text, mib) in cases {
            assert_eq!(resolve(MEM, text).unwrap().mem_mib, Some(mib), "{text}");
        }
        assert_eq!(resolve(CPUS, "4").unwrap().cpus, Some(4));
    }

    #[test]
    fn what_is_no_size_is_refused_as_configuration() {
        let bad_mem = [
            "0G", "G", "1", "1K", "1g", "1.5G", "-1G", "+1G", " 1G", "1 G", "lots", "4194304G",
            "1GM",
        ];
        for text in bad_mem {
            let error = resolve(MEM, text).unwrap_err();
            assert_eq!(error, MachineSizeError::Mem(text.into()));
            assert_eq!(error.failure(), Failure::Configuration);
        }
        for text in ["0", "-1", "+1", "1.5", "two", "99999999999"] {
            let error = resolve(CPUS, text).unwrap_err();
            assert_eq!(error, MachineSizeError::Cpus(text.into()));
        }
    }
}
