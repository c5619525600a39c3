//! The memory that the cgroups around vk leave it.
//!
//! The memory of a VM is this process tree's: above a cgroup's limit the kernel kills QEMU, and the job with it.

use std::fs;
use std::path::{Path, PathBuf};

use procfs_core::{FromRead, ProcessCGroup, ProcessCGroups};

/// Where the kernel's cgroup file systems are mounted.
const MOUNTS: &str = "/sys/fs/cgroup";

/// Folders below [`MOUNTS`] that the unified hierarchy may be at: alone, and beside version 1.
const UNIFIED: [&str; 2] = ["", "unified"];

/// The least memory limit around this process in bytes; `None` when there is none.
pub(crate) fn of_this_process() -> Option<u64> {
    let groups = ProcessCGroups::from_file("/proc/self/cgroup").ok()?;
    least_limit(&groups, Path::new(MOUNTS))
}

/// The least limit of `groups` (cgroups(7), `/proc/[pid]/cgroup`) and of those around them.
fn least_limit(groups: &ProcessCGroups, mounts: &Path) -> Option<u64> {
    let limits = groups.into_iter().filter_map(|group| limit(group, mounts));
    limits.min()
}

/// Version 2 has hierarchy 0 and no controllers.
fn limit(group: &ProcessCGroup, mounts: &Path) -> Option<u64> {
    let path = &group.pathname;
    if group.hierarchy == 0 && group.controllers.is_empty() {
        let roots = UNIFIED.iter().map(|folder| mounts.join(folder));
        return roots
            .filter_map(|root| least_above(&root, path, "memory.max"))
            .min();
    }
    let is_memory = group.controllers.iter().any(|name| name == "memory");
    is_memory
        .then(|| least_above(&mounts.join("memory"), path, "memory.limit_in_bytes"))
        .flatten()
}

/// The least limit from the group `path` up to the root. In a container, the groups outside are not there to read.
fn least_above(root: &Path, path: &str, file: &str) -> Option<u64> {
    let group: PathBuf = Path::new(path)
        .components()
        .filter(|part| matches!(part, std::path::Component::Normal(_)))
        .collect();
    group
        .ancestors()
        .filter_map(|group| read(&root.join(group).join(file)))
        .min()
}

/// `None` for `max`, and for what version 1 says instead: a number near 2^63.
fn read(file: &Path) -> Option<u64> {
    let limit: u64 = fs::read_to_string(file).ok()?.trim().parse().ok()?;
    (limit < 1 << 62).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cgroup file systems with these limits.
    fn mounts(limits: &[(&str, &str)]) -> tempfile::TempDir {
        let mounts = tempfile::tempdir().unwrap();
        for (file, limit) in limits {
            let file = mounts.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{limit}\n")).unwrap();
        }
        mounts
    }

    /// As the kernel writes them.
    fn groups(text: &str) -> ProcessCGroups {
        ProcessCGroups::from_read(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_least_limit_around_counts() {
        let mounts = mounts(&[
            ("a.slice/memory.max", "3000"),
            ("a.slice/b.scope/memory.max", "max"),
            ("c.slice/memory.max", "1000"),
        ]);

        let limit = |text| least_limit(&groups(text), mounts.path());
        assert_eq!(limit("0::/a.slice/b.scope\n"), Some(3000));
        assert_eq!(limit("0::/\n"), None);
        // A container's own root: what lies above is hidden.
        assert_eq!(limit("0::/../../c.slice\n"), Some(1000));
    }

    #[test]
    fn version_1_and_both_at_once_are_read() {
        let unlimited = "9223372036854771712";
        let mounts = mounts(&[
            ("memory/memory.limit_in_bytes", unlimited),
            ("memory/docker/x/memory.limit_in_bytes", "5000"),
            ("unified/docker/x/memory.max", "4000"),
        ]);

        let limit = |text| least_limit(&groups(text), mounts.path());
        assert_eq!(limit("4:cpu,memory:/docker/x\n"), Some(5000));
        assert_eq!(limit("4:cpu:/docker/x\n"), None);
        assert_eq!(limit("4:memory:/\n"), None);
        assert_eq!(limit("4:memory:/docker/x\n0::/docker/x\n"), Some(4000));
    }

    /// Docker without a cgroup namespace: the path is the host's, and only the root is there.
    #[test]
    fn a_group_that_is_not_there_leaves_those_around_it() {
        let mounts = mounts(&[("memory/memory.limit_in_bytes", "7000")]);

        assert_eq!(
            least_limit(&groups("9:memory:/docker/abc\n"), mounts.path()),
            Some(7000)
        );
    }
}
