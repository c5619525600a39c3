//! A GitLab that is told what to do: the runner API over HTTP, with or without TLS, and the repositories behind it.
//!
//! Its answers are those of docs/gitlab-runner and `golden/wire`; [`Fault`]s make it misbehave. What it can so far is
//! artifacts and clones. It also plays the object storage that GitLab sends clients on to: below `/storage/` it takes
//! and gives files without a token.

mod artifacts;
mod faults;
mod multipart;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub use artifacts::Upload;
pub use faults::{Call, Fault};
pub use multipart::Part;

use crate::git_http::{Repos, backend, is_allowed, unauthorized};
use crate::http::{Port, Reply, Request, Server, Tls, locked};
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
    sent: Arc<AtomicU64>,
    jobs: Mutex<BTreeMap<u64, JobRecord>>,
    storage: Mutex<BTreeMap<String, Vec<u8>>>,
    exchanges: Mutex<Vec<Exchange>>,
    faults: Mutex<Faults>,
}

/// A running server; stops when dropped.
#[derive(Debug)]
pub struct GitLab {
    server: Server,
    tls: Option<Tls>,
    shared: Arc<Shared>,
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

    /// As [`GitLab::start`], over TLS with a certificate that is in [`GitLab::ca_pem`].
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
        let shared = Arc::new(Shared {
            began: Instant::now(),
            repos,
            git_token: Mutex::new(git_token.to_owned()),
            sent: Arc::default(),
            jobs: Mutex::default(),
            storage: Mutex::default(),
            exchanges: Mutex::default(),
            faults: Mutex::default(),
        });
        let server = Server::start(Port::new(), tls.as_ref(), {
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
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.server.address())
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

async fn answer(mut call: crate::http::Call, shared: Arc<Shared>) -> Option<Reply> {
    let at = shared.began.elapsed().as_secs_f64();
    if call.request.path.starts_with("/repos/") {
        let body = call.read_all().await;
        return answer_git(&shared, &call.request, body).await;
    }
    let fault = Call::of(&call.request).and_then(|kind| locked(&shared.faults).next(kind));
    let mut exchange = Exchange {
        at,
        request: call.request.clone(),
        body_bytes: 0,
        part: None,
        status: None,
    };
    let body = match &fault {
        Some(Fault::DropAfterReading(bytes)) => {
            call.read(*bytes, Duration::ZERO).await;
            locked(&shared.exchanges).push(exchange);
            return None;
        }
        Some(Fault::AnswerUnread(status)) => {
            exchange.status = Some(*status);
            locked(&shared.exchanges).push(exchange);
            call.forget_content();
            return Some(Reply::status(*status));
        }
        Some(Fault::ReadSlowly(pause)) => call.read(u64::MAX, *pause).await,
        _ => call.read_all().await,
    };
    exchange.body_bytes = body.len();
    exchange.part = Part::parse(exchange.header("content-type"), &body);
    let answer = match &fault {
        Some(Fault::Drop) => {
            locked(&shared.exchanges).push(exchange);
            return None;
        }
        Some(Fault::Answer(answer)) => answer.clone(),
        _ => artifacts::answer(&shared, &exchange),
    };
    exchange.status = Some(answer.status);
    locked(&shared.exchanges).push(exchange);
    Some(answer.reply(fault.as_ref()))
}

async fn answer_git(shared: &Shared, request: &Request, body: Vec<u8>) -> Option<Reply> {
    let token = locked(&shared.git_token).clone();
    if !is_allowed(request, &token) {
        return Some(unauthorized());
    }
    backend(&shared.repos, &shared.sent, request, body, None)
        .await
        .ok()
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

    fn reply(self, fault: Option<&Fault>) -> Reply {
        let (status, body) = (self.status, self.body);
        let length = body.len();
        let reply = match fault {
            Some(Fault::DropAfterSending(bytes)) => {
                Reply::in_pieces(status, body, length, Duration::ZERO, Some(*bytes))
            }
            Some(Fault::SendSlowly(piece, pause)) => {
                Reply::in_pieces(status, body, *piece, *pause, None)
            }
            _ => Reply::new(status, body),
        };
        reply.headers(self.headers)
    }
}
