//! Real git over HTTP: `git http-backend` behind a small server that wants a job token and can misbehave.

#![expect(clippy::expect_used, reason = "a test kit fails by panicking")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::git_lfs;
pub use crate::http::Request;
use crate::http::{Call, Output, Port, Reply, Server, Tls, locked};

/// User of a job token.
pub const USER: &str = "gitlab-ci-token";

/// Bare repositories in a folder of their own.
#[derive(Debug)]
pub struct Repos {
    root: TempDir,
}

impl Repos {
    /// No repositories yet.
    ///
    /// # Panics
    ///
    /// When the folder cannot be made.
    #[must_use]
    pub fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder for repositories");
        Self { root }
    }

    /// The golden set's repositories: `web`, `lib` and `deep`.
    ///
    /// # Panics
    ///
    /// When git cannot unpack them.
    #[must_use]
    pub fn golden() -> Self {
        let repos = Self::new();
        let bundles = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/repos");
        for name in ["web", "lib", "deep"] {
            repos.mirror(&bundles.join(format!("{name}.bundle")), name);
        }
        repos
    }

    /// Copies a repository or a bundle, all refs, to `NAME.git`.
    ///
    /// # Panics
    ///
    /// When git fails.
    pub fn mirror(&self, from: &Path, name: &str) {
        let to = self.path(name);
        git(
            self.root.path(),
            &["clone", "--quiet", "--mirror"],
            &[from, &to],
        );
        // Servers such as GitLab's allow it.
        git(&to, &["config", "uploadpack.allowFilter", "true"], &[]);
    }

    /// Where `NAME.git` is.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(format!("{name}.git"))
    }

    /// Serves them at `http://127.0.0.1:PORT/repos/NAME.git` for `token`.
    ///
    /// # Panics
    ///
    /// When no port can be had.
    #[must_use]
    pub fn serve(self, token: &str) -> GitServer {
        GitServer::start(self, token, None)
    }

    /// The same over TLS, with a certificate that nobody else knows: see [`GitServer::ca_pem`].
    ///
    /// # Panics
    ///
    /// When no port or no certificate can be had.
    #[must_use]
    pub fn serve_tls(self, token: &str) -> GitServer {
        GitServer::start(self, token, Some(Tls::new()))
    }
}

impl Default for Repos {
    fn default() -> Self {
        Self::new()
    }
}

/// Runs git without the user's settings, for setting a test up.
///
/// # Panics
///
/// When git fails.
pub fn git(directory: &Path, arguments: &[&str], paths: &[&Path]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.com"])
        .args([
            "-c",
            "init.defaultBranch=main",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(["-c", "commit.gpgSign=false"])
        .args(arguments)
        .args(paths)
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// What the server does instead of answering properly.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Sends the client elsewhere: the base URL here, the request's path and query behind it.
    RedirectTo(String),
    /// Answers with a status and no content.
    Status(u16),
    /// Sends the head of an answer, then nothing.
    Stall,
    /// Closes the connection after so many bytes of the body.
    DropAfter(usize),
    /// Answers with this JSON, whatever was asked and by whom.
    Answer(String),
    /// Sends a body that does not end before the client goes.
    Endless,
}

#[derive(Debug)]
struct Injected {
    path_part: String,
    skip: usize,
    fault: Fault,
    times: usize,
}

#[derive(Debug)]
struct Shared {
    repos: Repos,
    url: String,
    token: String,
    requests: Mutex<Vec<Request>>,
    faults: Mutex<Vec<Injected>>,
    sent: Arc<AtomicU64>,
}

/// A running server; stops when dropped.
#[derive(Debug)]
pub struct GitServer {
    server: Server,
    tls: Option<Tls>,
    shared: Arc<Shared>,
}

impl GitServer {
    fn start(repos: Repos, token: &str, tls: Option<Tls>) -> Self {
        let port = Port::new();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let shared = Arc::new(Shared {
            repos,
            url: format!("{scheme}://{}", port.address()),
            token: token.to_owned(),
            requests: Mutex::default(),
            faults: Mutex::default(),
            sent: Arc::default(),
        });
        let server = Server::start(port, tls.as_ref(), {
            let shared = Arc::clone(&shared);
            move |call| answer(call, Arc::clone(&shared))
        });
        Self {
            server,
            tls,
            shared,
        }
    }

    /// `http://127.0.0.1:PORT`, or `https://…`.
    #[must_use]
    pub fn url(&self) -> String {
        self.shared.url.clone()
    }

    /// The certificate to trust; empty without TLS.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        self.tls.as_ref().map_or("", |tls| &tls.pem)
    }

    /// `127.0.0.1:PORT`, for the golden jobs' `@HOST@`.
    #[must_use]
    pub fn host(&self) -> String {
        self.server.address().to_string()
    }

    /// URL of a repository.
    #[must_use]
    pub fn repo_url(&self, name: &str) -> String {
        format!("{}/repos/{name}.git", self.url())
    }

    /// The repositories behind it.
    #[must_use]
    pub fn repos(&self) -> &Repos {
        &self.shared.repos
    }

    /// The next `times` requests whose path contains `path_part` meet `fault`.
    pub fn inject(&self, path_part: &str, fault: Fault, times: usize) {
        self.inject_after(path_part, 0, fault, times);
    }

    /// As [`GitServer::inject`], after `skip` such requests have been answered properly.
    pub fn inject_after(&self, path_part: &str, skip: usize, fault: Fault, times: usize) {
        locked(&self.shared.faults).push(Injected {
            path_part: path_part.to_owned(),
            skip,
            fault,
            times,
        });
    }

    /// Bytes of content that git has sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::SeqCst)
    }

    /// All requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        locked(&self.shared.requests).clone()
    }
}

