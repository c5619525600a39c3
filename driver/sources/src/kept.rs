//! A fetch with the help of kept objects.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use super::cache::{Entry, stop_borrowing, take_back_refs};
use super::error::{CheckoutError, GitFailure};
use super::git::{Git, GitCommand};

/// How kept objects served.
pub(super) enum Kept {
    /// The fetch is done, and what it brought is kept.
    Served,
    /// They do not go with what the server has, or are damaged; they are gone. The repository is of no use.
    Unusable,
}

/// Runs `fetch` in the new repository of `git` with the objects of `entry`.
///
/// # Errors
///
/// When the fetch fails for a reason that lies elsewhere.
pub(super) async fn fetch(
    git: &mut Git<'_>,
    entry: Entry,
    fetch: GitCommand,
) -> Result<Kept, CheckoutError> {
    let git_dir = git.project.join(".git");
    let has_objects = entry.has_objects();
    let (ended, result) = match attempt(git, &git_dir, &entry, fetch).await {
        Ok(tips) => {
            let leave = move || entry.leave(&git_dir, tips);
            (Ok(Kept::Served), tokio::task::spawn_blocking(leave).await)
        }
        Err(error) if has_objects && may_be_ours(&error) => {
            tracing::warn!(%error, "the kept sources are thrown away");
            let discard = move || entry.discard();
            (
                Ok(Kept::Unusable),
                tokio::task::spawn_blocking(discard).await,
            )
        }
        Err(error) => return Err(error),
    };
    told(result.map_err(io::Error::from).flatten());
    ended
}

/// Gives the tips of what came.
async fn attempt(
    git: &mut Git<'_>,
    git_dir: &Path,
    entry: &Entry,
    fetch: GitCommand,
) -> Result<Vec<String>, CheckoutError> {
    let has_objects = entry.has_objects();
    if has_objects {
        let lent = entry.lend(git_dir);
        lent.map_err(CheckoutError::io("lend kept sources to", git_dir))?;
    }
    git.run(fetch).await?;
    if has_objects {
        let back = take_back_refs(git_dir);
        back.map_err(CheckoutError::io("tidy the refs of", git_dir))?;
    }
    let list = ["--sort=-creatordate", "--format=%(objectname)"];
    let tips = hashes(git, GitCommand::new("for-each-ref").args(list)).await?;
    told(entry.keep(git_dir, tips.clone()));
    if has_objects {
        // Takes in what the refs reach, and nothing else. Searching for deltas would take many times as long.
        let repack = GitCommand::new("repack")
            .args(["-a", "-d", "-n", "-q"])
            .bounded()
            .setting("pack.window", "0")
            .setting("pack.compression", "1")
            .setting("repack.writeBitmaps", "false");
        git.run(repack).await?;
        let commits = if git_dir.join("shallow").exists() {
            hashes(git, GitCommand::new("rev-list").arg("--all")).await?
        } else {
            Vec::new()
        };
        let commits: HashSet<String> = commits.into_iter().collect();
        let stopped = stop_borrowing(git_dir, &commits);
        stopped.map_err(CheckoutError::io("finish", git_dir))?;
    }
    Ok(tips)
}

/// What a command prints, each line once.
async fn hashes(git: &mut Git<'_>, command: GitCommand) -> Result<Vec<String>, CheckoutError> {
    let subcommand = command.subcommand();
    let (ended, answer) = git.answer(command).await?;
    if ended.exit_code != 0 {
        return Err(CheckoutError::Git {
            command: subcommand,
            failure: ended.failure,
            exit_code: ended.exit_code,
        });
    }
    let mut seen = HashSet::new();
    let text = String::from_utf8_lossy(&answer);
    let lines = text.lines().filter(|line| seen.insert(line.to_owned()));
    Ok(lines.map(str::to_owned).collect())
}

/// Whether damaged or unfit objects of ours explain it.
fn may_be_ours(error: &CheckoutError) -> bool {
    match error {
        CheckoutError::Git { failure, .. } => {
            matches!(failure, GitFailure::Other | GitFailure::MissingCommit)
        }
        CheckoutError::Io { .. } => true,
        _ => false,
    }
}

/// A job does not fail because nothing could be kept of it.
fn told(result: io::Result<()>) {
    if let Err(error) = result {
        tracing::warn!(%error, "cannot keep sources for later jobs");
    }
}
