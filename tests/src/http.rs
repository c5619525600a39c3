//! The little HTTP/1.1 that the kit's servers speak: one request a connection, with or without TLS.

#![expect(clippy::expect_used, reason = "a test kit fails by panicking")]

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

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
    pub(crate) config: Arc<ServerConfig>,
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

/// The server's side of a TLS connection. It says goodbye: without that, a client takes the end for a
/// truncation.
pub(crate) struct TlsSide(pub(crate) StreamOwned<ServerConnection, TcpStream>);

impl Read for TlsSide {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for TlsSide {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for TlsSide {
    fn drop(&mut self) {
        self.0.conn.send_close_notify();
        let _ = self.0.flush();
    }
}

pub(crate) fn read_head(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (path, query) = (path.to_owned(), query.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
            }
            None => break,
        }
    }
    Ok(Some(Request {
        method,
        target: target.to_owned(),
        path,
        query,
        headers,
    }))
}

pub(crate) fn read_body(reader: &mut impl BufRead, request: &Request) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if request.headers.get("transfer-encoding").map(String::as_str) == Some("chunked") {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let size = u64::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            reader.take(size).read_to_end(&mut body)?;
            reader.read_line(&mut line)?;
            if size == 0 {
                return Ok(body);
            }
        }
    }
    if let Some(length) = request.headers.get("content-length") {
        let length = length.parse().map_err(io::Error::other)?;
        reader.take(length).read_to_end(&mut body)?;
    }
    Ok(body)
}

pub(crate) fn start(
    stream: &mut impl Write,
    status: &str,
    headers: &[(&str, &str)],
) -> io::Result<()> {
    let mut text = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    stream.write_all(text.as_bytes())
}

pub(crate) fn head(
    stream: &mut impl Write,
    status: &str,
    headers: &[(&str, &str)],
) -> io::Result<()> {
    start(stream, status, headers)?;
    if headers.iter().all(|(name, _)| *name != "Content-Length") {
        stream.write_all(b"Content-Length: 0\r\n")?;
    }
    stream.write_all(b"\r\n")
}
