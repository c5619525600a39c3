//! Scripts in real shells: bash, and for images without it dash and busybox.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use proptest::prelude::*;
use tempfile::TempDir;
use vk_hub_proto::job::{CiJob, Hook, HookName, Variable};

use super::stages::{ScriptContext, Shell, hook_script, stage_script};
use crate::job::stage::Stage;
use crate::job::testing::{self, step, variable, variables};
use crate::job::variables::{JobEnvironment, JobStatus, Slot};

/// A shell as an image may have it. Options that a user's own `sh -e` or an image's environment may bring are set for
/// all of them.
struct Interpreter {
    shell: Shell,
    argv: &'static [&'static str],
    has_pipefail: bool,
}

const BASH: Interpreter = Interpreter {
    shell: Shell::Bash,
    argv: &["bash", "-e", "-u", "-o", "pipefail"],
    has_pipefail: true,
};
const DASH: Interpreter = Interpreter {
    shell: Shell::Sh,
    argv: &["dash", "-e", "-u"],
    has_pipefail: false,
};
const BUSYBOX: Interpreter = Interpreter {
    shell: Shell::Sh,
    argv: &["busybox", "sh", "-e", "-u", "-o", "pipefail"],
    has_pipefail: true,
};
const ALL: [Interpreter; 3] = [BASH, DASH, BUSYBOX];

impl Interpreter {
    fn name(&self) -> &'static str {
        self.argv[0]
    }

    /// Runs `script` as the guest does, from standard input.
    fn run(&self, script: &str) -> Output {
        self.run_with_path(script, &std::env::var("PATH").unwrap())
    }

    /// As [`Self::run`]; the script finds its tools in `path`.
    fn run_with_path(&self, script: &str, path: &str) -> Output {
        let mut child = Command::new(which(self.name()))
            .args(&self.argv[1..])
            .env("PATH", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A shell that ends early closes its input.
        let _ = child.stdin.take().unwrap().write_all(script.as_bytes());
        child.wait_with_output().unwrap()
    }
}

/// The path of `tool`, which this test needs.
fn which(tool: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", r#"command -v "$0""#, tool])
        .output()
        .unwrap();
    assert!(output.status.success(), "this test needs {tool} installed");
    text(&output.stdout).trim().to_owned()
}

/// A builds folder with an empty project in it.
struct Guest {
    _folder: TempDir,
    host: Slot,
}

impl Guest {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let builds_dir = folder.path().to_str().unwrap().to_owned();
        std::fs::create_dir_all(folder.path().join("grp/demo")).unwrap();
        Self {
            _folder: folder,
            host: Slot {
                builds_dir,
                ..Slot::default()
            },
        }
    }

    fn environment(&self, job: &CiJob) -> JobEnvironment {
        JobEnvironment::new(job, self.host.clone()).unwrap()
    }

    fn script(&self, job: &CiJob, stage: &Stage, shell: Shell) -> String {
        let environment = self.environment(job);
        stage_script(stage, &context(job, &environment, shell))
            .unwrap()
            .unwrap()
    }

    fn hook(&self, job: &CiJob, hook: HookName, shell: Shell) -> String {
        let environment = self.environment(job);
        hook_script(hook, &context(job, &environment, shell))
            .unwrap()
            .unwrap()
    }
}

fn context<'a>(job: &'a CiJob, environment: &'a JobEnvironment, shell: Shell) -> ScriptContext<'a> {
    ScriptContext {
        job,
        environment,
        shell,
        has_git: true,
        host_name: None,
    }
}

fn step_script() -> Stage {
    Stage::Step("script".into())
}

fn job(own: Vec<Variable>, commands: &[&str]) -> CiJob {
    CiJob {
        steps: vec![step("script", commands)],
        ..testing::with_variables(own)
    }
}

