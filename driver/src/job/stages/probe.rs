//! What the job's image has: looked at once, before the first script.

use super::io::StageIo;
use super::{Made, Moment, StageEnd, script};
use crate::job::context::{JobContext, configuration, system};
use crate::job::order::StageFailure;
use crate::job::script::Shell;
use crate::job::session::{Booted, ImageShell, ImageTools};
use crate::job::stage::Stage;
use vk_agent_client::{AgentError, ExecEvent, FailureKind, Stdin};
use vk_text::chain;

/// Names the first shell that is there, then git, a line each.
const QUESTION: &str = "for shell in /usr/local/bin/bash /usr/bin/bash /bin/bash \
    /usr/local/bin/sh /usr/bin/sh /bin/sh /busybox/sh; do \
    if [ -x \"$shell\" ]; then echo \"$shell\"; break; fi; done; \
    if command -v git >/dev/null 2>&1; then echo git; fi";

/// Where GitLab Runner looks for a shell in an image, in its order (gitlab-runner, build §2.10).
const SHELLS: [ImageShell; 7] = [
    shell(Shell::Bash, "/usr/local/bin/bash"),
    shell(Shell::Bash, "/usr/bin/bash"),
    shell(Shell::Bash, "/bin/bash"),
    shell(Shell::Sh, "/usr/local/bin/sh"),
    shell(Shell::Sh, "/usr/bin/sh"),
    shell(Shell::Sh, "/bin/sh"),
    shell(Shell::Sh, "/busybox/sh"),
];

/// Who is asked, in this order: an image may have its one shell in an unusual place.
const ASKED: [ImageShell; 4] = [
    shell(Shell::Sh, "sh"),
    shell(Shell::Sh, "/bin/sh"),
    shell(Shell::Bash, "bash"),
    shell(Shell::Sh, "/busybox/sh"),
];

const fn shell(dialect: Shell, program: &'static str) -> ImageShell {
    ImageShell { dialect, program }
}

/// Bytes of the answer that are looked at: the longest true one is short.
const ANSWER_LIMIT: usize = 64;

/// Runs the stage: finds the shell that will read scripts, and whether there is git; then its script.
pub(super) async fn run(
    context: &JobContext,
    booted: &Booted,
    moment: Moment,
    mut io: StageIo,
) -> StageEnd {
    let tools = match find_tools(booted, &mut io).await {
        Ok(tools) => tools,
        Err(failure) => return Err(failure).into(),
    };
    let session = booted.with(tools);
    StageEnd {
        result: script::run_stage(context, &session, &Stage::PrepareScript, moment, io).await,
        made: Made::Session(session),
        artifacts: Vec::new(),
    }
}

/// What the image has.
///
/// # Errors
///
/// If the guest cannot be asked, or the image does not know the user whom the job is to run as.
async fn find_tools(booted: &Booted, io: &mut StageIo) -> Result<ImageTools, StageFailure> {
    for asked in ASKED {
        let answer = tokio::select! {
            answer = ask(booted, asked.program) => answer,
            _ = io.stop.stopped() => return Err(system("the shell was stopped".to_owned())),
        };
        match answer {
            Ok(answer) => return Ok(tools(&answer, asked)),
            Err(error) if is_missing(&error) => {}
            Err(error) if error.kind() == Some(FailureKind::UnknownUser) => {
                return Err(configuration(chain(&error)));
            }
            Err(error) => return Err(system(chain(&error))),
        }
    }
    Ok(ImageTools {
        shell: None,
        has_git: false,
    })
}

async fn ask(booted: &Booted, shell: &str) -> Result<Vec<u8>, AgentError> {
    let argv = [shell, "-c", QUESTION].map(str::to_owned).to_vec();
    let request = booted.process.plain(argv);
    let mut exec = booted.guest.agent().exec(request, Stdin::None).await?;
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

fn tools(answer: &[u8], asked: ImageShell) -> ImageTools {
    let has = |name: &str| {
        let mut lines = answer.split(|byte| *byte == b'\n');
        lines.any(|line| line == name.as_bytes())
    };
    let found = SHELLS.into_iter().find(|shell| has(shell.program));
    ImageTools {
        shell: Some(found.unwrap_or(asked)),
        has_git: has("git"),
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

    const SH: ImageShell = shell(Shell::Sh, "sh");

    /// gitlab-runner, build §2.10.
    #[test]
    fn bash_is_taken_where_it_is() {
        let tools = tools(b"/usr/bin/bash\ngit\n", SH);

        assert_eq!(
            tools,
            ImageTools {
                shell: Some(shell(Shell::Bash, "/usr/bin/bash")),
                has_git: true
            }
        );
    }

    #[test]
    fn an_image_with_sh_alone_has_that() {
        assert_eq!(
            tools(b"/bin/sh\n", SH),
            ImageTools {
                shell: Some(shell(Shell::Sh, "/bin/sh")),
                has_git: false
            }
        );
    }

    #[test]
    fn a_shell_in_an_unusual_place_is_used_as_it_was_found() {
        assert_eq!(tools(b"", SH).shell, Some(SH));
    }

    #[test]
    fn words_that_only_hold_a_name_say_nothing() {
        let tools = tools(b"/usr/bin/bashful\nlegit\n", SH);

        assert_eq!(
            tools,
            ImageTools {
                shell: Some(SH),
                has_git: false
            }
        );
    }
}
