//! One checkout, in GitLab Runner's order (gitlab-runner, build §3).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;

use tempfile::TempDir;

use super::credential::Credential;
use super::error::CheckoutError;
use super::flags;
use super::folder::Folder;
use super::git::{Git, GitCommand};
use super::group::Group;
use super::kept::{self, Kept};
use super::lfs::{Lfs, SMALL};
use super::lines::{self, Rewriter, SourceLine};
use super::local::LocalRepo;
use super::plan::Plan;
use super::request::{CheckoutRequest, Strategy, Submodules};
use super::size::{self, Commit, Listing, TreeSize};
use super::submodules::Submodule;
use super::watch::Bound;

/// A finished checkout. Its files are removed when it is dropped; [`Checkout::remove`] does not hold up the
/// thread.
#[derive(Debug)]
pub struct Checkout {
    project: PathBuf,
    sha: Option<String>,
    folder: TempDir,
}

impl Checkout {
    /// The project folder on the host: what the guest gets. Empty for the strategies without sources.
    #[must_use]
    pub fn project_dir(&self) -> &Path {
        &self.project
    }

    /// The commit that was asked for, or a local repository's `HEAD`; `None` without sources.
    #[must_use]
    pub fn sha(&self) -> Option<&str> {
        self.sha.as_deref()
    }

    /// Removes the files.
    ///
    /// # Errors
    ///
    /// When some cannot be removed.
    pub async fn remove(self) -> Result<(), CheckoutError> {
        let path = self.folder.path().to_path_buf();
        tokio::task::spawn_blocking(|| self.folder.close())
            .await
            .map_err(io::Error::from)
            .flatten()
            .map_err(CheckoutError::io("remove", &path))
    }
}

/// Checks the sources out into a new folder below `request.work_dir`, giving out the lines that the stage
/// prints, git's own among them.
///
/// When `cancel` resolves, or the future is dropped, every process of the checkout is killed at once; the same
/// happens when this process dies. The job's token is told to git by a helper that reads it from memory, for
/// the hosts of `server_url` and of the repository alone. git sees neither the user's nor the system's settings
/// nor their environment, runs no program that the repository or the job names, and speaks HTTP(S) only. The
/// checkout holds nothing of the host.
///
/// # Errors
///
/// See [`CheckoutError`]; after [`CheckoutError::Git`] the lines have told what git said.
pub async fn checkout(
    request: &CheckoutRequest<'_>,
    lines: &mut (dyn FnMut(SourceLine) + Send),
    cancel: impl Future<Output = ()> + Send,
) -> Result<Checkout, CheckoutError> {
    let cancel = pin!(cancel);
    let folder = Folder::new(request.work_dir)?;
    if !request.strategy.has_sources() {
        skip(request.strategy, lines);
        return Ok(finished(folder, None));
    }
    let mut plan = Plan::new(request.sources, request.local_repo.is_some())?;
    flags::FETCH.check(request.fetch_flags)?;
    flags::CLEAN.check(request.clean_flags.unwrap_or_default())?;
    if let Some(submodules) = &request.submodules {
        submodules.check()?;
    }

    // Lives as long as git may ask for it.
    let credential = Credential::new(request.token)?;
    folder.write_settings(request, &plan, credential.as_ref())?;
    let mut rewriter = Rewriter::default();
    rewriter.replace(request.token.as_bytes(), b"[MASKED]");
    rewriter.replace_path(&folder.project(), request.guest_project_dir);
    rewriter.replace_path(&folder.path, &format!("{}.tmp", request.guest_project_dir));
    if let Some(cache) = request.cache {
        rewriter.replace_path(cache.path(), "(kept sources)");
    }
    let mut git = Git {
        environment: request.environment,
        home: folder.home(),
        project: folder.project(),
        group: Group::start().map_err(CheckoutError::io("start", Path::new("/bin/sh")))?,
        rewriter,
        max_alloc_bytes: request.max_alloc_bytes,
        bound: Bound {
            folder: folder.path.clone(),
            max_bytes: request.max_tree_bytes.saturating_mul(2),
        },
        lines,
        cancel,
    };
    let local = match request.local_repo {
        Some(path) => Some(LocalRepo::open(path, &mut git, &mut plan).await?),
        None => None,
    };
    fetch(&mut git, request, &plan, local.as_ref(), &folder.template()).await?;
    let mut tree = TreeSize::default();
    let lfs = Lfs::new(request, &plan, local.as_ref(), folder.path.join("lfs"));
    if let Some(listing) = check_out(&mut git, request, &plan, &mut tree).await? {
        lfs.pull(&mut git, &plan, &listing, &mut tree).await?;
    }
    match &request.submodules {
        Some(submodules) => {
            submodules.update(&mut git, request.clean_flags).await?;
            if request.guest_config.is_some() {
                Submodules::announce_include(&mut git).await?;
            }
            let listed = list_submodules(&mut git, request, submodules, &mut tree).await?;
            lfs.pull_submodules(&mut git, &listed, &mut tree).await?;
        }
        None => git.print(SourceLine::notice(lines::SKIPPING_SUBMODULES)),
    }
    // Last: git on the host must not read it.
    if let Some(guest_config) = request.guest_config {
        if request.submodules.is_some() {
            Submodules::include(&mut git, guest_config).await?;
        }
        let config = folder.project().join(".git/config");
        git.include(&config, guest_config).await?;
    }
    Ok(finished(folder, plan.sha))
}