/// What a step with these variables and commands prints and ends with.
fn run(interpreter: &Interpreter, own: Vec<Variable>, commands: &[&str]) -> Output {
    let guest = Guest::new();
    let script = guest.script(&job(own, commands), &step_script(), interpreter.shell);
    interpreter.run(&script)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Standard output without the runner's own lines.
fn printed(output: &Output) -> String {
    text(&output.stdout)
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("\x1b[32;1m"))
        .collect()
}

/// gitlab-runner, build §2.1.
#[test]
fn the_stage_ends_with_the_code_of_the_failing_command() {
    let cases: [(&[&str], i32); 12] = [
        (&["true"], 0),
        (&["exit 42"], 42),
        (&["sh -c 'exit 42'"], 42),
        (&["false"], 1),
        (&["f() { return 7; }", "f"], 7),
        (&["exit 3", "exit 4"], 3),
        (&["exit 0", "exit 4"], 0),
        (&["sh -c 'kill -9 $$'"], 137),
        (&["no-such-command-anywhere"], 127),
        (&["(exit 5)"], 5),
        (&["if true; then\n  exit 6\nfi"], 6),
        (&["false || true", "exit 9"], 9),
    ];
    for interpreter in &ALL {
        for (commands, code) in cases {
            let output = run(interpreter, vec![], commands);
            assert_eq!(
                output.status.code(),
                Some(code),
                "{}: {commands:?}",
                interpreter.name()
            );
        }
        let output = run(interpreter, vec![], &["false | true"]);
        let code = i32::from(interpreter.has_pipefail);
        assert_eq!(output.status.code(), Some(code), "{}", interpreter.name());
    }
}

#[test]
fn nothing_runs_after_a_command_that_failed() {
    for interpreter in &ALL {
        let output = run(interpreter, vec![], &["echo one", "false", "echo two"]);
        assert_eq!(printed(&output), "one\n", "{}", interpreter.name());
    }
}

/// gitlab-runner, build §2.8.
#[test]
fn the_exit_code_check_holds_where_errexit_was_switched_off() {
    let own = variables(&[("FF_ENABLE_BASH_EXIT_CODE_CHECK", "1")]);
    for interpreter in &ALL {
        let output = run(
            interpreter,
            own.clone(),
            &["set +e", "(exit 8)", "echo two"],
        );
        assert_eq!(output.status.code(), Some(8), "{}", interpreter.name());
        assert_eq!(printed(&output), "");
    }
}

/// gitlab-runner, build §2.6.
#[test]
fn commands_are_shown_as_they_are_and_then_run() {
    let commands = [
        "printf 'a\\tb\\n' \"it's\"",
        "echo one\necho two",
        "",
        "   ",
        "# only a comment",
        "cd /",
        "pwd",
    ];
    let expected = "\x1b[32;1m$ printf 'a\\tb\\n' \"it's\"\x1b[0;m\n\
         a\tb\n\
         \x1b[32;1m$ echo one # collapsed multi-line command\x1b[0;m\n\
         one\n\
         two\n\
         \n\
         \n\
         \x1b[32;1m$ # only a comment\x1b[0;m\n\
         \x1b[32;1m$ cd /\x1b[0;m\n\
         \x1b[32;1m$ pwd\x1b[0;m\n\
         /\n";
    for interpreter in &ALL {
        let output = run(interpreter, vec![], &commands);
        assert_eq!(text(&output.stdout), expected, "{}", interpreter.name());
        assert_eq!(text(&output.stderr), "", "{}", interpreter.name());
    }
}

/// gitlab-runner, build §2.1.
#[test]
fn commands_have_nothing_to_read() {
    for legacy in ["false", "true"] {
        let own = variables(&[("FF_USE_LEGACY_BASH_EVAL", legacy)]);
        for interpreter in &ALL {
            let output = run(interpreter, own.clone(), &["cat", "read x || echo end"]);
            assert_eq!(printed(&output), "end\n", "{}", interpreter.name());
        }
    }
}

