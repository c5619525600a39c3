//! One checkout, in GitLab Runner's order (facts, build §3).

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};

use tempfile::TempDir;
use url::Url;

use super::credential::Credential;
use super::error::CheckoutError;
use super::flags;
use super::git::{Git, GitCommand, inherited_environment};
use super::group::Group;
use super::lines::{self, LineSplitter, Rewriter, SourceLine};
use super::local::LocalRepo;
use super::plan::Plan;
use super::request::{CheckoutRequest, Strategy, Submodules};
use super::settings::{Settings, TEMPLATE, origin};

/// A finished checkout. Its files are removed when it is dropped.
#[derive(Debug)]
pub struct Checkout {
    project: PathBuf,
    sha: Option<String>,
    _folder: TempDir,
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
    checkout_with(request, inherited_environment(), lines, cancel).await
}

async fn checkout_with(
    request: &CheckoutRequest<'_>,
    inherited: Vec<(OsString, OsString)>,
    lines: &mut (dyn FnMut(SourceLine) + Send),
    cancel: Pin<&mut (dyn Future<Output = ()> + Send)>,
) -> Result<Checkout, CheckoutError> {
    let folder = Folder::new(request.work_dir)?;
    if !request.strategy.uses_git() {
        skip(request.strategy, lines);
        return Ok(folder.into_checkout(None));
    }
    let mut plan = Plan::new(request.sources, request.local_repo.is_some())?;
    flags::FETCH.check(request.fetch_flags)?;
    flags::CLEAN.check(request.clean_flags.unwrap_or_default())?;
    if let Some(submodules) = &request.submodules {
        submodules.check()?;
    }

    // Lives as long as git may ask for it.
    let credential = credential(request.token)?;
    folder.write_settings(request, &plan, credential.as_ref())?;
    let mut rewriter = Rewriter::default();
    rewriter.replace(request.token.as_bytes(), b"[MASKED]");
    rewriter.replace_path(&folder.project(), request.guest_project_dir);
    rewriter.replace_path(&folder.path, &format!("{}.tmp", request.guest_project_dir));
    let mut git = Git {
        inherited,
        home: folder.home(),
        project: folder.project(),
        group: Group::start().map_err(CheckoutError::io("start", Path::new("/bin/sh")))?,
        rewriter,
        lines,
        cancel,
    };
    let local = match request.local_repo {
        Some(path) => Some(LocalRepo::open(path, &mut git, &mut plan).await?),
        None => None,
    };
    fetch(&mut git, request, &plan, local.as_ref(), &folder.template()).await?;
    check_out(&mut git, request, &plan).await?;
    match &request.submodules {
        Some(submodules) => submodules.update(&mut git, request.clean_flags).await?,
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
    Ok(folder.into_checkout(plan.sha))
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

/// Facts, build §3.4.
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
    let init = GitCommand::new("init")
        .arg("--quiet")
        .arg("--template")
        .arg(template)
        .arg("--object-format")
        .arg(plan.object_format.name());
    git.run(init).await?;
    let reinitialized = request.retry && request.strategy == Strategy::Fetch;
    let initialized = lines::initialized(reinitialized, request.guest_project_dir);
    git.print(SourceLine::plain(initialized));
    if local.is_none() {
        add_origin(git, plan).await?;
    }
    git.print(SourceLine::notice(lines::CREATED_REPOSITORY));

    let mut fetch = match local {
        Some(local) => local.fetch().args(["origin", &local.sha]),
        None => GitCommand::new("fetch").arg("origin"),
    };
    fetch = fetch.arg("--no-recurse-submodules").args(&plan.refspecs);
    if plan.depth > 0 {
        fetch = fetch.arg("--depth").arg(plan.depth.to_string());
    }
    git.run(fetch.args(request.fetch_flags)).await?;
    if local.is_some() {
        // Until now, `origin` was the local repository.
        add_origin(git, plan).await?;
    }
    Ok(())
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

/// Facts, build §3.5.
async fn check_out(
    git: &mut Git<'_>,
    request: &CheckoutRequest<'_>,
    plan: &Plan,
) -> Result<(), CheckoutError> {
    let Some(sha) = plan.sha.as_deref().filter(|_| request.checkout) else {
        git.print(SourceLine::notice(lines::SKIPPING_CHECKOUT));
        return Ok(());
    };
    let notice = lines::checking_out(sha, &plan.git_ref);
    git.print(SourceLine::notice(notice));
    measure(git, request, sha).await?;
    let checkout = GitCommand::new("checkout").args(["-f", "-q", sha]);
    git.run(checkout).await?;
    match request.clean_flags {
        Some(flags) => git.run(GitCommand::new("clean").args(flags)).await,
        None => Ok(()),
    }
}

/// Most entries of a commit's tree. The largest monorepos have a tenth of that; without a bound, a few
/// kilobytes of trees that name each other many times would fill this host's memory and disk.
const MAX_ENTRIES: u64 = 5_000_000;

/// Refuses a tree that is too large, before anything of it is in memory or on the disk.
async fn measure(
    git: &mut Git<'_>,
    request: &CheckoutRequest<'_>,
    sha: &str,
) -> Result<(), CheckoutError> {
    let is_partial = request
        .fetch_flags
        .iter()
        .any(|flag| flag.starts_with("--filter"));
    // To tell a size, git would fetch each file that a partial clone left out.
    let columns: &[&str] = if is_partial { &[] } else { &["--long"] };
    let list = GitCommand::new("ls-tree")
        .args(["-r", "-t"])
        .args(columns)
        .arg(sha);
    let mut size = TreeSize::default();
    let mut is_too_large = false;
    let mut splitter = LineSplitter::default();
    let listed = git
        .read(list, |bytes| {
            splitter.push(bytes, |line| size.add(line));
            is_too_large = size.entries > MAX_ENTRIES || size.bytes > request.max_tree_bytes;
            if is_too_large {
                return Err(io::Error::other("the tree is too large"));
            }
            Ok(())
        })
        .await;
    if is_too_large {
        return Err(CheckoutError::TreeTooLarge {
            max_entries: MAX_ENTRIES,
            max_bytes: request.max_tree_bytes,
        });
    }
    // A commit that is not there fails here too; `git checkout` says it in the words that users know.
    listed.map(|_| ())
}

/// Sums up what `git ls-tree --long` prints: mode, type, hash, size, then the name behind a tab.
#[derive(Debug, Default, PartialEq, Eq)]
struct TreeSize {
    entries: u64,
    bytes: u64,
}

impl TreeSize {
    fn add(&mut self, line: &[u8]) {
        let columns = line.split(|&byte| byte == b'\t').next().unwrap_or_default();
        let size = columns
            .split(|&byte| byte == b' ')
            .filter(|column| !column.is_empty())
            .nth(3)
            .and_then(|size| std::str::from_utf8(size).ok()?.parse().ok())
            .unwrap_or(0);
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(size);
    }
}

fn credential(token: &str) -> Result<Option<Credential>, CheckoutError> {
    if token.is_empty() {
        return Ok(None);
    }
    if token.contains(|c: char| c.is_control()) {
        return Err(CheckoutError::BadToken);
    }
    Credential::new(token)
        .map(Some)
        .map_err(CheckoutError::io("keep", Path::new("the job's token")))
}

/// The private folder of one checkout.
struct Folder {
    path: PathBuf,
    owner: TempDir,
}

impl Folder {
    fn new(work_dir: &Path) -> Result<Self, CheckoutError> {
        let owner = tempfile::Builder::new()
            .prefix("sources-")
            .tempdir_in(work_dir)
            .map_err(CheckoutError::io("make a folder in", work_dir))?;
        // git prints paths with links resolved.
        let path = owner
            .path()
            .canonicalize()
            .map_err(CheckoutError::io("resolve", owner.path()))?;
        let folder = Self { path, owner };
        for path in [folder.project(), folder.home(), folder.template()] {
            DirBuilder::new()
                .mode(0o700)
                .create(&path)
                .map_err(CheckoutError::io("make the folder", &path))?;
        }
        Ok(folder)
    }

    fn project(&self) -> PathBuf {
        self.path.join("project")
    }

    fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    fn template(&self) -> PathBuf {
        self.path.join("template")
    }

    fn write_settings(
        &self,
        request: &CheckoutRequest<'_>,
        plan: &Plan,
        credential: Option<&Credential>,
    ) -> Result<(), CheckoutError> {
        let server = Url::parse(request.server_url).ok();
        let urls = plan
            .origin
            .iter()
            .map(|origin| &origin.url)
            .chain(server.as_ref());
        let mut scopes: Vec<String> = urls.filter_map(origin).collect();
        scopes.dedup();
        let ca_file = match request.ca_pem {
            Some(pem) => Some(self.write("ca.pem", &with_host_certificates(pem))?),
            None => None,
        };
        let ssh = request.submodules.and_then(|wanted| wanted.force_https);
        let settings = Settings {
            scopes,
            helper: credential.map(Credential::helper),
            correlation_id: request.correlation_id,
            ca_file: ca_file.as_deref(),
            user_agent: request.user_agent,
            stall_after: request.stall_after,
            force_https: ssh.map(|ssh| (ssh, request.server_url)),
            // The user names that folder.
            trust_any_owner: request.local_repo.is_some(),
        };
        self.write("home/.gitconfig", settings.render().as_bytes())?;
        self.write("template/config", TEMPLATE.as_bytes())?;
        Ok(())
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, CheckoutError> {
        let path = self.path.join(name);
        fs::write(&path, content).map_err(CheckoutError::io("write", &path))?;
        Ok(path)
    }

    fn into_checkout(self, sha: Option<String>) -> Checkout {
        Checkout {
            project: self.project(),
            sha,
            _folder: self.owner,
        }
    }
}

/// Where distributions keep the host's certificates: Debian and Alpine, Fedora, openSUSE.
const HOST_CERTIFICATES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// `http.sslCAInfo` takes the place of the host's certificates, so they go into the file too.
fn with_host_certificates(pem: &str) -> Vec<u8> {
    let mut bundle = HOST_CERTIFICATES
        .iter()
        .find_map(|path| fs::read(path).ok())
        .unwrap_or_default();
    bundle.push(b'\n');
    bundle.extend_from_slice(pem.as_bytes());
    bundle
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use vk_hub_proto::job::Sources;

    use super::*;

    #[test]
    fn a_tree_s_size_counts_files_and_not_names() {
        let mut size = TreeSize::default();
        size.add(b"100644 blob 7440c8edc13c96c750a271521657c125a73912d5      85\t1 2 3 4000");
        size.add(b"040000 tree 7440c8edc13c96c750a271521657c125a73912d5       -\tdocs");
        size.add(b"160000 commit a581ad24be5b6378665a7e22793b91424f336c76       -\tvendor/lib");
        // Without `--long`.
        size.add(b"100644 blob 7440c8edc13c96c750a271521657c125a73912d5\tb c d 7");

        let expected = TreeSize {
            entries: 4,
            bytes: 85,
        };
        assert_eq!(size, expected);
    }

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
            clean_flags: None,
            fetch_flags: &[],
            submodules: None,
            correlation_id: None,
            user_agent: "vk",
            work_dir: work.path(),
            guest_project_dir: "/builds/x",
            guest_config: None,
            max_tree_bytes: 1 << 30,
            stall_after: Duration::from_secs(1),
        };
        let nowhere = vec![("PATH".into(), "/nonexistent".into())];

        let error = checkout_with(&request, nowhere, &mut |_| (), pin!(pending()))
            .await
            .unwrap_err();

        assert!(matches!(error, CheckoutError::GitMissing), "{error:?}");
        assert!(error.to_string().contains("package `git`"));
    }
}
