//! What it says when a command meets a limit of its VM.

use vk_agent_client::Exited;
use vk_text::quoted;

use super::VmSize;

/// Most names of killed programs that are told: the agent says no more.
const MAX_NAMES: usize = 8;

/// Most characters of one: Linux keeps 15 bytes (`TASK_COMM_LEN` less the NUL).
const MAX_NAME: usize = 15;

/// A limit of its VM that a command met.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitMet {
    /// The kernel killed processes of the command for want of memory.
    #[non_exhaustive]
    Memory {
        /// Memory of the VM in MiB.
        memory_mib: u32,
        /// How many were killed, at least 1.
        kills: u64,
        /// Names of their programs, as far as they are known: the guest's word, any character may be in one.
        programs: Vec<String>,
    },
    /// The VM started no more processes and threads.
    #[non_exhaustive]
    Processes {
        /// How many commands may have together.
        limit: u64,
        /// Whether it is the most that a VM of this much memory can have, though more were asked for.
        is_most: bool,
        /// Memory of the VM in MiB.
        memory_mib: u32,
    },
}

impl LimitMet {
    /// The limits of a VM of `size` that a command met before it ended.
    pub(crate) fn of(exited: &Exited, size: VmSize) -> Vec<Self> {
        let memory_mib = size.memory_mib;
        let memory = (exited.oom_kills > 0).then(|| Self::Memory {
            memory_mib,
            kills: exited.oom_kills,
            programs: names(&exited.oom_killed),
        });
        let processes = exited.process_limit.map(|limit| Self::Processes {
            limit,
            is_most: size.pids.is_some_and(|asked| u64::from(asked) > limit),
            memory_mib,
        });
        memory.into_iter().chain(processes).collect()
    }

    /// One line for people that says what happened and what raises the limit: `memory` and `pids` are what the memory of
    /// the VM, in the notation `2G` or `512M`, and its number of processes are set by.
    #[must_use]
    pub fn line(&self, memory: &str, pids: &str) -> String {
        match self {
            Self::Memory {
                memory_mib,
                kills,
                programs,
            } => {
                let programs: Vec<String> = programs.iter().map(|name| quoted(name)).collect();
                let killed = match (kills, programs.as_slice()) {
                    (1, [name]) => format!("{name} was killed"),
                    (1, _) => "1 process was killed".to_owned(),
                    (kills, []) => format!("{kills} processes were killed"),
                    (kills, names) => {
                        format!("{kills} processes were killed ({})", names.join(", "))
                    }
                };
                format!(
                    "the VM ran out of its {memory_mib} MiB of memory and {killed}; {memory} (such as {}) gives it more",
                    more_memory(*memory_mib)
                )
            }
            Self::Processes {
                limit,
                is_most: false,
                ..
            } => format!(
                "the VM runs {limit} processes and threads at most and did not start another one; {pids} (such as {}) \
                 allows more",
                limit.saturating_mul(2)
            ),
            Self::Processes {
                limit,
                is_most: true,
                memory_mib,
            } => format!(
                "the VM runs {limit} processes and threads at most, all that its {memory_mib} MiB of memory allow, and did \
                 not start another one; {memory} (such as {}) allows more",
                more_memory(*memory_mib)
            ),
        }
    }
}

/// What the guest says that programs are called, within bounds.
fn names(told: &[String]) -> Vec<String> {
    let cut = |name: &String| name.chars().take(MAX_NAME).collect();
    told.iter().take(MAX_NAMES).map(cut).collect()
}

/// Twice as much, as one would write it.
fn more_memory(mib: u32) -> String {
    match mib.saturating_mul(2) {
        mib if mib % 1024 == 0 => format!("{}G", mib / 1024),
        mib => format!("{mib}M"),
    }
}

#[cfg(test)]
mod tests {
    use vk_agent_client::ExitStatus;

    use super::*;

    fn lines(exited: &Exited, size: VmSize) -> Vec<String> {
        LimitMet::of(exited, size)
            .iter()
            .map(|limit| limit.line("MEM", "PIDS"))
            .collect()
    }

    fn out_of_memory(kills: u64, programs: &[&str]) -> String {
        let exited = Exited {
            oom_kills: kills,
            oom_killed: programs.iter().map(|&name| name.to_owned()).collect(),
            ..exited()
        };
        lines(&exited, VmSize::new(1, 512)).concat()
    }

    fn exited() -> Exited {
        Exited {
            status: ExitStatus::Code(0),
            oom_kills: 0,
            oom_killed: Vec::new(),
            process_limit: None,
        }
    }

    #[test]
    fn a_command_that_met_no_limit_has_nothing_to_say() {
        assert_eq!(lines(&exited(), VmSize::new(1, 512)), [""; 0]);
    }

    #[test]
    fn killed_programs_and_the_size_are_named() {
        let start = "the VM ran out of its 512 MiB of memory and ";
        let end = "; MEM (such as 1G) gives it more";
        for (kills, programs, killed) in [
            (1, &["tail"][..], "\"tail\" was killed"),
            (1, &[], "1 process was killed"),
            (
                3,
                &["cc1plus", "ld"],
                "3 processes were killed (\"cc1plus\", \"ld\")",
            ),
            (2, &[], "2 processes were killed"),
        ] {
            assert_eq!(
                out_of_memory(kills, programs),
                format!("{start}{killed}{end}")
            );
        }
    }

    #[test]
    fn a_guest_can_make_the_line_neither_long_nor_two() {
        let long = "x".repeat(100_000);
        let mut programs = vec!["a\n\u{1b}[31m\"b"];
        programs.resize(1000, &long);

        let line = out_of_memory(9, &programs);

        assert!(
            line.contains(r#"("a\n\x1b[31m\"b", "xxxxxxxxxxxxxxx", "#),
            "{line}"
        );
        assert!(line.len() < 300, "{line}");
    }

    #[test]
    fn the_limit_on_processes_names_what_raises_it() {
        let exited = Exited {
            process_limit: Some(860),
            ..exited()
        };
        let size = VmSize::new(1, 768);

        let usual = lines(&exited, size).concat();
        let small = lines(&exited, size.with_pids(860)).concat();
        let most = lines(&exited, size.with_pids(861)).concat();

        assert_eq!(
            usual,
            "the VM runs 860 processes and threads at most and did not start another one; PIDS (such as 1720) allows more"
        );
        assert_eq!(small, usual);
        assert!(
            most.contains("all that its 768 MiB of memory allow"),
            "{most}"
        );
        assert!(most.contains("MEM (such as 1536M) allows more"), "{most}");
    }
}
