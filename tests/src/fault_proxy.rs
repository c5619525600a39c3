//! A proxy in front of a registry that misbehaves when told to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use crate::http::Request;
use crate::http::{Call, Port, Reply, Server, ask, locked};

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Action {
    /// The registry answers.
    Forward,
    /// This is the answer: status, headers, body.
    Reply(u16, Vec<(String, String)>, Vec<u8>),
    /// These bytes are the answer.
    Raw(Vec<u8>),
    /// The registry answers, and the connection breaks after so many bytes of the body.
    DropAfter(usize),
    /// The registry answers, and the body's byte there is another one.
    Corrupt(usize),
    /// The registry answers, and the body, as the headers tell, is only so long.
    Truncate(usize),
    /// The registry answers, and says nothing of ranges: the whole body comes with status 200.
    IgnoreRange,
    /// The registry answers, in pieces of so many bytes with a pause before each.
    Slow(usize, Duration),
    /// The connection stays open, and nothing comes until the proxy is dropped.
    Silence,
    /// The connection is closed without an answer.
    Close,
}

impl Action {
    /// An answer of a status alone.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::Reply(status, Vec::new(), Vec::new())
    }

    /// An answer of a status and one header.
    #[must_use]
    pub fn with_header(status: u16, name: &str, value: &str) -> Self {
        Self::Reply(
            status,
            vec![(name.to_owned(), value.to_owned())],
            Vec::new(),
        )
    }
}

type Rule = dyn FnMut(&Request) -> Action + Send;

struct Shared {
    upstream: String,
    rule: Mutex<Box<Rule>>,
    requests: Mutex<Vec<Request>>,
}

/// A running proxy; stops when dropped.
pub struct FaultProxy {
    server: Server,
    shared: Arc<Shared>,
}

impl FaultProxy {
    /// A proxy before the plain HTTP server at `upstream` (host and port) that does what `rule` says.
    ///
    /// # Panics
    ///
    /// If no port can be had.
    pub fn start(upstream: &str, rule: impl FnMut(&Request) -> Action + Send + 'static) -> Self {
        let shared = Arc::new(Shared {
            upstream: upstream.to_owned(),
            rule: Mutex::new(Box::new(rule)),
            requests: Mutex::default(),
        });
        let server = Server::start(Port::new(), None, {
            let shared = Arc::clone(&shared);
            move |call| answer(call, Arc::clone(&shared))
        });
        Self { server, shared }
    }

    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        self.server.address().to_string()
    }

    /// `team/build:1` as it is named here.
    #[must_use]
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.host())
    }

    /// All requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        locked(&self.shared.requests).clone()
    }
}

async fn answer(mut call: Call, shared: Arc<Shared>) -> Option<Reply> {
    let content = call.read_all().await;
    let request = call.request.clone();
    // Rules may wait.
    let action = tokio::task::block_in_place(|| (locked(&shared.rule))(&request));
    locked(&shared.requests).push(request.clone());
    let keep_range = match action {
        Action::Reply(status, headers, content) => {
            return Some(Reply::new(status, content).headers(headers));
        }
        Action::Raw(bytes) => return call.answer_raw(bytes).await,
        Action::Silence => std::future::pending().await,
        Action::Close => return None,
        Action::IgnoreRange => false,
        _ => true,
    };
    let passed_on = (request.headers.into_iter())
        .filter(|(name, _)| name != "connection" && (keep_range || name != "range"));
    let (method, target) = (request.method, request.target);
    let (status, mut headers, mut body) =
        ask(&shared.upstream, &method, &target, passed_on, content).await?;
    headers.retain(|(name, _)| name != "connection" && name != "transfer-encoding");
    // An answer to HEAD tells the length of what does not come.
    headers.retain(|(name, _)| method == "HEAD" || name != "content-length");
    let length = body.len();
    let (piece, pause, limit) = match action {
        _ if method == "HEAD" => return Some(Reply::new(status, body).headers(headers)),
        Action::DropAfter(size) => (length, Duration::ZERO, Some(size)),
        Action::Slow(piece, pause) => (piece, pause, None),
        Action::Corrupt(at) => {
            if let Some(byte) = body.get_mut(at) {
                *byte ^= 0x55;
            }
            return Some(Reply::new(status, body).headers(headers));
        }
        Action::Truncate(size) => {
            body.truncate(size);
            return Some(Reply::new(status, body).headers(headers));
        }
        _ => return Some(Reply::new(status, body).headers(headers)),
    };
    Some(Reply::in_pieces(status, body, piece, pause, limit).headers(headers))
}
