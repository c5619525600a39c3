//! Steps that misbehave end as `script` or `timeout`; vk and the agent stay well.

use serde_json::Value;
use vk_tests::job::{script, variable, with_after_script, with_variables};
use vk_tests::vk::{JobRun, Vk};

/// Runs a job in a small VM; an `after_script` proves that the agent still answers.
fn run(script_lines: &[&str], args: &[&str]) -> JobRun {
    let job = with_after_script(script(script_lines), &["echo the agent is well"]);
    run_small(&job, args)
}

fn run_small(job: &Value, args: &[&str]) -> JobRun {
    let small = [
        variable("MICROVM_MEM", "512M"),
        variable("MICROVM_CPUS", "1"),
    ];
    Vk::new().run_job(&with_variables(job.clone(), &small), args)
}

fn assert_survived(run: &JobRun) {
    assert!(run.text().contains("the agent is well"), "{}", run.text());
}

#[test]
fn two_hundred_megabytes_of_output_are_cut_at_the_limit_and_the_script_decides() {
    let run = run(
        &["(yes 0123456789 || true) | head -c 200000000", "exit 3"],
        &["--timestamps", "off"],
    );

    assert_eq!((run.status, run.failure()), (1, "script"));
    assert_eq!(run.result["exit_code"], 3);
    assert!(run.trace.len() < 4_300_000, "{}", run.trace.len());
    assert!(
        run.text()
            .contains("Job's log exceeded limit of 4194304 bytes.")
    );
}

#[test]
fn a_fork_bomb_ends_at_its_time_limit() {
    let job = with_after_script(
        script(&["f() { f | f & }; f; sleep 300"]),
        &["echo the agent is well"],
    );
    let limited = with_variables(job, &[variable("RUNNER_SCRIPT_TIMEOUT", "20s")]);

    let run = run_small(&limited, &[]);

    assert_eq!(
        (run.status, run.failure()),
        (4, "timeout"),
        "{}",
        run.text()
    );
    assert_survived(&run);
}

#[test]
fn eating_all_memory_ends_as_script() {
    let run = run(&["tail /dev/zero", "echo not reached"], &[]);

    assert_eq!((run.status, run.failure()), (1, "script"), "{}", run.text());
    assert!(
        run.text().contains(
            "the VM ran out of its 512 MiB of memory and \"tail\" was killed; the job's variable MICROVM_MEM (such as 1G) \
             gives it more"
        ),
        "{}",
        run.text()
    );
    assert_survived(&run);
}

/// Programs choose their names, and root may write into the kernel's log.
#[test]
fn what_a_program_that_ate_all_memory_is_called_stays_one_line_and_no_other_is_named() {
    let fake = "<6>oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/vk,task_memcg=/vk/exec-$i,task=fake,pid=9,uid=0";
    let job = with_after_script(
        script(&["true"]),
        &[
            &format!("for i in $(seq 0 40); do echo \"{fake}\" > /dev/kmsg; done"),
            r#"bash -c 'printf "rm) \033[2J" > /proc/$$/comm; a=0123456789; while :; do a=$a$a; done'"#,
        ],
    );

    let run = run_small(&job, &[]);

    assert!(
        run.text()
            .contains(r#"of memory and "rm) \x1b[2J" was killed;"#),
        "{}",
        run.text()
    );
}

#[test]
fn the_limit_on_processes_names_the_variable_that_raises_it() {
    let job = script(&["for i in $(seq 100); do sleep 300 & done; echo not reached"]);
    let limited = with_variables(job, &[variable("MICROVM_PIDS", "64")]);

    let run = run_small(&limited, &[]);

    assert_eq!((run.status, run.failure()), (1, "script"), "{}", run.text());
    assert!(
        run.text().contains(
            "the VM runs 64 processes and threads at most and did not start another one; the job's variable MICROVM_PIDS \
             (such as 128) allows more"
        ),
        "{}",
        run.text()
    );
}

/// The default is about 800 for so much memory, and what the kernel can have is about 3000.
#[test]
fn more_processes_can_be_had_than_by_default() {
    let job = script(&["echo limit $(cat /sys/fs/cgroup/pids.max)"]);
    let with = |pids: &str| {
        let size = [
            variable("MICROVM_PIDS", pids),
            variable("MICROVM_MEM", "512M"),
        ];
        let run = Vk::new().run_job(&with_variables(job.clone(), &size), &[]);
        assert_eq!(run.status, 0, "{}", run.text());
        let text = run.text();
        let (_, limit) = text.rsplit_once("limit ").unwrap();
        let limit: u32 = limit.lines().next().unwrap().trim().parse().unwrap();
        limit
    };

    assert!(with("") < 1000);
    assert_eq!(with("2000"), 2000);
    assert!((2001..10_000).contains(&with("4000000000")));
}

#[test]
fn a_full_disk_ends_as_script() {
    let run = run(
        &["fallocate -l 15G most", "dd if=/dev/zero of=rest bs=1M"],
        &[],
    );

    assert_eq!((run.status, run.failure()), (1, "script"), "{}", run.text());
    assert_survived(&run);
}

#[test]
fn killing_everything_ends_as_script() {
    let run = run(&["kill -9 -1", "echo not reached"], &[]);

    assert_eq!((run.status, run.failure()), (1, "script"), "{}", run.text());
    assert_survived(&run);
}

#[test]
fn closing_all_streams_does_not_end_a_step() {
    let mut job = script(&["exec >&- 2>&- <&-; sleep 300"]);
    job["runner_info"]["timeout"] = 40.into();

    let run = run_small(&job, &[]);

    assert_eq!(
        (run.status, run.failure()),
        (4, "timeout"),
        "{}",
        run.text()
    );
    assert!(
        run.text()
            .contains("execution took longer than 40s seconds")
    );
}

#[test]
fn powering_off_the_guest_is_a_system_failure_that_says_so() {
    let run = run(&["echo o > /proc/sysrq-trigger; sleep 60"], &[]);

    assert_eq!((run.status, run.failure()), (3, "system"), "{}", run.text());
    assert!(
        run.text()
            .contains("ERROR: Job failed (system failure): the VM powered off"),
        "{}",
        run.text()
    );
    let message = run.result["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("the VM powered off"), "{message}");
}

#[test]
fn a_background_child_that_keeps_a_pipe_open_does_not_hold_the_job() {
    let run = run(&["sleep 3600 & echo hi"], &[]);

    assert_eq!(run.status, 0, "{}", run.text());
    assert!(run.text().contains("hi"));
}

#[test]
fn invalid_utf8_in_a_script_reads_as_the_replacement_character() {
    let vk = Vk::new();
    let text = script(&["echo A_BAD_B"]).to_string();
    let (before, after) = text.split_once("_BAD_").unwrap();
    let file = vk.dir().join("job.json");
    std::fs::write(
        &file,
        [before.as_bytes(), b"\xff", after.as_bytes()].concat(),
    )
    .unwrap();

    let output = vk.run(["gitlab".as_ref(), "run".as_ref(), file.as_os_str()]);

    assert_eq!(output.status.code(), Some(0));
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("A\u{fffd}B\n")
    );
}
