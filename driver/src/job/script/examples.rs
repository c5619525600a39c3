//! GitLab Runner's worked examples (gitlab-runner, build §2.11): whole scripts by length and SHA-256, once the body is
//! put back where GitLab Runner has it.

use sha2::{Digest, Sha256};
use vk_hub_proto::job::{CiJob, Variable};

use super::quote::Quoting;
use super::stages::{ScriptContext, Shell, stage_script};
use super::writer::{Dialect, Writer, as_by_gitlab_runner};
use crate::job::stage::Stage;
use crate::job::testing::{self, step, variable, variables};
use crate::job::variables::{HostContext, JobEnvironment};
use vk_text::quoted;

fn script(job: &CiJob, stage: &Stage) -> String {
    let environment = JobEnvironment::new(job, HostContext::default()).unwrap();
    let context = ScriptContext {
        job,
        environment: &environment,
        shell: Shell::Bash,
        has_git: true,
        host_name: None,
    };
    stage_script(stage, &context).unwrap().unwrap()
}

#[track_caller]
fn assert_script(script: &str, len: usize, sha256: &str) {
    let script = as_by_gitlab_runner(script);
    let digest: String = Sha256::digest(&script)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!((script.len(), digest.as_str()), (len, sha256), "{script}");
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
        3218,
        "d567c6cb3d5caadc8e7182cb1200fc0b005e9763e884650b13f8755070a6104d",
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
        4050,
        "57d6abc96a6200273dce9c6529d8d91809d2548241bacc0b67607802c8796d8e",
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
        3531,
        "42678caede2d8b1785cdf9c8f11decdc0f7381fc73897a7b8f051d3ad08d0aa5",
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
        3471,
        "185bed3b163728a07ee134a4c9886724aada157a16fc4ed3252288980e384797",
    );
}

#[test]
fn example_5_script_sections() {
    let own = variables(&[("FF_SCRIPT_SECTIONS", "true")]);
    let commands = ["echo one", "if true; then\n  echo \"a'b\"\nfi"];
    assert_script(
        &script(&job(own, &commands), &step_script()),
        3557,
        "8b617078a9e4fb50599cc468f9fcb20a85098896578dda3c7227b18f8082c8bd",
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
        3539,
        "700ace8ef419d469f28cd339847d4e2c65b830a22b907d0b3b96039b7830b458",
    );
}

#[test]
fn example_7_after_script() {
    let job = CiJob {
        steps: vec![step("after_script", &["echo bye"])],
        ..testing::job()
    };
    assert_script(
        &script(&job, &Stage::AfterScript),
        3275,
        "4c91b1a402320c6f6c4e37e8880402e65883e74c01e1bfb87c681bb0a18c5773",
    );
}

/// The runner's own scripts around the build are commands of the same list.
#[test]
fn example_8_scripts_around_the_build() {
    let commands = ["echo pre\necho pre2", "make", "echo post"];
    assert_script(
        &script(&job(vec![], &commands), &step_script()),
        3360,
        "fc1aa2f8b9be23b6e277aab464cb8cd49b0bf2f3dfb4497ccf9067483bc43eba",
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
        3303,
        "e89eea097fbff64df8ce076e8e9a8ca99019bb0c0e3db4bd83153d95c3ebb1a3",
    );
}

#[test]
fn example_11_prepare_script() {
    assert_script(
        &script(&testing::job(), &Stage::PrepareScript),
        308,
        "b0c457221d8ddf97a0abcfee4fd596b59348f1a13963b13f7921875b5e2265c5",
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
    assert_script(
        &writer.finish(),
        322,
        "81c627d7f6b5eafdd40456cf81096e01ce01dbddc11e1f86cae20cf72493ee6c",
    );
}

#[test]
fn example_13_clear_worktree() {
    let script = script(&testing::job(), &Stage::ClearWorktree);
    // GitLab Runner's repository is there since the first attempt.
    let guard = "/builds/grp/demo/.git\" ]";
    assert_eq!(script.matches(guard).count(), 1, "{script}");
    assert_script(
        &script.replace(guard, "/builds/grp/demo\" ]"),
        378,
        "9712aa680f0d1a4c9605a17dcf949e5f0c2e237e6d03519133f6dbb1e03caee9",
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
    assert_script(
        &script.replace(token, ""),
        4411,
        "ecd2a4c19622d0d82334479ab00b7c80e9e44a73658572667a31009bf8307547",
    );
}
