//! The loop around the order of stages: clocks, channels, the trace's writer (gitlab-runner, build §1.1).
//!
//! One task owns the order of stages, the trace and its writer. A stage runs as a task of its own and sends what it reads
//! over a bounded channel, which is read only while little of the trace waits to be written: a slow reader of the
//! trace slows the script, never vk. Cancels and deadlines are handled all the while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncWrite;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use vk_hub_proto::job::{ArtifactOutcome, ArtifactResult, Failure, JobResult};
use vk_trace::{OutputReceiver, StampedOutput, output_channel};

use super::cancel::{Cancel, CancelMode, CancelRequests};
use super::context::{JobContext, Refused, refused};
use super::event::{JobEvent, JobObserver};
use super::order::{Effect, Event, JobEnd, Notice, StageFailure, StageOrder, StopMode};
use super::printer::Printer;
use super::request::Job;
use super::session::Prepared;
use super::stage::Stage;
use super::stages::{self, Made, Moment, StageEnd, StageIo};
use super::trace_writer::{TraceLost, TraceWriter};
use super::usage::UsageMeter;
use crate::guest::Guest;
use crate::host::{Host, Texts};

/// Bytes of trace that may wait to be written before the running stage is held back.
const TRACE_BACKLOG: usize = 256 * 1024;

/// How long a failed stage waits for the news that its VM ended: the VM's end and the closing of its connections reach
/// vk in either order, moments apart.
const NEWS: Duration = Duration::from_secs(1);

/// How long an aborted stage may take to release what it holds.
const ABORT_LIMIT: Duration = Duration::from_secs(2);

/// Runs `job` on `host` to its end and answers how it ended. The VM is gone when this returns. Dropping the future ends the
/// stage that runs and the VM moments later, without the end of the trace.
///
/// `trace` takes the trace as GitLab is to hold it, masked and cut at its limit; a slow reader of it slows the job. Any number
/// of jobs may run side by side in one process; they share the host's images, sources and caches. Must be called within a
/// tokio runtime.
pub async fn run(
    host: &Host,
    job: Job,
    trace: &mut (dyn AsyncWrite + Send + Unpin),
    cancel: &Cancel,
    observer: &mut dyn JobObserver,
) -> JobResult {
    let meter = UsageMeter::start();
    let texts = host.texts();
    let context = match JobContext::new(host, job) {
        Ok(context) => Arc::new(context),
        Err(refused) => return end_refused(texts, *refused, trace, cancel).await,
    };
    let mut printer = Printer::new(context.trace_config(), texts, context.job.trace.sections);
    printer.header(&context);
    let mut runner = Runner {
        began: Instant::now(),
        order: StageOrder::new(context.plan()),
        artifacts: vec![ArtifactOutcome::Skipped; context.job.artifacts.len()],
        context,
        writer: TraceWriter::new(printer, trace),
        prepared: Prepared::Nothing,
        stage: None,
        pending_failure: None,
        abandoned: None,
        cancel: cancel.requests(),
        observer,
        end: None,
        meter,
    };
    let effects = runner.order.start(runner.began.elapsed());
    runner.apply(effects);
    runner.drive().await;
    runner.finish().await
}

/// Ends a job that must not run: a trace that says why, and the result. `class` and `message` say why.
pub async fn refuse(
    host: &Host,
    job: Job,
    class: Failure,
    message: &str,
    trace: &mut (dyn AsyncWrite + Send + Unpin),
    cancel: &Cancel,
) -> JobResult {
    let refused = refused(&job, StageFailure::new(class, message));
    end_refused(host.texts(), refused, trace, cancel).await
}

async fn end_refused(
    texts: &Texts,
    refused: Refused,
    trace: &mut (dyn AsyncWrite + Send + Unpin),
    cancel: &Cancel,
) -> JobResult {
    let mut printer = Printer::new(refused.trace, texts, false);
    printer.greet("");
    printer.final_line(Some(&refused.failure));
    let mut writer = TraceWriter::new(printer, trace);
    writer.finish(&mut cancel.requests()).await;
    result(Some(refused.failure), &writer)
}

/// The stage that runs now.
struct RunningStage {
    stage: Stage,
    output: OutputReceiver,
    stop: watch::Sender<Option<StopMode>>,
    task: JoinHandle<StageEnd>,
    _end: EndWithJob,
}