#[test]
fn commands_have_no_parameters() {
    for interpreter in &ALL {
        let output = run(interpreter, vec![], &["echo \"$# [$*]\""]);
        assert_eq!(printed(&output), "0 []\n", "{}", interpreter.name());
    }
}

#[test]
fn a_users_traps_options_and_exec_work() {
    let cases: [(&[&str], &str, i32); 4] = [
        (&["trap 'echo trapped' EXIT", "false"], "trapped\n", 1),
        (&["set +e", "false", "echo on"], "on\n", 0),
        (&["exec echo replaced", "echo never"], "replaced\n", 0),
        (&["set -- a b", "echo $#"], "2\n", 0),
    ];
    for interpreter in &ALL {
        for (commands, expected, code) in cases {
            let output = run(interpreter, vec![], commands);
            assert_eq!(printed(&output), expected, "{}", interpreter.name());
            assert_eq!(output.status.code(), Some(code));
        }
    }
}

#[test]
fn a_killed_subshell_does_not_make_the_shell_print_its_program() {
    let own = variables(&[("SECRET", "it's-4711")]);
    let commands = ["sh -c 'kill -KILL $PPID' # marker-4711"];
    for legacy in ["false", "true"] {
        let mut own = own.clone();
        own.push(variable("FF_USE_LEGACY_BASH_EVAL", legacy));
        for interpreter in &ALL {
            let output = run(interpreter, own.clone(), &commands);
            assert_eq!(output.status.code(), Some(137), "{}", interpreter.name());
            let stderr = text(&output.stderr);
            assert!(!stderr.contains("4711"), "{}: {stderr}", interpreter.name());
        }
    }
}

/// gitlab-runner, build §2.1.
#[test]
fn debug_trace_prints_each_command() {
    let own = variables(&[("CI_DEBUG_TRACE", "true")]);
    for interpreter in &ALL {
        let output = run(interpreter, own.clone(), &["echo traced"]);
        let stderr = text(&output.stderr);
        assert!(stderr.contains("echo traced\n"), "{}", interpreter.name());
    }
}

/// Golden job 18.
#[test]
fn script_sections_hold_the_whole_command() {
    let own = variables(&[("FF_SCRIPT_SECTIONS", "true")]);
    for interpreter in &ALL {
        let output = run(
            interpreter,
            own.clone(),
            &["echo one", "echo two\necho three"],
        );
        let stdout: String = text(&output.stdout)
            .replace(|character: char| character.is_ascii_digit(), "9")
            .replace("999999999", "");
        assert_eq!(
            stdout,
            "\x1b[99;9m$ echo one\x1b[9;m\n\
             one\n\
             section_start:9:section_script_step_9[hide_duration=true,collapsed=true]\r\x1b[9K\
             \x1b[99;9m$ echo two\n\
             echo three\x1b[9;m\n\
             section_end:9:section_script_step_9\r\x1b[9K\n\
             two\n\
             three\n",
            "{}",
            interpreter.name()
        );
    }
}

/// Golden job 12.
#[test]
fn a_file_variable_is_a_path_to_its_content() {
    let file = Variable {
        file: true,
        ..variable("CONF", "file-content-1\nsecond")
    };
    let commands = [
        "cat \"$CONF\"; echo",
        "test -f \"$CONF\" && echo is-file",
        "echo \"${CONF##*/}\"",
    ];
    for interpreter in &ALL {
        let output = run(interpreter, vec![file.clone()], &commands);
        assert_eq!(
            printed(&output),
            "file-content-1\nsecond\nis-file\nCONF\n",
            "{}",
            interpreter.name()
        );
    }
}

