//! Git LFS, as GitLab Runner does it where there is git-lfs (gitlab-runner, build §3.5-4 and build §3.7-12): `git lfs
//! pull` behind the checkout, and in submodules.
//!
//! Here it runs on the host, for repositories of anybody. So vk decides where objects come from
//! ([`endpoint`]), which are there already ([`store`]) and how much may come; git-lfs sees settings of ours over
//! all that a repository's `.lfsconfig` may say, gets the token from git's own helper for the job's servers
//! alone, and knows no way to transfer but HTTP(S). Nothing runs for a repository without LFS files.

mod endpoint;
mod pointer;
mod scan;
mod store;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::CheckoutError;
use super::git::{Git, GitCommand};
use super::lines::{self, SourceLine};
use super::local::LocalRepo;
use super::plan::Plan;
use super::request::CheckoutRequest;
use super::settings::scopes;
use super::size::{Listing, TreeSize};
use super::submodules::Submodule;
use endpoint::Endpoint;
use scan::Pointers;
use store::Store;

/// How long git-lfs waits for a server that sends nothing, unless the checkout waits less. It tries each object
/// up to eight times (git-lfs, `lfs.activitytimeout`, `lfs.transfer.maxretries`), and waits for ever where a server
/// answers for fewer objects than it was asked for: hence [`GitCommand::stall_after`] besides.
const ACTIVITY_TIMEOUT: Duration = Duration::from_secs(30);

/// Sizes of files that may be pointers, in bytes.
pub(super) const SMALL: Range<u64> = pointer::MIN_POINTER..pointer::MAX_POINTER;

/// LFS in one checkout.
pub(super) struct Lfs<'a> {
    request: &'a CheckoutRequest<'a>,
    /// A folder of ours for objects, gone with the checkout.
    storage: PathBuf,
    /// Where objects of the repository itself may be found and kept.
    store: Store,
}

/// A checked out commit that may have LFS files.
struct Repository<'a> {
    folder: &'a Path,
    sha: &'a str,
    /// URL of the repository; `None` when there is none to fetch from.
    url: Option<&'a str>,
}

impl<'a> Lfs<'a> {
    /// `storage` is a folder that is not there yet.
    pub(super) fn new(
        request: &'a CheckoutRequest<'a>,
        plan: &Plan,
        local: Option<&LocalRepo>,
        storage: PathBuf,
    ) -> Self {
        let store = match (local, request.cache) {
            (Some(local), _) => Store::of_local(&local.common_dir),
            (None, Some(cache)) => cache
                .lfs_folder(request, plan)
                .map_or(Store::None, |folder| Store::Kept(cache.clone(), folder)),
            (None, None) => Store::None,
        };
        Self {
            request,
            storage,
            store,
        }
    }

    /// Brings the files of the repository itself. `tree` is what the checked out commit has, without them; they
    /// are added to it.
    pub(super) async fn pull(
        &self,
        git: &mut Git<'_>,
        plan: &Plan,
        listing: &Listing,
        tree: &mut TreeSize,
    ) -> Result<(), CheckoutError> {
        let Some(sha) = plan.sha.as_deref().filter(|_| self.request.lfs) else {
            return Ok(());
        };
        let folder = git.project.clone();
        let max_bytes = self.request.max_tree_bytes;
        let pointers = scan::pointers(git, &folder, listing, max_bytes).await?;
        if pointers.is_empty() || !self.is_there(git).await? {
            return Ok(());
        }
        let repository = Repository {
            folder: &folder,
            sha,
            url: plan.origin.as_ref().map(|origin| origin.text.as_str()),
        };
        self.store.lend(&self.storage, &pointers).await;
        self.run(git, &repository, &pointers, tree).await?;
        self.store.keep(&self.storage, &pointers).await;
        git.print(SourceLine::plain(""));
        Ok(())
    }

    /// Brings the files of submodules, each with what its commit has. Nothing of them is kept.
    pub(super) async fn pull_submodules(
        &self,
        git: &mut Git<'_>,
        submodules: &[(Submodule, Listing)],
        tree: &mut TreeSize,
    ) -> Result<(), CheckoutError> {
        if !self.request.lfs {
            return Ok(());
        }
        let max_bytes = self.request.max_tree_bytes;
        let mut found = Vec::new();
        for (submodule, listing) in submodules {
            let pointers = scan::pointers(git, &submodule.folder, listing, max_bytes).await?;
            found.push((submodule, pointers));
        }
        let has_any = found.iter().any(|(_, pointers)| !pointers.is_empty());
        if !has_any || !self.is_there(git).await? {
            return Ok(());
        }
        git.print(SourceLine::notice(lines::PULLING_LFS_FILES));
        for (submodule, pointers) in &found {
            let entering = lines::entering(&submodule.shown);
            git.print(SourceLine::plain(entering));
            if pointers.is_empty() {
                continue;
            }
            let url = endpoint::remote(git, &submodule.folder).await?;
            let repository = Repository {
                folder: &submodule.folder,
                sha: "HEAD",
                url: Some(&url),
            };
            self.run(git, &repository, pointers, tree).await?;
        }
        Ok(())
    }

    /// Whether this host has git-lfs: GitLab Runner's test.
    async fn is_there(&self, git: &mut Git<'_>) -> Result<bool, CheckoutError> {
        let (ended, _) = git.answer(GitCommand::new("lfs").arg("version")).await?;
        let is_there = ended.exit_code == 0;
        if !is_there {
            tracing::warn!(
                "the job's repository has LFS files, which stay pointers: install the package `git-lfs`"
            );
        }
        Ok(is_there)
    }

    async fn run(
        &self,
        git: &mut Git<'_>,
        repository: &Repository<'_>,
        pointers: &Pointers,
        tree: &mut TreeSize,
    ) -> Result<(), CheckoutError> {
        let endpoint = Endpoint::of(git, repository.folder, repository.sha, repository.url).await?;
        // A repository that wants a part of its files says so to git-lfs alone: then only what really comes is
        // bounded.
        if !endpoint.is_partial {
            tree.add_bytes(pointers.bytes());
            tree.check(self.request.max_tree_bytes)?;
        }
        let timeout = ACTIVITY_TIMEOUT
            .min(self.request.stall_after)
            .as_secs()
            .max(1);
        let mut pull = GitCommand::new("lfs")
            .arg("pull")
            .directory(repository.folder)
            .bounded()
            .stall_after(self.request.stall_after)
            .setting("lfs.storage", &self.storage)
            .setting("lfs.activitytimeout", timeout.to_string())
            // No way to transfer but git-lfs' own.
            .setting("lfs.basictransfersonly", "true")
            .setting("lfs.tustransfers", "false")
            .setting("lfs.standalonetransferagent", "")
            // Without it, git-lfs leaves the work tree alone; with it, git tells a file from its pointer.
            .setting("filter.lfs.clean", "git-lfs clean -- %f");
        if let Some(url) = &endpoint.url {
            pull = pull.setting("lfs.url", url);
            // Spares a request that is answered 401; the helper has the last word on who gets the token.
            let own = scopes(&[&self.request.sources.repo_url, self.request.server_url]);
            if !self.request.token.is_empty() && scopes(&[url]).iter().all(|to| own.contains(to)) {
                pull = pull.setting(&format!("lfs.{url}.access"), "basic");
            }
        }
        git.run(pull).await
    }
}
