//! Tests of the stage machine: GitLab Runner's order, and random interleavings.

use std::time::Duration;

use proptest::prelude::*;
use vk_hub_proto::job::variables::Variables;
use vk_hub_proto::job::{Failure, Variable};

use super::{Effect, Event, JobEnd, Notice, STOP_GRACE, StageFailure, StageOrder, StopMode};
use crate::job::cancel::CancelMode;
use crate::job::plan::{Cases, Plan};
use crate::job::stage::Stage;
use crate::job::variables::JobStatus;

const TIMEOUT: Duration = Duration::from_secs(3600);

/// A job with everything: every stage has something to do.
pub(in crate::job) fn plan() -> Plan {
    Plan {
        steps: vec![Stage::Step("script".into()), Stage::Step("release".into())],
        after_script: true,
        unknown_submodules: false,
        restore_cache: true,
        download_artifacts: true,
        archive_cache: Cases {
            on_success: true,
            on_failure: true,
        },
        upload_artifacts: Cases {
            on_success: true,
            on_failure: true,
        },
        timeout: TIMEOUT,
        variables: Variables::default(),
        notices: Vec::new(),
        get_sources_attempts: 1,
        restore_cache_attempts: 1,
        artifact_download_attempts: 1,
        exponential_backoff: true,
        ignore_after_script_errors: true,
    }
}

fn small_plan() -> Plan {
    Plan {
        steps: vec![Stage::Step("script".into())],
        restore_cache: false,
        download_artifacts: false,
        archive_cache: Cases::default(),
        upload_artifacts: Cases::default(),
        ..plan()
    }
}

fn script_limit(limit: Duration) -> Variables {
    Variables::new(vec![Variable {
        key: "RUNNER_SCRIPT_TIMEOUT".into(),
        value: format!("{}s", limit.as_secs()),
        ..Variable::default()
    }])
}

fn script_failure(code: i32) -> StageFailure {
    StageFailure::exit(code)
}

fn clone_failure() -> StageFailure {
    StageFailure::new(Failure::ExternalDependency, "exit code 128")
}

/// Drives a machine, one stage after the other, on virtual time.
struct Drive {
    machine: StageOrder,
    now: Duration,
    stages: Vec<String>,
    warnings: Vec<String>,
    stops: Vec<StopMode>,
    end: Option<JobEnd>,
}

impl Drive {
    fn new(plan: Plan) -> Self {
        let mut drive = Self {
            machine: StageOrder::new(plan),
            now: Duration::ZERO,
            stages: Vec::new(),
            warnings: Vec::new(),
            stops: Vec::new(),
            end: None,
        };
        let effects = drive.machine.start(drive.now);
        drive.take(effects);
        drive
    }

    fn take(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            assert_eq!(self.end, None, "an effect after the end: {effect:?}");
            match effect {
                Effect::Print(Notice::Warning(text)) => self.warnings.push(text),
                Effect::Print(Notice::Info(text)) => self.stages.push(text),
                Effect::Run(stage) => self.stages.push(stage.name().into_owned()),
                Effect::Stop(mode) => self.stops.push(mode),
                Effect::Finish(end) => self.end = Some(end),
            }
        }
    }

    fn event(&mut self, event: Event) -> &mut Self {
        let effects = self.machine.handle(self.now, event);
        self.take(effects);
        self
    }

    fn pass(&mut self) -> &mut Self {
        self.event(Event::Ended(Ok(())))
    }

    fn fail(&mut self, failure: StageFailure) -> &mut Self {
        self.event(Event::Ended(Err(failure)))
    }

    fn pass_until(&mut self, stage: &str) -> &mut Self {
        while self.stages.last().map(String::as_str) != Some(stage) {
            assert_eq!(self.end, None, "the job ended before {stage}");
            self.pass();
        }
        self
    }

    fn pass_all(&mut self) -> &mut Self {
        while self.end.is_none() {
            self.pass();
        }
        self
    }

    fn wait(&mut self, duration: Duration) -> &mut Self {
        self.now += duration;
        self.event(Event::Tick)
    }

    fn failure(&self) -> StageFailure {
        self.end
            .clone()
            .expect("the job is over")
            .failure
            .expect("it failed")
    }

    fn after(&self, stage: &str) -> Vec<&str> {
        let at = self
            .stages
            .iter()
            .position(|name| name == stage)
            .expect("the stage ran");
        self.stages[at + 1..].iter().map(String::as_str).collect()
    }
}

