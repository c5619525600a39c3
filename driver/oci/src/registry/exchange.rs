//! One request and its answer: redirects, logins, time-outs.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
    RETRY_AFTER,
};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use tokio::time::Instant;
use tokio_util::io::ReaderStream;
use url::{Origin, Url};

use super::authorize::{Access, Passes, Refused, host_of};
use super::credential::Credential;
use super::error::RegistryErrorKind;
use super::reference::Repository;
use super::retry::Trouble;
use super::transport::{Failure, Transport, classify};
use vk_http::{Count, Counted, MAX_REDIRECTS, RedirectError, RetryAfter, next_hop};

/// How often a request is repeated with another login: once for an expired token, once for a new one.
const MAX_LOGINS: usize = 2;

/// How much of an error's text is read, in bytes.
const MAX_ERROR_ANSWER: u64 = 64 << 10;

/// How much of an error's text is told, in characters.
const MAX_MESSAGE: usize = 300;

/// How many times longer than for anything else a registry is waited for that has all of an upload: it may have to
/// copy it within its store before it answers.
const COMMIT_PATIENCE: u32 = 10;

/// The least that an answer's body must bring within [`PACE_STALLS`] stalls of waiting for it, in bytes. Less is a
/// trickle, which could be made to last for ever.
const PACE: u64 = 64 << 10;

/// Within how many times [`Exchange::stall`] a body has to bring [`PACE`]: 90 s with the stall of 60 s.
const PACE_STALLS: f64 = 1.5;

/// How much of an upload is read from its file at a time, in bytes.
const UPLOAD_CHUNK: usize = 256 << 10;

/// What is uploaded. It is read again for each attempt.
#[derive(Clone, Debug)]
pub enum BlobSource {
    /// A file's content. Its bytes are counted as they are read, anew for each attempt.
    File(PathBuf, Count),
    /// Bytes in memory; few, for it is not seen how they move.
    Bytes(Bytes),
}

/// A request.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// The registry itself: nobody else sees its login.
    pub(crate) home: Origin,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// With its size in bytes.
    pub(crate) body: Option<(BlobSource, u64)>,
    pub(crate) repository: &'a Repository,
    pub(crate) access: Access,
}

/// What requests are made with.
pub(crate) struct Exchange {
    pub(crate) transport: Transport,
    pub(crate) passes: Passes,
    /// Limit on a whole request, answer's body included.
    pub(crate) timeout: Option<Duration>,
    /// A connection over which nothing comes or goes for so long is lost.
    pub(crate) stall: Duration,
}

impl Exchange {
    /// Sends `call` once, with the login that the registry wants. The answer may have any status.
    pub(crate) async fn send(
        &self,
        call: &Call<'_>,
        credential: Option<&Credential>,
    ) -> Result<Reply, Failure> {
        let mut pass = self.passes.known(call.repository, call.access);
        let mut logins = 0;
        loop {
            let reply = self.follow(call, pass.as_ref()).await?;
            let refused = reply.status() == StatusCode::UNAUTHORIZED && reply.is_own;
            if !refused || logins == MAX_LOGINS {
                return Ok(reply);
            }
            logins += 1;
            let refused = Refused {
                transport: &self.transport,
                repository: call.repository,
                access: call.access,
                credential,
                plain: matches!(&call.home, Origin::Tuple(scheme, ..) if scheme == "http"),
                timeout: self.timeout,
                stall: self.stall,
            };
            match self
                .passes
                .renew(&refused, reply.headers(), pass.as_ref())
                .await?
            {
                Some(new) => pass = Some(new),
                None => return Ok(reply),
            }
        }
    }

