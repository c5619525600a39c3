//! What a checkout is asked for.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use vk_hub_proto::job::Sources;

use super::cache::SourceCache;

/// How the sources are had (`GIT_STRATEGY`; gitlab-runner, build §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// A new repository.
    Clone,
    /// What was kept, brought up to date ([`CheckoutRequest::cache`]). A guest is always fresh, so the tree is
    /// too.
    Fetch,
    /// No sources; the project folder is left as it is.
    None,
    /// No sources; the project folder is made empty.
    Empty,
}

impl Strategy {
    /// Whether there are sources to get.
    #[must_use]
    pub fn has_sources(self) -> bool {
        matches!(self, Self::Clone | Self::Fetch)
    }

    /// As `GIT_STRATEGY` names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Clone => "clone",
            Self::Fetch => "fetch",
            Self::None => "none",
            Self::Empty => "empty",
        }
    }
}

/// What to do about submodules (`GIT_SUBMODULE_*`; gitlab-runner, build §3.7).
#[derive(Clone, Copy, Debug)]
pub struct Submodules<'a> {
    /// Whether submodules of submodules belong to it (strategy `recursive`).
    pub recursive: bool,
    /// Commits of history to fetch of each; 0 or less for all.
    pub depth: i64,
    /// Pathspecs of the submodules to take (`GIT_SUBMODULE_PATHS`); empty for all.
    pub paths: &'a [String],
    /// Flags for `git submodule update` (`GIT_SUBMODULE_UPDATE_FLAGS`).
    pub update_flags: &'a [String],
    /// With `GIT_SUBMODULE_FORCE_HTTPS`, the GitLab server's SSH address: URLs that name it are fetched
    /// from [`CheckoutRequest::server_url`] instead.
    pub force_https: Option<SshServer<'a>>,
}

/// Where a GitLab server answers git over SSH (`CI_SERVER_SHELL_SSH_HOST`, `…_PORT`).
#[derive(Clone, Copy, Debug)]
pub struct SshServer<'a> {
    /// Host name.
    pub host: &'a str,
    /// TCP port; 22 when GitLab names none.
    pub port: u16,
}

/// One checkout.
///
/// The token is in it: there is no `Debug`.
#[derive(Clone)]
pub struct CheckoutRequest<'a> {
    /// What to fetch and check out. `repo_url` has no user or password.
    pub sources: &'a Sources,
    /// A repository on this host to take instead of `sources.repo_url` (`--repo DIR`). An empty
    /// `sources.sha` then means its `HEAD`; changes that are not committed are not taken.
    pub local_repo: Option<&'a Path>,
    /// URL of the GitLab server. The token is offered to this host and the repository's, to no other.
    pub server_url: &'a str,
    /// The job's token; empty for none.
    pub token: &'a str,
    /// PEM certificates that those hosts' TLS chains are checked with, beside this host's own.
    pub ca_pem: Option<&'a str>,
    /// How the sources are had.
    pub strategy: Strategy,
    /// Whether an earlier attempt of this job failed: changes a printed line.
    pub retry: bool,
    /// Whether the commit is checked out (`GIT_CHECKOUT`).
    pub checkout: bool,
    /// Whether files of Git LFS are brought, if this host has git-lfs (`GIT_LFS_SKIP_SMUDGE`).
    pub lfs: bool,
    /// Flags of `git clean`; `None` to leave it out (`GIT_CLEAN_FLAGS`).
    pub clean_flags: Option<&'a [String]>,
    /// Flags for `git fetch` (`GIT_FETCH_EXTRA_FLAGS`).
    pub fetch_flags: &'a [String],
    /// Submodules, unless the strategy for them is `none`.
    pub submodules: Option<Submodules<'a>>,
    /// Correlation ID of the job request, sent to the server and printed (`FF_USE_GITALY_CORRELATION_ID`).
    pub correlation_id: Option<&'a str>,
    /// The variables that programs of this host are started with, besides vk's own: where programs are (`PATH`), how the
    /// network is reached (`http_proxy` and the like). git sees no other variable.
    pub environment: &'a [(OsString, OsString)],
    /// `User-Agent` of git's requests.
    pub user_agent: &'a str,
    /// An existing folder on the host that only this user can enter; the checkout is made in a new folder
    /// below it.
    pub work_dir: &'a Path,
    /// Where the project will be in the guest (`/builds/group/project`): lines name it.
    pub guest_project_dir: &'a str,
    /// Path in the guest of a git config file that the repository and its submodules are to include, for what
    /// the job's own git needs. It is not read on the host.
    pub guest_config: Option<&'a str>,
    /// Where objects are kept between jobs, for strategy [`Strategy::Fetch`]; `None` to keep none.
    pub cache: Option<&'a SourceCache>,
    /// Most bytes that the checked out files may have together, those of LFS and of submodules with them; the guest's
    /// disk holds no more. On this host's disk, objects and files may take twice as much, save for what comes in the
    /// moments between two looks at it.
    pub max_tree_bytes: u64,
    /// Most bytes that git may allocate at once on this host (`GIT_ALLOC_LIMIT`, git's `wrapper.c`). A repository decides
    /// what git holds in memory whole: what its attributes have re-encoded, what its packs have as deltas.
    pub max_alloc_bytes: u64,
    /// How long a transfer may bring nothing before it fails.
    pub stall_after: Duration,
}

impl CheckoutRequest<'_> {
    /// Default of [`CheckoutRequest::max_alloc_bytes`]. git streams what is larger than half of it
    /// (`core.bigFileThreshold`) and needs no conversion.
    pub const MAX_ALLOC_BYTES: u64 = 1 << 30;

    /// Default of [`CheckoutRequest::stall_after`]. While a server packs, it sends a byte at least every five
    /// seconds (git's `uploadpack.keepAlive`), but it may take long to answer at first.
    pub const STALL_AFTER: Duration = Duration::from_secs(120);
}
