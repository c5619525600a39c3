//! Downloads, by the rules of gitlab-runner's `artifacts-downloader` (gitlab-runner, wire §1.15 and wire §3.5).
//!
//! A direct download is one request here whose redirect is followed; gitlab-runner asks once without following and, where
//! it is redirected, once more.

use std::path::Path;
use std::time::Duration;

use reqwest::{Method, StatusCode};

use super::client::{Call, CallError, ClientError, GitLab, Reply, Token};
use crate::meter::Meter;
use crate::spool::{Spool, SpoolError, Spooled};
use vk_http::{Count, RedirectError};
use vk_trace::OutputSender;
use vk_trace::helper::Level;

/// How often an archive is asked for.
const TRIES: u32 = 3;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// What all messages begin with.
const PREFIX: &str = "Downloading artifacts from coordinator...";

/// An earlier job's archive.
#[derive(Clone, Copy)]
pub struct Download<'a> {
    /// That job.
    pub job_id: u64,
    /// The token that opens its artifacts.
    pub token: &'a str,
    /// Whether GitLab may send the request on to its object storage (`FF_USE_DIRECT_DOWNLOAD`).
    pub direct: bool,
    /// Where the archive is kept.
    pub folder: &'a Path,
    /// How often progress is told.
    pub meter: Option<Duration>,
}

/// Why there is no archive. The texts are those of GitLab Runner's last line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// GitLab has none, or does not say.
    #[error("file does not exist")]
    NotFound,
    /// The token does not open it.
    #[error("permission denied")]
    Denied,
    /// Something else, again and again.
    #[error("invalid argument")]
    Failed,
    /// A redirect that vk does not follow.
    #[error(transparent)]
    Refused(CallError),
    /// It cannot be kept.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// GitLab cannot be asked.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Another store than GitLab says why.
    #[error("{0}")]
    Other(String),
}

impl GitLab {
    /// Downloads an archive.
    ///
    /// # Errors
    ///
    /// [`DownloadError`]; what GitLab answered is in the output.
    pub async fn download(
        &self,
        download: &Download<'_>,
        output: &OutputSender,
    ) -> Result<Spooled, DownloadError> {
        let token = Token::new(download.token)?;
        let mut spool = Spool::create(download.folder)?;
        let mut tried = 1;
        loop {
            let direct = download.direct && tried == 1;
            match self
                .download_once(download, &token, direct, &mut spool, output)
                .await
            {
                Ok(()) => return Ok(spool.finish().await?),
                Err(DownloadError::Failed) if tried < TRIES => {
                    let fields = [("error", "invalid argument")];
                    output.log(Level::Warning, "Retrying...", &fields).await;
                    tokio::time::sleep(PAUSE).await;
                    spool.clear().await?;
                    tried += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn download_once(
        &self,
        download: &Download<'_>,
        token: &Token,
        direct: bool,
        spool: &mut Spool,
        output: &OutputSender,
    ) -> Result<(), DownloadError> {
        let query: &[(&str, &str)] = if direct {
            &[("direct_download", "true")]
        } else {
            &[]
        };
        let call = Call {
            method: Method::GET,
            url: self.api.artifacts(download.job_id, query),
            token,
            body: None,
            id: vk_text::random_id(),
        };
        let id = download.job_id.to_string();
        let answer = if direct {
            self.call_directly(&call, output).await
        } else {
            self.call_with_retries(&call, output).await
        };
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) => {
                lost(&error, &id, output).await;
                return Err(match error {
                    // vk itself does not follow: it would be wrong to ask again.
                    CallError::Redirect(RedirectError::LeavesHttps(_)) => {
                        DownloadError::Refused(error)
                    }
                    _ => DownloadError::Failed,
                });
            }
        };
        let status = reply.status();
        let correlation_id = reply.correlation_id(&call).to_owned();
        let mut fields = vec![
            ("correlation_id", correlation_id.as_str()),
            ("id", id.as_str()),
        ];
        let (level, word, result) = state(status);
        if result.is_ok() {
            let count = Count::default();
            let meter = Meter {
                label: "Downloading artifacts",
                every: download.meter,
                total: None,
                at_once: true,
            };
            match meter.run(&count, output, keep(reply, spool, &count)).await {
                Ok(()) => {}
                Err(Kept::Lost(error)) => {
                    lost(&error, &id, output).await;
                    return Err(DownloadError::Failed);
                }
                Err(Kept::Spool(error)) => return Err(error.into()),
            }
            fields.push(("status", status.as_str()));
            output
                .log(level, &format!("{PREFIX} {word}"), &fields)
                .await;
            return result;
        }
        let text = reply.text(&call, true).await;
        fields.push(("status", text.as_str()));
        output
            .log(level, &format!("{PREFIX} {word}"), &fields)
            .await;
        result
    }
}

/// Why an archive that GitLab sends is not kept.
enum Kept {
    Lost(CallError),
    Spool(SpoolError),
}

async fn keep(mut reply: Reply, spool: &mut Spool, count: &Count) -> Result<(), Kept> {
    while let Some(chunk) = reply.chunk().await.map_err(Kept::Lost)? {
        count.add(chunk.len());
        spool.write(&chunk).await.map_err(Kept::Spool)?;
    }
    Ok(())
}

async fn lost(error: &CallError, id: &str, output: &OutputSender) {
    let text = error.to_string();
    let fields = [("error", text.as_str()), ("id", id)];
    output
        .log(Level::Error, &format!("{PREFIX} error"), &fields)
        .await;
}

/// What a status means (gitlab-runner, wire §1.15).
fn state(status: StatusCode) -> (Level, &'static str, Result<(), DownloadError>) {
    match status {
        StatusCode::OK => (Level::Info, "ok", Ok(())),
        StatusCode::FORBIDDEN => (Level::Error, "forbidden", Err(DownloadError::Denied)),
        StatusCode::UNAUTHORIZED => (Level::Error, "unauthorized", Err(DownloadError::Denied)),
        StatusCode::NOT_FOUND => (Level::Error, "not found", Err(DownloadError::NotFound)),
        _ => (Level::Warning, "failed", Err(DownloadError::Failed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gitlab-runner, wire §1.15.
    #[test]
    fn a_status_means_what_it_means_to_gitlab_runner() {
        let state = |status: u16| state(StatusCode::from_u16(status).unwrap());
        assert!(matches!(state(200), (Level::Info, "ok", Ok(()))));
        assert!(matches!(
            state(403),
            (Level::Error, "forbidden", Err(DownloadError::Denied))
        ));
        assert!(matches!(
            state(401),
            (Level::Error, "unauthorized", Err(DownloadError::Denied))
        ));
        assert!(matches!(
            state(404),
            (Level::Error, "not found", Err(DownloadError::NotFound))
        ));
        for other in [204, 206, 400, 500, 503] {
            assert!(matches!(
                state(other),
                (Level::Warning, "failed", Err(DownloadError::Failed))
            ));
        }
    }
}
