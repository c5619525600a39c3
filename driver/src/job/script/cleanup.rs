//! The last stage: what is removed when all else is over (facts, build §2.9.11 and §3.3).

use vk_hub_proto::job::CiJob;

use super::stages::{ENV_FILE, MASKING_FILE, ScriptContext};
use super::writer::Writer;
use crate::job::feature_flags::FeatureFlag;
use crate::job::settings::{GitStrategy, SubmoduleStrategy};

pub(super) fn write_cleanup(writer: &mut Writer, context: &ScriptContext<'_>) {
    if context.has_git {
        write_credential_reject(writer, context.job);
    }
    for name in [
        ENV_FILE,
        MASKING_FILE,
        ".gitlab-runner.ext.conf",
        ".glr.gconf",
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

/// Makes git's own credential stores forget the job token (facts, build §3.8).
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
        GitStrategy::Clone | GitStrategy::Empty => writer.remove_dir(project),
        GitStrategy::None => writer.notice("Skipping build directory cleanup step"),
        GitStrategy::Fetch if context.has_git => {
            writer.cd(project);
            write_worktree_cleanup(writer, context);
        }
        GitStrategy::Fetch => {}
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

/// Removes lock files, and what a job may have planted in git's configuration (facts, build §3.3).
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
    if settings.strategy == GitStrategy::None {
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