/// Golden job 13.
#[test]
fn variables_reach_the_shell_expanded() {
    let mut own = variables(&[
        ("B", "y"),
        ("A", "x-$B-${B}-%B%"),
        ("C", "$$B"),
        ("D", "$A/$UNSET/end"),
        ("E", "p$(HOME)x"),
    ]);
    own.push(Variable {
        raw: true,
        ..variable("R", "raw-$B")
    });
    own.push(Variable {
        file: true,
        ..variable("G", "filecontent")
    });
    own.push(variable("F", "$G"));
    let commands = ["printf '%s\\n' \"$A\" \"$C\" \"$D\" \"$E\" \"$R\" \"${F##*/}\""];
    for interpreter in &ALL {
        let output = run(interpreter, own.clone(), &commands);
        assert_eq!(
            printed(&output),
            "x-y-y-%B%\n$B\nx-$B-${B}-%B%//end\np$(HOME)x\nraw-$B\nG\n",
            "{}",
            interpreter.name()
        );
    }
}

/// Golden job 14.
#[test]
fn values_of_every_kind_reach_the_shell() {
    let own = variables(&[
        ("V1", "it's \"quoted\" \\ back`tick`"),
        ("V2", "tab\there\nnew line"),
        ("V3", "zażółć 😀 \u{7}bell"),
        ("V4", " lead and trail "),
    ]);
    let commands = ["printf '%s\\n' \"$V1\" \"$V2\" \"$V3\" \"$V4\""];
    for interpreter in &ALL {
        let output = run(interpreter, own.clone(), &commands);
        assert_eq!(
            printed(&output),
            "it's \"quoted\" \\ back`tick`\ntab\there\nnew line\nzażółć 😀 \u{7}bell\n lead and trail \n",
            "{}",
            interpreter.name()
        );
    }
}

/// Golden job 62; the hooks around the checkout take part.
#[test]
fn what_gitlab_env_holds_reaches_all_later_scripts() {
    let set = "echo \"K=from  env \" >> \"$GITLAB_ENV\"";
    let mut job = job(vec![], &["echo \"[$K]\"", "echo K=again >> $GITLAB_ENV"]);
    job.hooks = vec![
        Hook {
            name: HookName::PreGetSourcesScript,
            script: vec![set.into()],
        },
        Hook {
            name: HookName::PostGetSourcesScript,
            script: vec!["echo \"[$K] ${PWD##*/} $GIT_LFS_SKIP_SMUDGE\"".into()],
        },
    ];
    job.steps.push(step("after_script", &["echo \"[$K]\""]));
    for interpreter in &ALL {
        let guest = Guest::new();
        let scripts = [
            guest.hook(&job, HookName::PreGetSourcesScript, interpreter.shell),
            guest.hook(&job, HookName::PostGetSourcesScript, interpreter.shell),
            guest.script(&job, &step_script(), interpreter.shell),
            guest.script(&job, &Stage::AfterScript, interpreter.shell),
        ];
        let outputs = scripts.map(|script| printed(&interpreter.run(&script)));
        assert_eq!(
            outputs,
            ["", "[from  env] demo 1\n", "[from  env]\n", "[again]\n"],
            "{}",
            interpreter.name()
        );
    }
}

#[test]
fn prepare_script_forgets_an_older_gitlab_env() {
    let job = job(
        vec![],
        &["echo \"K=${K-unset}\"", "echo K=1 >> $GITLAB_ENV"],
    );
    for interpreter in &ALL {
        let guest = Guest::new();
        let step = guest.script(&job, &step_script(), interpreter.shell);
        interpreter.run(&step);
        let prepare = guest.script(&job, &Stage::PrepareScript, interpreter.shell);
        let prepared = interpreter.run(&prepare);
        assert!(text(&prepared.stdout).starts_with("Running on "));
        assert_eq!(printed(&interpreter.run(&step)), "K=unset\n");
    }
}

