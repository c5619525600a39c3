//! The body of each stage's script (gitlab-runner, build §2.9).

use vk_hub_proto::job::{CiJob, HookName};

use super::check::{ScriptError, check};
use super::cleanup::write_cleanup;
use super::commands::{CommandStyle, write_commands};
use super::quote::Quoting;
use super::writer::{Dialect, RESET, Writer};
use crate::job::feature_flags::FeatureFlag;
use crate::job::stage::Stage;
use crate::job::variables::JobEnvironment;
use vk_text::quoted;

/// The shell of the job's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shell {
    /// bash: scripts are GitLab Runner's.
    Bash,
    /// A POSIX `sh` in an image without bash.
    Sh,
}

/// What scripts are made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptContext<'a> {
    /// The job.
    pub job: &'a CiJob,
    /// Its variables, settings and folders.
    pub environment: &'a JobEnvironment,
    /// The shell that will read the script.
    pub shell: Shell,
    /// Whether the guest has git. Without it the scripts leave git alone, where GitLab Runner's helper image would
    /// have had one.
    pub has_git: bool,
    /// Name of the host, for the line of [`Stage::PrepareScript`] that says where the job runs.
    pub host_name: Option<&'a str>,
}

/// The script of `stage`; `None` when the stage has nothing for the guest's shell, because GitLab Runner skips it
/// (gitlab-runner, build §1.2.2) or because the host does its work.
///
/// # Errors
///
/// When a shell cannot hold the job's script or variables.
pub(crate) fn stage_script(
    stage: &Stage,
    context: &ScriptContext<'_>,
) -> Result<Option<String>, ScriptError> {
    check(context.job, context.environment.variables())?;
    let Some(writer) = stage_body(stage, context) else {
        return Ok(None);
    };
    Ok(Some(writer.finish()))
}

/// The script that runs in the guest before or after the host's checkout; `None` when the job has no such hook, or
/// gets no sources (gitlab-runner, build §3.1 and build §3.2).
///
/// GitLab Runner runs both in the one shell of `get_sources`: here what the first exports reaches the second only
/// through `GITLAB_ENV`.
///
/// # Errors
///
/// As [`stage_script`].
pub(crate) fn hook_script(
    hook: HookName,
    context: &ScriptContext<'_>,
) -> Result<Option<String>, ScriptError> {
    check(context.job, context.environment.variables())?;
    let commands = context.job.hook(hook);
    if commands.is_empty() || !context.environment.settings().strategy.has_sources() {
        return Ok(None);
    }
    let mut writer = context.writer();
    context.write_variables(&mut writer, Files::Written);
    writer.export("GIT_TERMINAL_PROMPT", "0");
    writer.export("GCM_INTERACTIVE", "Never");
    let prefix = match hook {
        HookName::PreGetSourcesScript => "pre_clone_script",
        _ => {
            if !context.environment.settings().lfs_skip_smudge {
                writer.export("GIT_LFS_SKIP_SMUDGE", "1");
            }
            writer.cd(&context.environment.dirs().project);
            "post_clone_script"
        }
    };
    write_commands(&mut writer, commands, context.style(prefix));
    Ok(Some(writer.finish()))
}

/// The part of `restore_cache`'s script that removes a cache's `paths` after it could not be extracted
/// (`FF_CLEAN_UP_FAILED_CACHE_EXTRACT`; gitlab-runner, build §2.9.7).
///
/// # Errors
///
/// As [`stage_script`].
pub(crate) fn remove_caches_script(
    paths: &[String],
    context: &ScriptContext<'_>,
) -> Result<String, ScriptError> {
    check(context.job, context.environment.variables())?;
    let mut writer = context.writer();
    context.write_variables(&mut writer, Files::Written);
    writer.cd(&context.environment.dirs().project);
    for path in paths {
        let line = writer.print(&format!("{RESET}Removing {path}"));
        writer.line(&line);
        writer.remove_dir(path);
    }
    Ok(writer.finish())
}

/// `None` where the stage has no script.
fn stage_body(stage: &Stage, context: &ScriptContext<'_>) -> Option<Writer> {
    match stage {
        Stage::PrepareScript => Some(prepare_script(context)),
        Stage::ClearWorktree => Some(clear_worktree(context)),
        Stage::Step(_) => step(stage, context),
        Stage::AfterScript => after_script(context),
        Stage::CleanupFileVariables => {
            let mut writer = context.writer();
            context.write_variables(&mut writer, Files::Left);
            write_cleanup(&mut writer, context);
            Some(writer)
        }
        Stage::PrepareExecutor
        | Stage::GetSources
        | Stage::RestoreCache
        | Stage::DownloadArtifacts
        | Stage::ArchiveCache
        | Stage::ArchiveCacheOnFailure
        | Stage::UploadArtifactsOnSuccess
        | Stage::UploadArtifactsOnFailure => None,
    }
}

