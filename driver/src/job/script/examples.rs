//! GitLab Runner's worked examples (gitlab-runner, build §2.11): whole scripts, byte for byte those of GitLab Runner
//! once the body is put back where it has it. They are in `examples/`, with the body's line ends as lines (see
//! [`readable`]).

use std::path::Path;

use vk_hub_proto::job::{CiJob, Variable};

use super::quote::Quoting;
use super::stages::{ScriptContext, Shell, stage_script};
use super::writer::{Dialect, Writer, as_by_gitlab_runner};
use crate::job::stage::Stage;
use crate::job::testing::{self, step, variable, variables};
use crate::job::variables::{JobEnvironment, Slot};
use vk_text::quoted;

fn script(job: &CiJob, stage: &Stage) -> String {
    let environment = JobEnvironment::new(job, Slot::default()).unwrap();
    let context = ScriptContext {
        job,
        environment: &environment,
        shell: Shell::Bash,
        has_git: true,
        host_name: None,
    };
    stage_script(stage, &context).unwrap().unwrap()
}

/// A script as its file has it: GitLab Runner writes the body as one quoted word, whose line ends stand as `\n`. A line
/// ends behind each, so that the file can be read and compared by lines; it loses nothing else.
fn readable(script: &str) -> String {
    script.replace("\\n", "\\n\n")
}

#[track_caller]
fn assert_script(script: &str, name: &str) {
    let found = readable(&as_by_gitlab_runner(script));
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/job/script/examples")
        .join(name)
        .with_extension("sh");
    let wanted = std::fs::read_to_string(&file).unwrap();
    for (number, (found, wanted)) in (1..).zip(found.lines().zip(wanted.lines())) {
        assert_eq!(found, wanted, "line {number} of {}", file.display());
    }
    assert_eq!(found, wanted, "{}", file.display());
}

fn job(own: Vec<Variable>, commands: &[&str]) -> CiJob {
    CiJob {
        steps: vec![step("script", commands)],
        ..testing::with_variables(own)
    }
}

fn step_script() -> Stage {
    Stage::Step("script".into())
}

fn file(key: &str, content: &str) -> Variable {
    Variable {
        file: true,
        ..variable(key, content)
    }
}

/// gitlab-runner, build §2.4.
#[test]
fn example_1_one_plain_command() {
    assert_script(
        &script(&job(vec![], &["echo hi"]), &step_script()),
        "one_plain_command",
    );
}

/// gitlab-runner, build §2.2 and build §2.4.
#[test]
fn example_2_variables_of_every_kind() {
    let mut own = variables(&[
        ("PLAIN", "value-1.2/x_@,"),
        ("SP", "a b"),
        ("EMPTY", ""),
        ("Q", "it's \"q\" $5 \\ % + : ~ {}"),
        ("NL", "l1\nl2\r\n"),
        ("UNI", "naïve"),
        ("WEIRD KEY", "v"),
        ("REF", "${SP}-$PLAIN"),
    ]);
    own.push(Variable {
        raw: true,
        ..variable("RAW", "$SP")
    });
    own.push(variable("DOLLARS", "$$SP"));
    own.push(file("CERT", "pem\ndata"));
    own.extend(variables(&[
        ("CERTREF", "$CERT"),
        ("DUP", "1"),
        ("DUP", "2"),
        ("USEDUP", "$DUP"),
        ("SELF", "$SELF:x"),
        ("PCT", "%SP%"),
        ("NOTSET", "[$NOPE]"),
        ("UNTERM", "${SP"),
        ("MINUS", "${SP:-d}"),
    ]));
    let commands = [
        "echo \"it's $HOME\" `date` a\\b\tc",
        "  echo é 🐤 \x07\x7f  ",
        "true",
    ];
    assert_script(
        &script(&job(own, &commands), &step_script()),
        "variables_of_every_kind",
    );
}

#[test]
fn example_3_posix_escapes() {
    let mut own = variables(&[
        ("FF_POSIXLY_CORRECT_ESCAPES", "true"),
        ("PLAIN", "value-1.2/x_@,"),
        ("SP", "a b"),
        ("EMPTY", ""),
        ("Q", "it's \"q\" $5 \\ % + : ~ {}"),
        ("SEMI", "a;b"),
        ("APO", "it's"),
    ]);
    own.push(file("CERT", "pem"));
    let commands = ["echo \"it's $HOME\" `date` a\\b\tc", "  echo é 🐤  "];
    assert_script(
        &script(&job(own, &commands), &step_script()),
        "posix_escapes",
    );
}