    /// Sends `call` and follows redirects. Only the registry itself is shown `pass`.
    async fn follow(&self, call: &Call<'_>, pass: Option<&HeaderValue>) -> Result<Reply, Failure> {
        let mut url = call.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let own = url.origin() == call.home;
            let mut reply = self.hop(call, &url, pass.filter(|_| own)).await?;
            reply.is_own = own;
            let only_reads = call.method == Method::GET || call.method == Method::HEAD;
            let next = next_hop(
                reply.status().as_u16(),
                location_of(reply.headers()),
                &url,
                only_reads,
            )?;
            match next {
                Some(next) if next.is_same_request => url = next.url,
                // An upload never becomes something else.
                _ => return Ok(reply),
            }
        }
        Err(RedirectError::TooMany.into())
    }

    async fn hop(
        &self,
        call: &Call<'_>,
        url: &Url,
        pass: Option<&HeaderValue>,
    ) -> Result<Reply, Failure> {
        let host = host_of(url).ok_or_else(|| protocol("an address without a host"))?;
        let client = self.transport.client(&host)?;
        let mut request = client.request(call.method.clone(), url.clone());
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        if let Some(pass) = pass {
            request = request.header(AUTHORIZATION, pass);
        }
        let mut moved = Count::default();
        if let Some((source, size)) = &call.body {
            let body;
            (body, moved) = source.open().await?;
            request = request.header(CONTENT_LENGTH, *size).body(body);
        }
        let send = async {
            let response = async { request.send().await.map_err(|error| classify(&error)) };
            tokio::pin!(response);
            let mut before = 0;
            loop {
                let wait_limit =
                    if before > 0 && Some(before) == call.body.as_ref().map(|(_, size)| *size) {
                        self.stall * COMMIT_PATIENCE
                    } else {
                        self.stall
                    };
                tokio::select! {
                    response = &mut response => return response,
                    () = tokio::time::sleep(wait_limit) => {}
                }
                let now = moved.bytes();
                if now == before {
                    return Err(stalled(self.stall));
                }
                before = now;
            }
        };
        let reply = Reply::receive(send, self.timeout, self.stall).await?;
        Ok(reply.with_authorization(pass.cloned()))
    }
}

impl BlobSource {
    /// A request's body, and the count of what was read of it.
    async fn open(&self) -> Result<(reqwest::Body, Count), RegistryErrorKind> {
        match self {
            Self::Bytes(bytes) => Ok((reqwest::Body::from(bytes.clone()), Count::default())),
            Self::File(path, count) => {
                let file = tokio::fs::File::open(path)
                    .await
                    .map_err(RegistryErrorKind::Source)?;
                count.reset();
                let file = Counted::new(file, count.clone());
                let stream = ReaderStream::with_capacity(file, UPLOAD_CHUNK);
                Ok((reqwest::Body::wrap_stream(stream), count.clone()))
            }
        }
    }
}

/// An answer, whose body may still be on its way.
pub(crate) struct Reply {
    response: reqwest::Response,
    /// When the whole request must be over, and the limit this comes from.
    deadline: Option<(Instant, Duration)>,
    stall: Duration,
    /// The `Authorization` that the request had.
    shown: Option<HeaderValue>,
    /// Whether it comes from the one that was asked, and not from where that sent us.
    is_own: bool,
    /// What the body brought, and how long it was waited for, since it last kept [`PACE`].
    brought: u64,
    waited: Duration,
}

impl Reply {
    /// Waits for the head of an answer; a `timeout` limits that and all that is read of it later.
    pub(crate) async fn receive(
        send: impl Future<Output = Result<reqwest::Response, Failure>>,
        timeout: Option<Duration>,
        stall: Duration,
    ) -> Result<Self, Failure> {
        let deadline = timeout.and_then(|limit| Some((Instant::now().checked_add(limit)?, limit)));
        let response = within(deadline, send).await?;
        Ok(Self {
            response,
            deadline,
            stall,
            shown: None,
            is_own: true,
            brought: 0,
            waited: Duration::ZERO,
        })
    }

