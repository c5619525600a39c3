//! The differences that are meant.

use vk_tests::sight::Meant;

/// What is meant to differ under `vk run`, and in jobs; `docs/differences.md` has it in sentences.
pub(super) const EVERYWHERE: &[Meant] = &[
    // A VM has a kernel, devices and a size of its own.
    meant(
        "capabilities Cap(Bnd|Eff|Prm)",
        "0000003fffffffff",
        "000001ffffffffff",
        "dockerd 20.10 knows no capabilities of Linux 5.8 and later: newer ones give them",
    ),
    meant("device /dev/vcs.*", "character.*", "", "no screen"),
    meant(
        "device /dev/vd.*",
        "",
        "block special file .*",
        "a disk of the VM",
    ),
    meant(
        "limit Max pending signals",
        ".*",
        ".*",
        "follows the size of the machine",
    ),
    meant(
        "setting (fs/epoll/max_user_watches|fs/fanotify/max_user_marks|fs/inotify/max_user_watches|kernel/threads-max\
         |kernel/watchdog_cpumask|net/ipv4/tcp_(ehash_entries|max_syn_backlog|max_tw_buckets|rmem|wmem)|net/ipv4/tcp_mem\
         |net/ipv4/udp_mem|vm/(min_free|user_reserve|admin_reserve)_kbytes)",
        ".+",
        ".+",
        "follows the size of the machine",
    ),
    meant("setting fs/quota/syncs", ".+", ".+", "a counter"),
    meant("setting kernel/hostname", ".+", ".+", "the host name"),
    meant(
        "setting kernel/cad_pid",
        "0",
        "1",
        "process 1 is of the same process namespace",
    ),
    meant(
        "setting kernel/ctrl-alt-del",
        "0",
        "1",
        "nobody presses keys",
    ),
    meant(
        "setting kernel/printk_devkmsg",
        "on",
        "ratelimit",
        "Debian's initramfs sets it; nobody reads a guest's log",
    ),
    meant(
        "setting net/.*",
        "",
        ".+",
        "no network namespace: what is only in the first one is seen",
    ),
    meant(
        "setting net/ipv6/conf/(all|default|lo)/disable_ipv6",
        "1",
        "0",
        "Docker's default network has no IPv6; here is at least ::1",
    ),
    // Process 1 is the agent, each command has a control group, and limits are seen.
    meant(
        "cgroup own",
        "0::/.",
        "0::/exec-[0-9]+.",
        "each command has its own control group",
    ),
    meant(
        "cgroup-file exec-[0-9]+",
        "",
        "directory 755 0 0",
        "each command has its own control group",
    ),
    meant(
        "cgroup-value cgroup.subtree_control",
        "",
        "memory.",
        "each command's memory is counted",
    ),
    meant(
        "cgroup-value (memory|pids).max",
        ".+",
        "[0-9]+.",
        "the VM's room can be read there",
    ),
    meant(
        "(cgroup make|writable /sys/fs/cgroup)",
        "yes",
        "no",
        "a user may make control groups where Docker is asked with --privileged, and not without",
    ),
    meant(
        "cgroup-file (cgroup.(procs|subtree_control|threads)|memory.(oom.group|reclaim))",
        "regular empty file [0-9]+ 1000 0",
        "regular empty file [0-9]+ 0 0",
        "as above",
    ),
    meant(
        "namespace cgroup",
        "as of process 1",
        "another than of process 1",
        "process 1 is the agent",
    ),
    meant(
        "namespace .*",
        "as of process 1",
        ".hidden.",
        "process 1 is the agent, which is root's",
    ),
    meant(
        "stream open /proc/1/fd/1",
        "yes",
        "no",
        "process 1 is the agent, which is root's",
    ),
    // How the root is laid out.
    meant(
        "mount /",
        "overlay rw,relatime rw,",
        "overlay rw,relatime rw,volatile",
        "the disk ends with the VM",
    ),
    meant(
        "mount /dev",
        "tmpfs .*",
        "devtmpfs rw,nosuid,relatime .*",
        "the kernel's own devices",
    ),
    meant(
        "mount /dev/shm",
        "tmpfs rw,nosuid,nodev,noexec,relatime rw,size=65536k,inode64",
        "tmpfs rw,nosuid,nodev,noexec,relatime rw,inode64",
        "half of the memory, not 64 MiB",
    ),
    meant(
        "mount /etc/(hostname|hosts|resolv.conf)",
        "ext4 .*",
        "",
        "files of the root, which may be replaced",
    ),
    meant(
        "hostname /etc/hosts",
        "0",
        "1",
        "the name has an address even without a network",
    ),
    meant(
        "(file|special) /etc/resolv.conf",
        "regular file.*",
        "regular empty file.*",
        "no network, no name servers",
    ),
    meant(
        "resolv.conf",
        "nameserver ….*",
        "",
        "no network, no name servers",
    ),
    meant(
        "stream stdin",
        "/dev/null .*",
        "pipe .*",
        "vk run passes its standard input",
    ),
    meant(
        "mount /(closed/within|data/db|kept|srv/led/below|trailing)",
        "ext4 .*",
        "",
        "volumes are folders of the root",
    ),
    meant(
        "file /(data/db/work|kept/file)",
        "",
        ".+",
        "as above: what is mounted is not listed",
    ),
    meant(
        "file /dev",
        "directory 555 0 0",
        "directory 755 0 0",
        "Docker's tmpfs has the mode of the image's folder",
    ),
];

/// What is meant to differ in jobs alone: there Docker's answers are those of `docker run`, while a job is what GitLab Runner makes.
pub(super) const IN_JOBS: &[Meant] = &[
    meant(
        "env (CI|FF|GITLAB|RUNNER|MICROVM|GIT|GCM)_.*",
        "",
        ".+",
        "the job's variables",
    ),
    meant(
        "env (PWD|OLDPWD|SHLVL|_)",
        ".*",
        ".+",
        "the step's shell sets it",
    ),
    meant(
        "process session leader",
        "yes",
        "no",
        "a child of the step's shell",
    ),
    meant(
        "file (/var)?/builds",
        ".*",
        "directory 777 0 0",
        "the builds folder",
    ),
    meant("mount (/var)?/builds", "", "ext4 .*", "the builds folder"),
    meant(
        "program folder",
        ".*",
        "(/var)?/builds/project-0|/",
        "the project's folder",
    ),
    meant(
        "env (1STARTS|dashed-name|dotted.name)",
        ".+",
        "",
        "shells do not pass on what is no name to them",
    ),
];

const fn meant(
    key: &'static str,
    there: &'static str,
    here: &'static str,
    why: &'static str,
) -> Meant {
    Meant {
        key,
        there,
        here,
        why,
    }
}

/// What is meant to differ in hooks: they do not go through the image's entry point.
pub(super) const IN_HOOKS: &[Meant] = &[
    meant("env FROM_ENTRY", "yes", "", "set by the entry point"),
    meant("env OLDPWD", "/", "", "set by the entry point"),
    meant("status Umask", "0027", "0022", "set by the entry point"),
];

/// What is meant to differ on a terminal.
pub(super) const ON_TERMINALS: &[Meant] = &[
    meant(
        "env TERM",
        "xterm",
        "vt220",
        "vk passes what the caller's terminal is",
    ),
    meant(
        "status Seccomp",
        "2",
        "0",
        "Docker was asked without --privileged",
    ),
];
