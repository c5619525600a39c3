//! How large a VM is: what was asked for, within what the host has.

use std::fs;

use crate::memory_limit;

/// vCPUs of a VM when none are asked for, as far as the host has them.
pub const DEFAULT_CPUS: u32 = 2;

/// Memory of a VM when none is asked for, in MiB.
pub const DEFAULT_MEMORY_MIB: u32 = 2048;

/// Least memory of a VM, in MiB: kernel, initramfs and agent with a little left for the job.
pub const MIN_MEMORY_MIB: u32 = 192;

/// Size of a VM's scratch disk, in bytes. The file is sparse: a job costs what it writes.
pub const SCRATCH_BYTES: u64 = 16 << 30;

/// Memory that the host keeps for itself, in MiB; within a cgroup's limit, for vk and QEMU beside the guest.
const HOST_RESERVE_MIB: u32 = 512;

/// Size of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmSize {
    /// vCPUs, at least 1.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
}

/// What a job or a command asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeRequest {
    /// vCPUs.
    pub cpus: Option<u32>,
    /// Memory in MiB.
    pub memory_mib: Option<u32>,
}

/// What the host has to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// CPUs that vk may run on.
    pub cpus: u32,
    /// Memory for VMs, in MiB.
    pub memory_mib: u32,
}

/// A request for less memory than a guest can start with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{asked} MiB of memory are too little for a VM: ask for {MIN_MEMORY_MIB}M or more")]
pub struct TooSmall {
    asked: u32,
}

impl HostLimits {
    /// What this host has: the CPUs vk may run on, and its memory or what the cgroups around vk leave of it, less a
    /// reserve.
    #[must_use]
    pub fn of_this_host() -> Self {
        let cpus = std::thread::available_parallelism()
            .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
        let total = fs::read_to_string("/proc/meminfo")
            .ok()
            .and_then(|text| total_mib(&text))
            .unwrap_or(DEFAULT_MEMORY_MIB + HOST_RESERVE_MIB);
        let limit = memory_limit::of_this_process();
        Self {
            cpus,
            memory_mib: for_vms(total, limit),
        }
    }
}

/// Memory for VMs in MiB, given the host's and the limit in bytes that vk runs under.
fn for_vms(total_mib: u32, limit: Option<u64>) -> u32 {
    let limit = limit.and_then(|bytes| u32::try_from(bytes >> 20).ok());
    total_mib
        .min(limit.unwrap_or(u32::MAX))
        .saturating_sub(HOST_RESERVE_MIB)
        .max(MIN_MEMORY_MIB)
}

/// `MemTotal` of proc(5)'s meminfo, in MiB.
fn total_mib(meminfo: &str) -> Option<u32> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    u32::try_from(kib / 1024).ok()
}

impl SizeRequest {
    /// The size within `limits`: what is too much becomes the limit.
    ///
    /// # Errors
    ///
    /// [`TooSmall`] for less memory than a guest starts with.
    pub fn within(self, limits: HostLimits) -> Result<VmSize, TooSmall> {
        if let Some(asked) = self.memory_mib
            && asked < MIN_MEMORY_MIB
        {
            return Err(TooSmall { asked });
        }
        Ok(VmSize {
            cpus: self
                .cpus
                .unwrap_or(DEFAULT_CPUS)
                .clamp(1, limits.cpus.max(1)),
            memory_mib: self
                .memory_mib
                .unwrap_or(DEFAULT_MEMORY_MIB)
                .min(limits.memory_mib),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HostLimits = HostLimits {
        cpus: 8,
        memory_mib: 16_000,
    };

    #[test]
    fn nothing_asked_for_means_the_defaults() {
        let size = SizeRequest::default().within(LIMITS).unwrap();

        assert_eq!(
            size,
            VmSize {
                cpus: DEFAULT_CPUS,
                memory_mib: DEFAULT_MEMORY_MIB
            }
        );
    }

    #[test]
    fn defaults_shrink_on_a_small_host() {
        let small = HostLimits {
            cpus: 1,
            memory_mib: 700,
        };

        let size = SizeRequest::default().within(small).unwrap();

        assert_eq!(
            size,
            VmSize {
                cpus: 1,
                memory_mib: 700
            }
        );
    }

    #[test]
    fn more_than_the_host_has_becomes_what_it_has() {
        let request = SizeRequest {
            cpus: Some(64),
            memory_mib: Some(1 << 20),
        };

        let size = request.within(LIMITS).unwrap();

        assert_eq!(
            size,
            VmSize {
                cpus: 8,
                memory_mib: 16_000
            }
        );
    }

    #[test]
    fn too_little_memory_is_refused_with_the_least_that_works() {
        let request = SizeRequest {
            memory_mib: Some(64),
            cpus: None,
        };

        let error = request.within(LIMITS).unwrap_err();

        assert_eq!(
            error.to_string(),
            "64 MiB of memory are too little for a VM: ask for 192M or more"
        );
    }

    #[test]
    fn f81_a_cgroup_s_limit_is_the_memory_there_is() {
        assert_eq!(for_vms(16_000, None), 16_000 - 512);
        assert_eq!(for_vms(16_000, Some(4 << 30)), 4096 - 512);
        assert_eq!(for_vms(2_000, Some(4 << 30)), 2_000 - 512);
        assert_eq!(for_vms(16_000, Some(1 << 61)), 16_000 - 512);
        assert_eq!(for_vms(16_000, Some(1 << 20)), MIN_MEMORY_MIB);
    }

    #[test]
    fn memory_is_read_from_meminfo() {
        assert_eq!(
            total_mib("MemTotal:       24689176 kB\nMemFree: 1 kB\n"),
            Some(24_110)
        );
        assert_eq!(total_mib("nonsense"), None);
    }
}
