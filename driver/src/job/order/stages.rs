//! The machine itself: which stage follows, and what a failure, a time-out or a cancel changes about that.

use std::collections::VecDeque;
use std::time::Duration;

use vk_hub_proto::job::Failure;

use super::events::{Effect, Event, JobEnd, Notice, STOP_GRACE, StopMode};
use super::failure::StageFailure;
use crate::job::cancel::CancelMode;
use crate::job::plan::Plan;
use crate::job::settings::StageTimeouts;
use crate::job::stage::Stage;
use crate::job::variables::JobStatus;
use vk_text::format_duration;

/// How long a killed stage may take to be reported as ended before the machine goes on without it. Under emulation a
/// guest needs some ten seconds to bury the thousands of processes of a fork bomb.
const KILL_MARGIN: Duration = Duration::from_secs(45);

/// A place in the job's order; what stage it means is decided when it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    PrepareExecutor,
    PrepareScript,
    GetSources,
    RestoreCache,
    DownloadArtifacts,
    Step(usize),
    AfterScript,
    ArchiveCache,
    UploadArtifacts,
    Cleanup,
}

/// Why the running stage was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopCause {
    JobTimeout,
    ScriptTimeout,
    AfterScriptTimeout,
    CancelSteps,
    CancelJob,
}

impl StopCause {
    fn is_timeout(self) -> bool {
        matches!(
            self,
            Self::JobTimeout | Self::ScriptTimeout | Self::AfterScriptTimeout
        )
    }
}

#[derive(Debug)]
struct Running {
    slot: Slot,
    stage: Stage,
    stopping: Option<Stopping>,
}

#[derive(Clone, Copy, Debug)]
struct Stopping {
    cause: StopCause,
    give_up_at: Duration,
}

#[derive(Debug)]
enum State {
    Idle,
    Running(Running),
    /// Between two attempts at what `slot` means.
    Pausing {
        slot: Slot,
        until: Duration,
    },
    Finished,
}

/// The stage machine of one job. See the module's text.
#[derive(Debug)]
pub(in crate::job) struct StageOrder {
    plan: Plan,
    todo: VecDeque<Slot>,
    state: State,
    status: JobStatus,
    /// The failure that decides the job's end.
    failure: Option<StageFailure>,
    /// A failure behind the steps; it counts when nothing failed before.
    late_failure: Option<StageFailure>,
    /// Which attempt at the stage this is, from 1.
    attempt: u32,
    script_deadline: Option<Duration>,
    /// `None` until the steps begin.
    timeouts: Option<StageTimeouts>,
    after_deadline: Option<Duration>,
}

impl StageOrder {
    /// A machine for the job that `plan` describes.
    #[must_use]
    pub(in crate::job) fn new(plan: Plan) -> Self {
        let mut todo = VecDeque::from([
            Slot::PrepareExecutor,
            Slot::PrepareScript,
            Slot::GetSources,
            Slot::RestoreCache,
            Slot::DownloadArtifacts,
        ]);
        todo.extend((0..plan.steps.len()).map(Slot::Step));
        todo.extend([
            Slot::AfterScript,
            Slot::ArchiveCache,
            Slot::UploadArtifacts,
            Slot::Cleanup,
        ]);
        Self {
            plan,
            todo,
            state: State::Idle,
            status: JobStatus::Running,
            failure: None,
            late_failure: None,
            attempt: 1,
            script_deadline: None,
            timeouts: None,
            after_deadline: None,
        }
    }

    /// Begins the job.
    pub(in crate::job) fn start(&mut self, now: Duration) -> Vec<Effect> {
        let mut effects = Vec::new();
        if matches!(self.state, State::Idle) {
            self.next(now, &mut effects);
        }
        effects
    }

