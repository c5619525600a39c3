//! Commands: status, streams, environment, users, and their ends.

use std::time::{Duration, Instant};

use crate::kit::{Rehearsal, WAIT_LIMIT, await_word, bash, command, input, lives, outcome};
use bytes::Bytes;
use vk_agent_client::{ExecEvent, ExecRequest, ExitStatus, FailureKind, Stdin};

#[tokio::test]
async fn exit_codes_come_through() {
    let rehearsal = Rehearsal::start().await;

    for code in [0, 1, 42, 255] {
        let outcome = rehearsal.bash(&format!("exit {code}")).await;
        assert_eq!(outcome.status, ExitStatus::Code(code));
    }
}

#[tokio::test]
async fn deaths_by_signal_come_through_real_time_ones_too() {
    let rehearsal = Rehearsal::start().await;

    for signal in [9, 11, 15, 40, 64] {
        let outcome = rehearsal.bash(&format!("kill -{signal} $$")).await;
        assert_eq!(outcome.status, ExitStatus::Signal(signal));
    }
}

#[tokio::test]
async fn streams_are_separate() {
    let rehearsal = Rehearsal::start().await;

    let outcome = rehearsal.bash("echo out; echo err >&2; echo out2").await;

    assert_eq!(outcome.stdout, "out\nout2\n");
    assert_eq!(outcome.stderr, "err\n");
}

#[tokio::test]
async fn much_output_on_stderr_does_not_block() {
    let rehearsal = Rehearsal::start().await;

    let outcome = rehearsal
        .bash("head -c 5000000 /dev/zero >&2; echo done")
        .await;

    assert_eq!(
        (outcome.stdout.as_str(), outcome.stderr.len()),
        ("done\n", 5_000_000)
    );
}

#[tokio::test]
async fn a_script_runs_from_standard_input() {
    let rehearsal = Rehearsal::start().await;

    let outcome = rehearsal
        .run(command(&["bash"]), input("echo one\nexit 7\n"))
        .await
        .unwrap();

    assert_eq!(
        (outcome.stdout.as_str(), outcome.status),
        ("one\n", ExitStatus::Code(7))
    );
}

#[tokio::test]
async fn input_far_beyond_its_window_arrives_whole() {
    let rehearsal = Rehearsal::start().await;
    let data: Vec<u8> = (0..20_000_000_u32).map(|at| (at % 251) as u8).collect();

    let request = command(&["md5sum"]);
    let outcome = rehearsal
        .run(request, Stdin::Bytes(Bytes::from(data.clone())))
        .await
        .unwrap();

    std::fs::write(rehearsal.path("data"), &data).unwrap();
    let of_file = rehearsal
        .bash(&format!("md5sum < {}", rehearsal.path("data")))
        .await;
    assert_eq!(outcome.stdout, of_file.stdout);
}

#[tokio::test]
async fn a_reader_is_read_to_its_end() {
    let rehearsal = Rehearsal::start().await;
    let (mut ours, theirs) = tokio::io::duplex(16);
    let mut handle = rehearsal
        .client
        .exec(command(&["cat"]), Stdin::Reader(Box::new(theirs)))
        .await
        .unwrap();

    tokio::io::AsyncWriteExt::write_all(&mut ours, b"first ")
        .await
        .unwrap();
    await_word(&mut handle, "first").await;
    tokio::io::AsyncWriteExt::write_all(&mut ours, b"second")
        .await
        .unwrap();
    drop(ours);

    assert_eq!(outcome(&mut handle).await.unwrap().stdout, "second");
}

#[tokio::test]
async fn a_command_that_reads_nothing_ends_with_its_input_unread() {
    let rehearsal = Rehearsal::start().await;

    let outcome = rehearsal
        .run(
            command(&["true"]),
            Stdin::Bytes(Bytes::from(vec![b'x'; 5_000_000])),
        )
        .await
        .unwrap();

    assert_eq!(outcome.status, ExitStatus::Code(0));
}

#[tokio::test]
async fn without_input_it_is_dev_null() {
    let rehearsal = Rehearsal::start().await;

    let outcome = rehearsal.bash("readlink /proc/self/fd/0; cat").await;

    assert_eq!(outcome.stdout, "/dev/null\n");
}

