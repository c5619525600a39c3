//! The agent as PID 1: boots real VMs from the images that `images/build` makes.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::kit::guest::{Guest, Options, RUNTIME, SHARED, failed_boot};
use crate::kit::{Outcome, WAIT_LIMIT, await_word, bash, command, outcome};
use tokio::io::AsyncReadExt;
use vk_agent_client::{
    ArchiveEvent, ArchiveFormat, ArchiveRequest, ExecEvent, ExecRequest, ExitStatus,
    ExtractRequest, FailureKind, GetTreeRequest, PutTreeRequest, Stdin,
};
use vk_agent_proto::boot::{FAILED, IMAGE_FAULT};
use vk_vm::EndCause;

fn on_shared(script: &str) -> Outcome {
    RUNTIME.block_on(SHARED.bash(script))
}

#[test]
fn everything_is_mounted_where_a_job_expects_it() {
    let outcome = on_shared("cat /proc/mounts");

    let mounts: Vec<(&str, &str)> = outcome
        .stdout
        .lines()
        .map(|line| {
            let mut fields = line.split(' ').skip(1);
            (fields.next().unwrap(), fields.next().unwrap())
        })
        .collect();
    for wanted in [
        ("/", "overlay"),
        ("/builds", "ext4"),
        ("/proc", "proc"),
        ("/sys", "sysfs"),
        ("/sys/fs/cgroup", "cgroup2"),
        ("/dev", "devtmpfs"),
        ("/dev/pts", "devpts"),
        ("/dev/shm", "tmpfs"),
    ] {
        assert!(mounts.contains(&wanted), "{wanted:?} missing: {mounts:?}");
    }
}

#[test]
fn devices_and_folders_work() {
    let outcome = on_shared(
        "set -e; echo x > /dev/null; cat <(echo fd) < /dev/stdin; echo err > /dev/stderr; \
         stat -L -c '%a %n' /tmp /builds /dev/shm /dev/ptmx; echo t > /tmp/file; \
         : > /dev/shm/file; rm /tmp/file /dev/shm/file; exec 3<> /dev/ptmx; ls /dev/pts",
    );

    assert_eq!(
        outcome.stdout,
        "fd\n1777 /tmp\n777 /builds\n1777 /dev/shm\n666 /dev/ptmx\n0\nptmx\n"
    );
    assert_eq!(outcome.stderr, "err\n");
}

/// As Docker has it: what the image holds in `/run` stays, and streams belong to whom they were made for.
#[test]
fn streams_can_be_opened_by_name_by_whoever_runs() {
    let request = ExecRequest {
        user: Some("nobody".into()),
        ..bash("id -u; echo out > /dev/stdout; echo err > /dev/stderr; echo too > /proc/self/fd/2")
    };

    let outcome = RUNTIME.block_on(SHARED.run(request));

    assert_eq!(outcome.stdout, "65534\nout\n");
    assert_eq!(outcome.stderr, "err\ntoo\n");
}

#[test]
fn the_guest_knows_its_name_and_loopback() {
    let outcome = on_shared(
        "hostname; cat /etc/hostname; getent hosts test-guest | tr -s ' '; \
         getent hosts localhost | tr -s ' '; stat -c '%F %s' /etc/resolv.conf; \
         (exec 3<> /dev/tcp/127.0.0.1/9) 2>&1 | grep -o 'Connection refused' | head -n 1",
    );

    assert_eq!(
        outcome.stdout,
        "test-guest\ntest-guest\n127.0.1.1 test-guest\n::1 localhost ip6-localhost ip6-loopback\n\
         regular empty file 0\nConnection refused\n"
    );
}

#[test]
fn the_clock_is_the_hosts() {
    let guest = &SHARED;
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();

    let outcome = RUNTIME.block_on(guest.bash("date +%s.%N"));

    let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let theirs: f64 = outcome.stdout.trim().parse().unwrap();
    assert!(
        theirs > before.as_secs_f64() - 0.5 && theirs < after.as_secs_f64() + 0.5,
        "{before:?} {theirs} {after:?}"
    );
}

#[test]
fn there_is_entropy_from_the_start() {
    let outcome = on_shared("head -c 16 /dev/random | wc -c; head -c 16 /dev/urandom | wc -c");

    assert_eq!(outcome.stdout, "16\n16\n");
}

#[test]
fn a_command_is_in_its_own_cgroup_unprotected_and_unlimited() {
    let outcome = on_shared(
        "sed 's/[0-9]*$//' /proc/self/cgroup; cat /proc/self/oom_score_adj /proc/1/oom_score_adj; \
         ulimit -n; umask; echo $HOME ${USER-unset} ${LOGNAME-unset}; env | grep -c SHELL",
    );

    assert_eq!(
        outcome.stdout,
        "0::/exec-\n0\n-1000\n1048576\n0022\n/root unset unset\n0\n"
    );
}