    /// Takes note of an event and answers what to do.
    pub(in crate::job) fn handle(&mut self, now: Duration, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Ended(result) => self.ended(now, result, &mut effects),
            Event::Cancel(CancelMode::Graceful) => self.cancel_gracefully(now, &mut effects),
            Event::Cancel(CancelMode::Immediate) => self.cancel_at_once(now, &mut effects),
            Event::MachineLost(message) => self.machine_lost(message, &mut effects),
            Event::Tick => self.tick(now, &mut effects),
        }
        effects
    }

    /// When [`Event::Tick`] is due next; `None` once the job is over.
    #[must_use]
    pub(in crate::job) fn next_deadline(&self) -> Option<Duration> {
        match &self.state {
            State::Idle | State::Finished => None,
            State::Pausing { until, .. } => Some((*until).min(self.plan.timeout)),
            State::Running(running) => Some(match running.stopping {
                Some(stopping) => stopping.give_up_at,
                None => self
                    .stage_deadline(running.slot)
                    .map_or(self.plan.timeout, |(at, _)| at),
            }),
        }
    }

    /// The value of `CI_JOB_STATUS` for the stage that runs now.
    #[must_use]
    pub(in crate::job) fn status(&self) -> JobStatus {
        self.status
    }

    /// Which attempt at the stage that runs now this is, from 1.
    #[must_use]
    pub(in crate::job) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The earliest limit of a stage, and which one it is.
    fn stage_deadline(&self, slot: Slot) -> Option<(Duration, StopCause)> {
        let own = match slot {
            Slot::Step(_) => self
                .script_deadline
                .map(|at| (at, StopCause::ScriptTimeout)),
            Slot::AfterScript => self
                .after_deadline
                .map(|at| (at, StopCause::AfterScriptTimeout)),
            _ => None,
        };
        own.filter(|(at, _)| *at < self.plan.timeout)
            .or(Some((self.plan.timeout, StopCause::JobTimeout)))
    }

    fn tick(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        match &self.state {
            State::Idle | State::Finished => {}
            State::Pausing { slot, until } => {
                if now >= self.plan.timeout {
                    self.finish(Some(self.timeout_failure()), effects);
                } else if now >= *until {
                    self.retry(*slot, now, effects);
                }
            }
            State::Running(running) => match running.stopping {
                // The stage does not answer. Nothing more can run in its VM, whose end ends it too.
                Some(stopping) if now >= stopping.give_up_at => {
                    if stopping.cause.is_timeout() && running.slot != Slot::PrepareExecutor {
                        effects.push(timeout_warning(&running.stage));
                    }
                    let failure = self.abandoned(stopping.cause);
                    self.finish(Some(failure), effects);
                }
                Some(_) => {}
                None => {
                    if let Some((at, cause)) = self.stage_deadline(running.slot)
                        && now >= at
                    {
                        self.stop(now, cause, effects);
                    }
                }
            },
        }
    }

    fn cancel_gracefully(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        match &self.state {
            State::Running(running) if running.stopping.is_none() => match running.slot {
                Slot::Step(_) => self.stop(now, StopCause::CancelSteps, effects),
                slot if slot < Slot::Step(0) => self.stop(now, StopCause::CancelJob, effects),
                // The steps are over: their result stands, as in GitLab Runner.
                _ => {}
            },
            State::Pausing { .. } => self.finish(Some(canceled()), effects),
            _ => {}
        }
    }

    fn cancel_at_once(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        match &self.state {
            State::Running(Running {
                stopping:
                    Some(Stopping {
                        cause: StopCause::CancelJob,
                        ..
                    }),
                ..
            }) => {}
            State::Running(_) => self.stop(now, StopCause::CancelJob, effects),
            State::Pausing { .. } => self.finish(Some(canceled()), effects),
            State::Idle | State::Finished => {}
        }
    }

    fn machine_lost(&mut self, message: String, effects: &mut Vec<Effect>) {
        if let State::Running(running) = &self.state
            && let Some(stopping) = running.stopping
            && stopping.cause == StopCause::CancelJob
        {
            // Ending the VM is how a boot is cancelled.
            self.finish(Some(canceled()), effects);
        } else if !matches!(self.state, State::Finished) {
            let failure = StageFailure::new(Failure::System, message);
            self.finish(Some(failure), effects);
        }
    }

    fn stop(&mut self, now: Duration, cause: StopCause, effects: &mut Vec<Effect>) {
        let State::Running(running) = &mut self.state else {
            return;
        };
        let user_script = matches!(running.slot, Slot::Step(_) | Slot::AfterScript);
        let mode = if user_script && cause != StopCause::CancelJob {
            StopMode::Graceful
        } else {
            StopMode::AtOnce
        };
        let grace = if mode == StopMode::Graceful {
            STOP_GRACE
        } else {
            Duration::ZERO
        };
        running.stopping = Some(Stopping {
            cause,
            give_up_at: now + grace + KILL_MARGIN,
        });
        effects.push(Effect::Stop(mode));
    }

    fn ended(
        &mut self,
        now: Duration,
        result: Result<(), StageFailure>,
        effects: &mut Vec<Effect>,
    ) {
        let State::Running(running) = std::mem::replace(&mut self.state, State::Idle) else {
            // A stage that was given up on answers after all: the job is over.
            self.state = State::Finished;
            return;
        };
        match running.stopping.map(|stopping| stopping.cause) {
            None => self.ended_by_itself(now, &running, result, effects),
            Some(StopCause::JobTimeout) => {
                if running.slot != Slot::PrepareExecutor {
                    effects.push(timeout_warning(&running.stage));
                }
                self.finish(Some(self.timeout_failure()), effects);
            }
            Some(StopCause::ScriptTimeout) => {
                effects.push(timeout_warning(&running.stage));
                self.end_steps(script_timeout(), JobStatus::TimedOut);
                self.next(now, effects);
            }
            Some(StopCause::AfterScriptTimeout) => {
                effects.push(timeout_warning(&running.stage));
                self.after_script_ended(result, effects);
                self.next(now, effects);
            }
            Some(StopCause::CancelSteps) => {
                effects.push(warning("script canceled externally (UI, API)"));
                self.end_steps(canceled(), JobStatus::Canceled);
                self.next(now, effects);
            }
            Some(StopCause::CancelJob) => {
                if matches!(running.slot, Slot::Step(_)) {
                    effects.push(warning(
                        "after_script failed, but job will continue unaffected: context canceled",
                    ));
                }
                self.finish(Some(canceled()), effects);
            }
        }
    }

    fn ended_by_itself(
        &mut self,
        now: Duration,
        running: &Running,
        result: Result<(), StageFailure>,
        effects: &mut Vec<Effect>,
    ) {
        let failure = match result {
            Ok(()) => None,
            // VM, agent or host failed: nothing that follows could run.
            Err(failure) if failure.class == Failure::System => {
                self.finish(Some(failure), effects);
                return;
            }
            Err(failure) => Some(failure),
        };
        match (running.slot, failure) {
            (Slot::GetSources, None) if running.stage == Stage::ClearWorktree => {
                self.run(Slot::GetSources, Stage::GetSources, effects);
                return;
            }
            (Slot::AfterScript, Some(failure)) => {
                self.after_script_ended(Err(failure), effects);
            }
            (_, None) => {}
            (Slot::PrepareExecutor, Some(failure)) => {
                self.finish(Some(failure), effects);
                return;
            }
            (Slot::PrepareScript, Some(failure)) => {
                let message = format!(
                    "prepare environment: {}. Check https://docs.gitlab.com/runner/shells/\
                     #shell-profile-loading for more information",
                    failure.message
                );
                self.finish(Some(StageFailure { message, ..failure }), effects);
                return;
            }
            (slot, Some(_)) if self.attempt < self.attempts(slot) => {
                effects.push(warning("Retrying..."));
                let until = now + self.plan.retry_pause(self.attempt);
                self.attempt += 1;
                self.state = State::Pausing { slot, until };
                return;
            }
            (Slot::GetSources | Slot::RestoreCache | Slot::DownloadArtifacts, Some(failure)) => {
                self.failure = Some(failure);
                self.todo.retain(|slot| *slot > Slot::AfterScript);
            }
            (Slot::Step(_), Some(failure)) => self.end_steps(failure, JobStatus::Failed),
            (Slot::ArchiveCache | Slot::UploadArtifacts, Some(failure)) => {
                self.late_failure.get_or_insert(failure);
            }
            // As in GitLab Runner, a failing clean-up changes nothing.
            (Slot::Cleanup, Some(_)) => {}
        }
        self.next(now, effects);
    }

    fn end_steps(&mut self, failure: StageFailure, status: JobStatus) {
        self.failure = Some(failure);
        self.status = status;
        self.todo.retain(|slot| !matches!(slot, Slot::Step(_)));
    }

    fn after_script_ended(&mut self, result: Result<(), StageFailure>, effects: &mut Vec<Effect>) {
        let Err(failure) = result else { return };
        if self.plan.ignore_after_script_errors {
            effects.push(warning(&format!(
                "after_script failed, but job will continue unaffected: {}",
                failure.message
            )));
        } else {
            self.failure.get_or_insert(failure);
        }
    }

    /// How often a stage is attempted (gitlab-runner, build §1.5.1).
    fn attempts(&self, slot: Slot) -> u32 {
        match slot {
            Slot::GetSources => self.plan.get_sources_attempts,
            Slot::RestoreCache => self.plan.restore_cache_attempts,
            Slot::DownloadArtifacts => self.plan.artifact_download_attempts,
            _ => 1,
        }
    }

    fn retry(&mut self, slot: Slot, now: Duration, effects: &mut Vec<Effect>) {
        // Before the second try only, as in GitLab Runner.
        if slot == Slot::GetSources && self.attempt == 2 {
            self.run(slot, Stage::ClearWorktree, effects);
        } else if let Some(stage) = self.stage_of(slot, now, effects) {
            self.run(slot, stage, effects);
        }
    }

    fn next(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        if now >= self.plan.timeout {
            self.finish(Some(self.timeout_failure()), effects);
            return;
        }
        self.attempt = 1;
        while let Some(slot) = self.todo.pop_front() {
            // No section, no hook (gitlab-runner, build §1.5.2). GitLab Runner tries again, in vain.
            if slot == Slot::GetSources && self.plan.unknown_submodules {
                let message = "unknown GIT_SUBMODULE_STRATEGY".to_owned();
                self.finish(Some(StageFailure::new(Failure::System, message)), effects);
                return;
            }
            if let Some(stage) = self.stage_of(slot, now, effects) {
                self.run(slot, stage, effects);
                return;
            }
        }
        let failure = self.failure.take().or(self.late_failure.take());
        self.finish(failure, effects);
    }

    /// The stage that `slot` means for this job; `None` if there is nothing to do.
    fn stage_of(&mut self, slot: Slot, now: Duration, effects: &mut Vec<Effect>) -> Option<Stage> {
        match slot {
            Slot::PrepareExecutor => Some(Stage::PrepareExecutor),
            Slot::PrepareScript => Some(Stage::PrepareScript),
            Slot::GetSources => Some(Stage::GetSources),
            Slot::RestoreCache => self.plan.restore_cache.then_some(Stage::RestoreCache),
            Slot::DownloadArtifacts => self
                .plan
                .download_artifacts
                .then_some(Stage::DownloadArtifacts),
            Slot::Step(index) => {
                self.begin_steps(now, effects);
                self.plan.steps.get(index).cloned()
            }
            Slot::AfterScript => {
                let timeouts = self.begin_steps(now, effects);
                if self.status == JobStatus::Running {
                    self.status = JobStatus::Success;
                }
                self.after_deadline = Some(now.saturating_add(timeouts.after_script));
                self.plan.after_script.then_some(Stage::AfterScript)
            }
            Slot::ArchiveCache => match self.failure {
                None => self
                    .plan
                    .archive_cache
                    .on_success
                    .then_some(Stage::ArchiveCache),
                Some(_) => self
                    .plan
                    .archive_cache
                    .on_failure
                    .then_some(Stage::ArchiveCacheOnFailure),
            },
            Slot::UploadArtifacts => match self.failure {
                None => self
                    .plan
                    .upload_artifacts
                    .on_success
                    .then_some(Stage::UploadArtifactsOnSuccess),
                Some(_) => self
                    .plan
                    .upload_artifacts
                    .on_failure
                    .then_some(Stage::UploadArtifactsOnFailure),
            },
            Slot::Cleanup => Some(Stage::CleanupFileVariables),
        }
    }

    /// The limits of script and `after_script`, checked once against the time that is left.
    fn begin_steps(&mut self, now: Duration, effects: &mut Vec<Effect>) -> StageTimeouts {
        if let Some(timeouts) = self.timeouts {
            return timeouts;
        }
        let left = self.plan.timeout.saturating_sub(now);
        let (timeouts, warnings) = StageTimeouts::resolve(&self.plan.variables, left);
        effects.extend(warnings.iter().map(|text| warning(text)));
        let notices = std::mem::take(&mut self.plan.notices).into_iter();
        effects.extend(notices.map(|text| Effect::Print(Notice::Info(text))));
        self.script_deadline = timeouts.script.map(|limit| now.saturating_add(limit));
        *self.timeouts.insert(timeouts)
    }

    fn run(&mut self, slot: Slot, stage: Stage, effects: &mut Vec<Effect>) {
        effects.push(Effect::Run(stage.clone()));
        self.state = State::Running(Running {
            slot,
            stage,
            stopping: None,
        });
    }

    fn finish(&mut self, failure: Option<StageFailure>, effects: &mut Vec<Effect>) {
        self.state = State::Finished;
        self.todo.clear();
        effects.push(Effect::Finish(JobEnd { failure }));
    }

    fn abandoned(&mut self, cause: StopCause) -> StageFailure {
        match cause {
            StopCause::JobTimeout => self.timeout_failure(),
            StopCause::ScriptTimeout => script_timeout(),
            StopCause::CancelSteps | StopCause::CancelJob => canceled(),
            StopCause::AfterScriptTimeout => self.failure.take().unwrap_or_else(|| {
                let message = "after_script did not end when it was killed";
                StageFailure::new(Failure::System, message)
            }),
        }
    }

    fn timeout_failure(&self) -> StageFailure {
        let limit = format_duration(self.plan.timeout);
        let message = format!("execution took longer than {limit} seconds");
        StageFailure::new(Failure::Timeout, message)
    }
}

fn canceled() -> StageFailure {
    StageFailure::new(Failure::Canceled, "canceled")
}

fn script_timeout() -> StageFailure {
    StageFailure::new(
        Failure::Timeout,
        "script timeout: context deadline exceeded",
    )
}

fn warning(text: &str) -> Effect {
    Effect::Print(Notice::Warning(text.to_owned()))
}

fn timeout_warning(stage: &Stage) -> Effect {
    warning(&format!(
        "{} could not run to completion because the timeout was exceeded. For more control over job and \
         script timeouts see: https://docs.gitlab.com/ci/runners/configure_runners/\
         #set-script-and-after_script-timeouts",
        stage.name()
    ))
}
