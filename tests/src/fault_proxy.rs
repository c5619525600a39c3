//! A proxy in front of a registry that misbehaves when told to.

#![expect(clippy::expect_used, reason = "a test kit fails by panicking")]

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers, their names in lower case.
    pub headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

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
    stopping: AtomicBool,
}

/// A running proxy; stops when dropped.
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl FaultProxy {
    /// A proxy before the plain HTTP server at `upstream` (host and port) that does what `rule` says.
    ///
    /// # Panics
    ///
    /// If no port can be had.
    pub fn start(upstream: &str, rule: impl FnMut(&Request) -> Action + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("the port's number");
        let shared = Arc::new(Shared {
            upstream: upstream.to_owned(),
            rule: Mutex::new(Box::new(rule)),
            requests: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        let acceptor = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for stream in listener.incoming() {
                    if shared.stopping.load(Ordering::SeqCst) {
                        return;
                    }
                    let Ok(stream) = stream else { continue };
                    let shared = Arc::clone(&shared);
                    // A client that goes away is no trouble of ours.
                    std::thread::spawn(move || serve(&stream, &shared));
                }
            }
        });
        Self {
            address,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// `127.0.0.1:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// `team/build:1` as it is named here.
    #[must_use]
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// All requests so far, but for those that only ask whether TLS is spoken.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        locked(&self.shared.requests).clone()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    let Some(request) = read_request(stream)? else {
        return refuse_tls(stream);
    };
    let action = (locked(&shared.rule))(&request);
    locked(&shared.requests).push(request.clone());
    let mut out = stream;
    match action {
        Action::Reply(status, headers, body) => {
            let mut head = format!("HTTP/1.1 {status} Told\r\nConnection: close\r\n");
            for (name, value) in headers {
                head += &format!("{name}: {value}\r\n");
            }
            head += &format!("Content-Length: {}\r\n\r\n", body.len());
            out.write_all(head.as_bytes())?;
            out.write_all(&body)?;
        }
        Action::Raw(answer) => out.write_all(&answer)?,
        Action::Silence => {
            while !shared.stopping.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Action::Close => {}
        action => {
            let keep_range = !matches!(action, Action::IgnoreRange);
            let (mut head, mut body) = forward(&request, &shared.upstream, keep_range)?;
            let mut piece = body.len().max(1);
            let mut pause = Duration::ZERO;
            match action {
                Action::DropAfter(size) => body.truncate(size),
                Action::Corrupt(at) => {
                    if let Some(byte) = body.get_mut(at) {
                        *byte ^= 0x55;
                    }
                }
                Action::Truncate(size) => {
                    body.truncate(size);
                    head = head
                        .split_inclusive("\r\n")
                        .filter(|line| !line.to_ascii_lowercase().starts_with("content-length:"))
                        .collect();
                    head = head.trim_end().to_owned()
                        + &format!("\r\nContent-Length: {}\r\n\r\n", body.len());
                }
                Action::Slow(size, wait) => (piece, pause) = (size, wait),
                _ => {}
            }
            out.write_all(head.as_bytes())?;
            for part in body.chunks(piece) {
                std::thread::sleep(pause);
                if shared.stopping.load(Ordering::SeqCst) {
                    break;
                }
                out.write_all(part)?;
            }
        }
    }
    out.flush()?;
    stream.shutdown(Shutdown::Write)?;
    // A close with unread bytes would be a reset, which may take the answer away from the client.
    let _ = io::copy(&mut &*stream, &mut io::sink());
    Ok(())
}

/// `None` for what is no HTTP.
fn read_request(stream: &TcpStream) -> io::Result<Option<Request>> {
    let mut first = [0];
    if stream.peek(&mut first)? == 0 || !first[0].is_ascii_uppercase() {
        return Ok(None);
    }
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let size: u64 = headers
        .get("content-length")
        .and_then(|size| size.parse().ok())
        .unwrap_or(0);
    let mut body = Vec::new();
    reader.take(size).read_to_end(&mut body)?;
    Ok(Some(Request {
        method,
        path,
        headers,
        body,
    }))
}

/// What Go's HTTP server says to a TLS client.
fn refuse_tls(mut stream: &TcpStream) -> io::Result<()> {
    stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n")
}

/// The registry's answer: its head, and its whole body.
fn forward(request: &Request, upstream: &str, keep_range: bool) -> io::Result<(String, Vec<u8>)> {
    let mut stream = TcpStream::connect(upstream)?;
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.path);
    for (name, value) in &request.headers {
        if name != "connection" && (keep_range || name != "range") {
            head += &format!("{name}: {value}\r\n");
        }
    }
    head += "connection: close\r\n\r\n";
    stream.write_all(head.as_bytes())?;
    stream.write_all(&request.body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let end = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    let body = answer.split_off(end + 4);
    Ok((String::from_utf8_lossy(&answer).into_owned(), body))
}
