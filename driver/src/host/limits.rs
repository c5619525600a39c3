//! What this host has to give to VMs.

use procfs_core::{FromRead, Meminfo};

use super::memory;

/// Memory of a VM when none is asked for, in MiB.
pub(crate) const DEFAULT_MEMORY_MIB: u32 = 2048;

/// Least memory of a VM, in MiB: kernel, initramfs and agent with a little left for the job.
pub(crate) const MIN_MEMORY_MIB: u32 = 192;

/// Memory that the host keeps for itself, in MiB; within a cgroup's limit, for vk and QEMU beside the guest.
const HOST_RESERVE_MIB: u32 = 512;

/// What the host has to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostLimits {
    /// CPUs that vk may run on.
    pub cpus: u32,
    /// Memory for VMs, in MiB.
    pub memory_mib: u32,
}

impl HostLimits {
    /// What this host has: the CPUs vk may run on, and its memory or what the cgroups around vk leave of it, less a
    /// reserve.
    #[must_use]
    pub fn of_this_host() -> Self {
        let cpus = std::thread::available_parallelism()
            .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
        let total = Meminfo::from_file("/proc/meminfo")
            .ok()
            .and_then(|memory| u32::try_from(memory.mem_total >> 20).ok())
            .unwrap_or(DEFAULT_MEMORY_MIB + HOST_RESERVE_MIB);
        let limit = memory::of_this_process();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_cgroup_is_the_memory_there_is() {
        assert_eq!(for_vms(16_000, None), 16_000 - 512);
        assert_eq!(for_vms(16_000, Some(4 << 30)), 4096 - 512);
        assert_eq!(for_vms(2_000, Some(4 << 30)), 2_000 - 512);
        assert_eq!(for_vms(16_000, Some(1 << 61)), 16_000 - 512);
        assert_eq!(for_vms(16_000, Some(1 << 20)), MIN_MEMORY_MIB);
    }

    #[test]
    fn a_hosts_memory_is_what_the_kernel_tells_in_kib() {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib: u32 = line
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();

        assert_eq!(
            HostLimits::of_this_host().memory_mib,
            for_vms(kib / 1024, memory::of_this_process())
        );
    }
}