#[test]
fn what_leaves_its_session_still_ends_with_its_command() {
    let outcome = on_shared("setsid sleep 3600 & echo $!; sleep 0.2");

    let left = on_shared(&format!("kill -0 {}", outcome.stdout.trim()));

    assert_eq!(left.status, ExitStatus::Code(1), "{left:?}");
}

#[test]
fn what_leaves_its_cgroup_ends_with_its_stage_all_the_same() {
    let mount = "mount -t cgroup2 none /mnt";
    // How, and where it is in the end, as the agent sees it.
    let ways = [
        ("echo $BASHPID > /sys/fs/cgroup/cgroup.procs", "/vk/exec-"),
        (
            "mkdir /sys/fs/cgroup/aside; echo $BASHPID > /sys/fs/cgroup/aside/cgroup.procs",
            "/vk/aside",
        ),
        (
            &format!("{mount}; echo $BASHPID > /mnt/cgroup.procs"),
            "/vk/exec-",
        ),
        (
            &format!("p=$BASHPID; nsenter -t 1 -C sh -c \"{mount}; echo $p > /mnt/cgroup.procs\""),
            "/",
        ),
    ];
    RUNTIME.block_on(async {
        let guest = Guest::boot(&Options::default()).await;
        for (way, place) in ways {
            let script = format!(
                "({way}; echo $BASHPID; nsenter -t 1 -C cut -d: -f3 /proc/$BASHPID/cgroup; \
                 echo there; : > /tmp/there; while :; do echo x; done) 2>/dev/null & \
                 until [ -e /tmp/there ]; do sleep 0.1; done; \
                 rm /tmp/there; umount /mnt 2>/dev/null; exit 7"
            );

            let outcome = guest.bash(&script).await;

            let lines: Vec<&str> = outcome.stdout.lines().take(3).collect();
            let [pid, at, "there"] = lines[..] else {
                panic!("{way}: {lines:?}");
            };
            assert!(
                at.starts_with(place) && (place != "/" || at == "/"),
                "{way}: it is in {at}"
            );
            assert_eq!(outcome.status, ExitStatus::Code(7), "{way}");
            let left = guest.bash(&format!("kill -0 {pid}")).await;
            assert_eq!(left.status, ExitStatus::Code(1), "{way}: {left:?}");
        }
    });
}

#[test]
fn the_limits_of_all_commands_are_out_of_reach_and_cgroups_can_be_used() {
    let outcome = on_shared(
        "cd /sys/fs/cgroup; cat memory.max | grep -c '^[0-9]'; \
         (echo max > memory.max) 2>/dev/null; echo $?; \
         (echo max > pids.max) 2>/dev/null; echo $?; \
         echo '+cpu +pids' > cgroup.subtree_control; echo $?; \
         mkdir engine; echo '+memory +cpu +pids' > engine/cgroup.subtree_control; \
         mkdir engine/one; echo 64M > engine/one/memory.max; \
         sh -c 'echo $$ > engine/one/cgroup.procs; cut -d: -f3 /proc/self/cgroup'; \
         rmdir engine/one engine; echo $?",
    );

    assert_eq!(outcome.stdout, "1\n1\n1\n0\n/engine/one\n0\n");
}

#[test]
fn commands_meet_their_limits_before_the_kernel_meets_its_own() {
    for memory_mib in [256, 512, 2048] {
        let options = Options {
            memory_mib,
            ..Options::default()
        };
        let script = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/pids.max; \
                      sed -n 's/^MemAvailable: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo";
        let outcome = RUNTIME.block_on(async { Guest::boot(&options).await.bash(script).await });

        let numbers: Vec<u64> = outcome
            .stdout
            .lines()
            .map(|line| line.parse().unwrap())
            .collect();
        let [most, processes, available] = numbers.as_slice() else {
            panic!("{outcome:?}");
        };
        let available = available << 10;
        assert!(
            *most > available / 2 && *most < available - (16 << 20),
            "{memory_mib} MiB: {most} of {available}"
        );
        // A process of a shell costs a quarter of a MiB.
        assert!(
            *processes >= 128 && processes << 18 < *most,
            "{memory_mib} MiB: {processes}"
        );
    }
}

#[test]
fn cgroups_of_commands_go_with_them_even_with_some_inside() {
    on_shared(
        "c=/sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup); mkdir -p $c/a/b; \
         sleep 3600 & echo $! > $c/a/b/cgroup.procs",
    );

    let outcome = on_shared("ls -d /sys/fs/cgroup/exec-*/a 2>/dev/null");

    assert_eq!(outcome.stdout, "");
}

