//! What a job used.

use std::time::{Duration, Instant};

use vk_hub_proto::job::Usage;

use crate::guest::Guest;

/// Measures one job, from its making to [`UsageMeter::finish`].
pub(super) struct UsageMeter {
    began: Instant,
}

impl UsageMeter {
    pub(super) fn start() -> Self {
        Self {
            began: Instant::now(),
        }
    }

    /// What the job's VM used. To be called while the VM still is there.
    pub(super) fn of_guest(guest: &Guest) -> Usage {
        let size = guest.size();
        let stats = guest.machine_stats();
        Usage {
            wall_ms: 0,
            cpu_ms: stats.map(|stats| millis(stats.cpu_time)),
            peak_mem_bytes: stats.map(|stats| stats.peak_memory),
            cpus: Some(size.cpus),
            mem_mib: Some(size.memory_mib),
        }
    }

    /// Adds the time the whole job took, cleanup included.
    pub(super) fn finish(&self, guest: Usage) -> Usage {
        Usage {
            wall_ms: millis(self.began.elapsed()),
            ..guest
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