/// gitlab-runner, build §1.3.
#[test]
fn stages_run_in_gitlab_runners_order() {
    let mut drive = Drive::new(plan());

    drive.pass_all();

    assert_eq!(
        drive.stages,
        [
            "prepare_executor",
            "prepare_script",
            "get_sources",
            "restore_cache",
            "download_artifacts",
            "step_script",
            "step_release",
            "after_script",
            "archive_cache",
            "upload_artifacts_on_success",
            "cleanup_file_variables"
        ]
    );
    assert_eq!(drive.end, Some(JobEnd { failure: None }));
}

/// gitlab-runner, build §1.2.2.
#[test]
fn stages_without_work_are_left_out() {
    let mut drive = Drive::new(Plan {
        after_script: false,
        ..small_plan()
    });

    drive.pass_all();

    assert_eq!(
        drive.stages,
        [
            "prepare_executor",
            "prepare_script",
            "get_sources",
            "step_script",
            "cleanup_file_variables"
        ]
    );
}

/// gitlab-runner, build §1.5.2.
#[test]
fn an_unknown_strategy_for_submodules_ends_the_job_before_its_sources() {
    let mut drive = Drive::new(Plan {
        unknown_submodules: true,
        ..plan()
    });

    drive.pass_all();

    assert_eq!(drive.stages, ["prepare_executor", "prepare_script"]);
    let failure = drive.end.unwrap().failure.unwrap();
    assert_eq!(failure.class, Failure::System);
    assert_eq!(failure.message, "unknown GIT_SUBMODULE_STRATEGY");
}

/// gitlab-runner, build §1.3.
#[test]
fn a_failed_step_skips_the_others_and_runs_the_rest_as_for_failure() {
    let mut drive = Drive::new(plan());

    drive
        .pass_until("step_script")
        .fail(script_failure(42))
        .pass_all();

    assert_eq!(
        drive.after("step_script"),
        [
            "after_script",
            "archive_cache_on_failure",
            "upload_artifacts_on_failure",
            "cleanup_file_variables"
        ]
    );
    assert_eq!(drive.failure(), script_failure(42));
}

/// gitlab-runner, build §1.3.
#[test]
fn a_failed_preparation_ends_the_job() {
    let mut drive = Drive::new(plan());

    drive.pass_until("prepare_script").fail(script_failure(1));

    assert_eq!(
        drive.failure().message,
        "prepare environment: exit code 1. Check \
         https://docs.gitlab.com/runner/shells/#shell-profile-loading for more information"
    );
    assert_eq!(drive.after("prepare_script"), [""; 0]);
}

/// gitlab-runner, build §1.3.
#[test]
fn failed_sources_skip_steps_and_after_script_but_not_uploads() {
    let mut drive = Drive::new(plan());

    drive
        .pass_until("get_sources")
        .fail(clone_failure())
        .pass_all();

    assert_eq!(
        drive.after("get_sources"),
        [
            "archive_cache_on_failure",
            "upload_artifacts_on_failure",
            "cleanup_file_variables"
        ]
    );
    assert_eq!(drive.machine.status(), JobStatus::Running);
    assert_eq!(drive.failure(), clone_failure());
}

/// gitlab-runner, build §1.5.1.
#[test]
fn the_worktree_is_cleared_before_the_second_attempt_only() {
    let mut drive = Drive::new(Plan {
        get_sources_attempts: 3,
        ..small_plan()
    });

    drive.pass_until("get_sources").fail(clone_failure());
    drive
        .wait(Duration::from_secs(5))
        .pass()
        .fail(clone_failure());
    drive.wait(Duration::from_secs(10)).pass_all();

    assert_eq!(
        drive.after("get_sources"),
        [
            "clear_worktree",
            "get_sources",
            "get_sources",
            "step_script",
            "after_script",
            "cleanup_file_variables"
        ]
    );
    assert_eq!(drive.warnings, ["Retrying...", "Retrying..."]);
    assert_eq!(drive.end, Some(JobEnd { failure: None }));
}