#[tokio::test]
async fn environment_is_a_containers_and_nothing_of_the_agents() {
    let rehearsal = Rehearsal::start().await;
    let request = ExecRequest {
        env: vec![("B".into(), "x y".into()), ("A".into(), "é\n".into())],
        ..command(&["env", "-0"])
    };

    let outcome = rehearsal.run(request, Stdin::None).await.unwrap();

    let names: Vec<&str> = outcome
        .stdout
        .split_terminator('\0')
        .map(|line| line.split_once('=').unwrap().0)
        .collect();
    assert_eq!(names, ["PATH", "HOSTNAME", "HOME", "B", "A"]);
    assert!(outcome.stdout.ends_with("B=x y\0A=é\n\0"));
}

#[tokio::test]
async fn a_process_starts_clean() {
    let rehearsal = Rehearsal::start().await;

    let outcome = rehearsal
        .bash(
            "umask; pwd; grep -E 'Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd | wc -l; \
             read -r _ _ _ _ group session _ < /proc/$$/stat; \
             [ $group = $$ ] && [ $session = $$ ] && echo leader",
        )
        .await;

    // Streams 0 to 2, and the folder that `ls` reads.
    assert_eq!(
        outcome.stdout,
        "0022\n/\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n4\nleader\n"
    );
}

#[tokio::test]
async fn the_working_folder_is_the_requests() {
    let rehearsal = Rehearsal::start().await;
    let folder = rehearsal.path("");
    let request = ExecRequest {
        cwd: Some(folder.clone().into()),
        ..command(&["pwd"])
    };

    let outcome = rehearsal.run(request, Stdin::None).await.unwrap();

    assert_eq!(outcome.stdout.trim(), folder.trim_end_matches('/'));
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let rehearsal = Rehearsal::start().await;
    let plain = rehearsal.path("plain");
    std::fs::write(&plain, "text").unwrap();
    let with = |change: fn(&mut ExecRequest)| {
        let mut request = command(&["true"]);
        change(&mut request);
        request
    };
    let cases = [
        (
            with(|request| request.cwd = Some("/no/such/folder".into())),
            FailureKind::NoSuchPath,
            "/no/such/folder",
        ),
        (
            with(|request| request.user = Some("nobody-of-this-name".into())),
            FailureKind::UnknownUser,
            "nobody-of-this-name",
        ),
        (
            with(|request| request.user = Some("root:nothing-of-this-name".into())),
            FailureKind::UnknownUser,
            "nothing-of-this-name",
        ),
        (
            command(&["no-such-program"]),
            FailureKind::CommandNotFound,
            "no-such-program",
        ),
        (
            command(&["/no/such/program"]),
            FailureKind::CommandNotFound,
            "/no/such/program",
        ),
        (command(&[&plain]), FailureKind::NotExecutable, &plain),
        (command(&["/"]), FailureKind::NotExecutable, "`/`"),
        (command(&[]), FailureKind::BadRequest, "empty"),
        (command(&["a\0b"]), FailureKind::BadRequest, "NUL"),
    ];

    for (request, kind, subject) in cases {
        let error = rehearsal.run(request, Stdin::None).await.unwrap_err();
        assert_eq!(error.kind(), Some(kind), "{error}");
        assert!(error.to_string().contains(subject), "{error}");
    }
}

#[tokio::test]
async fn a_user_is_taken_by_name_or_number_with_its_groups() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let rehearsal = Rehearsal::start().await;
    let as_user = |user: &str| ExecRequest {
        user: Some(user.to_owned()),
        ..bash("echo $(id -u):$(id -g):$HOME:${USER-unset}; id -G")
    };
    let mail = rehearsal
        .bash("getent passwd mail | cut -d: -f3,4,6; id -G mail")
        .await;
    let (ids, groups) = mail.stdout.split_once('\n').unwrap();

    for user in ["mail", ids.split(':').next().unwrap()] {
        let outcome = rehearsal.run(as_user(user), Stdin::None).await.unwrap();
        assert_eq!(outcome.stdout, format!("{ids}:unset\n{groups}"), "{user}");
    }
    let outcome = rehearsal
        .run(as_user("4711:4712"), Stdin::None)
        .await
        .unwrap();
    assert_eq!(outcome.stdout, "4711:4712:/:unset\n4712\n");
}

#[tokio::test]
async fn a_background_child_that_holds_the_pipe_does_not_hold_the_end() {
    let rehearsal = Rehearsal::start().await;
    let start = Instant::now();

    let outcome = rehearsal.bash("sleep 3600 & echo $!; echo hi").await;

    let (pid, rest) = outcome.stdout.split_once('\n').unwrap();
    assert_eq!((rest, outcome.status), ("hi\n", ExitStatus::Code(0)));
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(!lives(pid), "it was not killed");
}

