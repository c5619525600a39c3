//! What the tests of the checkout share.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use vk_hub_proto::job::Sources;
use vk_sources::{
    Checkout, CheckoutError, CheckoutRequest, SourceLine, Strategy, Stream, checkout, tar_stream,
};
use vk_tests::git_http::{GitServer, Repos};
use vk_tests::processes::group;

pub(crate) const TOKEN: &str = "glcbt-64_s3cr3t4711";
pub(crate) const GUEST_DIR: &str = "/builds/repos/web";
/// `main` of the golden repository `web`.
pub(crate) const MAIN: &str = "5fd525374cdb44f81d5accdb9e299d5bafe898ab";

/// A private folder and the lines of the checkouts made in it.
pub(crate) struct Bench {
    pub(crate) work: TempDir,
    pub(crate) lines: Vec<SourceLine>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self {
            work: tempfile::Builder::new()
                .prefix("vk-host-folder-")
                .tempdir()
                .unwrap(),
            lines: Vec::new(),
        }
    }

    pub(crate) async fn run(
        &mut self,
        request: CheckoutRequest<'_>,
    ) -> Result<Checkout, CheckoutError> {
        self.run_until(request, pending()).await
    }

    pub(crate) async fn run_until(
        &mut self,
        request: CheckoutRequest<'_>,
        cancel: impl Future<Output = ()> + Send,
    ) -> Result<Checkout, CheckoutError> {
        let request = CheckoutRequest {
            work_dir: self.work.path(),
            ..request
        };
        checkout(&request, &mut |line| self.lines.push(line), cancel).await
    }

    /// Lines as the golden traces show them: stream, colours, and a space before the text.
    pub(crate) fn shown(&self) -> Vec<String> {
        self.lines
            .iter()
            .map(|line| {
                let stream = match line.stream {
                    Stream::Out => "O",
                    Stream::Err => "E",
                };
                format!("{stream} {}", String::from_utf8_lossy(&line.text))
            })
            .collect()
    }

    pub(crate) fn errors(&self) -> String {
        self.shown()
            .into_iter()
            .filter(|line| line.starts_with("E "))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

pub(crate) fn serve_golden() -> GitServer {
    Repos::golden().serve(TOKEN)
}

pub(crate) fn sources(url: &str) -> Sources {
    Sources {
        allow_fetch: true,
        repo_url: url.to_owned(),
        object_format: "sha1".to_owned(),
        git_ref: "main".to_owned(),
        sha: MAIN.to_owned(),
        refspecs: vec!["+refs/heads/main:refs/remotes/origin/main".to_owned()],
        depth: 20,
        ..Sources::default()
    }
}

pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A request as a job without any `GIT_…` variable makes it.
pub(crate) fn request<'a>(sources: &'a Sources, flags: &'a Flags) -> CheckoutRequest<'a> {
    CheckoutRequest {
        sources,
        local_repo: None,
        server_url: "",
        token: TOKEN,
        ca_pem: None,
        strategy: Strategy::Fetch,
        retry: false,
        checkout: true,
        lfs: true,
        clean_flags: flags.clean.as_deref(),
        fetch_flags: &flags.fetch,
        submodules: None,
        correlation_id: Some("01CORR"),
        environment: environment(),
        user_agent: "vk 1 linux/amd64",
        work_dir: Path::new("/nonexistent"),
        guest_project_dir: GUEST_DIR,
        guest_config: None,
        cache: None,
        max_tree_bytes: 1 << 30,
        max_alloc_bytes: CheckoutRequest::MAX_ALLOC_BYTES,
        stall_after: CheckoutRequest::STALL_AFTER,
    }
}

pub(crate) struct Flags {
    pub(crate) clean: Option<Vec<String>>,
    pub(crate) fetch: Vec<String>,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            clean: Some(words("-ffdx")),
            fetch: words("--prune --quiet"),
        }
    }
}

/// The tree as a guest gets it: streamed, then unpacked by the tar command.
pub(crate) async fn unpack(folder: &Path) -> TempDir {
    let mut stream = Vec::new();
    tar_stream(folder).read_to_end(&mut stream).await.unwrap();
    let guest = tempfile::tempdir().unwrap();
    let archive = guest.path().with_extension("tar");
    std::fs::write(&archive, stream).unwrap();
    let status = std::process::Command::new("tar")
        .arg("--extract")
        .arg("--file")
        .arg(&archive)
        .arg("--directory")
        .arg(guest.path())
        .status()
        .unwrap();
    std::fs::remove_file(&archive).unwrap();
    assert!(status.success());
    guest
}

/// Every file and link below a folder, and what is in it.
pub(crate) fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_path_buf()];
    while let Some(path) = pending.pop() {
        let kind = std::fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            pending.extend(
                std::fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if kind.is_symlink() {
            let target = std::fs::read_link(&path).unwrap();
            found.push((path, target.into_os_string().into_encoded_bytes()));
        } else {
            let content = std::fs::read(&path).unwrap();
            found.push((path, content));
        }
    }
    found
}

/// The files below `folder` that hold `needle`.
pub(crate) fn holding(folder: &Path, needle: &[u8]) -> Vec<PathBuf> {
    files(folder)
        .into_iter()
        .filter(|(_, content)| content.windows(needle.len()).any(|window| window == needle))
        .map(|(path, _)| path)
        .collect()
}

/// The process groups of [`processes_in`] `folder`: git's, which its watchdog, in another folder, leads.
pub(crate) fn groups_in(folder: &Path) -> BTreeSet<u32> {
    processes_in(folder)
        .iter()
        .filter_map(|process| group(process.file_name()?.to_str()?.parse().ok()?))
        .collect()
}

/// Processes that stand in `folder`.
pub(crate) fn processes_in(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
        })
        .collect()
}

/// Where programs are, as the `vk` command tells a host.
pub(crate) fn environment() -> &'static [(OsString, OsString)] {
    static ENVIRONMENT: LazyLock<[(OsString, OsString); 1]> =
        LazyLock::new(|| [("PATH".into(), std::env::var_os("PATH").unwrap_or_default())]);
    ENVIRONMENT.as_slice()
}