#[test]
fn after_script_knows_how_the_steps_ended() {
    let mut job = testing::job();
    job.steps = vec![step("after_script", &["echo $CI_JOB_STATUS"])];
    let statuses = [
        (JobStatus::Running, "running\n"),
        (JobStatus::Success, "success\n"),
        (JobStatus::Failed, "failed\n"),
        (JobStatus::Canceled, "canceled\n"),
        (JobStatus::TimedOut, "timedout\n"),
    ];
    let guest = Guest::new();
    let mut environment = guest.environment(&job);
    for (status, expected) in statuses {
        environment.set_status(&job, status);
        let script = stage_script(
            &Stage::AfterScript,
            &context(&job, &environment, Shell::Bash),
        )
        .unwrap()
        .unwrap();
        assert_eq!(printed(&BASH.run(&script)), expected);
    }
}

/// gitlab-runner, build §2.9 and build §3.3.
#[test]
fn cleanup_removes_file_variables_and_what_was_planted_in_git() {
    let file = Variable {
        file: true,
        ..variable("CERT", "abc")
    };
    let mut job = job(
        vec![file],
        &[
            "git init -q . && git config core.x y",
            "mkdir -p .git/hooks .git/refs/heads .git/modules/sub/hooks",
            "touch .git/hooks/post-checkout .git/refs/heads/x.lock .git/modules/sub/config",
            "touch ../demo.tmp/.gitlab-runner.ext.conf ../demo.tmp/.vk-git-credential",
            "chmod 0 .git/hooks",
        ],
    );
    job.variables
        .insert(1, variable("GIT_SUBMODULE_STRATEGY", "normal"));
    for interpreter in &ALL {
        let guest = Guest::new();
        let step = interpreter.run(&guest.script(&job, &step_script(), interpreter.shell));
        assert!(step.status.success(), "{step:?}");

        let script = guest.script(&job, &Stage::CleanupFileVariables, interpreter.shell);
        let output = interpreter.run(&script);

        assert!(
            output.status.success(),
            "{}: {output:?}",
            interpreter.name()
        );
        assert_eq!(text(&output.stdout), "");
        let project = Path::new(&guest.host.builds_dir).join("grp/demo");
        for gone in [
            "../demo.tmp/CERT",
            "../demo.tmp/gitlab_runner_env",
            "../demo.tmp/.gitlab-runner.ext.conf",
            "../demo.tmp/.vk-git-credential",
            ".git/config",
            ".git/hooks",
            ".git/refs/heads/x.lock",
            ".git/modules/sub/config",
            ".git/modules/sub/hooks",
        ] {
            assert!(!project.join(gone).exists(), "{gone}");
        }
        assert!(project.join(".git/HEAD").exists());
    }
}

#[test]
fn a_folder_that_is_no_repository_yet_does_not_fail_clear_worktree() {
    let job = job(vec![], &[]);
    let guest = Guest::new();
    std::fs::create_dir_all(&guest.environment(&job).dirs().project).unwrap();
    for interpreter in &ALL {
        let script = guest.script(&job, &Stage::ClearWorktree, interpreter.shell);
        let output = interpreter.run(&script);
        assert!(
            output.status.success(),
            "{}: {output:?}",
            interpreter.name()
        );
    }
}

#[test]
fn without_git_in_the_guest_cleanup_and_clear_worktree_are_silent() {
    let bin = tempfile::tempdir().unwrap();
    for tool in ["mkdir", "touch", "rm", "find", "chmod", "true"] {
        let path = which(tool);
        std::os::unix::fs::symlink(path, bin.path().join(tool)).unwrap();
    }
    let job = job(vec![], &[]);
    let guest = Guest::new();
    let environment = guest.environment(&job);
    let path = bin.path().to_str().unwrap();
    for interpreter in &ALL {
        for stage in [Stage::ClearWorktree, Stage::CleanupFileVariables] {
            let context = ScriptContext {
                has_git: false,
                ..context(&job, &environment, interpreter.shell)
            };
            let script = stage_script(&stage, &context).unwrap().unwrap();
            let output = interpreter.run_with_path(&script, path);
            assert!(
                output.status.success(),
                "{}: {output:?}",
                interpreter.name()
            );
            assert_eq!(text(&output.stderr), "", "{}", interpreter.name());
        }
    }
}