#[tokio::test]
async fn late_output_of_a_remaining_process_counts_until_its_end() {
    let rehearsal = Rehearsal::start().await;

    let outcome = rehearsal
        .bash("(while kill -0 $$; do :; done 2>&-; echo late; sleep 3600) & exit 3")
        .await;

    assert_eq!(
        (outcome.stdout.as_str(), outcome.status),
        ("late\n", ExitStatus::Code(3))
    );
}

#[tokio::test]
async fn a_flooding_left_over_ends_too() {
    let rehearsal = Rehearsal::start().await;

    let outcome = rehearsal.bash("yes & echo $! >&2").await;

    assert_eq!(outcome.status, ExitStatus::Code(0));
    assert!(!lives(&outcome.stderr));
}

#[tokio::test]
async fn what_escapes_its_end_and_writes_for_ever_does_not_hold_it() {
    let rehearsal = Rehearsal::start().await;
    for (what, wait) in [("floods", ":"), ("trickles", "sleep 0.1")] {
        let script = format!("while :; do echo x || exit; {wait}; done");

        let outcome = rehearsal
            .bash(&format!("setsid bash -c '{script}' & echo $! >&2; exit 3"))
            .await;

        assert_eq!(outcome.status, ExitStatus::Code(3), "{what}");
        assert!(!outcome.stdout.is_empty(), "{what}");
    }
}

#[tokio::test]
async fn a_slow_host_gets_all_that_is_in_the_pipe_of_one_that_escaped() {
    let rehearsal = Rehearsal::start().await;
    // Sockets hold a part of it, pipes the rest: more than the agent sends before the host reads.
    let script = "setsid sleep 3600 & echo $! >&2; head -c 600000 /dev/zero; exit 3";
    let mut handle = rehearsal
        .client
        .exec(bash(script), Stdin::None)
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;

    let outcome = outcome(&mut handle).await.unwrap();

    assert_eq!(
        (outcome.stdout.len(), outcome.status),
        (600_000, ExitStatus::Code(3))
    );
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(outcome.stderr.trim().parse().unwrap()),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
}

#[tokio::test]
async fn a_command_that_closes_its_streams_and_sleeps_is_not_over() {
    let rehearsal = Rehearsal::start().await;
    let mark = rehearsal.path("mark");

    let outcome = rehearsal
        .bash(&format!("exec >&- 2>&-; sleep 0.5; touch {mark}; exit 9"))
        .await;

    assert_eq!(outcome.status, ExitStatus::Code(9));
    assert!(std::path::Path::new(&mark).exists());
}

#[tokio::test]
async fn cancel_terminates_and_a_trap_may_answer() {
    let rehearsal = Rehearsal::start().await;
    let request = ExecRequest {
        kill_grace_ms: 60_000,
        ..bash("trap 'echo trapped; exit 5' TERM; echo up; sleep 3600 & wait")
    };
    let mut handle = rehearsal.client.exec(request, Stdin::None).await.unwrap();
    await_word(&mut handle, "up").await;

    handle.control().cancel();

    let outcome = outcome(&mut handle).await.unwrap();
    assert_eq!(
        (outcome.stdout.as_str(), outcome.status),
        ("trapped\n", ExitStatus::Code(5))
    );
}

