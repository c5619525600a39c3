//! The last stage: what is removed when all else is over (gitlab-runner, build §2.9.11 and build §3.3).

use vk_hub_proto::job::CiJob;

use super::stages::{ENV_FILE, MASKING_FILE, ScriptContext};
use super::writer::Writer;
use crate::job::feature_flags::FeatureFlag;
use crate::job::settings::{Strategy, SubmoduleStrategy};
use vk_sources::{GUEST_CONFIG, GUEST_CREDENTIAL};

pub(super) fn write_cleanup(writer: &mut Writer, context: &ScriptContext<'_>) {
    if context.has_git {
        write_credential_reject(writer, context.job);
    }
    for name in [
        ENV_FILE,
        MASKING_FILE,
        GUEST_CONFIG,
        ".glr.gconf",
        GUEST_CREDENTIAL,
    ] {
        remove_tmp_file(writer, name);
    }
    let variables = context.environment.variables();
    for variable in variables.iter().filter(|variable| variable.file) {
        remove_tmp_file(writer, &variable.key);
    }
    if context.environment.is_on(FeatureFlag::JobCleanup) {
        write_project_cleanup(writer, context);
    }
    write_git_cleanup(writer, context);
    let builds = &context.environment.dirs().builds;
    writer.remove_file(&format!("{builds}/.gitlab-build-uid-gid"));
}

fn remove_tmp_file(writer: &mut Writer, name: &str) {
    let path = writer.tmp_file(name);
    writer.remove_file(&path);
}

/// Makes git's own credential stores forget the job token (gitlab-runner, build §3.8).
fn write_credential_reject(writer: &mut Writer, job: &CiJob) {
    let Some((scheme, host)) = scheme_and_host(&job.sources.repo_url) else {
        return;
    };
    let credential = format!("url={scheme}://{host}\nusername=gitlab-ci-token");
    let print = writer.print(&credential);
    writer.line(&format!("{print} | git credential reject || true"));
}

/// Scheme and `host[:port]` of a URL over which git asks for credentials.
fn scheme_and_host(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    if !matches!(scheme, "http" | "https" | "ssh") {
        return None;
    }
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    (!host.is_empty()).then_some((scheme, host))
}

/// `FF_ENABLE_JOB_CLEANUP`.
fn write_project_cleanup(writer: &mut Writer, context: &ScriptContext<'_>) {
    let project = &context.environment.dirs().project;
    match context.environment.settings().strategy {
        Strategy::Clone | Strategy::Empty => writer.remove_dir(project),
        Strategy::None => writer.notice("Skipping build directory cleanup step"),
        Strategy::Fetch if context.has_git => {
            writer.cd(project);
            write_worktree_cleanup(writer, context);
        }
        Strategy::Fetch => {}
    }
}

fn write_worktree_cleanup(writer: &mut Writer, context: &ScriptContext<'_>) {
    let settings = context.environment.settings();
    let mut clean = vec!["git", "clean"];
    clean.extend(settings.clean_flags.iter().map(String::as_str));
    let clean = (!settings.clean_flags.is_empty()).then_some(clean);
    let reset = vec!["git", "reset", "--hard"];
    let commands = || clean.iter().chain([&reset]);
    for command in commands() {
        writer.command(command);
    }
    let foreach: &[&str] = match settings.submodule_strategy {
        SubmoduleStrategy::Normal => &["git", "submodule", "foreach"],
        SubmoduleStrategy::Recursive => &["git", "submodule", "foreach", "--recursive"],
        SubmoduleStrategy::None | SubmoduleStrategy::Invalid => return,
    };
    for command in commands() {
        writer.command(&[foreach, command].concat());
    }
}

