//! Stages whose work is a script in the guest's shell (gitlab-runner, build §2.10).

use bytes::Bytes;
use vk_agent_proto::{FrameError, Kind, MAX_CONTROL};

use super::Moment;
use super::io::StageIo;
use super::prepare::hostname;
use crate::guest::{Guest, LimitMet};
use crate::job::context::{JobContext, configuration, system};
use crate::job::order::{STOP_GRACE, StageFailure, StopMode};
use crate::job::script::stage_script;
use crate::job::session::{ImageShell, Session};
use crate::job::settings::limit_line;
use crate::job::stage::Stage;
use crate::job::variables::JobEnvironment;
use vk_agent_client::{AgentError, ExecEvent, ExecRequest, FailureKind, Stdin};
use vk_text::chain;
use vk_trace::{Output, OutputSender};

/// What GitLab Runner's Docker executor prints for an image without a shell (gitlab-runner, build §2.10).
const NO_SHELL: &str = "shell not found\n";

/// Runs the script of `stage`.
pub(super) async fn run_stage(
    context: &JobContext,
    session: &Session,
    stage: &Stage,
    moment: Moment,
    mut io: StageIo,
) -> Result<(), StageFailure> {
    let environment = context.environment_at(moment.status);
    let script = stage_script(stage, &context.script(&environment, session.tools))
        .map_err(|error| StageFailure::new(error.failure(), error.to_string()))?;
    let Some(script) = script else {
        return Ok(());
    };
    match (stage, session.tools.shell) {
        (Stage::Step(_) | Stage::AfterScript, shell) => {
            step(session, &environment, shell, script, &mut io).await
        }
        (_, Some(_)) => run(session, script, &mut io).await,
        // In an image without a shell only an entry point can do something.
        (Stage::PrepareScript, None) => {
            tell_place(context, &io.output).await;
            Ok(())
        }
        (_, None) => Ok(()),
    }
}

/// Runs `script`, which is none of a step, in the guest: output to the trace, a non-zero exit as a failure.
pub(super) async fn run(
    session: &Session,
    script: String,
    io: &mut StageIo,
) -> Result<(), StageFailure> {
    let Some(shell) = session.tools.shell else {
        return no_shell(&io.output).await;
    };
    let request = session.process.plain(vec![shell.program.to_owned()]);
    run_in(&session.guest, request, script, io).await
}

/// Runs the script of a step: through the image's entry point, where it has one.
async fn step(
    session: &Session,
    environment: &JobEnvironment,
    shell: Option<ImageShell>,
    script: String,
    io: &mut StageIo,
) -> Result<(), StageFailure> {
    let process = &session.process;
    if shell.is_none() && !process.has_entrypoint() {
        return no_shell(&io.output).await;
    }
    let program = shell.map_or("sh", |shell| shell.program);
    let request = process.step(program, environment.variables());
    run_in(&session.guest, request, script, io).await
}

async fn no_shell(output: &OutputSender) -> Result<(), StageFailure> {
    output.out(NO_SHELL).await;
    Err(StageFailure::exit(1))
}

/// The line of `prepare_script`, where no shell can print it (gitlab-runner, build §2.5).
async fn tell_place(context: &JobContext, output: &OutputSender) {
    let via = context.host.name().map(|name| format!(" via {name}"));
    let line = format!(
        "Running on {}{}...\n",
        hostname(context),
        via.unwrap_or_default()
    );
    output.out(line).await;
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
                    StopMode::Graceful => control.cancel(),
                    StopMode::AtOnce => control.kill(),
                }
                continue;
            }
            () = io.output.send_held(&mut held), if held.is_some() => continue,
            event = exec.next_event(), if held.is_none() => event,
        };
        let event = match event {
            Ok(event) => event,
            Err(error) => return not_started(&error, &io.output).await,
        };
        match event {
            ExecEvent::Stdout(bytes) => held = Some(Output::Stdout(bytes).now()),
            ExecEvent::Stderr(bytes) => held = Some(Output::Stderr(bytes).now()),
            ExecEvent::Exited(exited) => {
                for limit in LimitMet::of(&exited, guest.size()) {
                    io.output.send(Output::Warning(limit_line(&limit))).await;
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
async fn not_started(error: &AgentError, output: &OutputSender) -> Result<(), StageFailure> {
    let Some(code) = error.shell_code() else {
        return Err(match error.kind() {
            Some(FailureKind::UnknownUser) => configuration(chain(error)),
            _ => system(chain(error)),
        });
    };
    let line = format!("{}\n", chain(error));
    output.err(line).await;
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