#[test]
fn a_user_of_the_image_can_build() {
    let request = ExecRequest {
        user: Some("nobody".into()),
        ..bash(
            "id -un; touch /builds/of-nobody /tmp/of-nobody && rm /builds/of-nobody /tmp/of-nobody; echo $?",
        )
    };

    let outcome = RUNTIME.block_on(SHARED.run(request));

    assert_eq!(outcome.stdout, "nobody\n0\n");
}

#[test]
fn orphans_are_reaped() {
    let outcome = on_shared(
        "for i in {1..50}; do (setsid true &); done; sleep 0.5; \
         grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l",
    );

    assert_eq!(outcome.stdout, "0\n");
}

#[test]
fn the_guest_says_how_it_fares() {
    let stats = RUNTIME.block_on(SHARED.client.stats()).unwrap();

    assert!(stats.mem_total > 400 << 20 && stats.mem_total < 512 << 20);
    assert!(stats.disk_total > 3 << 30 && stats.disk_total < 4 << 30);
    assert!(stats.inodes_free > 900_000);
}

#[test]
fn a_step_that_kills_what_it_can_kills_itself() {
    RUNTIME.block_on(async {
        let guest = Guest::boot(&Options::default()).await;

        let outcome = guest
            .bash("trap '' TERM; kill -9 1; kill -TERM -1; kill -9 -1; kill -9 $$")
            .await;

        assert_eq!(outcome.status, ExitStatus::Signal(9));
        assert_eq!(guest.bash("echo well").await.stdout, "well\n");
    });
}

#[test]
fn a_step_that_eats_all_memory_is_killed_and_told_so() {
    RUNTIME.block_on(async {
        let guest = Guest::boot(&Options::default()).await;
        let mut handle = guest
            .client
            .exec(bash("tail /dev/zero"), Stdin::None)
            .await
            .unwrap();

        let exited = loop {
            if let ExecEvent::Exited(exited) = handle.next_event().await.unwrap() {
                break exited;
            }
        };

        assert_eq!(exited.status.shell_code(), 137);
        assert!(exited.oom_kills > 0, "{exited:?}");
        assert_eq!(exited.oom_killed, ["tail"]);
        assert_eq!(exited.process_limit, None);
        assert_eq!(guest.bash("echo well").await.stdout, "well\n");
    });
}

#[test]
fn a_step_that_forks_for_ever_can_be_killed() {
    RUNTIME.block_on(async {
        let guest = Guest::boot(&Options::default()).await;
        let mut handle = guest
            .client
            .exec(bash("echo up; f() { f | f & }; f; sleep 3600"), Stdin::None)
            .await
            .unwrap();
        await_word(&mut handle, "up").await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let stats = guest.client.stats().await.unwrap();

        handle.control().kill();

        assert_eq!(stats.execs, 1);
        assert_eq!(
            outcome(&mut handle).await.unwrap().status,
            ExitStatus::Signal(9)
        );
        assert_eq!(guest.bash("echo well").await.stdout, "well\n");
    });
}

#[test]
fn a_full_disk_fails_the_step() {
    RUNTIME.block_on(async {
        let guest = Guest::boot(&Options {
            scratch: Some(64 << 20),
            ..Options::default()
        })
        .await;

        let filled = guest
            .bash("head -c 200M /dev/zero > /builds/big; echo $?")
            .await;
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(1 << 20);
        header.set_mode(0o644);
        tar.append_data(&mut header, "f", &vec![1; 1 << 20][..])
            .unwrap();
        let request = PutTreeRequest {
            dest: "/builds".into(),
            ..PutTreeRequest::default()
        };
        let error = guest
            .client
            .put_tree(request, tar.into_inner().unwrap().as_slice())
            .await
            .unwrap_err();

        assert_eq!(filled.stdout, "1\n");
        assert!(filled.stderr.contains("No space left"), "{filled:?}");
        assert_eq!(error.kind(), Some(FailureKind::DiskFull), "{error}");
        assert_eq!(
            guest.bash("rm /builds/big; echo well").await.stdout,
            "well\n"
        );
    });
}