fn finished(folder: Folder, sha: Option<String>) -> Checkout {
    Checkout {
        project: folder.project(),
        sha,
        folder: folder.into_owner(),
    }
}

/// What is printed when there is nothing to fetch.
fn skip(strategy: Strategy, lines: &mut (dyn FnMut(SourceLine) + Send)) {
    let repository = match strategy {
        Strategy::Empty => lines::EMPTY_DIRECTORY,
        _ => lines::SKIPPING_REPOSITORY,
    };
    for notice in [
        repository,
        lines::SKIPPING_CHECKOUT,
        lines::SKIPPING_SUBMODULES,
    ] {
        lines(SourceLine::notice(notice));
    }
}

/// gitlab-runner, build §3.4.2.
async fn fetch(
    git: &mut Git<'_>,
    request: &CheckoutRequest<'_>,
    plan: &Plan,
    local: Option<&LocalRepo>,
    template: &Path,
) -> Result<(), CheckoutError> {
    if let Some(id) = request.correlation_id {
        git.print(SourceLine::notice(lines::correlation_id(id)));
    }
    git.print(SourceLine::notice(lines::fetching(plan.depth)));
    init(git, plan, template).await?;
    let reinitialized = request.retry && request.strategy == Strategy::Fetch;
    let initialized = lines::initialized(reinitialized, request.guest_project_dir);
    git.print(SourceLine::plain(initialized));
    if local.is_none() {
        add_origin(git, plan).await?;
    }
    git.print(SourceLine::notice(lines::CREATED_REPOSITORY));

    let command = || {
        let fetch = match local {
            Some(local) => local.fetch().args(["origin", &local.sha]),
            None => GitCommand::new("fetch").arg("origin"),
        };
        let fetch = fetch
            .bounded()
            .arg("--no-recurse-submodules")
            .args(&plan.refspecs);
        let depth = (plan.depth > 0).then(|| ["--depth".to_owned(), plan.depth.to_string()]);
        fetch
            .args(depth.into_iter().flatten())
            .args(request.fetch_flags)
    };
    let entry = || request.cache.and_then(|cache| cache.open(request, plan));
    match entry() {
        None => git.run(command()).await?,
        Some(kept) => {
            if let Kept::Unusable = kept::fetch(git, kept, command()).await? {
                git.print(SourceLine::warning(lines::DISCARDING_KEPT_SOURCES));
                let git_dir = git.project.join(".git");
                fs::remove_dir_all(&git_dir).map_err(CheckoutError::io("remove", &git_dir))?;
                init(git, plan, template).await?;
                add_origin(git, plan).await?;
                match entry().filter(|entry| !entry.has_objects()) {
                    Some(empty) => kept::fetch(git, empty, command()).await.map(|_| ())?,
                    None => git.run(command()).await?,
                }
            }
        }
    }
    if local.is_some() {
        // Until now, `origin` was the local repository.
        add_origin(git, plan).await?;
    }
    Ok(())
}

