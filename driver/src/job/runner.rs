//! The loop around the stage machine: clocks, channels, the trace's writer (gitlab-runner, build §1.1).
//!
//! One task owns the machine, the trace and its writer. A stage runs as a task of its own and sends what it reads
//! over a bounded channel, which is read only while little of the trace waits to be written: a slow reader of the
//! trace slows the script, never vk. Cancels and deadlines are heard all the while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::AsyncWrite;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use vk_hub_proto::job::{CiJob, Failure, JobResult};

use super::JobOptions;
use super::context::JobContext;
use super::order::{CancelMode, Effect, Event, JobEnd, JobMachine, Notice, StageFailure, StopMode};
use super::printer::Printer;
use super::stage::Stage;
use super::stages::{self, Moment, StageIo, StageOutput};
use super::trace_writer::{TraceLost, TraceWriter};
use super::usage::UsageMeter;
use crate::guest::Guest;
use crate::host::Host;
use vk_trace::TraceConfig;

/// Bytes of trace that may wait to be written before the running stage is held back.
const TRACE_BACKLOG: usize = 256 * 1024;

/// Pieces of stage output that may wait for the loop, each at most one data frame.
const STAGE_BACKLOG: usize = 16;

/// How long a failed stage waits for the news that its VM ended: the VM's end and the closing of its connections reach
/// vk in either order, moments apart.
const NEWS: Duration = Duration::from_secs(1);

/// How long an aborted stage may take to let go of what it holds.
const ABORT_LIMIT: Duration = Duration::from_secs(2);

/// Something an onlooker may want to show.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobEvent {
    /// A stage begins.
    StageStarted(String),
    /// The job is over; its last line follows.
    Ending,
}

/// What surrounds one run of a job.
pub struct JobRun<'a> {
    /// Takes the trace.
    pub trace: &'a mut (dyn AsyncWrite + Send + Unpin),
    /// Brings cancels; closing it means that none will come.
    pub cancel: mpsc::Receiver<CancelMode>,
    /// Is told what happens.
    pub observer: &'a mut (dyn FnMut(JobEvent) + Send),
}

/// Runs `job` to its end and answers how it ended. The VM is gone when this returns.
pub async fn run_job(
    host: Arc<Host>,
    job: CiJob,
    options: JobOptions,
    run: JobRun<'_>,
) -> JobResult {
    let meter = UsageMeter::start();
    let context = match JobContext::new(host, job, options) {
        Ok(context) => Arc::new(context),
        Err(refused) => return refuse_job(*refused, run).await,
    };
    let mut printer = Printer::new(context.trace_config(), context.job.trace.sections);
    printer.header(&context);
    let mut runner = Runner {
        began: Instant::now(),
        machine: JobMachine::new(context.plan()),
        context,
        writer: TraceWriter::new(printer, run.trace),
        stage: None,
        doubted: None,
        abandoned: None,
        cancel: run.cancel,
        cancel_open: true,
        observer: run.observer,
        end: None,
        meter,
    };
    let effects = runner.machine.start(runner.began.elapsed());
    runner.apply(effects);
    runner.drive().await;
    runner.finish().await
}

/// A job that must not run.
pub struct RefusedJob {
    /// Why.
    pub failure: StageFailure,
    /// How its trace is made; what is masked there is masked in the result's message, too.
    pub trace: TraceConfig,
}

/// Ends a job that must not run: a trace that says why, and the result.
pub async fn refuse_job(job: RefusedJob, mut run: JobRun<'_>) -> JobResult {
    let mut printer = Printer::new(job.trace, false);
    printer.greet("");
    printer.final_line(Some(&job.failure));
    let mut writer = TraceWriter::new(printer, run.trace);
    writer.finish(&mut run.cancel).await;
    result(Some(job.failure), &writer)
}

/// The stage that runs now.
struct RunningStage {
    stage: Stage,
    output: mpsc::Receiver<StageOutput>,
    stop: watch::Sender<Option<StopMode>>,
    task: JoinHandle<Result<(), StageFailure>>,
}

/// A failure that may turn out to be the VM's end.
struct Doubted {
    failure: StageFailure,
    until: Instant,
}

struct Runner<'a> {
    began: Instant,
    context: Arc<JobContext>,
    machine: JobMachine,
    writer: TraceWriter<'a>,
    stage: Option<RunningStage>,
    doubted: Option<Doubted>,
    /// A stage that was aborted and may still be letting go.
    abandoned: Option<JoinHandle<Result<(), StageFailure>>>,
    cancel: mpsc::Receiver<CancelMode>,
    cancel_open: bool,
    observer: &'a mut (dyn FnMut(JobEvent) + Send),
    end: Option<JobEnd>,
    meter: UsageMeter,
}