/// Says where the job runs (gitlab-runner, build §2.5).
fn prepare_script(context: &ScriptContext<'_>) -> Writer {
    let mut writer = context.writer();
    let place = match context.host_name {
        Some(host) => format!("Running on $(hostname) via {host}..."),
        None => "Running on $(hostname)...".to_owned(),
    };
    writer.line(&format!("echo {}", quoted(&place)));
    for name in [ENV_FILE, MASKING_FILE] {
        let path = writer.tmp_file(name);
        writer.remove_file(&path);
    }
    writer
}

fn clear_worktree(context: &ScriptContext<'_>) -> Writer {
    let mut writer = context.writer();
    writer.notice("Deleting tracked and untracked files...");
    if context.has_git {
        let project = &context.environment.dirs().project;
        // A failed attempt leaves no repository here, and the folder may be there for other reasons: the next one
        // empties it.
        writer.if_directory(&format!("{project}/.git"), |writer| {
            writer.cd(project);
            writer.command(&["git", "rm", "-rf", "--ignore-unmatch", "--quiet", "."]);
            writer.command(&["git", "clean", "-ffdx", "-q"]);
        });
    }
    writer
}

/// The first step that gives this stage; GitLab Runner tells stages apart by their lowercased names.
fn step(stage: &Stage, context: &ScriptContext<'_>) -> Option<Writer> {
    let name = stage.name();
    let step = context
        .job
        .steps
        .iter()
        .find(|step| Stage::Step(step.name.clone()).name() == name)?;
    let mut writer = context.writer();
    context.write_variables(&mut writer, Files::Written);
    writer.cd(&context.environment.dirs().project);
    let style = context.style("script_step");
    if name == RELEASE_STAGE {
        let variables = context.environment.variables();
        let expanded: Vec<String> = step
            .script
            .iter()
            .map(|command| variables.expand(command))
            .collect();
        write_commands(&mut writer, &expanded, style);
    } else {
        write_commands(&mut writer, &step.script, style);
    }
    Some(writer)
}

fn after_script(context: &ScriptContext<'_>) -> Option<Writer> {
    let name = Stage::AfterScript.name();
    let step = context.job.steps.iter().find(|step| step.name == name)?;
    if step.script.is_empty() {
        return None;
    }
    let mut writer = context.writer();
    context.write_variables(&mut writer, Files::Written);
    writer.cd(&context.environment.dirs().project);
    writer.notice("Running after script...");
    write_commands(
        &mut writer,
        &step.script,
        context.style("after_script_step"),
    );
    Some(writer)
}

/// The step whose commands GitLab Runner expands itself (gitlab-runner, build §2.6).
const RELEASE_STAGE: &str = "step_release";

/// File through which a job's commands set variables for what follows (`GITLAB_ENV`).
pub(crate) const ENV_FILE: &str = "gitlab_runner_env";

/// File in which GitLab Runner's proxy keeps masks.
pub(super) const MASKING_FILE: &str = "masking.db";

/// What the variable block does about file variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Files {
    /// Each is written anew.
    Written,
    /// They are only named.
    Left,
}