/// gitlab-runner, build §1.5.1.
#[test]
fn caches_and_artifacts_have_attempts_of_their_own() {
    let mut drive = Drive::new(Plan {
        get_sources_attempts: 2,
        restore_cache_attempts: 2,
        artifact_download_attempts: 2,
        ..plan()
    });
    let pause = Duration::from_secs(5);

    drive.pass_until("get_sources").fail(clone_failure());
    drive.wait(pause).pass().pass();
    drive.fail(clone_failure()).wait(pause).pass();
    drive
        .fail(clone_failure())
        .wait(pause)
        .fail(clone_failure());
    drive.pass_all();

    assert_eq!(
        drive.after("get_sources"),
        [
            "clear_worktree",
            "get_sources",
            "restore_cache",
            "restore_cache",
            "download_artifacts",
            "download_artifacts",
            "archive_cache_on_failure",
            "upload_artifacts_on_failure",
            "cleanup_file_variables"
        ]
    );
    assert_eq!(
        drive.warnings,
        ["Retrying...", "Retrying...", "Retrying..."]
    );
    assert_eq!(drive.failure(), clone_failure());
}

/// gitlab-runner, build §1.5.3.
#[test]
fn a_failing_after_script_is_ignored_by_default() {
    let mut drive = Drive::new(small_plan());

    drive
        .pass_until("after_script")
        .fail(script_failure(7))
        .pass_all();

    assert_eq!(drive.end, Some(JobEnd { failure: None }));
    assert_eq!(
        drive.warnings,
        ["after_script failed, but job will continue unaffected: exit code 7"]
    );
}

/// gitlab-runner, build §1.5.3.
#[test]
fn a_failing_after_script_counts_when_its_errors_do() {
    let mut drive = Drive::new(Plan {
        ignore_after_script_errors: false,
        ..small_plan()
    });

    drive
        .pass_until("after_script")
        .fail(script_failure(7))
        .pass_all();

    assert_eq!(drive.failure(), script_failure(7));
}

/// gitlab-runner, build §1.3.
#[test]
fn a_failed_upload_fails_a_green_job_but_not_a_red_ones_reason() {
    let mut green = Drive::new(plan());
    green
        .pass_until("upload_artifacts_on_success")
        .fail(clone_failure())
        .pass_all();
    let mut red = Drive::new(plan());
    red.pass_until("step_script").fail(script_failure(3));
    red.pass_until("upload_artifacts_on_failure")
        .fail(clone_failure())
        .pass_all();

    assert_eq!(green.failure(), clone_failure());
    assert_eq!(red.failure(), script_failure(3));
}

/// gitlab-runner, build §1.6 and build §1.2.1.
#[test]
fn the_job_timeout_ends_everything() {
    let mut drive = Drive::new(plan());

    drive
        .pass_until("step_script")
        .wait(TIMEOUT)
        .fail(script_failure(1));

    assert_eq!(drive.stops, [StopMode::Graceful]);
    assert_eq!(drive.after("step_script"), [""; 0]);
    assert_eq!(drive.failure().class, Failure::Timeout);
    assert_eq!(
        drive.failure().message,
        "execution took longer than 1h0m0s seconds"
    );
    assert!(drive.warnings[0].starts_with("step_script could not run to completion"));
}

#[test]
fn a_timeout_while_the_vm_boots_stops_it_at_once_and_says_nothing_of_stages() {
    let mut drive = Drive::new(plan());

    drive.wait(TIMEOUT).fail(clone_failure());

    assert_eq!(drive.stops, [StopMode::AtOnce]);
    assert_eq!(drive.warnings, [""; 0]);
    assert_eq!(drive.failure().class, Failure::Timeout);
}

