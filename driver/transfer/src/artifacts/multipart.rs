//! The content of an upload: one file as `multipart/form-data` (RFC 7578; gitlab-runner, wire §1.14).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use reqwest::Body;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::sync::Notify;
use tokio_util::io::ReaderStream;

use crate::spool::Spooled;
use vk_http::{Count, Counted};

/// Bytes read from the file at a time.
const CHUNK: usize = 256 << 10;

/// A file to upload. Its boundary stays the same however often it is sent.
pub(super) struct Multipart<'a> {
    file: &'a Spooled,
    boundary: String,
    head: String,
    count: Count,
}

impl<'a> Multipart<'a> {
    /// `file` as a form's field `file`, called `file_name`. `count` counts the bytes of the file that were sent.
    pub(super) fn new(file: &'a Spooled, file_name: &str, count: Count) -> Self {
        // Sixty digits, as in Go.
        let mut boundary = format!("{}{}", vk_text::random_id(), vk_text::random_id());
        boundary.truncate(60);
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n",
            escaped(file_name)
        );
        Self {
            file,
            boundary,
            head,
            count,
        }
    }

    pub(super) fn content_type(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    /// The content from its start; `sent` is told when all of it was handed out.
    pub(super) async fn open(&self, sent: Arc<Notify>) -> io::Result<Body> {
        let file = self.file.open().await?;
        self.count.reset();
        let tail = format!("\r\n--{}--\r\n", self.boundary);
        let content = io::Cursor::new(self.head.clone())
            .chain(Counted::new(file, self.count.clone()))
            .chain(Ending {
                tail: io::Cursor::new(tail),
                sent,
            });
        Ok(Body::wrap_stream(ReaderStream::with_capacity(
            content, CHUNK,
        )))
    }
}

/// The last bytes, and word of their having been read.
struct Ending {
    tail: io::Cursor<String>,
    sent: Arc<Notify>,
}

impl AsyncRead for Ending {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.tail).poll_read(context, buffer))?;
        if self.tail.position() >= self.tail.get_ref().len() as u64 {
            self.sent.notify_one();
        }
        Poll::Ready(Ok(()))
    }
}

/// A file name within the quotes of a header (Go's `mime/multipart`: `FileContentDisposition`).
fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\r' => escaped.push_str("%0D"),
            '\n' => escaped.push_str("%0A"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_stays_within_its_quotes() {
        assert_eq!(escaped(r#"a"b\c"#), r#"a\"b\\c"#);
        assert_eq!(escaped("a\r\nX: y"), "a%0D%0AX: y");
    }
}