async fn answer(mut call: Call, shared: Arc<Shared>) -> Option<Reply> {
    let body = call.read_all().await;
    let request = call.request;
    locked(&shared.requests).push(request.clone());
    let fault = take_fault(&shared, &request.path);
    match fault {
        Some(Fault::RedirectTo(base)) => {
            let target = format!("{base}{}?{}", request.path, request.query);
            return Some(Reply::status(302).header("Location", target));
        }
        Some(Fault::Status(code)) => return Some(Reply::status(code)),
        Some(Fault::Stall) => {
            let stalled = Reply::streamed(200, Output::client_gone);
            return Some(stalled.header("Content-Length", 1_000_000));
        }
        Some(Fault::Answer(json)) => {
            let answer = Reply::new(200, json.into_bytes());
            return Some(answer.header("Content-Type", "application/json"));
        }
        Some(Fault::Endless) => {
            let endless = Reply::streamed(200, |output| async move {
                while output.data([0; 64 << 10].as_slice()).await {}
            });
            return Some(endless.header("Content-Length", 1_000_000_000_000_u64));
        }
        Some(Fault::DropAfter(_)) | None => {}
    }
    if !is_allowed(&request, &shared.token) {
        return Some(unauthorized());
    }
    let root = shared.repos.root.path();
    if let Some(answer) = git_lfs::answer(&request, &body, &shared.url, root) {
        let Ok(answer) = answer else {
            return Some(Reply::status(404));
        };
        let sent = answer.body.len() as u64;
        shared.sent.fetch_add(sent, Ordering::SeqCst);
        let reply = Reply::new(200, answer.body);
        return Some(reply.header("Content-Type", answer.content_type));
    }
    let limit = match fault {
        Some(Fault::DropAfter(bytes)) => Some(bytes),
        _ => None,
    };
    backend(&shared.repos, &shared.sent, &request, body, limit)
        .await
        .ok()
}

/// What GitLab says to those without the right token.
pub(crate) fn unauthorized() -> Reply {
    Reply::status(401).header("WWW-Authenticate", "Basic realm=\"GitLab\"")
}

fn take_fault(shared: &Shared, path: &str) -> Option<Fault> {
    let mut faults = locked(&shared.faults);
    let injected = faults
        .iter_mut()
        .find(|injected| injected.times > 0 && path.contains(&injected.path_part))?;
    if injected.skip > 0 {
        injected.skip -= 1;
        return None;
    }
    injected.times -= 1;
    Some(injected.fault.clone())
}

pub(crate) fn is_allowed(request: &Request, token: &str) -> bool {
    let expected = format!(
        "Basic {}",
        BASE64_STANDARD.encode(format!("{USER}:{token}"))
    );
    request.headers.get("authorization") == Some(&expected)
}

/// Runs `git http-backend` (RFC 3875 and its manual page) and passes its answer on, cut after `limit` bytes.
pub(crate) async fn backend(
    repos: &Repos,
    sent: &Arc<AtomicU64>,
    request: &Request,
    body: Vec<u8>,
    limit: Option<usize>,
) -> io::Result<Reply> {
    let header = |name: &str| request.headers.get(name).cloned().unwrap_or_default();
    let mut process = tokio::process::Command::new("git")
        .arg("http-backend")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_PROJECT_ROOT", repos.root.path())
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("REQUEST_METHOD", &request.method)
        .env("PATH_INFO", request.path.trim_start_matches("/repos"))
        .env("QUERY_STRING", &request.query)
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("REMOTE_USER", USER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut input = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let output = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    tokio::spawn(async move { input.write_all(&body).await });
    let mut output = BufReader::new(output);
    let mut status = 200;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        output.read_line(&mut line).await?;
        match line.trim_end().split_once(": ") {
            Some(("Status", value)) => {
                let code = value.split(' ').next().unwrap_or_default();
                status = code.parse().map_err(io::Error::other)?;
            }
            Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
            None => break,
        }
    }
    let sent = Arc::clone(sent);
    // Without a length, a broken connection would look like the end: chunks tell them apart.
    let reply = Reply::streamed(status, move |reply| async move {
        let mut left = limit.unwrap_or(usize::MAX);
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = output.read(&mut buffer).await.unwrap_or(0);
            let chunk = buffer.get(..read.min(left)).unwrap_or_default();
            sent.fetch_add(chunk.len() as u64, Ordering::SeqCst);
            let is_there = chunk.is_empty() || reply.data(chunk.to_vec()).await;
            if read > left {
                return reply.hang_up().await;
            }
            if read == 0 || !is_there {
                break;
            }
            left -= read;
        }
        drop(reply);
        // So that it is no zombie; it has ended, or is killed.
        let _ = tokio::time::timeout(Duration::from_secs(5), process.wait()).await;
    });
    Ok(reply.headers(headers))
}

/// Copies a folder's files into a new repository's first commit and gives its hash.
///
/// # Panics
///
/// When git fails.
pub fn commit_all(work_tree: &Path, message: &str) -> String {
    if !work_tree.join(".git").exists() {
        git(work_tree, &["init", "--quiet"], &[]);
    }
    git(work_tree, &["add", "--all", "--force"], &[]);
    git(
        work_tree,
        &["commit", "--quiet", "--allow-empty", "-m", message],
        &[],
    );
    git(work_tree, &["rev-parse", "HEAD"], &[])
}

/// Writes a file, its folders too.
///
/// # Panics
///
/// When that fails.
pub fn write(path: &Path, content: &[u8]) {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).expect("a folder");
    }
    fs::write(path, content).expect("a file");
}