/// What the loop woke up for.
enum Woken {
    Event(Event),
    NoMoreCancels,
    Output(StageOutput),
    StageDone(Result<(), StageFailure>),
    /// The VM did not turn out to be the reason for a failure.
    NoNews,
    TraceWritten,
    TraceLost,
}

impl Runner<'_> {
    async fn drive(&mut self) {
        while self.end.is_none() {
            match self.wake().await {
                Woken::Event(event) => self.event(event),
                Woken::NoMoreCancels => self.cancel_open = false,
                Woken::Output(output) => self.writer.printer.output(&output),
                Woken::StageDone(result) => self.stage_done(result),
                Woken::NoNews => {
                    if let Some(doubted) = self.doubted.take() {
                        self.event(Event::Ended(Err(doubted.failure)));
                    }
                }
                Woken::TraceWritten => {}
                // Nobody would learn what the job does: it ends.
                Woken::TraceLost => self.event(Event::Cancel(CancelMode::Immediate)),
            }
        }
    }

    async fn wake(&mut self) -> Woken {
        // A deadline beyond what the clock can tell never comes.
        let deadline = self
            .machine
            .next_deadline()
            .and_then(|due| self.began.checked_add(due));
        let doubted_until = self.doubted.as_ref().map(|doubted| doubted.until);
        let room = self.writer.printer.backlog() < TRACE_BACKLOG;
        let guest = self.context.guest();
        let Self {
            cancel,
            cancel_open,
            writer,
            stage,
            ..
        } = self;
        tokio::select! {
            biased;
            mode = cancel.recv(), if *cancel_open => {
                mode.map_or(Woken::NoMoreCancels, |mode| Woken::Event(Event::Cancel(mode)))
            }
            () = sleep_until(deadline) => Woken::Event(Event::Tick),
            () = sleep_until(doubted_until), if doubted_until.is_some() => Woken::NoNews,
            cause = lost(guest.as_deref()) => Woken::Event(Event::MachineLost(cause)),
            open = writer.write_some() => {
                if open { Woken::TraceWritten } else { Woken::TraceLost }
            }
            woken = next_of_stage(stage.as_mut()), if room => woken,
        }
    }

    fn event(&mut self, event: Event) {
        let effects = self.machine.handle(self.began.elapsed(), event);
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
        (self.observer)(JobEvent::StageStarted(stage.name().into_owned()));
        self.writer.printer.begin(&stage);
        let (sender, output) = mpsc::channel(STAGE_BACKLOG);
        let (stop, stopped) = watch::channel(None);
        let moment = Moment {
            status: self.machine.status(),
            attempt: self.machine.attempt(),
        };
        let io = StageIo::new(sender, stopped);
        let context = Arc::clone(&self.context);
        let task = tokio::spawn(stages::run(context, stage.clone(), moment, io));
        self.stage = Some(RunningStage {
            stage,
            output,
            stop,
            task,
        });
    }

    fn stage_done(&mut self, result: Result<(), StageFailure>) {
        let Some(running) = self.stage.take() else {
            return;
        };
        self.writer.printer.end(&running.stage);
        let was_stopped = running.stop.borrow().is_some();
        match result {
            // Perhaps the agent went silent because its VM ended: then that is the cause to tell.
            Err(failure)
                if failure.class == Failure::System
                    && !was_stopped
                    && self.context.guest().is_some() =>
            {
                let until = Instant::now() + NEWS;
                self.doubted = Some(Doubted { failure, until });
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
        while let Ok(output) = running.output.try_recv() {
            self.writer.printer.output(&output);
        }
        self.writer.printer.end(&running.stage);
    }

    async fn finish(mut self) -> JobResult {
        (self.observer)(JobEvent::Ending);
        if let Some(task) = self.abandoned.take() {
            // What it holds goes with it, before the folders that it works in.
            let _ = tokio::time::timeout(ABORT_LIMIT, task).await;
        }
        let used = UsageMeter::of_guest(&self.context);
        self.context.end_guest().await;
        let failure = self.end.take().and_then(|end| end.failure);
        self.writer.printer.final_line(failure.as_ref());
        self.writer.finish(&mut self.cancel).await;
        let mut result = result(failure, &self.writer);
        result.artifacts = self.context.artifact_results();
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
async fn next_of_stage(stage: Option<&mut RunningStage>) -> Woken {
    let Some(running) = stage else {
        return std::future::pending().await;
    };
    if let Some(output) = running.output.recv().await {
        return Woken::Output(output);
    }
    Woken::StageDone((&mut running.task).await.unwrap_or_else(|error| {
        Err(StageFailure::new(
            Failure::System,
            format!("the stage broke off: {error}"),
        ))
    }))
}
