//! Real git over HTTP: `git http-backend` behind a small server that wants a job token and can misbehave.

#![expect(clippy::expect_used, reason = "a test kit fails by panicking")]

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use crate::git_lfs;
pub use crate::http::Request;
use crate::http::{Tls, TlsSide, head, read_body, read_head, start};

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
    sent: AtomicU64,
    stopping: AtomicBool,
}

/// A running server; stops when dropped.
#[derive(Debug)]
pub struct GitServer {
    address: SocketAddr,
    tls: Option<Tls>,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl GitServer {
    fn start(repos: Repos, token: &str, tls: Option<Tls>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("the port's number");
        let scheme = if tls.is_some() { "https" } else { "http" };
        let shared = Arc::new(Shared {
            repos,
            url: format!("{scheme}://{address}"),
            token: token.to_owned(),
            requests: Mutex::default(),
            faults: Mutex::default(),
            sent: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        });
        let acceptor = std::thread::spawn({
            let shared = Arc::clone(&shared);
            let config = tls.as_ref().map(|tls| Arc::clone(&tls.config));
            move || accept(&listener, config.as_ref(), &shared)
        });
        Self {
            address,
            tls,
            shared,
            acceptor: Some(acceptor),
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
        self.address.to_string()
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

impl Drop for GitServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept(listener: &TcpListener, tls: Option<&Arc<ServerConfig>>, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let (shared, tls) = (Arc::clone(shared), tls.cloned());
        // A client that goes away is no trouble of ours.
        std::thread::spawn(move || match tls {
            None => serve(stream, &shared),
            Some(config) => {
                let session = ServerConnection::new(config).map_err(io::Error::other)?;
                serve(TlsSide(StreamOwned::new(session, stream)), &shared)
            }
        });
    }
}

/// Answers one request and closes the connection.
fn serve(mut stream: impl Read + Write, shared: &Shared) -> io::Result<()> {
    let mut reader = BufReader::new(&mut stream);
    let Some(request) = read_head(&mut reader)? else {
        return Ok(());
    };
    let body = read_body(&mut reader, &request)?;
    locked(&shared.requests).push(request.clone());
    match take_fault(shared, &request.path) {
        Some(Fault::RedirectTo(base)) => {
            let target = format!("{base}{}?{}", request.path, request.query);
            head(&mut stream, "302 Found", &[("Location", &target)])
        }
        Some(Fault::Status(code)) => head(&mut stream, &format!("{code} Fault"), &[]),
        Some(Fault::Stall) => {
            head(&mut stream, "200 OK", &[("Content-Length", "1000000")])?;
            // Until the client goes.
            stream.read(&mut [0]).map(|_| ())
        }
        Some(Fault::Answer(json)) => content(&mut stream, "application/json", json.as_bytes()),
        Some(Fault::Endless) => {
            head(
                &mut stream,
                "200 OK",
                &[("Content-Length", "1000000000000")],
            )?;
            loop {
                stream.write_all(&[0; 64 << 10])?;
            }
        }
        fault if is_allowed(&request, &shared.token) => {
            let root = shared.repos.root.path();
            if let Some(answer) = git_lfs::answer(&request, &body, &shared.url, root) {
                let Ok(answer) = answer else {
                    return head(&mut stream, "404 Not Found", &[]);
                };
                let sent = answer.body.len() as u64;
                shared.sent.fetch_add(sent, Ordering::SeqCst);
                return content(&mut stream, answer.content_type, &answer.body);
            }
            let limit = match fault {
                Some(Fault::DropAfter(bytes)) => Some(bytes),
                _ => None,
            };
            backend(
                &mut stream,
                &shared.repos,
                &shared.sent,
                &request,
                &body,
                limit,
            )
        }
        _ => head(
            &mut stream,
            "401 Unauthorized",
            &[("WWW-Authenticate", "Basic realm=\"GitLab\"")],
        ),
    }
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
    let expected = format!("Basic {}", base64(format!("{USER}:{token}").as_bytes()));
    request.headers.get("authorization") == Some(&expected)
}

/// Runs `git http-backend` (RFC 3875 and its manual page) and passes its answer on, cut after `limit` bytes.
pub(crate) fn backend(
    stream: &mut impl Write,
    repos: &Repos,
    sent: &AtomicU64,
    request: &Request,
    body: &[u8],
    limit: Option<usize>,
) -> io::Result<()> {
    let header = |name: &str| request.headers.get(name).cloned().unwrap_or_default();
    let mut process = Command::new("git")
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
        .spawn()?;
    let mut input = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let output = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(body));
        let mut output = BufReader::new(output);
        let mut status = "200 OK".to_owned();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            output.read_line(&mut line)?;
            match line.trim_end().split_once(": ") {
                Some(("Status", value)) => value.clone_into(&mut status),
                Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
                None => break,
            }
        }
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        // Without a length, a broken connection would look like the end: chunks tell them apart.
        start(stream, &status, &headers)?;
        write!(stream, "Transfer-Encoding: chunked\r\n\r\n")?;
        let mut left = limit.unwrap_or(usize::MAX);
        let mut buffer = [0; 64 << 10];
        loop {
            let read = output.read(&mut buffer)?;
            let chunk = &buffer[..read.min(left)];
            sent.fetch_add(chunk.len() as u64, Ordering::SeqCst);
            if read > left {
                // A length that the connection then does not keep.
                write!(stream, "{read:x}\r\n")?;
                return stream.write_all(chunk);
            }
            write!(stream, "{read:x}\r\n")?;
            stream.write_all(chunk)?;
            write!(stream, "\r\n")?;
            left -= read;
            if read == 0 {
                return Ok(());
            }
        }
    })?;
    process.wait().map(|_| ())
}

fn content(stream: &mut impl Write, content_type: &str, body: &[u8]) -> io::Result<()> {
    let length = body.len().to_string();
    let headers = [
        ("Content-Type", content_type),
        ("Content-Length", length.as_str()),
    ];
    head(stream, "200 OK", &headers)?;
    stream.write_all(body)
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut padded = [0; 3];
        padded[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, padded[0], padded[1], padded[2]]);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) & 63;
            let is_used = digit <= chunk.len();
            text.push(if is_used {
                char::from(ALPHABET[index as usize])
            } else {
                '='
            });
        }
    }
    text
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_has_the_rfcs_examples() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
