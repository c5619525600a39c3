//! Submodules, in GitLab Runner's order (gitlab-runner, build §3.7).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::CheckoutError;
use super::flags::SUBMODULE_UPDATE;
use super::git::{Git, GitCommand};
use super::lines::{self, SourceLine};
use super::request::Submodules;

/// A submodule that is there.
pub(super) struct Submodule {
    /// Its path as git shows it.
    pub(super) shown: String,
    /// Its folder.
    pub(super) folder: PathBuf,
}

/// Says which submodules there are: two fields of each, ended by NULs.
const TELL: &str = r#"printf '%s\0%s\0' "$displaypath" "$toplevel/$sm_path""#;

/// What cleans a submodule when the job turned cleaning off.
const DEFAULT_CLEAN: [&str; 1] = ["-ffdx"];

impl Submodules<'_> {
    /// Refuses what must not reach git on the host.
    pub(super) fn check(&self) -> Result<(), CheckoutError> {
        SUBMODULE_UPDATE.check(self.update_flags)?;
        match self.paths.iter().find(|path| *path == ":(exclude)") {
            Some(path) => Err(CheckoutError::RefusedFlag {
                variable: "GIT_SUBMODULE_PATHS",
                flag: path.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Brings the submodules of the checked out commit.
    pub(super) async fn update(
        &self,
        git: &mut Git<'_>,
        clean_flags: Option<&[String]>,
    ) -> Result<(), CheckoutError> {
        let clean = || {
            let command = foreach(self.recursive).args(["git", "clean"]);
            match clean_flags {
                Some(flags) => command.args(flags),
                None => command.args(DEFAULT_CLEAN),
            }
        };
        let reset = || foreach(self.recursive).args(["git", "reset", "--hard"]);

        let notice = lines::updating_submodules(self.recursive, self.depth);
        git.print(SourceLine::notice(notice));
        git.run(GitCommand::new("submodule").arg("init")).await?;
        git.run(self.sync()).await?;
        git.run(clean()).await?;
        git.run(reset()).await?;
        if git.attempt(self.update_command()).await?.exit_code == 0 {
            git.print(SourceLine::notice(lines::UPDATED_SUBMODULES));
            git.run(self.sync()).await?;
        } else {
            git.print(SourceLine::warning(lines::RETRYING_SUBMODULES));
            if self.follows_branches() {
                let all = "+refs/heads/*:refs/remotes/origin/*";
                let fetch = foreach(self.recursive).args(["git", "fetch", "origin", all]);
                git.run(fetch.bounded()).await?;
            }
            git.run(self.sync()).await?;
            git.run(self.update_command()).await?;
            git.run(reset()).await?;
        }
        git.run(clean()).await
    }

    /// Prints what making the submodules include a config prints: their names, at any depth.
    pub(super) async fn announce_include(git: &mut Git<'_>) -> Result<(), CheckoutError> {
        git.print(SourceLine::notice(lines::CONFIGURING_SUBMODULES));
        git.run(foreach(true).arg("true")).await
    }

    /// Makes each submodule include `guest_config`, silently. `foreach` must not meet a config that includes it
    /// already: on this host the path may be anybody's.
    pub(super) async fn include(
        git: &mut Git<'_>,
        guest_config: &str,
    ) -> Result<(), CheckoutError> {
        let where_from = ["git", "rev-parse", "--absolute-git-dir"];
        let quiet = GitCommand::new("submodule").args(["--quiet", "foreach", "--recursive"]);
        let (_, folders) = git.answer(quiet.args(where_from)).await?;
        for folder in folders.split(|&byte| byte == b'\n') {
            let folder = Path::new(OsStr::from_bytes(folder));
            // A name with a line break in it must not lead anywhere else.
            if folder.starts_with(git.project.join(".git/modules")) {
                git.include(&folder.join("config"), guest_config).await?;
            }
        }
        Ok(())
    }

    /// The submodules that were brought.
    pub(super) async fn list(&self, git: &mut Git<'_>) -> Result<Vec<Submodule>, CheckoutError> {
        let quiet = GitCommand::new("submodule").args(["--quiet", "foreach"]);
        let recursive = self.recursive.then_some("--recursive");
        let (_, told) = git.answer(quiet.args(recursive).arg(TELL)).await?;
        let mut fields = told.split(|&byte| byte == 0);
        let mut submodules = Vec::new();
        while let (Some(shown), Some(folder)) = (fields.next(), fields.next()) {
            submodules.push(Submodule {
                shown: String::from_utf8_lossy(shown).into_owned(),
                folder: PathBuf::from(OsStr::from_bytes(folder)),
            });
        }
        Ok(submodules)
    }

    fn follows_branches(&self) -> bool {
        self.update_flags
            .iter()
            .any(|flag| flag.eq_ignore_ascii_case("--remote"))
    }

    fn update_command(&self) -> GitCommand {
        let mut command = GitCommand::new("submodule")
            .args(["update", "--init"])
            .bounded();
        if self.recursive {
            command = command.arg("--recursive");
        }
        if self.depth > 0 {
            command = command.arg("--depth").arg(self.depth.to_string());
        }
        self.with_paths(command.args(self.update_flags))
    }

    fn sync(&self) -> GitCommand {
        let mut command = GitCommand::new("submodule").arg("sync");
        if self.recursive {
            command = command.arg("--recursive");
        }
        self.with_paths(command)
    }

    fn with_paths(&self, command: GitCommand) -> GitCommand {
        if self.paths.is_empty() {
            command
        } else {
            command.arg("--").args(self.paths)
        }
    }
}

fn foreach(recursive: bool) -> GitCommand {
    let command = GitCommand::new("submodule").arg("foreach");
    if recursive {
        command.arg("--recursive")
    } else {
        command
    }
}
