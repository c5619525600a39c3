//! The one HTTP server that all of the kit's servers are made of: HTTP/1.1, one request a connection, with or without
//! TLS. What answers a request may stall, trickle, hang up in the middle, or take the connection over for bytes that are
//! no HTTP.

#![expect(clippy::expect_used, reason = "a test kit fails by panicking")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsAcceptor;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Path and query, as they were written.
    pub target: String,
    /// Path without the query.
    pub path: String,
    /// Query, without its question mark.
    pub query: String,
    /// Headers, their names in lower case.
    pub headers: BTreeMap<String, String>,
}

/// A certificate for 127.0.0.1 that signs itself.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    config: Arc<ServerConfig>,
    pub(crate) pem: String,
}

impl Tls {
    pub(crate) fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])
            .expect("a certificate of our own");
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider knows TLS")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .expect("the key is the certificate's");
        Self {
            config: Arc::new(config),
            pem: made.cert.pem(),
        }
    }
}

/// A running server; stops, and hangs up on everyone, when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

/// A port on loopback, and its number before anything answers there.
pub(crate) struct Port(TcpListener);

impl Port {
    pub(crate) fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").expect("a port on loopback"))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("the port's number")
    }
}

impl Server {
    /// Answers each request at `port` with what `answer` makes of it; `None` hangs up.
    pub(crate) fn start<A>(
        port: Port,
        tls: Option<&Tls>,
        answer: impl Fn(Call) -> A + Clone + Send + Sync + 'static,
    ) -> Self
    where
        A: Future<Output = Option<Reply>> + Send + 'static,
    {
        let address = port.address();
        let tls = tls.map(|tls| TlsAcceptor::from(Arc::clone(&tls.config)));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a thread for the server");
        runtime.spawn(async move {
            port.0.set_nonblocking(true)?;
            let listener = tokio::net::TcpListener::from_std(port.0)?;
            loop {
                let (stream, _) = listener.accept().await?;
                let (tls, answer) = (tls.clone(), answer.clone());
                // A client that disconnects is no error of the server.
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, answer).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, answer).await;
                            }
                        }
                    }
                });
            }
            #[expect(unreachable_code, reason = "says what the question marks give")]
            io::Result::Ok(())
        });
        Self {
            address,
            runtime: Some(runtime),
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Tests drop it in async code, too, where nothing may wait. Once this has, nobody uses the server's files.
            let stop = std::thread::spawn(|| runtime.shutdown_timeout(Duration::from_secs(1)));
            let _ = stop.join();
        }
    }
}

/// A request whose content has not been read yet.
pub(crate) struct Call {
    pub(crate) request: Request,
    content: Incoming,
    raw: Arc<Mutex<Option<oneshot::Sender<Vec<u8>>>>>,
}

impl Call {
    /// Reads the content, with `pause` before each piece, until it has `limit` bytes or more; what came before the
    /// client hung up.
    pub(crate) async fn read(&mut self, limit: u64, pause: Duration) -> Vec<u8> {
        let mut read = Vec::new();
        while (read.len() as u64) < limit {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let Some(Ok(frame)) = self.content.frame().await else {
                break;
            };
            if let Ok(data) = frame.into_data() {
                read.extend_from_slice(&data);
            }
        }
        read
    }

    /// Reads all of the content.
    pub(crate) async fn read_all(&mut self) -> Vec<u8> {
        self.read(u64::MAX, Duration::ZERO).await
    }

    /// Goes on to read and forget, beside the answer: hanging up on unread bytes would be a reset, which may take the
    /// answer away from the client.
    pub(crate) fn forget_content(mut self) {
        tokio::spawn(async move { while self.content.frame().await.is_some() {} });
    }

    /// Sends `bytes` in place of an answer, and hangs up.
    pub(crate) async fn answer_raw(self, bytes: Vec<u8>) -> Option<Reply> {
        if let Some(raw) = locked(&self.raw).take() {
            let _ = raw.send(bytes);
        }
        std::future::pending().await
    }
}

/// An answer.
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    content: Content,
}

enum Content {
    Whole(Vec<u8>),
    Pieces(mpsc::Receiver<Piece>),
}

enum Piece {
    Data(Bytes),
    HangUp,
}

impl Reply {
    /// A status alone.
    pub(crate) fn status(status: u16) -> Self {
        Self::new(status, Vec::new())
    }

    pub(crate) fn new(status: u16, content: Vec<u8>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            content: Content::Whole(content),
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers write `5`, not `&5`")]
    pub(crate) fn header(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub(crate) fn headers(mut self, headers: Vec<(String, String)>) -> Self {
        self.headers.extend(headers);
        self
    }

    /// Content as `write` makes it, in chunks unless the headers tell a length.
    pub(crate) fn streamed<W>(status: u16, write: impl FnOnce(Output) -> W) -> Self
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let (pieces, receiver) = mpsc::channel(1);
        tokio::spawn(write(Output(pieces)));
        Self {
            status,
            headers: Vec::new(),
            content: Content::Pieces(receiver),
        }
    }

    /// `content`, in pieces of `piece` bytes with `pause` before each. With a `limit` its length is told, but the
    /// connection is gone after so many bytes.
    pub(crate) fn in_pieces(
        status: u16,
        content: Vec<u8>,
        piece: usize,
        pause: Duration,
        limit: Option<usize>,
    ) -> Self {
        let length = content.len();
        Self::streamed(status, move |output| async move {
            let end = limit.unwrap_or(length).min(length);
            for part in content.get(..end).unwrap_or_default().chunks(piece.max(1)) {
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                if !output.data(Bytes::copy_from_slice(part)).await {
                    return;
                }
            }
            if limit.is_some() {
                output.hang_up().await;
            }
        })
        .header("Content-Length", length)
    }
}

/// Where an answer's content is written.
pub(crate) struct Output(mpsc::Sender<Piece>);

impl Output {
    /// Sends on; whether the client is still there.
    pub(crate) async fn data(&self, bytes: impl Into<Bytes>) -> bool {
        self.0.send(Piece::Data(bytes.into())).await.is_ok()
    }

