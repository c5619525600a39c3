//! Uploads, by the rules of gitlab-runner's `artifacts-uploader` (gitlab-runner, wire §1.14 and wire §3.2).

use std::time::Duration;

use reqwest::{Method, StatusCode};

use super::client::{Call, CallError, ClientError, GitLab, Token};
use super::multipart::Multipart;
use crate::meter::Meter;
use crate::spool::Spooled;
use vk_http::{Count, RedirectError};
use vk_trace::OutputSender;
use vk_trace::helper::Level;

/// An archive to upload, and what GitLab is to know of it.
#[derive(Clone, Copy)]
pub struct Upload<'a> {
    /// The job it belongs to.
    pub job_id: u64,
    /// That job's token.
    pub token: &'a str,
    /// The archive.
    pub file: &'a Spooled,
    /// Its file name.
    pub file_name: &'a str,
    /// Its format, by GitLab's name for it.
    pub format: &'a str,
    /// Its type; empty for none.
    pub artifact_type: &'a str,
    /// How long it is kept; empty for GitLab's default.
    pub expire_in: &'a str,
    /// How often progress is told.
    pub meter: Option<Duration>,
}

/// An archive that cannot be made of what a job chose: a raw one of several files, say.
#[derive(Clone, Copy, Debug)]
pub struct Unmade<'a> {
    /// The job it would belong to.
    pub job_id: u64,
    /// Its format, by GitLab's name for it.
    pub format: &'a str,
    /// Its type; empty for none.
    pub artifact_type: &'a str,
    /// How long it would be kept; empty for GitLab's default.
    pub expire_in: &'a str,
    /// How often progress would be told.
    pub meter: Option<Duration>,
    /// Why not.
    pub reason: &'a str,
}

/// Why GitLab has no artifact now. The texts are those of GitLab Runner's last line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UploadError {
    /// The token does not open the job any more.
    #[error("permission denied")]
    Forbidden,
    /// GitLab does not take as much.
    #[error("too large")]
    TooLarge,
    /// GitLab has no time.
    #[error("service unavailable")]
    Unavailable,
    /// GitLab answered something else.
    #[error("upload failed with no response from coordinator")]
    Failed,
    /// GitLab did not answer.
    #[error(transparent)]
    Lost(CallError),
    /// GitLab cannot be asked.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// This host is at fault, and not the job or a server.
    #[error("{0}")]
    Host(String),
    /// Another store than GitLab says why.
    #[error("{0}")]
    Other(String),
}

impl UploadError {
    /// How often it is tried in all when it ends like this.
    fn tries(&self) -> u32 {
        match self {
            Self::Forbidden | Self::TooLarge | Self::Client(_) | Self::Host(_) | Self::Other(_) => {
                1
            }
            // vk itself does not follow.
            Self::Lost(CallError::Redirect(RedirectError::LeavesHttps(_))) => 1,
            Self::Failed | Self::Lost(_) => 3,
            Self::Unavailable => 6,
        }
    }
}

/// The pause after the `failed`-th try (from 1): doubling from a second up to five (gitlab-runner, wire §3.2).
fn pause(failed: u32) -> Duration {
    let seconds = 2_u64
        .checked_pow(failed.saturating_sub(1))
        .unwrap_or(u64::MAX);
    Duration::from_secs(seconds.min(5))
}

impl GitLab {
    /// Uploads an archive.
    ///
    /// # Errors
    ///
    /// [`UploadError`]; what GitLab answered is in the output.
    pub async fn upload(
        &self,
        upload: &Upload<'_>,
        output: &OutputSender,
    ) -> Result<(), UploadError> {
        let token = Token::new(upload.token)?;
        let count = Count::default();
        let content = Multipart::new(upload.file, upload.file_name, count.clone());
        let meter = meter(upload.meter);
        let mut tries = Tries::default();
        loop {
            let once = self.upload_once(upload, &token, &content, output);
            match meter.run(&count, output, once).await {
                Ok(()) => return Ok(()),
                Err(error) => tries.failed(error, output).await?,
            }
        }
    }

    /// Tells of an archive that cannot be made. GitLab Runner finds that out while it uploads, as often as it tries.
    pub(super) async fn unmade(&self, unmade: &Unmade<'_>, output: &OutputSender) -> UploadError {
        let query = [
            ("artifact_format", unmade.format),
            ("artifact_type", unmade.artifact_type),
            ("expire_in", unmade.expire_in),
        ];
        let url = self.api.artifacts(unmade.job_id, &query);
        let meter = meter(unmade.meter);
        let mut tries = Tries::default();
        loop {
            // As Go's `http.Client` tells of a body that cannot be read.
            let error = CallError::Lost {
                method: Method::POST.to_string(),
                url: url.to_string(),
                cause: format!("Post \"{url}\": {}", unmade.reason),
            };
            let once = lost(unmade.job_id, unmade.artifact_type, error, output);
            let error = meter.run(&Count::default(), output, once).await;
            if let Err(error) = tries.failed(error, output).await {
                return error;
            }
        }
    }