/// gitlab-runner, build §1.6.
#[test]
fn the_script_timeout_leaves_after_script_its_own_time() {
    let variables = script_limit(Duration::from_secs(60));
    let mut drive = Drive::new(Plan {
        variables,
        ..plan()
    });

    drive
        .pass_until("step_script")
        .wait(Duration::from_secs(59))
        .pass();
    drive.wait(Duration::from_secs(1)).fail(script_failure(1));
    let status = drive.machine.status();
    drive.pass_all();

    assert_eq!(status, JobStatus::TimedOut);
    assert_eq!(drive.after("step_release")[0], "after_script");
    assert_eq!(
        drive.failure().message,
        "script timeout: context deadline exceeded"
    );
}

/// gitlab-runner, build §1.5.3.
#[test]
fn after_script_has_five_minutes_by_default() {
    let mut drive = Drive::new(small_plan());

    drive
        .pass_until("after_script")
        .wait(Duration::from_secs(299));
    assert_eq!(drive.stops, []);
    drive
        .wait(Duration::from_secs(1))
        .fail(script_failure(143))
        .pass_all();

    assert_eq!(drive.stops, [StopMode::Graceful]);
    assert_eq!(drive.end, Some(JobEnd { failure: None }));
    assert_eq!(drive.warnings.len(), 2);
}

/// gitlab-runner, build §1.7.
#[test]
fn a_graceful_cancel_of_the_steps_runs_after_script_and_what_follows() {
    let mut drive = Drive::new(plan());

    drive
        .pass_until("step_script")
        .event(Event::Cancel(CancelMode::Graceful));
    drive.fail(script_failure(1));
    let status = drive.machine.status();
    drive.pass_all();

    assert_eq!(status, JobStatus::Canceled);
    assert_eq!(
        drive.after("step_script"),
        [
            "after_script",
            "archive_cache_on_failure",
            "upload_artifacts_on_failure",
            "cleanup_file_variables"
        ]
    );
    assert_eq!(drive.warnings, ["script canceled externally (UI, API)"]);
    assert_eq!(drive.failure().class, Failure::Canceled);
}

/// gitlab-runner, build §1.7.
#[test]
fn a_graceful_cancel_before_the_steps_ends_the_job() {
    for stage in [
        "prepare_executor",
        "prepare_script",
        "get_sources",
        "restore_cache",
    ] {
        let mut drive = Drive::new(plan());

        drive
            .pass_until(stage)
            .event(Event::Cancel(CancelMode::Graceful))
            .pass();

        assert_eq!(drive.stops, [StopMode::AtOnce], "{stage}");
        assert_eq!(drive.failure().message, "canceled", "{stage}");
        assert_eq!(drive.after(stage), [""; 0], "{stage}");
    }
}

/// gitlab-runner, build §1.7.
#[test]
fn a_graceful_cancel_after_the_steps_changes_nothing() {
    let mut drive = Drive::new(plan());

    drive
        .pass_until("after_script")
        .event(Event::Cancel(CancelMode::Graceful))
        .pass_all();

    assert_eq!(drive.stops, []);
    assert_eq!(drive.end, Some(JobEnd { failure: None }));
}

#[test]
fn an_immediate_cancel_overrides_a_graceful_one() {
    let mut drive = Drive::new(plan());

    drive
        .pass_until("step_script")
        .event(Event::Cancel(CancelMode::Graceful));
    drive
        .event(Event::Cancel(CancelMode::Immediate))
        .fail(script_failure(137));

    assert_eq!(drive.stops, [StopMode::Graceful, StopMode::AtOnce]);
    assert_eq!(drive.after("step_script"), [""; 0]);
    assert_eq!(drive.failure().class, Failure::Canceled);
}

#[test]
fn a_stage_that_never_ends_is_given_up() {
    let mut drive = Drive::new(plan());

    drive
        .pass_until("step_script")
        .event(Event::Cancel(CancelMode::Graceful));
    drive.wait(STOP_GRACE);
    assert_eq!(drive.end, None);
    let deadline = drive.machine.next_deadline().expect("it is waited for");
    drive.now = deadline;
    drive.event(Event::Tick);
    drive.pass();

    assert_eq!(drive.failure().class, Failure::Canceled);
}