impl ScriptContext<'_> {
    fn dialect(&self) -> Dialect {
        let quoting = match self.shell {
            _ if self.environment.is_on(FeatureFlag::PosixEscapes) => Quoting::PosixEscapes,
            Shell::Bash => Quoting::AnsiC,
            Shell::Sh => Quoting::Single,
        };
        Dialect {
            shell: match self.shell {
                Shell::Bash => "bash",
                Shell::Sh => "sh",
            },
            quoting,
            plain_echo: self.shell == Shell::Bash,
            check_exit_codes: self.environment.is_on(FeatureFlag::BashExitCodeCheck),
            legacy_eval: self.environment.is_on(FeatureFlag::LegacyBashEval),
            xtrace: self.environment.settings().debug_trace,
        }
    }

    fn writer(&self) -> Writer {
        Writer::new(self.dialect(), &self.environment.dirs().tmp)
    }

    fn style(&self, prefix: &'static str) -> CommandStyle {
        let sections =
            self.job.trace.sections && self.environment.is_on(FeatureFlag::ScriptSections);
        CommandStyle { sections, prefix }
    }

    /// All variables, then what `GITLAB_ENV` holds (gitlab-runner, build §2.4).
    fn write_variables(&self, writer: &mut Writer, files: Files) {
        for variable in self.environment.variables().iter() {
            match (variable.file, files) {
                (false, _) => writer.export(&variable.key, &variable.value),
                (true, Files::Written) => writer.export_file(&variable.key, &variable.value),
                (true, Files::Left) => {
                    let path = writer.tmp_file(&variable.key);
                    writer.export(&variable.key, &path);
                }
            }
        }
        let env_file = writer.tmp_file(ENV_FILE);
        writer.export("GITLAB_ENV", &env_file);
        writer.source_env(&env_file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::testing::{self, step, variable, variables};
    use crate::job::variables::Slot;
    use vk_hub_proto::job::{Hook, Variable};

    fn with_context<T>(job: &CiJob, act: impl FnOnce(&ScriptContext<'_>) -> T) -> T {
        let environment = JobEnvironment::new(job, Slot::default()).unwrap();
        act(&ScriptContext {
            job,
            environment: &environment,
            shell: Shell::Bash,
            has_git: true,
            host_name: None,
        })
    }

    fn script(job: &CiJob, stage: &Stage) -> Option<String> {
        with_context(job, |context| stage_script(stage, context).unwrap())
    }

    fn hook(job: &CiJob, name: HookName) -> Option<String> {
        with_context(job, |context| hook_script(name, context).unwrap())
    }

    fn error(job: &CiJob) -> ScriptError {
        with_context(job, |context| {
            stage_script(&Stage::PrepareScript, context).unwrap_err()
        })
    }

    /// gitlab-runner, build §1.2.2.
    #[test]
    fn what_the_runner_skips_has_no_script() {
        let mut job = testing::job();
        let script_stage = Stage::Step("script".into());
        assert_eq!(script(&job, &script_stage), None);
        assert_eq!(script(&job, &Stage::AfterScript), None);

        job.steps = vec![step("script", &[]), step("after_script", &[])];
        assert!(script(&job, &script_stage).is_some());
        assert_eq!(script(&job, &Stage::AfterScript), None);
    }

    #[test]
    fn what_the_host_does_has_no_script() {
        let job = testing::job();
        let stages = [
            Stage::PrepareExecutor,
            Stage::GetSources,
            Stage::RestoreCache,
            Stage::DownloadArtifacts,
            Stage::ArchiveCache,
            Stage::ArchiveCacheOnFailure,
            Stage::UploadArtifactsOnSuccess,
            Stage::UploadArtifactsOnFailure,
        ];
        for stage in stages {
            assert_eq!(script(&job, &stage), None, "{stage:?}");
        }
    }

    #[test]
    fn a_stage_runs_the_first_step_of_its_name_in_any_case() {
        let mut job = testing::job();
        job.steps = vec![step("Script", &["first"]), step("script", &["second"])];
        let script = script(&job, &Stage::Step("script".into())).unwrap();
        assert!(script.contains("$ first"));
        assert!(!script.contains("$ second"));
    }

    /// gitlab-runner, build §2.6.
    #[test]
    fn steps_other_than_release_are_not_expanded() {
        let mut job = testing::with_variables(variables(&[("TAG", "v1")]));
        job.steps = vec![step("script", &["echo $TAG"])];
        let script = script(&job, &Stage::Step("script".into())).unwrap();
        assert!(script.contains("\\necho $TAG\\n"), "{script}");
    }

    /// gitlab-runner, build §2.5.
    #[test]
    fn the_host_is_named_where_it_is_known() {
        let job = testing::job();
        let script = with_context(&job, |context| {
            let context = ScriptContext {
                host_name: Some("mgr \"x\""),
                ..*context
            };
            stage_script(&Stage::PrepareScript, &context).unwrap()
        });
        let line = r#"echo "Running on $(hostname) via mgr \\"x\\"...""#;
        assert!(script.unwrap().contains(line));
    }

    fn with_hooks(own: Vec<Variable>) -> CiJob {
        let mut job = testing::with_variables(own);
        job.hooks = [
            HookName::PreGetSourcesScript,
            HookName::PostGetSourcesScript,
        ]
        .map(|name| Hook {
            name,
            script: vec!["ls".into()],
        })
        .to_vec();
        job
    }

    /// gitlab-runner, build §2.9.7.
    #[test]
    fn what_a_failed_extraction_left_is_removed_path_by_path() {
        let job = testing::with_variables(variables(&[("NAME", "x")]));
        let paths = ["a b/".to_owned(), ".cache/$NAME".to_owned()];
        let script = with_context(&job, |context| {
            remove_caches_script(&paths, context).unwrap()
        });
        let body = script.split_once("cd /builds/grp/demo").unwrap().1;
        for part in [
            r"Removing a b/",
            r#"rm "-r" "-f" "a b/""#,
            r"Removing .cache/$NAME",
            r#"rm "-r" "-f" ".cache/$NAME""#,
        ] {
            assert!(body.contains(part), "no {part} in {body}");
        }
    }

    /// gitlab-runner, build §3.1.
    #[test]
    fn hooks_have_gits_environment_and_only_the_second_starts_in_the_project() {
        let job = with_hooks(vec![]);
        let pre = hook(&job, HookName::PreGetSourcesScript).unwrap();
        let post = hook(&job, HookName::PostGetSourcesScript).unwrap();
        let git = r"\nexport GIT_TERMINAL_PROMPT=0\nexport GCM_INTERACTIVE=Never";
        let ls = r"\necho $\'\\x1b[32;1m$ ls\\x1b[0;m\'\nls\n";
        assert!(pre.contains(&format!("{git}{ls}")), "{pre}");
        let lfs_and_cd = r"\nexport GIT_LFS_SKIP_SMUDGE=1\ncd /builds/grp/demo";
        assert!(post.contains(&format!("{git}{lfs_and_cd}{ls}")), "{post}");
    }

    /// gitlab-runner, build §2.7.
    #[test]
    fn sections_are_named_for_their_list() {
        let multi_line: &[&str] = &["ls", "true\ntrue"];
        let mut job = with_hooks(variables(&[("FF_SCRIPT_SECTIONS", "true")]));
        for hook in &mut job.hooks {
            hook.script = vec!["true\ntrue".into()];
        }
        job.steps = vec![
            step("release", multi_line),
            step("after_script", multi_line),
        ];
        let cases = [
            (
                hook(&job, HookName::PreGetSourcesScript),
                "pre_clone_script_0",
            ),
            (
                hook(&job, HookName::PostGetSourcesScript),
                "post_clone_script_0",
            ),
            (
                script(&job, &Stage::Step("release".into())),
                "script_step_1",
            ),
            (script(&job, &Stage::AfterScript), "after_script_step_1"),
        ];
        for (script, name) in cases {
            let end = format!(":section_{name}\\r\\x1b[0K\\n");
            assert!(script.unwrap().contains(&end), "{name}");
        }
    }

    #[test]
    fn sections_are_only_for_a_gitlab_that_shows_them() {
        let mut job = testing::with_variables(variables(&[("FF_SCRIPT_SECTIONS", "true")]));
        job.steps = vec![step("script", &["true\ntrue"])];
        job.trace.sections = false;
        let script = script(&job, &Stage::Step("script".into())).unwrap();
        assert!(!script.contains("section_start"));
    }

    #[test]
    fn a_job_that_skips_lfs_itself_keeps_its_own_variable() {
        let job = with_hooks(variables(&[("GIT_LFS_SKIP_SMUDGE", "true")]));
        let post = hook(&job, HookName::PostGetSourcesScript).unwrap();
        assert!(!post.contains("GIT_LFS_SKIP_SMUDGE=1"));
    }

    /// gitlab-runner, build §3.2.
    #[test]
    fn hooks_do_not_run_where_no_sources_come() {
        for strategy in ["none", "empty"] {
            let job = with_hooks(variables(&[("GIT_STRATEGY", strategy)]));
            assert_eq!(hook(&job, HookName::PreGetSourcesScript), None);
            assert_eq!(hook(&job, HookName::PostGetSourcesScript), None);
        }
        assert_eq!(hook(&testing::job(), HookName::PreGetSourcesScript), None);
    }

    #[test]
    fn a_script_that_no_shell_can_hold_is_refused() {
        let nul = |place: &str| ScriptError::Nul {
            place: place.to_owned(),
        };
        let mut job = testing::job();
        job.steps = vec![step("script", &["a\0b"])];
        assert_eq!(error(&job), nul("the script of step \"script\""));

        let mut job = with_hooks(vec![]);
        job.hooks[0].script = vec!["\0".into()];
        assert_eq!(error(&job), nul("the script of a hook"));

        let job = testing::with_variables(vec![variable("A", "\0")]);
        assert_eq!(error(&job), nul("variable \"A\""));
    }

    #[test]
    fn a_file_variable_that_would_leave_its_folder_is_refused() {
        for key in ["../../x", "/", "", ".", "..", "a/b"] {
            let file = Variable {
                file: true,
                ..variable(key, "x")
            };
            let error = error(&testing::with_variables(vec![file]));
            assert_eq!(error, ScriptError::FileVariable { key: key.into() });
        }
    }
}