    /// Notes the `Authorization` that the request had, so that no error repeats it.
    pub(crate) fn with_authorization(mut self, authorization: Option<HeaderValue>) -> Self {
        self.shown = authorization;
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    pub(crate) fn url(&self) -> &Url {
        self.response.url()
    }

    /// What the body's size will be, in bytes, if the answer says.
    pub(crate) fn size(&self) -> Option<u64> {
        self.response.content_length()
    }

    /// The next piece of the body.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        let allowed = self.stall.mul_f64(PACE_STALLS);
        let wait_limit = self.stall.min(allowed.saturating_sub(self.waited));
        let start = Instant::now();
        let chunk = async {
            match tokio::time::timeout(wait_limit, self.response.chunk()).await {
                Ok(chunk) => chunk.map_err(|error| classify(&error)),
                Err(_) if self.brought == 0 => Err(stalled(self.stall)),
                Err(_) => Err(Failure::lost(format!(
                    "only {} bytes came within {} s",
                    self.brought,
                    (self.waited + wait_limit).as_secs_f32()
                ))),
            }
        };
        let chunk = within(self.deadline, chunk).await?;
        // Time in which vk does not read does not count against the sender.
        self.waited += start.elapsed();
        let size = chunk.as_ref().map_or(0, Bytes::len);
        self.brought = self
            .brought
            .saturating_add(u64::try_from(size).unwrap_or(u64::MAX));
        if self.brought >= PACE {
            (self.brought, self.waited) = (0, Duration::ZERO);
        }
        Ok(chunk)
    }

    /// The whole body, of at most `limit` bytes.
    pub(crate) async fn read_all(&mut self, limit: u64) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            body.extend_from_slice(&chunk);
            if u64::try_from(body.len()).is_ok_and(|size| size > limit) {
                return Err(RegistryErrorKind::TooLarge { limit }.into());
            }
        }
        Ok(body)
    }
}

async fn within<T>(
    deadline: Option<(Instant, Duration)>,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match deadline {
        None => work.await,
        // Where a stall ends with it, the limit counts: what runs into it is not asked for again.
        Some((deadline, limit)) => tokio::select! {
            biased;
            () = tokio::time::sleep_until(deadline) => Err(RegistryErrorKind::TimedOut(limit).into()),
            result = work => result,
        },
    }
}

fn stalled(stall: Duration) -> Failure {
    Failure::lost(format!("nothing came for {} s", stall.as_secs_f32()))
}

pub(crate) fn protocol(what: &str) -> Failure {
    RegistryErrorKind::Protocol(what.to_owned()).into()
}

/// The header `Location`.
pub(crate) fn location_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(LOCATION)?.to_str().ok()
}

/// What an answer without success means.
pub(crate) async fn failure_of(mut reply: Reply, credential: Option<&Credential>) -> Failure {
    let status = reply.status();
    let retry_after = retry_after(reply.headers());
    // A text that does not arrive is not missed.
    let body = reply.read_all(MAX_ERROR_ANSWER).await.unwrap_or_default();
    let secrets = secrets(credential, reply.shown.as_ref());
    let message = message(&body, is_text(reply.headers()), &secrets);
    let code = status.as_u16();
    // A storage says so of a link that expired, or was signed for another kind of request: a new one may do.
    if !reply.is_own
        && status.is_client_error()
        && !matches!(
            status,
            StatusCode::NOT_FOUND | StatusCode::TOO_MANY_REQUESTS
        )
    {
        let host = reply.url().host_str().unwrap_or_default().to_owned();
        return Failure::Uncertain(RegistryErrorKind::StorageRefused {
            host,
            status: code,
            message,
        });
    }
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => RegistryErrorKind::Denied {
            status: code,
            with_credential: credential.is_some(),
            message,
        }
        .into(),
        StatusCode::NOT_FOUND => RegistryErrorKind::NotFound { message }.into(),
        // What proxies in front of a registry say while it restarts counts as its own 503.
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Failure::Passing {
            trouble: Trouble::Busy { retry_after },
            status: Some(code),
            cause: message,
        },
        _ => {
            let detail = if message.is_empty() {
                String::new()
            } else {
                format!(": {message}")
            };
            let kind = RegistryErrorKind::Protocol(format!("status {code}{detail}"));
            if status == StatusCode::INTERNAL_SERVER_ERROR {
                Failure::Uncertain(kind)
            } else {
                Failure::Final(kind)
            }
        }
    }
}