#[test]
fn archives_are_made_and_opened_without_the_images_tools() {
    let made = on_shared(
        "mkdir -p /builds/archived/tree && cd /builds/archived/tree && \
         for i in $(seq 3000); do echo $i > f$i; done && head -c 20000000 /dev/urandom > noise && \
         chmod 750 f7 && ln -s f7 link && mkdir ../zip ../tarzstd && echo made",
    );
    assert_eq!(made.stdout, "made\n");
    for (format, name) in [
        (ArchiveFormat::Zip, "zip"),
        (ArchiveFormat::TarZstd, "tarzstd"),
    ] {
        let (bytes, entries, extracted) = RUNTIME.block_on(async {
            let request = ArchiveRequest {
                root: "/builds/archived".into(),
                paths: vec!["tree/".into()],
                exclude: vec!["**/f1".into()],
                format,
                ..ArchiveRequest::default()
            };
            let mut stream = SHARED.client.archive(request).await.unwrap();
            let mut bytes = Vec::new();
            while let Some(event) = stream.next().await.unwrap() {
                if let ArchiveEvent::Data(data) = event {
                    bytes.extend(data);
                }
            }
            let request = ExtractRequest {
                dest: format!("/builds/archived/{name}"),
                owner: Some("www-data".into()),
                max_archive_bytes: 100 << 20,
                max_entries: 10_000,
                max_bytes: 100 << 20,
                ..ExtractRequest::default()
            };
            let extracted = SHARED.client.extract(request, bytes.as_slice(), |_| {});
            let extracted = extracted.await.unwrap();
            (bytes, stream.summary().unwrap().entries, extracted)
        });
        assert!(bytes.len() > 20_000_000);
        assert_eq!((entries, extracted.entries), (3002, 3002));
        let same = on_shared(&format!(
            "cd /builds/archived; diff -r --no-dereference tree {name}/tree; \
             stat -c '%a %U %n' {name}/tree/f7 {name}/tree/link"
        ));
        assert_eq!(
            same.stdout,
            format!(
                "Only in tree: f1\n750 www-data {name}/tree/f7\n777 www-data {name}/tree/link\n"
            )
        );
    }
    // The agent's own most: below 128 MiB, whatever is archived.
    let peak = on_shared("rm -rf /builds/archived; grep -o 'VmHWM.*' /proc/1/status | tr -dc 0-9");
    assert!(peak.stdout.parse::<u64>().unwrap() < 128 << 10, "{peak:?}");
}

#[test]
fn shutdown_powers_off() {
    RUNTIME.block_on(async {
        let guest = Guest::boot(&Options::default()).await;

        guest.client.shutdown().await.unwrap();

        let end = tokio::time::timeout(WAIT_LIMIT, guest.machine.wait())
            .await
            .unwrap();
        assert_eq!(end.cause, EndCause::PoweredOff);
    });
}

#[test]
fn a_guest_without_its_scratch_disk_says_so_and_powers_off() {
    let end = RUNTIME.block_on(failed_boot(&Options {
        scratch: None,
        ..Options::default()
    }));

    assert_eq!(end.cause, EndCause::PoweredOff);
    let line = end
        .console_tail
        .lines()
        .find(|line| line.starts_with(FAILED))
        .unwrap_or_else(|| panic!("{}", end.console_tail));
    assert!(line.contains("/dev/vdb"), "{line}");
}

#[test]
fn an_image_that_is_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("rubbish");
    std::fs::write(&image, vec![7; 1 << 20]).unwrap();

    let end = RUNTIME.block_on(failed_boot(&Options {
        image,
        ..Options::default()
    }));

    assert!(
        end.console_tail.contains(FAILED) && end.console_tail.contains("/dev/vda"),
        "{}",
        end.console_tail
    );
}

fn erofs(folder: &Path, fill: impl FnOnce(&Path)) -> PathBuf {
    let root = folder.join("root");
    std::fs::create_dir(&root).unwrap();
    fill(&root);
    let image = folder.join("image.erofs");
    let made = Command::new("mkfs.erofs")
        .arg("--quiet")
        .args([&image, &root])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .status()
        .unwrap();
    assert!(made.success());
    image
}

/// Gives the image a program that needs nothing else of it: `/cat FILE`.
fn add_cat(root: &Path) {
    let source = root.with_file_name("cat.rs");
    std::fs::write(
        &source,
        "fn main() { std::io::copy(&mut std::fs::File::open(std::env::args().nth(1).unwrap()).unwrap(), \
         &mut std::io::stdout()).unwrap(); }",
    )
    .unwrap();
    let built = Command::new("rustc")
        .args(["-O", "-C", "target-feature=+crt-static"])
        .args(["--target", "x86_64-unknown-linux-gnu", "-o"])
        .args([&root.join("cat"), &source])
        .status()
        .unwrap();
    assert!(built.success());
}

