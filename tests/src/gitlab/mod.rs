//! A GitLab that is told what to do: the runner API over HTTP, with or without TLS, and the repositories behind it.
//!
//! Its answers are those of docs/gitlab-runner and `golden/wire`; [`Fault`]s make it misbehave. What it can so far is
//! artifacts and clones. It also plays the object storage that GitLab sends clients on to: below `/storage/` it takes
//! and gives files without a token.

#![expect(clippy::expect_used, reason = "a test kit fails by panicking")]

mod artifacts;
mod faults;
mod multipart;

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use rustls::{ServerConnection, StreamOwned};

pub use artifacts::Upload;
pub use faults::{Call, Fault};
pub use multipart::Part;

use crate::git_http::{Repos, backend, is_allowed, locked};
use crate::http::{Request, Tls, TlsSide, head, read_body, read_head, start};
use faults::Faults;

/// A call as it came, and what was answered.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// When it came, in seconds since the server started.
    pub at: f64,
    /// The request.
    pub request: Request,
    /// Bytes of its content.
    pub body_bytes: usize,
    /// The part of its form, where it has one.
    pub part: Option<Part>,
    /// The status answered; `None` for a connection that was dropped.
    pub status: Option<u16>,
}

impl Exchange {
    /// Path and query as they were written.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.request.target
    }

    /// A header; empty if it is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.request.headers.get(name).map_or("", String::as_str)
    }
}