/// Removes lock files, and what a job may have planted in git's configuration (gitlab-runner, build §3.3).
fn write_git_cleanup(writer: &mut Writer, context: &ScriptContext<'_>) {
    let settings = context.environment.settings();
    let with_submodules = matches!(
        settings.submodule_strategy,
        SubmoduleStrategy::Normal | SubmoduleStrategy::Recursive
    );
    let git = format!("{}/.git", context.environment.dirs().project);
    let modules = format!("{git}/modules");
    let lock_files = [
        ("index.lock", "index.lock"),
        ("shallow.lock", "shallow.lock"),
        ("HEAD.lock", "HEAD.lock"),
        ("hooks/post-checkout", "post-checkout"),
        ("config.lock", "config.lock"),
    ];
    for (path, base_name) in lock_files {
        writer.remove_file(&format!("{git}/{path}"));
        if with_submodules {
            writer.remove_files_below(&modules, base_name);
        }
    }
    writer.remove_files_below(&format!("{git}/refs"), "*.lock");
    if settings.strategy == Strategy::None {
        return;
    }
    let template = writer.tmp_file("git-template");
    for folder in [&template, &git] {
        writer.remove_file(&format!("{folder}/config"));
        writer.remove_dir(&format!("{folder}/hooks"));
    }
    if with_submodules {
        writer.remove_files_below(&modules, "config");
        writer.remove_dirs_below(&modules, "hooks");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::script::{Shell, stage_script};
    use crate::job::stage::Stage;
    use crate::job::testing::{self, variables};
    use crate::job::variables::{JobEnvironment, Slot};

    const URL: &str = "https://gitlab.example.com/grp/demo.git";

    /// The script with its body's line breaks as they are.
    fn cleanup(repo_url: &str, own: &[(&str, &str)]) -> String {
        let mut job = testing::with_variables(variables(own));
        job.sources.repo_url = repo_url.into();
        let environment = JobEnvironment::new(&job, Slot::default()).unwrap();
        let context = ScriptContext {
            job: &job,
            environment: &environment,
            shell: Shell::Bash,
            has_git: true,
            host_name: None,
        };
        stage_script(&Stage::CleanupFileVariables, &context)
            .unwrap()
            .unwrap()
            .replace("\\n", "\n")
    }

    /// What stands between the removal of temporary files and the cleanup of git's own.
    fn project_cleanup(script: &str) -> &str {
        let start = "rm \"-f\" \"/builds/grp/demo.tmp/.vk-git-credential\"\n";
        let end = "rm \"-f\" \"/builds/grp/demo/.git/index.lock\"\n";
        let (_, behind) = script.split_once(start).unwrap();
        behind.split_once(end).unwrap().0
    }

    /// gitlab-runner, build §3.8.
    #[test]
    fn credentials_are_forgotten_for_urls_that_git_asks_credentials_for() {
        let cases = [
            ("http://h:8080/x.git", Some("http://h:8080")),
            ("https://u:p@h/x.git", Some("https://h")),
            ("ssh://git@h:22/x.git", Some("ssh://h:22")),
            ("file:///srv/x.git", None),
            ("git@h:x.git", None),
            ("/srv/x.git", None),
            ("https:///x", None),
        ];
        for (url, host) in cases {
            let script = cleanup(url, &[]);
            let rejected = script
                .lines()
                .any(|line| line.ends_with("| git credential reject || true"));
            assert_eq!(rejected, host.is_some(), "{url}");
            if let Some(host) = host {
                assert!(
                    script.contains(&format!("'url={host}\\\nusername=")),
                    "{script}"
                );
            }
        }
    }

    #[test]
    fn job_cleanup_follows_the_strategy() {
        let flag = ("FF_ENABLE_JOB_CLEANUP", "true");
        let cases: [(&[(&str, &str)], &str); 5] = [
            (
                &[("GIT_STRATEGY", "clone"), flag],
                "if [ -d \"/builds/grp/demo\" ]; then\n  \
                   chmod \"-R\" \"u+rwX\" \"/builds/grp/demo\"\n\
                 fi\n\
                 rm \"-r\" \"-f\" \"/builds/grp/demo\"\n",
            ),
            (
                &[flag],
                "cd /builds/grp/demo\ngit clean -ffdx\ngit reset --hard\n",
            ),
            (
                &[("GIT_CLEAN_FLAGS", "none"), flag],
                "cd /builds/grp/demo\ngit reset --hard\n",
            ),
            (
                &[
                    ("GIT_SUBMODULE_STRATEGY", "recursive"),
                    ("GIT_CLEAN_FLAGS", "-f -d"),
                    flag,
                ],
                "cd /builds/grp/demo\ngit clean -f -d\ngit reset --hard\n\
                 git submodule foreach --recursive git clean -f -d\n\
                 git submodule foreach --recursive git reset --hard\n",
            ),
            (&[], ""),
        ];
        for (own, expected) in cases {
            assert_eq!(project_cleanup(&cleanup(URL, own)), expected, "{own:?}");
        }
    }

    #[test]
    fn strategy_none_leaves_folder_and_configuration() {
        let script = cleanup(
            URL,
            &[("GIT_STRATEGY", "none"), ("FF_ENABLE_JOB_CLEANUP", "true")],
        );
        let notice = "Skipping build directory cleanup step";
        assert!(project_cleanup(&script).contains(notice));
        assert!(!script.contains(".git/config\""));
        assert!(script.contains(".git/config.lock\""));
    }

    #[test]
    fn submodules_are_cleaned_with_their_parent() {
        let script = cleanup(URL, &[("GIT_SUBMODULE_STRATEGY", "normal")]);
        let files = [
            "index.lock",
            "shallow.lock",
            "HEAD.lock",
            "post-checkout",
            "config.lock",
            "config",
        ];
        for name in files {
            let find = format!(
                "find \"/builds/grp/demo/.git/modules\" -name \"{name}\" \
                 -type f -exec rm -f {{}} \"${{et}}\"\n"
            );
            assert!(script.contains(&find), "{name}");
        }
        let find = "find \"/builds/grp/demo/.git/modules\" -name \"hooks\" \
             -type d -depth -exec rm -rf -- {} \"${et}\"\n";
        assert!(script.contains(find));
    }
}
