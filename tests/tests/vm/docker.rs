//! What a process sees in an image, beside what Docker showed it (`tests/container`, recorded): in `vk run`, and in a job's hook, script
//! and `after_script`.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;

use serde_json::json;
use vk_tests::container_images::{LOOKED_AT, Looked, PROBE};
use vk_tests::git_http::{commit_all, write};
use vk_tests::job::{script, with_after_script};
use vk_tests::registry::Registry;
use vk_tests::sight::{Meant, Sight, unexplained};
use vk_tests::vk::{Vk, workspace};

use crate::terminal::TerminalUser;

/// What is meant to differ under `vk run`, and in jobs; `docs/differences.md` has it in sentences.
const MEANT: &[Meant] = &[
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
const MEANT_IN_JOBS: &[Meant] = &[
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
const MEANT_IN_HOOKS: &[Meant] = &[
    meant("env FROM_ENTRY", "yes", "", "set by the entry point"),
    meant("env OLDPWD", "/", "", "set by the entry point"),
    meant("status Umask", "0027", "0022", "set by the entry point"),
];

/// What is meant to differ on a terminal.
const MEANT_ON_TERMINALS: &[Meant] = &[
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

/// One registry and one store for all images, as on a host.
struct Site {
    registry: Registry,
    vk: Vk,
    unexplained: Mutex<String>,
    used: Mutex<BTreeSet<&'static str>>,
}

impl Site {
    fn image(&self, looked: &Looked) -> String {
        self.registry.image(&format!("looked-at/{}:1", looked.name))
    }

    /// What Docker showed this user.
    fn recorded(looked: &Looked, user: &str, kind: &str) -> Sight {
        let user = if user.is_empty() { "-" } else { user };
        let name = format!("{}.{}{kind}", looked.name, user.replace([':', '/'], "+"));
        let file = workspace().join("tests/container/docker").join(name);
        let text = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Sight::read(&text)
    }

    fn compare(&self, what: &str, docker: &Sight, here: &Sight, meant: &[&Meant]) {
        let mut used = self.used.lock().unwrap();
        let text = unexplained(&docker.differences(here), meant, &mut used);
        if !text.is_empty() {
            self.note(&format!("{what}\n{text}"));
        }
    }

    /// All images are looked at before the test fails.
    fn note(&self, text: &str) {
        *self.unexplained.lock().unwrap() += text;
    }

    fn look_by_run(&self, looked: &Looked, user: &str) {
        let image = self.image(looked);
        let mut args = vec!["run", "--mem", "512M"];
        if !user.is_empty() {
            args.extend(["--user", user]);
        }
        args.push(&image);
        args.push("--");
        args.extend(looked.argv());
        let output = self.vk.second().run(args);

        let what = format!("{} as {user:?} by vk run", looked.name);
        let docker = Self::recorded(looked, user, "");
        let here = Sight::read(&output.stdout);
        if here.is_empty() != docker.is_empty() {
            let told = String::from_utf8_lossy(&output.stderr);
            return self.note(&format!("{what}: {:?} {told}\n", output.status));
        }
        let meant: Vec<_> = MEANT.iter().collect();
        self.compare(&what, &docker, &here, &meant);
    }

    fn look_on_terminal(&self, looked: &Looked, user: &str) {
        let vk = self.vk.second();
        let image = self.image(looked);
        let mut args = vec!["run", "--shell", "--mem", "512M", "--cpus", "1"];
        if !user.is_empty() {
            args.extend(["--user", user]);
        }
        args.extend([&image, "--", PROBE]);
        let shown = TerminalUser::on_terminal(&vk, &args).sees_the_end();
        // What vk said before stands in the first line.
        let shown = &shown[shown.find("env PATH").unwrap_or_default()..];

        let what = format!("{} as {user:?} by a terminal", looked.name);
        let docker = Self::recorded(looked, user, ".terminal");
        let here =
            Sight::read(shown.as_bytes()).only("(status|stream|terminal|env|process|limit) .*");
        let meant: Vec<_> = MEANT.iter().chain(MEANT_ON_TERMINALS).collect();
        self.compare(&what, &docker, &here, &meant);
    }

    fn look_by_job(&self, looked: &Looked, user: &str) {
        let probe = looked.argv().join(" ");
        let mut job = with_after_script(
            script(&["echo in-script", &probe]),
            &["echo in-after_script", &probe],
        );
        job["hooks"] =
            json!([{"name": "pre_get_sources_script", "script": ["echo in-hook", &probe]}]);
        job["image"] = json!({"name": self.image(looked)});
        if !user.is_empty() {
            job["image"]["executor_opts"] = json!({"docker": {"user": user}});
        }
        // Hooks are for sources.
        let variables = job["variables"].as_array_mut().unwrap();
        variables.retain(|variable| variable["key"] != "GIT_STRATEGY");
        let repo = self.vk.dir().join("repo");
        let args = ["--timestamps", "off", "--repo", repo.to_str().unwrap()];
        let run = self.vk.second().run_job(&job, &args);

        let name = format!("{} as {user:?}", looked.name);
        let docker = Self::recorded(looked, user, "");
        let failure = if docker.is_empty() {
            "configuration"
        } else {
            ""
        };
        if run.failure() != failure {
            return self.note(&format!("{name} in a job: {run:?}\n"));
        }
        if docker.is_empty() {
            return;
        }
        let of_jobs: Vec<_> = MEANT.iter().chain(MEANT_IN_JOBS).collect();
        let of_hooks: Vec<_> = of_jobs.iter().copied().chain(MEANT_IN_HOOKS).collect();
        let mut rest = run.trace.as_slice();
        for place in ["hook", "script", "after_script"] {
            let start = format!("\nin-{place}\n");
            let at = find(rest, start.as_bytes());
            let Some(at) = at else {
                return self.note(&format!("{name}: no {place} in {run:?}\n"));
            };
            rest = &rest[at + start.len()..];
            let here = Sight::read(&rest[..find(rest, b"\nin-").unwrap_or(rest.len())]);
            let what = format!("{name} in a job's {place}");
            let meant = if place == "hook" { &of_hooks } else { &of_jobs };
            self.compare(&what, &docker, &here, meant);
        }
    }
}

/// How an image is looked at.
enum Way {
    Run,
    Job,
    Terminal,
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// `VK_CONTAINER_IMAGES` is `all` (`./test --full`), or names of images.
fn chosen() -> Vec<&'static Looked> {
    let wanted = std::env::var("VK_CONTAINER_IMAGES").unwrap_or_default();
    let names: Vec<_> = wanted.split(',').collect();
    let is_chosen = |looked: &&Looked| match names.as_slice() {
        [""] => looked.often,
        ["all"] => true,
        names => names.contains(&looked.name),
    };
    LOOKED_AT.iter().filter(is_chosen).collect()
}

#[test]
fn a_process_sees_what_docker_shows_it() {
    let site = Site {
        registry: Registry::start(),
        vk: Vk::without_vm(),
        unexplained: Mutex::default(),
        used: Mutex::default(),
    };
    let repo = site.vk.dir().join("repo");
    write(&repo.join("hello.txt"), b"hello");
    commit_all(&repo, "one");
    let chosen = chosen();
    let mut looks = Vec::new();
    for looked in &chosen {
        let image = looked.image();
        image.push(&site.registry, &format!("looked-at/{}:1", looked.name));
        for user in looked.users {
            looks.push((*looked, *user, Way::Run));
            if looked.has_shell {
                looks.push((*looked, *user, Way::Job));
            }
            if looked.kernel {
                looks.push((*looked, *user, Way::Terminal));
            }
        }
    }
    let left = Mutex::new(looks);

    // Two at a time: as many as there are places for VMs.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().pop();
                    match next {
                        Some((looked, user, Way::Run)) => site.look_by_run(looked, user),
                        Some((looked, user, Way::Job)) => site.look_by_job(looked, user),
                        Some((looked, user, Way::Terminal)) => site.look_on_terminal(looked, user),
                        None => return,
                    }
                }
            });
        }
    });

    let text = site.unexplained.into_inner().unwrap();
    assert!(text.is_empty(), "differences that are not meant:\n{text}");
    if chosen.len() == LOOKED_AT.len() {
        let used = site.used.into_inner().unwrap();
        let lists = [MEANT, MEANT_ON_TERMINALS, MEANT_IN_JOBS, MEANT_IN_HOOKS];
        let all = lists.into_iter().flatten();
        let idle: Vec<_> = all.filter(|meant| !used.contains(meant.key)).collect();
        assert!(idle.is_empty(), "differences that are no more: {idle:?}");
    }
}