/// What one job is to the server.
#[derive(Debug, Default)]
struct JobRecord {
    token: String,
    uploads: Vec<Upload>,
    /// What a download gives; the last upload of an archive if nothing else was set.
    archive: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Shared {
    began: Instant,
    repos: Repos,
    /// The token that opens the repositories.
    git_token: Mutex<String>,
    sent: AtomicU64,
    jobs: Mutex<BTreeMap<u64, JobRecord>>,
    storage: Mutex<BTreeMap<String, Vec<u8>>>,
    exchanges: Mutex<Vec<Exchange>>,
    faults: Mutex<Faults>,
    stopping: AtomicBool,
}

/// A running server; stops when dropped.
#[derive(Debug)]
pub struct GitLab {
    address: SocketAddr,
    tls: Option<Tls>,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl GitLab {
    /// A server without repositories.
    ///
    /// # Panics
    ///
    /// When no port can be had.
    #[must_use]
    pub fn start() -> Self {
        Self::launch(Repos::new(), "", None)
    }

    /// As [`GitLab::start`], over TLS with a certificate that nobody knows but [`GitLab::ca_pem`].
    ///
    /// # Panics
    ///
    /// When no port can be had.
    #[must_use]
    pub fn start_tls() -> Self {
        Self::launch(Repos::new(), "", Some(Tls::new()))
    }

    /// A server of `repos`, which `git_token` opens.
    ///
    /// # Panics
    ///
    /// When no port can be had.
    #[must_use]
    pub fn with_repos(repos: Repos, git_token: &str) -> Self {
        Self::launch(repos, git_token, None)
    }

    fn launch(repos: Repos, git_token: &str, tls: Option<Tls>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("the port's number");
        let shared = Arc::new(Shared {
            began: Instant::now(),
            repos,
            git_token: Mutex::new(git_token.to_owned()),
            sent: AtomicU64::new(0),
            jobs: Mutex::default(),
            storage: Mutex::default(),
            exchanges: Mutex::default(),
            faults: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        let acceptor = std::thread::spawn({
            let shared = Arc::clone(&shared);
            let tls = tls.clone();
            move || accept(&listener, tls.as_ref(), &shared)
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
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
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

    /// Makes `token` the token of job `id`.
    pub fn add_job(&self, id: u64, token: &str) {
        locked(&self.shared.jobs).entry(id).or_default().token = token.to_owned();
    }

    /// Makes `token` the one that opens the repositories.
    pub fn open_repos(&self, token: &str) {
        token.clone_into(&mut locked(&self.shared.git_token));
    }

    /// Makes `archive` what job `id` left, whatever it uploads.
    pub fn set_archive(&self, id: u64, archive: &[u8]) {
        locked(&self.shared.jobs).entry(id).or_default().archive = Some(archive.to_owned());
    }

    /// What job `id` has uploaded.
    #[must_use]
    pub fn uploads(&self, id: u64) -> Vec<Upload> {
        locked(&self.shared.jobs)
            .get(&id)
            .map(|job| job.uploads.clone())
            .unwrap_or_default()
    }

    /// Puts a file into the object storage, as `/storage/NAME`.
    pub fn put_storage(&self, name: &str, content: &[u8]) {
        locked(&self.shared.storage).insert(format!("/storage/{name}"), content.to_owned());
    }

    /// The content of `/storage/NAME`.
    #[must_use]
    pub fn storage(&self, name: &str) -> Option<Vec<u8>> {
        locked(&self.shared.storage)
            .get(&format!("/storage/{name}"))
            .cloned()
    }

    /// The `from`-th `call` (from 1) and the `times - 1` ones after it meet `fault`.
    pub fn inject(&self, call: Call, from: usize, times: usize, fault: Fault) {
        locked(&self.shared.faults).inject(call, from, times, fault);
    }

    /// All calls of the API and of the storage so far.
    #[must_use]
    pub fn exchanges(&self) -> Vec<Exchange> {
        locked(&self.shared.exchanges).clone()
    }
}

impl Drop for GitLab {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept(listener: &TcpListener, tls: Option<&Tls>, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let (shared, tls) = (Arc::clone(shared), tls.cloned());
        // A client that goes away is no trouble of ours.
        std::thread::spawn(move || match tls {
            None => serve(stream, &shared),
            Some(tls) => {
                let session = ServerConnection::new(tls.config).map_err(io::Error::other)?;
                serve(TlsSide(StreamOwned::new(session, stream)), &shared)
            }
        });
    }
}

/// Answers one request and closes the connection.
fn serve(mut stream: impl Read + Write, shared: &Shared) -> io::Result<()> {
    let at = shared.began.elapsed().as_secs_f64();
    let mut reader = BufReader::new(&mut stream);
    let Some(request) = read_head(&mut reader)? else {
        return Ok(());
    };
    if request.path.starts_with("/repos/") {
        let body = read_body(&mut reader, &request)?;
        return serve_git(&mut stream, shared, &request, &body);
    }
    let fault = Call::of(&request).and_then(|call| locked(&shared.faults).next(call));
    let mut exchange = Exchange {
        at,
        request,
        body_bytes: 0,
        part: None,
        status: None,
    };
    let request = &exchange.request;
    let body = match &fault {
        Some(Fault::DropAfterReading(bytes)) => {
            let _ = reader.take(*bytes).read_to_end(&mut Vec::new());
            locked(&shared.exchanges).push(exchange);
            return Ok(());
        }
        Some(Fault::AnswerUnread(status)) => {
            exchange.status = Some(*status);
            locked(&shared.exchanges).push(exchange);
            head(&mut stream, &faults::line(*status), &[])?;
            stream.flush()?;
            // A close with unread bytes would be a reset, which may take the answer away from the client.
            let _ = io::copy(&mut stream, &mut io::sink());
            return Ok(());
        }
        Some(Fault::ReadSlowly(pause)) => {
            read_body(&mut faults::slow(&mut reader, *pause), request)?
        }
        _ => read_body(&mut reader, request)?,
    };
    exchange.body_bytes = body.len();
    exchange.part = Part::parse(exchange.header("content-type"), &body);
    let answer = match &fault {
        Some(Fault::Drop) => {
            locked(&shared.exchanges).push(exchange);
            return Ok(());
        }
        Some(Fault::Answer(answer)) => answer.clone(),
        _ => artifacts::answer(shared, &exchange),
    };
    exchange.status = Some(answer.status);
    locked(&shared.exchanges).push(exchange);
    answer.send(&mut stream, fault.as_ref())
}

fn serve_git(
    stream: &mut impl Write,
    shared: &Shared,
    request: &Request,
    body: &[u8],
) -> io::Result<()> {
    if is_allowed(request, &locked(&shared.git_token).clone()) {
        return backend(stream, &shared.repos, &shared.sent, request, body, None);
    }
    let realm = [("WWW-Authenticate", "Basic realm=\"GitLab\"")];
    head(stream, "401 Unauthorized", &realm)
}

/// An answer in full.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// Headers beside those of every answer.
    pub headers: Vec<(String, String)>,
    /// Content.
    pub body: Vec<u8>,
}

impl Answer {
    /// A status alone.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// With another header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With content.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// As GitLab's API says an error.
    #[must_use]
    pub fn message(status: u16, message: &str) -> Self {
        Self::status(status)
            .header("Content-Type", "application/json")
            .body(serde_json::json!({ "message": message }).to_string())
    }

    fn send(&self, stream: &mut impl Write, fault: Option<&Fault>) -> io::Result<()> {
        let length = self.body.len().to_string();
        let mut headers: Vec<(&str, &str)> = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        headers.push(("Content-Length", &length));
        start(stream, &faults::line(self.status), &headers)?;
        stream.write_all(b"\r\n")?;
        match fault {
            Some(Fault::DropAfterSending(bytes)) => {
                stream.write_all(self.body.get(..*bytes).unwrap_or(&self.body))?;
            }
            Some(Fault::SendSlowly(piece, pause)) => {
                for part in self.body.chunks(*piece) {
                    std::thread::sleep(*pause);
                    stream.write_all(part)?;
                    stream.flush()?;
                }
            }
            _ => stream.write_all(&self.body)?,
        }
        stream.flush()
    }
}