/// Ends a stage's task, and with it what the task holds, when the job is dropped.
struct EndWithJob(AbortHandle);

impl Drop for EndWithJob {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A failure that may turn out to be the VM's end.
struct PendingFailure {
    failure: StageFailure,
    until: Instant,
}

struct Runner<'a> {
    began: Instant,
    context: Arc<JobContext>,
    order: StageOrder,
    writer: TraceWriter<'a>,
    /// What the stages so far have made. The guest in it ends with the job.
    prepared: Prepared,
    stage: Option<RunningStage>,
    pending_failure: Option<PendingFailure>,
    /// A stage that was aborted and may still hold something.
    abandoned: Option<JoinHandle<StageEnd>>,
    /// What became of each artifact.
    artifacts: Vec<ArtifactOutcome>,
    cancel: CancelRequests,
    observer: &'a mut dyn JobObserver,
    end: Option<JobEnd>,
    meter: UsageMeter,
}

/// What the loop woke up for.
enum WakeReason {
    Event(Event),
    Output(StampedOutput),
    StageDone(StageEnd),
    /// The VM did not turn out to be the reason for a failure.
    FailureStands,
    TraceWritten,
    TraceLost,
}

impl Runner<'_> {
    async fn drive(&mut self) {
        while self.end.is_none() {
            match self.wake().await {
                WakeReason::Event(event) => self.event(event),
                WakeReason::Output(output) => self.writer.printer.output(&output),
                WakeReason::StageDone(end) => self.stage_done(end),
                WakeReason::FailureStands => {
                    if let Some(pending) = self.pending_failure.take() {
                        self.event(Event::Ended(Err(pending.failure)));
                    }
                }
                WakeReason::TraceWritten => {}
                // Nobody would learn what the job does: it ends.
                WakeReason::TraceLost => self.event(Event::Cancel(CancelMode::Immediate)),
            }
        }
    }

    async fn wake(&mut self) -> WakeReason {
        // A deadline beyond what the clock can tell never comes.
        let deadline = self
            .order
            .next_deadline()
            .and_then(|due| self.began.checked_add(due));
        let pending_until = self.pending_failure.as_ref().map(|pending| pending.until);
        let room = self.writer.printer.backlog() < TRACE_BACKLOG;
        let Self {
            cancel,
            prepared,
            writer,
            stage,
            ..
        } = self;
        tokio::select! {
            biased;
            mode = cancel.next() => WakeReason::Event(Event::Cancel(mode)),
            () = sleep_until(deadline) => WakeReason::Event(Event::Tick),
            () = sleep_until(pending_until), if pending_until.is_some() => WakeReason::FailureStands,
            cause = lost(prepared.guest()) => WakeReason::Event(Event::MachineLost(cause)),
            open = writer.write_some() => {
                if open { WakeReason::TraceWritten } else { WakeReason::TraceLost }
            }
            woken = next_of_stage(stage.as_mut()), if room => woken,
        }
    }

    fn event(&mut self, event: Event) {
        let effects = self.order.handle(self.began.elapsed(), event);
        self.apply(effects);
    }

    fn apply(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Print(Notice::Warning(text)) => self.writer.printer.warning(&text),
                Effect::Print(Notice::Info(text)) => self.writer.printer.info(&text),
                Effect::Run(stage) => self.begin(stage),
                Effect::Stop(mode) => {
                    if let Some(running) = &self.stage {
                        running.stop.send_replace(Some(mode));
                    }
                }
                Effect::Finish(end) => {
                    self.abandon_stage();
                    self.end = Some(end);
                }
            }
        }
    }

    fn begin(&mut self, stage: Stage) {
        self.observer.event(JobEvent::StageStarted(stage.clone()));
        self.writer.printer.begin(&stage);
        let (sender, output) = output_channel();
        let (stop, stopped) = watch::channel(None);
        let moment = Moment {
            status: self.order.status(),
            attempt: self.order.attempt(),
        };
        let io = StageIo::new(sender, stopped);
        let context = Arc::clone(&self.context);
        let prepared = self.prepared.clone();
        let task = tokio::spawn(stages::run(context, prepared, stage.clone(), moment, io));
        self.stage = Some(RunningStage {
            stage,
            output,
            stop,
            _end: EndWithJob(task.abort_handle()),
            task,
        });
    }

    fn stage_done(&mut self, end: StageEnd) {
        let Some(running) = self.stage.take() else {
            return;
        };
        self.writer.printer.end(&running.stage);
        match end.made {
            Made::Nothing => {}
            Made::Guest(booted) => {
                let size = booted.guest.size();
                self.prepared = Prepared::Booted(Arc::new(booted));
                self.observer.event(JobEvent::GuestStarted(size));
            }
            Made::Session(session) => self.prepared = Prepared::Ready(Arc::new(session)),
        }
        for (position, outcome) in end.artifacts {
            if let Some(place) = self.artifacts.get_mut(position) {
                *place = outcome;
            }
        }
        let was_stopped = running.stop.borrow().is_some();
        match end.result {
            // Perhaps the agent stopped answering because its VM ended: then that is the cause to report.
            Err(failure)
                if failure.class == Failure::System
                    && !was_stopped
                    && self.prepared.guest().is_some() =>
            {
                let until = Instant::now() + NEWS;
                self.pending_failure = Some(PendingFailure { failure, until });
            }
            result => self.event(Event::Ended(result)),
        }
    }

    fn abandon_stage(&mut self) {
        let Some(mut running) = self.stage.take() else {
            return;
        };
        running.task.abort();
        self.abandoned = Some(running.task);
        while let Some(output) = running.output.try_recv() {
            self.writer.printer.output(&output);
        }
        self.writer.printer.end(&running.stage);
        // Whether the stage got them there is not known.
        for position in stages::uploads_of(&running.stage, &self.context.job) {
            if let Some(place) = self.artifacts.get_mut(position) {
                *place = ArtifactOutcome::Failed;
            }
        }
    }

    async fn finish(mut self) -> JobResult {
        self.observer.event(JobEvent::Ending);
        if let Some(task) = self.abandoned.take() {
            // What it holds goes with it, before the folders that it works in.
            let _ = tokio::time::timeout(ABORT_LIMIT, task).await;
        }
        let guest = self.prepared.guest();
        let used = guest.map(UsageMeter::of_guest).unwrap_or_default();
        if let Some(guest) = guest {
            guest.end().await;
        }
        let failure = self.end.take().and_then(|end| end.failure);
        self.writer.printer.final_line(failure.as_ref());
        self.writer.finish(&mut self.cancel).await;
        let mut result = result(failure, &self.writer);
        let names = self.context.job.artifacts.iter();
        result.artifacts = names
            .zip(&self.artifacts)
            .map(|(artifact, outcome)| ArtifactResult {
                name: artifact.name.clone(),
                outcome: *outcome,
            })
            .collect();
        result.usage = Some(self.meter.finish(used));
        result
    }
}

