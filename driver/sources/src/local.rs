//! Sources from a repository on this host (`--repo DIR`).

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::CheckoutError;
use super::git::{Git, GitCommand, Transport};
use super::plan::{ObjectFormat, Plan, printable};

/// A local repository and what of it is fetched.
pub(super) struct LocalRepo {
    /// Its `.git` folder.
    pub(super) git_dir: PathBuf,
    /// The folder that its work trees share.
    pub(super) common_dir: PathBuf,
    /// The commit.
    pub(super) sha: String,
}

impl LocalRepo {
    /// Opens the repository that `folder` lies in, and fills in what `plan` leaves to it: the commit, the ref,
    /// the object format, and which of the refs to fetch it has.
    pub(super) async fn open(
        folder: &Path,
        git: &mut Git<'_>,
        plan: &mut Plan,
    ) -> Result<Self, CheckoutError> {
        let refuse = |why: String| CheckoutError::LocalRepository {
            path: folder.to_path_buf(),
            why,
        };
        let folder = folder
            .canonicalize()
            .map_err(|error| refuse(error.to_string()))?;
        if !folder.is_dir() {
            return Err(refuse("it is not a folder".to_owned()));
        }
        let asked = |arguments: &[&str]| {
            GitCommand::new("rev-parse")
                .args(arguments)
                .directory(&folder)
        };
        let (ended, git_dir) = git.answer(asked(&["--absolute-git-dir"])).await?;
        if ended.exit_code != 0 {
            return Err(refuse(ended.last_error));
        }
        let git_dir = PathBuf::from(OsStr::from_bytes(git_dir.trim_ascii_end()));
        let (_, common) = git.answer(asked(&["--git-common-dir"])).await?;
        let common_dir = folder.join(OsStr::from_bytes(common.trim_ascii_end()));
        let (_, format) = git.answer(asked(&["--show-object-format"])).await?;
        plan.object_format = ObjectFormat::parse(&text(&format))
            .ok_or_else(|| refuse(format!("its object format `{}` is unknown", text(&format))))?;

        let sha = if let Some(sha) = &plan.sha {
            sha.clone()
        } else {
            let commit = asked(&["--verify", "--quiet", "HEAD^{commit}"]);
            let (ended, sha) = git.answer(commit).await?;
            if ended.exit_code != 0 {
                return Err(refuse("it has no commit yet: commit something".to_owned()));
            }
            text(&sha)
        };
        if plan.git_ref.is_empty() {
            let head = asked(&["--abbrev-ref", "HEAD"]);
            let (_, branch) = git.answer(head).await?;
            let branch = text(&branch);
            if plan.refspecs.is_empty() && branch != "HEAD" {
                plan.refspecs
                    .push(format!("+refs/heads/{branch}:refs/remotes/origin/{branch}"));
            }
            plan.git_ref = printable(&branch);
        }
        let refs = Self::refs(&git_dir, git).await?;
        plan.refspecs = available(&plan.refspecs, &refs);
        plan.sha = Some(sha.clone());
        Ok(Self {
            git_dir,
            common_dir,
            sha,
        })
    }

    async fn refs(git_dir: &Path, git: &mut Git<'_>) -> Result<HashSet<String>, CheckoutError> {
        let list = GitCommand::new("for-each-ref")
            .arg("--format=%(refname)")
            .directory(git_dir);
        let (_, refs) = git.answer(list).await?;
        Ok(String::from_utf8_lossy(&refs)
            .lines()
            .map(str::to_owned)
            .collect())
    }

    /// The command that fetches from here: nothing in the new repository will name this host's folder.
    pub(super) fn fetch(&self) -> GitCommand {
        GitCommand::new("fetch")
            .args(["--no-write-fetch-head", "--update-shallow"])
            .setting("remote.origin.url", &self.git_dir)
            .transport(Transport::File)
    }
}

/// The refspecs whose source the repository has: a developer's repository lacks `refs/pipelines/…` and other
/// people's branches. Its copy of a branch of `origin` stands in for a branch that it has not.
fn available(refspecs: &[String], refs: &HashSet<String>) -> Vec<String> {
    refspecs
        .iter()
        .filter_map(|refspec| {
            let plain = refspec.strip_prefix('+').unwrap_or(refspec);
            let (source, target) = plain.split_once(':').unwrap_or((plain, ""));
            if source.contains('*') || refs.contains(source) {
                return Some(refspec.clone());
            }
            let branch = source.strip_prefix("refs/heads/")?;
            let copy = format!("refs/remotes/origin/{branch}");
            (refs.contains(&copy) && !target.is_empty()).then(|| format!("+{copy}:{target}"))
        })
        .collect()
}

fn text(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refs_that_the_repository_lacks_are_left_out_or_replaced() {
        let refs = ["refs/heads/main", "refs/remotes/origin/topic"]
            .map(str::to_owned)
            .into();
        let refspecs = [
            "+refs/pipelines/7:refs/pipelines/7",
            "+refs/heads/main:refs/remotes/origin/main",
            "+refs/heads/topic:refs/remotes/origin/topic",
            "+refs/tags/*:refs/tags/*",
        ]
        .map(str::to_owned);

        assert_eq!(
            available(&refspecs, &refs),
            [
                "+refs/heads/main:refs/remotes/origin/main",
                "+refs/remotes/origin/topic:refs/remotes/origin/topic",
                "+refs/tags/*:refs/tags/*",
            ]
        );
    }
}
