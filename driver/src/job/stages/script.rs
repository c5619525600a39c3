//! Stages whose work is a script in the guest's shell (gitlab-runner, build §2.10).

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use vk_agent_proto::{FrameError, Kind, MAX_CONTROL};

use super::Moment;
use super::io::{StageIo, StageOutput};
use super::prepare::hostname;
use crate::guest::Guest;
use crate::job::context::{ImageShell, JobContext, configuration, system};
use crate::job::order::{STOP_GRACE, StageFailure, StopMode};
use crate::job::script::stage_script;
use crate::job::stage::Stage;
use crate::job::variables::JobEnvironment;
use vk_agent_client::{AgentError, ExecEvent, ExecRequest, FailureKind, Stdin};
use vk_text::chain;
use vk_transfer::Notes;

/// What GitLab Runner's Docker executor prints for an image without a shell (gitlab-runner, build §2.10).
const NO_SHELL: &str = "shell not found\n";

/// What a shell answers for a command that does not exist, and for one that is no program (POSIX shell, 2.8.2).
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// Runs the script of `stage`.
pub(super) async fn run_stage(
    context: &JobContext,
    stage: &Stage,
    moment: Moment,
    mut io: StageIo,
) -> Result<(), StageFailure> {
    let environment = context.environment_at(moment.status);
    let script = stage_script(stage, &context.script(&environment))
        .map_err(|error| StageFailure::new(error.failure(), error.to_string()))?;
    let Some(script) = script else {
        return Ok(());
    };
    match (stage, context.tools().shell) {
        (Stage::Step(_) | Stage::AfterScript, shell) => {
            step(context, &environment, shell, script, &mut io).await
        }
        (_, Some(_)) => run(context, script, &mut io).await,
        // In an image without a shell only an entry point can do something.
        (Stage::PrepareScript, None) => {
            say_place(context, &io).await;
            Ok(())
        }
        (_, None) => Ok(()),
    }
}

/// Runs `script`, which is none of a step, in the guest: output to the trace, a non-zero exit as a failure.
pub(super) async fn run(
    context: &JobContext,
    script: String,
    io: &mut StageIo,
) -> Result<(), StageFailure> {
    let Some(shell) = context.tools().shell else {
        return no_shell(io).await;
    };
    let request = context.process().plain(vec![shell.program.to_owned()]);
    let guest = guest(context)?;
    run_in(&guest, request, script, io).await
}

