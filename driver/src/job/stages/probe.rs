//! What the job's image has: looked at once, before the first script.

use bytes::Bytes;

use super::io::{StageIo, StageOutput};
use super::script::program;
use crate::agent::{AgentError, ExecEvent, ExecRequest, FailureKind, Stdin};
use crate::guest::Guest;
use crate::job::context::{ImageTools, JobContext, system};
use crate::job::machine::StageFailure;
use crate::job::script::Shell;
use crate::report::chain;

/// Names what is there, a word each.
const QUESTION: &str = "for tool in bash git; do \
    if command -v \"$tool\" >/dev/null 2>&1; then echo \"$tool\"; fi; done";

/// Bytes of the answer that are looked at: the longest true one is short.
const ANSWER_LIMIT: usize = 64;

/// Says in the trace what GitLab Runner's Docker executor says of an image without a shell (facts, build §2.10).
const NO_SHELL: &str = "shell not found\n";

/// Finds the shell that will read scripts, and whether there is git.
///
/// # Errors
///
/// An image without any shell fails as a script that ended with 1.
pub(super) async fn run(context: &JobContext, io: &mut StageIo) -> Result<(), StageFailure> {
    let guest = context
        .guest()
        .ok_or_else(|| system("there is no VM to look into".to_owned()))?;
    // Most images have a small sh beside bash; one without it may have bash alone.
    for shell in [Shell::Sh, Shell::Bash] {
        let answer = tokio::select! {
            answer = ask(&guest, program(shell)) => answer,
            _ = io.stop.stopped() => return Err(system("the shell was stopped".to_owned())),
        };
        match answer {
            Ok(answer) => {
                context.image_has(tools(&answer, shell));
                return Ok(());
            }
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(system(chain(&error))),
        }
    }
    io.out
        .send(StageOutput::Stderr(Bytes::from_static(NO_SHELL.as_bytes())))
        .await;
    Err(StageFailure::exit(1))
}

async fn ask(guest: &Guest, shell: &str) -> Result<Vec<u8>, AgentError> {
    let argv = [shell, "-c", QUESTION].map(str::to_owned).to_vec();
    let request = ExecRequest {
        argv,
        ..ExecRequest::default()
    };
    let mut exec = guest.agent().exec(request, Stdin::None).await?;
    let mut answer = Vec::new();
    loop {
        match exec.next_event().await? {
            ExecEvent::Stdout(bytes) => {
                let room = ANSWER_LIMIT.saturating_sub(answer.len()).min(bytes.len());
                answer.extend_from_slice(&bytes.slice(..room));
            }
            ExecEvent::Stderr(_) => {}
            ExecEvent::Exited(_) => return Ok(answer),
        }
    }
}

fn tools(answer: &[u8], asked: Shell) -> ImageTools {
    let has = |name: &[u8]| answer.split(|byte| *byte == b'\n').any(|word| word == name);
    let shell = if has(b"bash") { Shell::Bash } else { asked };
    ImageTools {
        shell,
        has_git: has(b"git"),
    }
}

fn is_missing(error: &AgentError) -> bool {
    matches!(
        error.kind(),
        Some(FailureKind::CommandNotFound | FailureKind::NotExecutable)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bash_is_taken_where_it_is() {
        let tools = tools(b"bash\ngit\n", Shell::Sh);

        assert_eq!(
            tools,
            ImageTools {
                shell: Shell::Bash,
                has_git: true
            }
        );
    }

    #[test]
    fn an_image_with_sh_alone_has_that() {
        assert_eq!(
            tools(b"", Shell::Sh),
            ImageTools {
                shell: Shell::Sh,
                has_git: false
            }
        );
    }

    #[test]
    fn words_that_only_hold_a_name_say_nothing() {
        let tools = tools(b"bashful\nlegit\n", Shell::Sh);

        assert_eq!(
            tools,
            ImageTools {
                shell: Shell::Sh,
                has_git: false
            }
        );
    }
}