#[test]
fn a_lost_machine_is_a_system_failure_at_once() {
    let mut drive = Drive::new(plan());

    drive
        .pass_until("step_script")
        .event(Event::MachineLost("the guest powered off".into()));

    assert_eq!(drive.failure().class, Failure::System);
    assert_eq!(drive.failure().message, "the guest powered off");
}

#[test]
fn a_cancel_between_two_attempts_ends_the_job() {
    let mut drive = Drive::new(Plan {
        get_sources_attempts: 2,
        ..plan()
    });

    drive.pass_until("get_sources").fail(clone_failure());
    drive.event(Event::Cancel(CancelMode::Graceful));

    assert_eq!(drive.failure().class, Failure::Canceled);
}

fn any_event() -> impl Strategy<Value = (u64, Event)> {
    let failure = prop_oneof![
        Just(script_failure(1)),
        Just(clone_failure()),
        Just(StageFailure::new(Failure::System, "agent")),
    ];
    let event = prop_oneof![
        8 => Just(Event::Ended(Ok(()))),
        2 => failure.prop_map(|failure| Event::Ended(Err(failure))),
        3 => Just(Event::Tick),
        1 => Just(Event::Cancel(CancelMode::Graceful)),
        1 => Just(Event::Cancel(CancelMode::Immediate)),
        1 => Just(Event::MachineLost("gone".into())),
    ];
    (0_u64..1000, event)
}

proptest! {
    /// Whatever happens, in whatever order: one stage at a time, one end, and a deadline until then.
    #[test]
    fn every_interleaving_ends_once_and_runs_one_stage_at_a_time(
        events in prop::collection::vec(any_event(), 0..60),
        attempts in 1_u32..4,
        limit in prop::option::of(1_u64..4000),
    ) {
        let variables =
            limit.map_or_else(Variables::default, |secs| script_limit(Duration::from_secs(secs)));
        let mut machine =
            StageOrder::new(Plan { get_sources_attempts: attempts, variables, ..plan() });
        let mut now = Duration::ZERO;
        let mut running: Option<Stage> = None;
        let mut ends = 0;
        let mut effects = machine.start(now);
        let mut events = events.into_iter();
        loop {
            for effect in effects {
                prop_assert_eq!(ends, 0, "effect after the end");
                match effect {
                    Effect::Run(stage) => {
                        prop_assert!(running.is_none(), "{stage:?} beside {running:?}");
                        running = Some(stage);
                    }
                    Effect::Stop(_) => prop_assert!(running.is_some()),
                    Effect::Finish(_) => ends += 1,
                    Effect::Print(_) => {}
                }
            }
            // Behind the random events come ticks alone: the machine must end by its own deadlines.
            let Some((secs, event)) = events.next().or_else(|| {
                let due = machine.next_deadline()?;
                now = now.max(due);
                Some((0, Event::Tick))
            }) else {
                break;
            };
            now += Duration::from_secs(secs);
            if matches!(event, Event::Ended(_)) && running.take().is_none() {
                effects = Vec::new();
                continue;
            }
            effects = machine.handle(now, event);
        }
        prop_assert_eq!(ends, 1);
    }
}

/// gitlab-runner, build §1.5.3.
#[test]
fn notices_come_once_before_the_first_step_and_not_at_all_without_one() {
    let with_notice = || Plan {
        notices: vec!["a notice".into()],
        ..plan()
    };
    let mut drive = Drive::new(with_notice());
    drive.pass_all();
    let at = |text: &str| drive.stages.iter().position(|stage| stage == text);
    assert_eq!(at("a notice").map(|at| at + 1), at("step_script"));
    let count = drive.stages.iter().filter(|stage| *stage == "a notice");
    assert_eq!(count.count(), 1);

    let mut drive = Drive::new(with_notice());
    drive
        .pass_until("get_sources")
        .fail(clone_failure())
        .pass_all();
    assert!(!drive.stages.contains(&"a notice".to_owned()));
}