/// As [`run`], for a stage whose output goes through `notes`.
pub(super) async fn run_noting(
    context: &JobContext,
    script: String,
    notes: &Notes,
) -> Result<(), StageFailure> {
    let (sender, mut output) = mpsc::channel(1);
    // Stopped by being dropped, as all of such a stage.
    let (_stop, stopped) = watch::channel(None);
    let mut io = StageIo::new(sender, stopped);
    let work = async {
        let result = run(context, script, &mut io).await;
        drop(io);
        result
    };
    let hand_on = async {
        while let Some(output) = output.recv().await {
            match output {
                StageOutput::Stdout(bytes) => notes.out(lossy(&bytes)).await,
                StageOutput::Stderr(bytes) => notes.err(lossy(&bytes)).await,
                StageOutput::Own(text) => notes.out(format!("{text}\n")).await,
                StageOutput::Warning(text) => notes.warning(&text).await,
            }
        }
    };
    tokio::join!(work, hand_on).0
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs the script of a step: through the image's entry point, where it has one.
async fn step(
    context: &JobContext,
    environment: &JobEnvironment,
    shell: Option<ImageShell>,
    script: String,
    io: &mut StageIo,
) -> Result<(), StageFailure> {
    let process = context.process();
    if shell.is_none() && !process.has_entrypoint() {
        return no_shell(io).await;
    }
    let program = shell.map_or("sh", |shell| shell.program);
    let request = process.step(program, environment.variables());
    let guest = guest(context)?;
    run_in(&guest, request, script, io).await
}

fn guest(context: &JobContext) -> Result<Arc<Guest>, StageFailure> {
    context
        .guest()
        .ok_or_else(|| system("there is no VM to run the script in".to_owned()))
}

async fn no_shell(io: &StageIo) -> Result<(), StageFailure> {
    let line = Bytes::from_static(NO_SHELL.as_bytes());
    io.out.send(StageOutput::Stdout(line)).await;
    Err(StageFailure::exit(1))
}

/// The line of `prepare_script`, where no shell can print it (gitlab-runner, build §2.5).
async fn say_place(context: &JobContext, io: &StageIo) {
    let via = context.host.name().map(|name| format!(" via {name}"));
    let line = format!(
        "Running on {}{}...\n",
        hostname(context),
        via.unwrap_or_default()
    );
    io.out.send(StageOutput::Stdout(line.into())).await;
}

async fn run_in(
    guest: &Guest,
    mut request: ExecRequest,
    script: String,
    io: &mut StageIo,
) -> Result<(), StageFailure> {
    request.kill_grace_ms = STOP_GRACE.as_secs() * 1000;
    let mut exec = guest
        .agent()
        .exec(request, Stdin::Bytes(Bytes::from(script)))
        .await
        .map_err(|error| not_asked(&error))?;
    let control = exec.control();
    // Output that waits for room in the trace. No more is read meanwhile: the script is what has to wait.
    let mut held = None;
    loop {
        let event = tokio::select! {
            biased;
            mode = io.stop.stopped() => {
                match mode {
                    StopMode::Gently => control.cancel(),
                    StopMode::AtOnce => control.kill(),
                }
                continue;
            }
            () = io.out.send_held(&mut held), if held.is_some() => continue,
            event = exec.next_event(), if held.is_none() => event,
        };
        let event = match event {
            Ok(event) => event,
            Err(error) => return not_started(&error, io).await,
        };
        match event {
            ExecEvent::Stdout(bytes) => held = Some(StageOutput::Stdout(bytes)),
            ExecEvent::Stderr(bytes) => held = Some(StageOutput::Stderr(bytes)),
            ExecEvent::Exited(exited) => {
                if exited.oom_kills > 0 {
                    io.out
                        .send(StageOutput::Warning(out_of_memory(exited.oom_kills)))
                        .await;
                }
                return exit(exited.status.shell_code());
            }
        }
    }
}

/// What it means that the agent could not be asked. An image's entry point gets the job's variables beside its command;
/// scripts bring them along with their text, whose length is not bound.
fn not_asked(error: &AgentError) -> StageFailure {
    match error {
        AgentError::Broken {
            source:
                FrameError::TooLong {
                    kind: Kind::Request,
                    len,
                },
            ..
        } => configuration(format!(
            "the job's variables are too large for the image's entry point: the command and they have {len} bytes, of \
             which {MAX_CONTROL} are possible; put what is large into file variables"
        )),
        _ => system(chain(error)),
    }
}

/// What a command that did not start, or was lost, means for the stage. A program of the image that is not there is
/// the job's affair: it ends as in a shell.
async fn not_started(error: &AgentError, io: &StageIo) -> Result<(), StageFailure> {
    let code = match error.kind() {
        Some(FailureKind::CommandNotFound) => NOT_FOUND,
        Some(FailureKind::NotExecutable) => NOT_EXECUTABLE,
        Some(FailureKind::UnknownUser) => return Err(configuration(chain(error))),
        _ => return Err(system(chain(error))),
    };
    let line = format!("{}\n", chain(error));
    io.out.send(StageOutput::Stderr(line.into())).await;
    Err(StageFailure::exit(code))
}

/// What an exit code means for the stage.
fn exit(code: i32) -> Result<(), StageFailure> {
    if code == 0 {
        Ok(())
    } else {
        Err(StageFailure::exit(code))
    }
}

fn out_of_memory(kills: u64) -> String {
    format!(
        "the VM ran out of memory and {kills} process(es) were killed; the job's variable MICROVM_MEM \
         (such as 4G) gives it more"
    )
}

#[cfg(test)]
mod tests {
    use vk_hub_proto::job::Failure;

    use super::*;
    use vk_agent_client::Operation;

    #[test]
    fn variables_that_an_entry_point_cannot_get_are_the_configurations_fault() {
        let failed = |source| {
            not_asked(&AgentError::Broken {
                operation: Operation::Exec("entry".into()),
                source,
            })
        };
        let too_long = |kind| FrameError::TooLong {
            kind,
            len: 2_000_000,
        };

        let failure = failed(too_long(Kind::Request));
        assert_eq!(failure.class, Failure::Configuration);
        assert!(failure.message.contains("2000000"), "{}", failure.message);
        assert_eq!(failed(too_long(Kind::Reply)).class, Failure::System);
        assert_eq!(failed(FrameError::Truncated).class, Failure::System);
    }
}
