//! The kernel command line's `vk.` parameters.

use vk_agent_proto::boot::{BUILDS, DEFAULT_HOSTNAME, HOSTNAME, PIDS, VERBOSE};

/// What the host asks of this guest.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parameters {
    /// Host name.
    pub(super) hostname: String,
    /// Mount the builds folder.
    pub(super) builds: bool,
    /// Most processes and threads of commands, at least 1; none leaves it to the guest.
    pub(super) pids: Option<u64>,
    /// Print each step on the console.
    pub(super) verbose: bool,
}

impl Parameters {
    /// Of `/proc/cmdline`. Unknown ones are for later agents.
    pub(super) fn parse(cmdline: &str) -> Self {
        let value = |wanted: &str| {
            cmdline
                .split_whitespace()
                .filter_map(|word| word.split_once('='))
                .filter(|(name, _)| *name == wanted)
                .map(|(_, value)| value)
                .next_back()
        };
        Self {
            hostname: value(HOSTNAME)
                .filter(|name| is_hostname(name))
                .unwrap_or(DEFAULT_HOSTNAME)
                .to_owned(),
            builds: value(BUILDS) == Some("1"),
            pids: value(PIDS)
                .and_then(|number| number.parse().ok())
                .filter(|&number| number > 0),
            verbose: value(VERBOSE) == Some("1"),
        }
    }
}

/// hostname(7): what may stand in files and messages without care. Linux takes 64 bytes.
fn is_hostname(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_among_the_kernels() {
        let parameters = Parameters::parse(
            "console=ttyS0 vk.hostname=runner-1.ci quiet vk.pids=4096 vk.verbose=1 vk.builds=1 vk.new=x\n",
        );

        assert_eq!(
            parameters,
            Parameters {
                hostname: "runner-1.ci".into(),
                builds: true,
                pids: Some(4096),
                verbose: true,
            }
        );
    }

    #[test]
    fn an_odd_number_of_processes_is_none() {
        for cmdline in ["", "vk.pids=", "vk.pids=0", "vk.pids=-1", "vk.pids=many"] {
            assert_eq!(Parameters::parse(cmdline).pids, None, "{cmdline:?}");
        }
    }

    #[test]
    fn a_missing_or_odd_hostname_is_the_default() {
        for cmdline in [
            "",
            "vk.hostname=",
            "vk.hostname=a/b",
            "vk.hostname",
            &format!("vk.hostname={}", "x".repeat(65)),
        ] {
            assert_eq!(
                Parameters::parse(cmdline).hostname,
                DEFAULT_HOSTNAME,
                "{cmdline:?}"
            );
        }
    }
}