#[test]
fn example_4_multi_line_blank_and_comment_entries() {
    let commands = [
        "if true; then\n  echo a\nfi",
        "echo 1 \\\n 2",
        "\n",
        "   ",
        "# comment\nls",
    ];
    assert_script(
        &script(&job(vec![], &commands), &step_script()),
        "multi_line_entries",
    );
}

#[test]
fn example_5_script_sections() {
    let own = variables(&[("FF_SCRIPT_SECTIONS", "true")]);
    let commands = ["echo one", "if true; then\n  echo \"a'b\"\nfi"];
    assert_script(
        &script(&job(own, &commands), &step_script()),
        "script_sections",
    );
}

#[test]
fn example_6_exit_code_check_legacy_eval_and_xtrace() {
    let own = variables(&[
        ("FF_ENABLE_BASH_EXIT_CODE_CHECK", "true"),
        ("CI_DEBUG_TRACE", "true"),
        ("FF_USE_LEGACY_BASH_EVAL", "1"),
    ]);
    assert_script(
        &script(&job(own, &["false", "echo x"]), &step_script()),
        "checks_and_xtrace",
    );
}

#[test]
fn example_7_after_script() {
    let job = CiJob {
        steps: vec![step("after_script", &["echo bye"])],
        ..testing::job()
    };
    assert_script(&script(&job, &Stage::AfterScript), "after_script");
}

/// The runner's own scripts around the build are commands of the same list.
#[test]
fn example_8_scripts_around_the_build() {
    let commands = ["echo pre\necho pre2", "make", "echo post"];
    assert_script(
        &script(&job(vec![], &commands), &step_script()),
        "around_the_build",
    );
}

#[test]
fn example_9_release_step() {
    let command = "release-cli create --name \"Release $TAG\" --x $UNSET";
    let job = CiJob {
        steps: vec![step("release", &[command])],
        ..testing::with_variables(variables(&[("TAG", "v1")]))
    };
    assert_script(
        &script(&job, &Stage::Step("release".into())),
        "release_step",
    );
}

#[test]
fn example_11_prepare_script() {
    assert_script(
        &script(&testing::job(), &Stage::PrepareScript),
        "prepare_script",
    );
}

/// GitLab Runner writes bash's quotes for `sh` too, which vk does not: the writer is asked directly.
#[test]
fn example_12_prepare_script_for_sh_with_a_host_name() {
    let dialect = Dialect {
        shell: "sh",
        quoting: Quoting::AnsiC,
        plain_echo: true,
        check_exit_codes: false,
        legacy_eval: false,
        xtrace: false,
    };
    let mut writer = Writer::new(dialect, "/builds/grp/demo.tmp");
    let place = quoted("Running on $(hostname) via mgr \"x\"...");
    writer.line(&format!("echo {place}"));
    writer.remove_file("/builds/grp/demo.tmp/gitlab_runner_env");
    writer.remove_file("/builds/grp/demo.tmp/masking.db");
    assert_script(&writer.finish(), "prepare_script_sh");
}

#[test]
fn example_13_clear_worktree() {
    let script = script(&testing::job(), &Stage::ClearWorktree);
    // GitLab Runner's repository is there since the first attempt.
    let guard = "/builds/grp/demo/.git\" ]";
    assert_eq!(script.matches(guard).count(), 1, "{script}");
    assert_script(
        &script.replace(guard, "/builds/grp/demo\" ]"),
        "clear_worktree",
    );
}

/// gitlab-runner, build §2.2, build §2.9.11 and build §3.8.
#[test]
fn example_17_cleanup_file_variables() {
    let job = testing::with_variables(vec![file("CERT", "abc")]);
    let script = script(&job, &Stage::CleanupFileVariables);
    // GitLab Runner has the token in its config file.
    let token = "\\nrm \"-f\" \"/builds/grp/demo.tmp/.vk-git-credential\"";
    assert_eq!(script.matches(token).count(), 1);
    assert_script(&script.replace(token, ""), "cleanup_file_variables");
}