async fn init(git: &mut Git<'_>, plan: &Plan, template: &Path) -> Result<(), CheckoutError> {
    let init = GitCommand::new("init")
        .arg("--quiet")
        .arg("--template")
        .arg(template)
        .arg("--object-format")
        .arg(plan.object_format.name());
    git.run(init).await
}

async fn add_origin(git: &mut Git<'_>, plan: &Plan) -> Result<(), CheckoutError> {
    match &plan.origin {
        Some(origin) => {
            let add = GitCommand::new("remote").args(["add", "origin", &origin.text]);
            git.run(add).await
        }
        None => Ok(()),
    }
}

/// gitlab-runner, build §3.5. Gives what was checked out, if anything was.
async fn check_out(
    git: &mut Git<'_>,
    request: &CheckoutRequest<'_>,
    plan: &Plan,
    tree: &mut TreeSize,
) -> Result<Option<Listing>, CheckoutError> {
    let Some(sha) = plan.sha.as_deref().filter(|_| request.checkout) else {
        git.print(SourceLine::notice(lines::SKIPPING_CHECKOUT));
        return Ok(None);
    };
    let notice = lines::checking_out(sha, &plan.git_ref);
    git.print(SourceLine::notice(notice));
    let project = git.project.clone();
    let flags = &mut request.fetch_flags.iter();
    let is_partial = flags.any(|flag| flag.starts_with("--filter"));
    let mut commit = Commit {
        folder: &project,
        sha,
        has_sizes: !is_partial,
        max_bytes: request.max_tree_bytes,
        small: SMALL,
    };
    let list = git.home.join("small-files");
    let mut listing = size::list(git, &commit, tree, list.clone()).await?;
    let checkout = GitCommand::new("checkout").args(["-f", "-q", sha]);
    if is_partial {
        git.run(checkout.bounded()).await?;
        // Now everything is there.
        commit.has_sizes = true;
        *tree = TreeSize::default();
        listing = size::list(git, &commit, tree, list).await?;
    } else {
        git.run(checkout).await?;
    }
    if let Some(flags) = request.clean_flags {
        git.run(GitCommand::new("clean").args(flags)).await?;
    }
    Ok(Some(listing))
}

/// What the submodules' commits have; they are checked out already.
async fn list_submodules(
    git: &mut Git<'_>,
    request: &CheckoutRequest<'_>,
    submodules: &Submodules<'_>,
    tree: &mut TreeSize,
) -> Result<Vec<(Submodule, Listing)>, CheckoutError> {
    let mut listed = Vec::new();
    for (number, submodule) in submodules.list(git).await?.into_iter().enumerate() {
        let commit = Commit {
            folder: &submodule.folder,
            sha: "HEAD",
            has_sizes: true,
            max_bytes: request.max_tree_bytes,
            small: SMALL,
        };
        let file = git.home.join(format!("small-files-{number}"));
        let listing = size::list(git, &commit, tree, file).await?;
        listed.push((submodule, listing));
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use vk_hub_proto::job::Sources;

    use super::*;

    #[tokio::test]
    async fn a_host_without_git_is_told_which_package_to_install() {
        let work = tempfile::tempdir().unwrap();
        let sources = Sources {
            repo_url: "http://127.0.0.1:1/x.git".into(),
            sha: "1".repeat(40),
            ..Sources::default()
        };
        let request = CheckoutRequest {
            sources: &sources,
            local_repo: None,
            server_url: "",
            token: "",
            ca_pem: None,
            strategy: Strategy::Clone,
            retry: false,
            checkout: true,
            lfs: true,
            clean_flags: None,
            fetch_flags: &[],
            submodules: None,
            correlation_id: None,
            environment: &[("PATH".into(), "/nonexistent".into())],
            user_agent: "vk",
            work_dir: work.path(),
            guest_project_dir: "/builds/x",
            guest_config: None,
            cache: None,
            max_tree_bytes: 1 << 30,
            max_alloc_bytes: CheckoutRequest::MAX_ALLOC_BYTES,
            stall_after: Duration::from_secs(1),
        };

        let error = checkout(&request, &mut |_| (), pending())
            .await
            .unwrap_err();

        assert!(matches!(error, CheckoutError::GitMissing), "{error:?}");
        assert!(error.to_string().contains("package `git`"));
    }
}