/// It reads nothing and says more than a pipe holds: whoever writes to it meets a broken pipe.
#[test]
fn a_git_that_writes_without_end_and_reads_nothing_fails_no_stage() {
    let bin = tempfile::tempdir().unwrap();
    let git = bin.path().join("git");
    std::fs::write(
        &git,
        "#!/bin/sh\nexec <&-\nhead -c 1000000 /dev/zero | tr '\\0' v\n",
    )
    .unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&git, executable).unwrap();
    let path = format!(
        "{}:{}",
        bin.path().display(),
        std::env::var("PATH").unwrap()
    );
    let job = job(variables(&[("FF_ENABLE_JOB_CLEANUP", "true")]), &["true"]);
    for interpreter in &ALL {
        for stage in [
            Stage::PrepareScript,
            Stage::ClearWorktree,
            step_script(),
            Stage::CleanupFileVariables,
        ] {
            let guest = Guest::new();
            let script = guest.script(&job, &stage, interpreter.shell);

            let output = interpreter.run_with_path(&script, &path);

            let name = (interpreter.name(), stage);
            assert!(
                output.status.success(),
                "{name:?}: {:?} {}",
                output.status,
                text(&output.stderr)
            );
        }
    }
}

#[test]
fn every_script_is_sound_for_its_shell() {
    let mut job = job(
        variables(&[("FF_SCRIPT_SECTIONS", "true"), ("V", "a'b\n\"$c`")]),
        &["echo 'a\nb'", "x=\"$(echo it\\'s)\""],
    );
    job.steps.push(step("after_script", &["echo bye"]));
    job.hooks = vec![Hook {
        name: HookName::PreGetSourcesScript,
        script: vec!["echo \"pre\nhook\"".into()],
    }];
    let guest = Guest::new();
    for interpreter in &ALL {
        let mut scripts: Vec<String> = [
            Stage::PrepareScript,
            Stage::ClearWorktree,
            step_script(),
            Stage::AfterScript,
            Stage::CleanupFileVariables,
        ]
        .iter()
        .map(|stage| guest.script(&job, stage, interpreter.shell))
        .collect();
        scripts.push(guest.hook(&job, HookName::PreGetSourcesScript, interpreter.shell));
        for script in scripts {
            let body_checked = script.replace("eval ", "printf %s ");
            let body = text(&interpreter.run(&body_checked).stdout);
            let body = body.strip_prefix("shift;").unwrap();
            for part in [script.as_str(), body] {
                let checked = interpreter.run(&format!("set -n\n{part}"));
                assert!(
                    checked.status.success(),
                    "{}: {checked:?}\n{part}",
                    interpreter.name()
                );
            }
        }
    }
}