#[tokio::test]
async fn cancel_kills_what_ignores_term_after_the_grace() {
    let rehearsal = Rehearsal::start().await;
    let request = ExecRequest {
        kill_grace_ms: 300,
        ..bash("trap '' TERM; sleep 3600 & echo $! up; wait; sleep 3600")
    };
    let mut handle = rehearsal.client.exec(request, Stdin::None).await.unwrap();
    await_word(&mut handle, "up").await;
    let start = Instant::now();

    handle.control().cancel();

    let outcome = outcome(&mut handle).await.unwrap();
    assert_eq!(outcome.status, ExitStatus::Signal(9));
    assert!(start.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn kill_is_at_once_and_takes_all() {
    let rehearsal = Rehearsal::start().await;
    let mut handle = rehearsal
        .client
        .exec(
            ExecRequest {
                kill_grace_ms: 3_600_000,
                ..bash("trap '' TERM; sleep 3600 & echo $!; echo up; wait")
            },
            Stdin::None,
        )
        .await
        .unwrap();
    await_word(&mut handle, "up").await;

    handle.control().cancel();
    handle.control().kill();

    assert_eq!(
        outcome(&mut handle).await.unwrap().status,
        ExitStatus::Signal(9)
    );
}

#[tokio::test]
async fn cancel_works_while_nobody_reads_the_output() {
    let rehearsal = Rehearsal::start().await;
    let mut handle = rehearsal
        .client
        .exec(bash("echo $$ up; yes"), Stdin::None)
        .await
        .unwrap();
    let first = loop {
        if let ExecEvent::Stdout(bytes) = handle.next_event().await.unwrap() {
            break bytes;
        }
    };
    let pid = String::from_utf8_lossy(&first);
    let pid = pid.split(' ').next().unwrap().to_owned();
    // By now everything between the command and us is full, or soon will be.
    tokio::time::sleep(Duration::from_millis(200)).await;

    handle.control().kill();

    let until = Instant::now() + WAIT_LIMIT;
    while lives(&pid) {
        assert!(Instant::now() < until, "it lives on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(
        outcome(&mut handle).await.unwrap().status,
        ExitStatus::Signal(9)
    );
}

#[tokio::test]
async fn cancel_is_not_stuck_behind_input_that_nobody_reads() {
    let rehearsal = Rehearsal::start().await;
    let mut handle = rehearsal
        .client
        .exec(
            bash("echo up; sleep 3600"),
            Stdin::Bytes(Bytes::from(vec![b'x'; 10_000_000])),
        )
        .await
        .unwrap();
    await_word(&mut handle, "up").await;

    handle.control().cancel();

    assert_eq!(
        outcome(&mut handle).await.unwrap().status,
        ExitStatus::Signal(15)
    );
}

#[tokio::test]
async fn dropping_the_handle_kills_the_command() {
    let rehearsal = Rehearsal::start().await;
    let note = rehearsal.path("pid");
    let mut handle = rehearsal
        .client
        .exec(
            bash(&format!("echo $$ > {note}; echo up; sleep 3600; :")),
            Stdin::None,
        )
        .await
        .unwrap();
    await_word(&mut handle, "up").await;
    let control = handle.control();

    drop(handle);

    let pid = std::fs::read_to_string(note).unwrap();
    let until = Instant::now() + WAIT_LIMIT;
    while lives(&pid) {
        assert!(Instant::now() < until, "it lives on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    control.kill();
}

#[tokio::test]
async fn orphans_are_reaped() {
    let rehearsal = Rehearsal::start().await;

    let outcome = rehearsal
        .bash("for i in {1..50}; do (setsid true &) ; done; echo $PPID; sleep 0.2")
        .await;

    let agent = outcome.stdout.trim();
    let children = std::fs::read_to_string(format!("/proc/{agent}/task/{agent}/children")).unwrap();
    assert!(
        children.split_whitespace().all(lives),
        "zombies: {children}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_commands_at_once_keep_their_output_apart() {
    let rehearsal = Rehearsal::start().await;
    let runs: Vec<_> = (0..200)
        .map(|number| {
            let client = rehearsal.client.clone();
            tokio::spawn(async move {
                let script = format!("echo {number}; sleep 0.2; echo {number} >&2; exit {number}");
                let mut handle = client.exec(bash(&script), Stdin::None).await.unwrap();
                (number, outcome(&mut handle).await.unwrap())
            })
        })
        .collect();

    for run in runs {
        let (number, outcome) = run.await.unwrap();
        assert_eq!(outcome.status, ExitStatus::Code(number));
        assert_eq!(outcome.stdout, format!("{number}\n"));
        assert_eq!(outcome.stderr, format!("{number}\n"));
    }
    assert_eq!(rehearsal.client.stats().await.unwrap().execs, 0);
}

#[tokio::test]
async fn a_hundred_megabytes_come_through_whole() {
    let rehearsal = Rehearsal::start().await;
    let mut handle = rehearsal
        .client
        .exec(
            bash("yes 0123456789abcdef | head -c 104857600"),
            Stdin::None,
        )
        .await
        .unwrap();

    let mut total = 0;
    loop {
        match handle.next_event().await.unwrap() {
            ExecEvent::Stdout(bytes) => {
                let expected = b"0123456789abcdef\n".iter().cycle().skip(total % 17);
                assert!(bytes.iter().eq(expected.take(bytes.len())));
                total += bytes.len();
            }
            ExecEvent::Stderr(bytes) => panic!("{bytes:?}"),
            ExecEvent::Exited(_) => break,
        }
    }
    assert_eq!(total, 104_857_600);
}