/// Whether a body is meant to be read by people as it is.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.trim_start().starts_with("text/plain"))
}

/// How long the registry asks to wait.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?;
    Some(RetryAfter::parse(value)?.pause(SystemTime::now()))
}

/// The error body of the OCI distribution spec 1.1, "Error Codes".
#[derive(Deserialize)]
struct ErrorAnswer {
    errors: Vec<ErrorEntry>,
}

#[derive(Deserialize)]
struct ErrorEntry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// What a request told of a login: the secret itself, and what was made of it.
fn secrets<'a>(credential: Option<&'a Credential>, shown: Option<&'a HeaderValue>) -> Vec<&'a str> {
    let shown = shown.and_then(|shown| Some(shown.to_str().ok()?.split_once(' ')?.1));
    let secrets = credential.map(Credential::secret).into_iter().chain(shown);
    secrets.filter(|secret| !secret.is_empty()).collect()
}

/// The first error's text, or a body that `is_text` itself, fit for a line of a log, without the login if the
/// registry sends it back.
fn message(body: &[u8], is_text: bool, secrets: &[&str]) -> String {
    let text = match serde_json::from_slice::<ErrorAnswer>(body) {
        Ok(answer) => match answer.errors.into_iter().next() {
            Some(error) if error.message.is_empty() => error.code,
            Some(error) => error.message,
            None => return String::new(),
        },
        Err(_) if is_text => String::from_utf8_lossy(body).trim().to_owned(),
        Err(_) => return String::new(),
    };
    let text = secrets
        .iter()
        .fold(text, |text, secret| text.replace(secret, "[MASKED]"));
    text.chars()
        .map(|character| {
            if character.is_control() {
                ' '
            } else {
                character
            }
        })
        .take(MAX_MESSAGE)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minute of both, as the stall and the shortest limit are.
    #[tokio::test(start_paused = true)]
    async fn a_limit_counts_before_a_stall_that_ends_with_it() {
        let minute = Duration::from_secs(60);
        let stall = async {
            tokio::time::sleep(minute).await;
            Err::<(), _>(stalled(minute))
        };

        let failure = within(Some((Instant::now() + minute, minute)), stall).await;

        assert!(matches!(
            failure,
            Err(Failure::Final(RegistryErrorKind::TimedOut(_)))
        ));
    }

    #[test]
    fn a_registrys_words_fit_in_a_line() {
        let body = br#"{"errors":[{"code":"X","message":"a\nb\u001b[31m"}]}"#;

        assert_eq!(message(body, false, &[]), "a b [31m");
        assert_eq!(
            message(br#"{"errors":[{"code":"DENIED"}]}"#, false, &[]),
            "DENIED"
        );
        assert_eq!(message(b"<html>", false, &[]), "");
        assert_eq!(message(b" too many\n", true, &[]), "too many");
        assert_eq!(message(br#"{"errors":[]}"#, false, &[]), "");
    }

    #[test]
    fn a_login_that_the_registry_sends_back_is_masked() {
        let credential = Credential::Basic {
            username: "me".to_owned(),
            password: "hush".to_owned(),
        };
        let shown = HeaderValue::from_static("Basic bWU6aHVzaA==");
        let secrets = secrets(Some(&credential), Some(&shown));
        let body = br#"{"errors":[{"message":"bad password hush in bWU6aHVzaA=="}]}"#;

        assert_eq!(
            message(body, false, &secrets),
            "bad password [MASKED] in [MASKED]"
        );
    }

    #[test]
    fn a_registry_may_name_seconds_or_a_time() {
        let of = |value: &'static str| {
            retry_after(&HeaderMap::from_iter([(
                RETRY_AFTER,
                HeaderValue::from_static(value),
            )]))
        };

        assert_eq!(of("17"), Some(Duration::from_secs(17)));
        assert_eq!(of("-1"), None);
        assert_eq!(of("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO));
        assert!(of("Fri, 31 Dec 9999 23:59:59 GMT") > Some(Duration::from_secs(1 << 32)));
    }
}