/// The result of a job that ended with `failure`; its message is masked as the trace is.
fn result(failure: Option<StageFailure>, writer: &TraceWriter<'_>) -> JobResult {
    let failure = match writer.lost() {
        None => failure,
        Some(TraceLost::Failed(error)) => {
            let message = format!("cannot write the trace: {error}");
            Some(StageFailure::new(Failure::System, message))
        }
        Some(TraceLost::Cancelled) => {
            Some(failure.unwrap_or_else(|| StageFailure::new(Failure::Canceled, "canceled")))
        }
    };
    let mut result = JobResult {
        output_len: writer.printer.len(),
        ..JobResult::default()
    };
    if let Some(failure) = failure {
        result.failure = Some(failure.class);
        result.exit_code = failure.exit_code;
        let message = match failure.detail {
            None => failure.message,
            Some(detail) => format!("{}: {detail}", failure.message),
        };
        result.message = Some(writer.printer.masked(&message));
    }
    result
}

/// Waits until the guest is lost; for ever without one.
async fn lost(guest: Option<&Guest>) -> String {
    match guest {
        Some(guest) => guest.lost().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// The running stage's next output, or its end once all output was read.
async fn next_of_stage(stage: Option<&mut RunningStage>) -> WakeReason {
    let Some(running) = stage else {
        return std::future::pending().await;
    };
    if let Some(output) = running.output.recv().await {
        return WakeReason::Output(output);
    }
    WakeReason::StageDone((&mut running.task).await.unwrap_or_else(|error| {
        StageEnd::from(Err(StageFailure::new(
            Failure::System,
            format!("the stage broke off: {error}"),
        )))
    }))
}
