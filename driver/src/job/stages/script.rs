//! Stages whose work is a script in the guest's shell (facts, build §2.10).

use bytes::Bytes;

use super::Moment;
use super::io::{StageIo, StageOutput};
use crate::agent::{ExecEvent, ExecRequest, Stdin};
use crate::guest::Guest;
use crate::job::context::{JobContext, configuration, system};
use crate::job::machine::{STOP_GRACE, StageFailure, StopMode};
use crate::job::script::{Shell, stage_script};
use crate::job::stage::Stage;
use crate::report::chain;

/// Runs the script of `stage`.
pub(super) async fn run_stage(
    context: &JobContext,
    stage: &Stage,
    moment: Moment,
    mut io: StageIo,
) -> Result<(), StageFailure> {
    let environment = context.environment_at(moment.status);
    let script = stage_script(stage, &context.script(&environment))
        .map_err(|error| configuration(error.to_string()))?;
    match script {
        Some(script) => run(context, script, &mut io).await,
        None => Ok(()),
    }
}

/// Runs `script` in the guest: output to the trace, a non-zero exit as a failure.
pub(super) async fn run(
    context: &JobContext,
    script: String,
    io: &mut StageIo,
) -> Result<(), StageFailure> {
    let guest = context
        .guest()
        .ok_or_else(|| system("there is no VM to run the script in".to_owned()))?;
    let shell = program(context.tools().shell);
    run_in(&guest, shell, script, io).await
}

/// The shell's program, looked for in the image's PATH.
pub(super) fn program(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => "bash",
        Shell::Sh => "sh",
    }
}

async fn run_in(
    guest: &Guest,
    shell: &str,
    script: String,
    io: &mut StageIo,
) -> Result<(), StageFailure> {
    let request = ExecRequest {
        argv: vec![shell.to_owned()],
        kill_grace_ms: STOP_GRACE.as_secs() * 1000,
        ..ExecRequest::default()
    };
    let mut exec = guest
        .agent()
        .exec(request, Stdin::Bytes(Bytes::from(script)))
        .await
        .map_err(|error| system(chain(&error)))?;
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
            event = exec.next_event(), if held.is_none() => {
                event.map_err(|error| system(chain(&error)))?
            }
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
