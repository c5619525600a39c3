//! Archives out of and into the guest.

use bytes::Bytes;
use tokio::io::AsyncRead;
use tokio::net::unix::OwnedWriteHalf;
use vk_agent_proto::frame::decode_json;
use vk_agent_proto::{ArchiveSummary, ExtractSummary, FrameError, Kind, Line, Reply};

use super::error::{AgentError, Operation, cleaned};
use super::link::{FrameReader, Link, parse_reply, wrong_reply};
use super::tree::{judged, send};

/// Kinds of the frames with an archive's bytes and behind them.
const ARCHIVE: (Kind, Kind) = (Kind::Archive, Kind::ArchiveEnd);

/// What comes while an archive is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchiveEvent {
    /// The archive's next bytes.
    Data(Bytes),
    /// A line for the job's trace.
    Line(Line),
}

/// An archive in the making. Dropping it ends the work in the guest.
#[derive(Debug)]
pub struct ArchiveStream {
    operation: Operation,
    frames: FrameReader,
    _write: OwnedWriteHalf,
    /// Whether the guest said that the archive is whole.
    whole: bool,
    /// Bytes of the archive so far.
    got: u64,
    summary: Option<ArchiveSummary>,
}

impl ArchiveStream {
    /// Of a connection whose request was sent.
    pub(super) fn new(link: Link) -> Self {
        let (operation, frames, write) = link.split();
        Self {
            operation,
            frames,
            _write: write,
            whole: false,
            got: 0,
            summary: None,
        }
    }

    /// What comes next; none once the archive is whole, or the guest has chosen nothing and made none. Loses
    /// nothing when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`AgentError`]: what came before is no archive then.
    pub async fn next(&mut self) -> Result<Option<ArchiveEvent>, AgentError> {
        while self.summary.is_none() {
            let (kind, payload) = self.frames.next(&self.operation).await?;
            match kind {
                Kind::Archive if !self.whole => {
                    self.got += payload.len() as u64;
                    return Ok(Some(ArchiveEvent::Data(payload)));
                }
                Kind::ArchiveEnd => self.whole = true,
                Kind::Line => {
                    let line = parse_line(&payload)
                        .map_err(|source| AgentError::broken(&self.operation, source))?;
                    return Ok(Some(ArchiveEvent::Line(line)));
                }
                kind => match parse_reply(&self.operation, kind, &payload)? {
                    Reply::Archived(summary)
                        if self.got == summary.archive_bytes
                            && self.whole == (summary.entries > 0) =>
                    {
                        self.summary = Some(summary);
                    }
                    _ => return Err(wrong_reply(&self.operation)),
                },
            }
        }
        Ok(None)
    }

    /// What the guest says of the archive; none before its end. Without entries there is no archive.
    #[must_use]
    pub fn summary(&self) -> Option<ArchiveSummary> {
        self.summary
    }
}

/// Sends `data` and waits for the agent's verdict, which may come early.
///
/// # Errors
///
/// [`AgentError`].
pub(super) async fn extract(
    link: Link,
    data: impl AsyncRead + Unpin + Send,
    mut lines: impl FnMut(Line) + Send,
) -> Result<ExtractSummary, AgentError> {
    let (operation, mut frames, mut write) = link.split();
    let verdict = async {
        loop {
            let (kind, payload) = frames.next(&operation).await?;
            if kind == Kind::Line {
                lines(
                    parse_line(&payload)
                        .map_err(|source| AgentError::broken(&operation, source))?,
                );
                continue;
            }
            return match parse_reply(&operation, kind, &payload)? {
                Reply::Extracted(summary) => Ok(summary),
                _ => Err(wrong_reply(&operation)),
            };
        }
    };
    judged(verdict, send(&mut write, data, ARCHIVE, &operation)).await
}

/// A guest's line, made safe for the trace.
fn parse_line(payload: &[u8]) -> Result<Line, FrameError> {
    let line: Line = decode_json(Kind::Line, payload)?;
    Ok(Line {
        text: cleaned(&line.text),
        ..line
    })
}