async fn file_of(guest: &Guest, path: &str) -> String {
    let request = GetTreeRequest { path: path.into() };
    let mut tar = Vec::new();
    let mut stream = guest.client.get_tree(request).await.unwrap();
    stream.read_to_end(&mut tar).await.unwrap();
    let mut archive = tar::Archive::new(tar.as_slice());
    let mut entry = archive.entries().unwrap().next().unwrap().unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut entry, &mut text).unwrap();
    text
}

#[test]
fn an_empty_image_boots_and_has_all_that_is_the_machines() {
    let folder = tempfile::tempdir().unwrap();
    let image = erofs(folder.path(), |_| {});

    RUNTIME.block_on(async {
        let guest = Guest::boot(&Options {
            image,
            ..Options::default()
        })
        .await;

        assert_eq!(file_of(&guest, "/etc/hostname").await, "test-guest\n");
        let error = outcome(&mut guest.client.exec(bash(":"), Stdin::None).await.unwrap())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Some(FailureKind::CommandNotFound), "{error}");
    });
}

#[test]
fn links_of_an_image_stay_and_lead_mounts_nowhere_outside_it() {
    let folder = tempfile::tempdir().unwrap();
    let image = erofs(folder.path(), |root| {
        std::fs::create_dir_all(root.join("usr/etc")).unwrap();
        std::fs::create_dir_all(root.join("var/tmp")).unwrap();
        std::fs::write(root.join("usr/etc/passwd"), "ci:x:7:7::/:/bin/sh\n").unwrap();
        std::fs::write(root.join("kept"), "kept").unwrap();
        std::fs::write(root.join("var/tmp/seed"), "seed").unwrap();
        symlink("usr/etc", root.join("etc")).unwrap();
        symlink("../../kept", root.join("usr/etc/hostname")).unwrap();
        symlink("../../../devices", root.join("dev")).unwrap();
        symlink("/proc/1/root", root.join("run")).unwrap();
        symlink("/srv/of/jobs", root.join("builds")).unwrap();
        symlink("var/tmp", root.join("tmp")).unwrap();
        add_cat(root);
    });

    RUNTIME.block_on(async {
        let guest = Guest::boot(&Options {
            image,
            ..Options::default()
        })
        .await;

        let mounts = guest.run(command(&["/cat", "/proc/mounts"])).await.stdout;
        for place in ["/proc", "/devices", "/sys", "/srv/of/jobs"] {
            assert!(mounts.contains(&format!(" {place} ")), "{place}: {mounts}");
        }
        assert_eq!(file_of(&guest, "/kept").await, "kept");
        assert_eq!(file_of(&guest, "/usr/etc/hostname").await, "test-guest\n");
        assert_eq!(
            file_of(&guest, "/etc/passwd").await,
            "ci:x:7:7::/:/bin/sh\n"
        );
        assert_eq!(file_of(&guest, "/tmp/seed").await, "seed");
    });
}

#[test]
fn an_image_that_cannot_have_its_folders_is_at_fault() {
    for (name, target, fault) in [
        ("proc", "usr", "/proc is no folder"),
        (
            "dev",
            "sys/x",
            "/dev leads to /sys/x, which a file system of the kernel hides",
        ),
        ("builds", "builds", "/builds is a link of a loop"),
        (
            "builds",
            "/proc/x",
            "/builds leads to /proc/x, which a file system of the kernel hides",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let image = erofs(folder.path(), |root| {
            std::fs::create_dir(root.join("usr")).unwrap();
            symlink(target, root.join(name)).unwrap();
        });

        let end = RUNTIME.block_on(failed_boot(&Options {
            image,
            ..Options::default()
        }));

        assert_eq!(end.cause, EndCause::PoweredOff, "{}", end.console_tail);
        let told = format!("{IMAGE_FAULT}{fault}");
        assert!(end.console_tail.contains(&told), "{}", end.console_tail);
    }
}

#[test]
fn guests_are_ready_soon_after_their_kernel() {
    let ready = &SHARED.ready;

    println!("kernel {:?}, agent {:?}", ready.kernel, ready.agent);
    assert!(ready.kernel > Duration::ZERO);
    assert!(ready.agent < WAIT_LIMIT / 4, "{:?}", ready.agent);
}

#[test]
fn two_hundred_rapid_commands_all_answer() {
    let start = Instant::now();
    let runs: Vec<_> = (0..200)
        .map(|number| {
            RUNTIME.spawn(async move { (number, SHARED.bash(&format!("exit {number}")).await) })
        })
        .collect();

    for run in runs {
        let (number, outcome) = RUNTIME.block_on(run).unwrap();
        assert_eq!(outcome.status, ExitStatus::Code(number));
    }
    println!("200 commands: {:?}", start.elapsed());
}