    /// Sends what was written, and then breaks the connection.
    pub(crate) async fn hang_up(self) {
        let _ = self.0.send(Piece::HangUp).await;
        self.client_gone().await;
    }

    /// Waits until the client has hung up.
    pub(crate) async fn client_gone(self) {
        self.0.closed().await;
    }
}

async fn serve<S, A>(stream: S, answer: impl Fn(Call) -> A)
where
    S: AsyncRead + AsyncWrite + Unpin,
    A: Future<Output = Option<Reply>>,
{
    let hang_up = Arc::new(AtomicBool::new(false));
    let (raw, raw_answer) = oneshot::channel();
    let raw = Arc::new(Mutex::new(Some(raw)));
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (head, content) = request.into_parts();
        let call = Call {
            request: read_head(&head),
            content,
            raw: Arc::clone(&raw),
        };
        let (answer, hang_up) = (answer(call), Arc::clone(&hang_up));
        async move {
            let reply = answer.await.ok_or(io::ErrorKind::ConnectionAborted)?;
            response(reply, hang_up).map_err(io::Error::other)
        }
    });
    let wire = Wire {
        stream,
        hang_up: Arc::clone(&hang_up),
    };
    let mut connection = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .half_close(true)
        .title_case_headers(true)
        // The least there is: whoever reads slowly shall read little at a time.
        .max_buf_size(8 << 10)
        .serve_connection(TokioIo::new(wire), service);
    tokio::select! {
        _ = Pin::new(&mut connection) => {}
        Ok(bytes) = raw_answer => {
            let mut wire = connection.into_parts().io.into_inner();
            if wire.write_all(&bytes).await.is_ok() && wire.shutdown().await.is_ok() {
                let _ = tokio::io::copy(&mut wire, &mut tokio::io::sink()).await;
            }
        }
    }
}

fn read_head(head: &hyper::http::request::Parts) -> Request {
    let target = head
        .uri
        .path_and_query()
        .map_or("", |target| target.as_str());
    let headers = head.headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    });
    Request {
        method: head.method.to_string(),
        target: target.to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: headers.collect(),
    }
}

fn response(reply: Reply, hang_up: Arc<AtomicBool>) -> hyper::http::Result<Response<Writing>> {
    let mut response = Response::builder().status(StatusCode::from_u16(reply.status)?);
    let has_length =
        (reply.headers.iter()).any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    let (whole, pieces) = match reply.content {
        Content::Whole(bytes) => {
            if !has_length {
                response = response.header("Content-Length", bytes.len());
            }
            (Some(Bytes::from(bytes)), None)
        }
        Content::Pieces(pieces) => (None, Some(pieces)),
    };
    response.body(Writing {
        whole: whole.filter(|bytes| !bytes.is_empty()),
        pieces,
        hang_up,
    })
}

/// An answer's content on its way.
struct Writing {
    whole: Option<Bytes>,
    pieces: Option<mpsc::Receiver<Piece>>,
    hang_up: Arc<AtomicBool>,
}

impl Body for Writing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(bytes) = self.whole.take() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let Some(pieces) = &mut self.pieces else {
            return Poll::Ready(None);
        };
        match pieces.poll_recv(context) {
            Poll::Ready(Some(Piece::Data(bytes))) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Poll::Ready(Some(Piece::HangUp)) => {
                // Whoever waits for more flushes what there is, and meets the end there.
                self.hang_up.store(true, Ordering::SeqCst);
                Poll::Pending
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.whole.is_none() && self.pieces.is_none()
    }
}

/// A connection that breaks once all is sent, when told to.
struct Wire<S> {
    stream: S,
    hang_up: Arc<AtomicBool>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(context) {
            Poll::Ready(Ok(())) if self.hang_up.load(Ordering::SeqCst) => {
                Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
            }
            flushed => flushed,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks the server at `host` (host and port) over plain HTTP: status, headers and content.
pub(crate) async fn ask(
    host: &str,
    method: &str,
    target: &str,
    headers: impl Iterator<Item = (String, String)>,
    content: Vec<u8>,
) -> Option<(u16, Vec<(String, String)>, Vec<u8>)> {
    let stream = TokioIo::new(TcpStream::connect(host).await.ok()?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.ok()?;
    tokio::spawn(connection);
    let mut request = hyper::Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(http_body_util::Full::new(Bytes::from(content)));
    let response = sender.send_request(request.ok()?).await.ok()?;
    let status = response.status().as_u16();
    let headers = response.headers().iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.to_string(), value)
    });
    let headers = headers.collect();
    let content = response.into_body().collect().await.ok()?.to_bytes();
    Some((status, headers, content.into()))
}