    async fn upload_once(
        &self,
        upload: &Upload<'_>,
        token: &Token,
        content: &Multipart<'_>,
        output: &OutputSender,
    ) -> Result<(), UploadError> {
        let query = [
            ("artifact_format", upload.format),
            ("artifact_type", upload.artifact_type),
            ("expire_in", upload.expire_in),
        ];
        let call = Call {
            method: Method::POST,
            url: self.api.artifacts(upload.job_id, &query),
            token,
            body: Some(content),
            id: vk_text::random_id(),
        };
        let what = what(upload.artifact_type);
        let id = upload.job_id.to_string();
        let reply = match self.call_with_retries(&call, output).await {
            Ok(reply) => reply,
            Err(error) => {
                return Err(lost(upload.job_id, upload.artifact_type, error, output).await);
            }
        };
        let status = reply.status();
        let correlation_id = reply.correlation_id(&call).to_owned();
        let (level, result) = state(status);
        let mut text = format!("{what} {}", reply.text(&call, false).await);
        if status == StatusCode::TEMPORARY_REDIRECT {
            // One that was not followed (gitlab-runner, wire §1.14).
            text.push_str(" empty location");
        }
        let fields = [
            ("correlation_id", correlation_id.as_str()),
            ("id", id.as_str()),
            ("status", status.as_str()),
        ];
        output.log(level, &text, &fields).await;
        result
    }
}

/// Tells of an upload. GitLab Runner packs while it uploads, and knows no total.
fn meter(every: Option<Duration>) -> Meter {
    Meter {
        label: "Uploading artifacts",
        every,
        total: None,
        at_once: true,
    }
}

/// How often an upload was tried.
#[derive(Default)]
struct Tries {
    failed: u32,
}

impl Tries {
    /// Waits until it is time to try again.
    ///
    /// # Errors
    ///
    /// `error`, when that was often enough.
    async fn failed(
        &mut self,
        error: UploadError,
        output: &OutputSender,
    ) -> Result<(), UploadError> {
        self.failed += 1;
        if self.failed >= error.tries() {
            return Err(error);
        }
        let text = error.to_string();
        let fields = [("context", "artifacts-uploader"), ("error", text.as_str())];
        output.log(Level::Warning, "Retrying...", &fields).await;
        tokio::time::sleep(pause(self.failed)).await;
        Ok(())
    }
}

/// Tells that GitLab did not answer.
async fn lost(
    job_id: u64,
    artifact_type: &str,
    error: CallError,
    output: &OutputSender,
) -> UploadError {
    let (text, id) = (error.to_string(), job_id.to_string());
    let fields = [("error", text.as_str()), ("id", id.as_str())];
    let line = format!("{} error", what(artifact_type));
    output.log(Level::Error, &line, &fields).await;
    UploadError::Lost(error)
}

/// How a line about an upload begins.
fn what(artifact_type: &str) -> String {
    match artifact_type {
        "" => "Uploading artifacts to coordinator...".to_owned(),
        name => format!("Uploading artifacts as \"{name}\" to coordinator..."),
    }
}

/// What a status means (gitlab-runner, wire §1.14).
fn state(status: StatusCode) -> (Level, Result<(), UploadError>) {
    match status {
        StatusCode::CREATED => (Level::Info, Ok(())),
        StatusCode::FORBIDDEN => (Level::Error, Err(UploadError::Forbidden)),
        StatusCode::PAYLOAD_TOO_LARGE => (Level::Error, Err(UploadError::TooLarge)),
        StatusCode::SERVICE_UNAVAILABLE => (Level::Error, Err(UploadError::Unavailable)),
        StatusCode::TEMPORARY_REDIRECT => (Level::Error, Err(UploadError::Failed)),
        _ => (Level::Warning, Err(UploadError::Failed)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gitlab-runner, wire §3.2.
    #[test]
    fn pauses_double_up_to_five_seconds() {
        let pauses: Vec<u64> = (1..=6).map(|failed| pause(failed).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 5, 5, 5]);
    }

    /// gitlab-runner, wire §1.14 and wire §8.10.
    #[test]
    fn an_answers_status_decides_how_often_it_is_tried() {
        let tries = |status: u16| {
            let status = StatusCode::from_u16(status).unwrap();
            state(status).1.err().map(|error| error.tries())
        };
        assert_eq!(tries(201), None);
        assert_eq!(tries(413), Some(1));
        assert_eq!(tries(403), Some(1));
        assert_eq!(tries(503), Some(6));
        for other in [200, 204, 302, 307, 400, 401, 404, 429, 500] {
            assert_eq!(tries(other), Some(3), "{other}");
        }
    }
}