/// Any text a variable can hold, with what quoting stumbles over made likely.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~\\n\\t]{0,40}",
        "['\"\\\\$`!{}~;&|<>()*?\\[\\]\\n\\r\\t #=%^]{0,20}",
        proptest::collection::vec(any::<char>(), 0..20)
            .prop_map(|characters| characters.into_iter().filter(|c| *c != '\0').collect()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_value_reaches_any_shell_unchanged(
        values in proptest::collection::vec(value(), 1..30)
    ) {
        let own: Vec<Variable> = values
            .iter()
            .enumerate()
            .map(|(number, value)| Variable {
                raw: true,
                ..variable(&format!("V{number}"), value)
            })
            .collect();
        let print: Vec<String> = (0..values.len())
            .map(|number| format!("printf '%s\\0' \"$V{number}\""))
            .collect();
        let print = print.join("\n");
        for interpreter in &ALL {
            let output = run(interpreter, own.clone(), &[&print]);
            let stdout = text(&output.stdout);
            let (_, printed) = stdout.split_once("\x1b[0;m\n").unwrap();
            let expected: String = values.iter().map(|value| format!("{value}\0")).collect();
            prop_assert_eq!(printed, expected, "{}", interpreter.name());
        }
    }

    /// gitlab-runner, build §2.3.2: those are the texts that the flag's escapes are right for.
    #[test]
    fn posix_escapes_hold_what_they_were_made_for(value in "[ -&(-:<-z|é]{0,40}") {
        let own = vec![
            variable("FF_POSIXLY_CORRECT_ESCAPES", "true"),
            Variable { raw: true, ..variable("V", &value) },
        ];
        for interpreter in &ALL {
            let output = run(interpreter, own.clone(), &["printf %s \"$V\""]);
            prop_assert_eq!(printed(&output), value.as_str(), "{}", interpreter.name());
        }
    }

    #[test]
    fn any_file_variable_keeps_its_bytes(content in value()) {
        let file = Variable { raw: true, file: true, ..variable("F", &content) };
        for interpreter in &ALL {
            let output = run(interpreter, vec![file.clone()], &["cat \"$F\""]);
            let stdout = text(&output.stdout);
            let (_, printed) = stdout.split_once("\x1b[0;m\n").unwrap();
            prop_assert_eq!(printed, &content, "{}", interpreter.name());
        }
    }
}

/// The shell sees, for each exported name, the last value of the list.
#[test]
fn the_last_of_several_values_counts_in_the_shell_too() {
    let own = variables(&[("DUP", "1"), ("CI_SERVER", "mine"), ("DUP", "2")]);
    for interpreter in &ALL {
        let output = run(interpreter, own.clone(), &["echo $DUP $CI_SERVER"]);
        assert_eq!(printed(&output), "2 mine\n", "{}", interpreter.name());
    }
}

/// The scripts around the sources export nothing, and the host's stages have none. So the first one that meets such a
/// variable is the step's or a hook's, where a real gitlab-runner already fails at the sources (gitlab-runner, build §2.4).
#[test]
fn a_variable_that_no_shell_exports_fails_the_step_and_nothing_before_it() {
    let cases: [(&Interpreter, &[&str]); 3] = [
        (&BASH, &["1X", "a-b", "WEIRD KEY", "UID", "PPID"]),
        (&DASH, &["1X", "a-b", "WEIRD KEY"]),
        (&BUSYBOX, &["1X", "a-b", "WEIRD KEY"]),
    ];
    for (interpreter, names) in cases {
        for name in names {
            let mut job = job(variables(&[(name, "4711")]), &["echo ran"]);
            let pre_hook = HookName::PreGetSourcesScript;
            job.hooks.push(Hook {
                name: pre_hook,
                script: vec!["echo ran".into()],
            });
            let guest = Guest::new();
            let environment = guest.environment(&job);
            let context = context(&job, &environment, interpreter.shell);
            let case = (interpreter.name(), name);

            for stage in [
                Stage::GetSources,
                Stage::RestoreCache,
                Stage::DownloadArtifacts,
            ] {
                assert_eq!(stage_script(&stage, &context).unwrap(), None, "{case:?}");
            }
            for stage in [Stage::PrepareScript, Stage::ClearWorktree] {
                std::fs::create_dir_all(&environment.dirs().project).unwrap();
                let script = guest.script(&job, &stage, interpreter.shell);
                let output = interpreter.run(&script);
                assert!(output.status.success(), "{case:?} {stage:?}: {output:?}");
            }
            for script in [
                guest.script(&job, &step_script(), interpreter.shell),
                guest.hook(&job, pre_hook, interpreter.shell),
            ] {
                let output = interpreter.run(&script);
                assert!(!output.status.success(), "{case:?}: {output:?}");
                assert_eq!(printed(&output), "", "{case:?}");
            }
        }
    }
}
