//! Calls to GitLab: connections, redirects, time-outs and repetitions.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue, LOCATION};
use reqwest::{Method, Response, StatusCode};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::answer::{Answer, clean};
use super::api::{Api, ApiError};
use super::multipart::Multipart;
use super::retry;
use vk_http::{
    MAX_REDIRECTS, Proxies, RedirectError, TlsError, Trust, is_loopback, next_hop, root_cause,
};
use vk_trace::OutputSender;
use vk_trace::helper::Level;

/// How long a connection may take to come about (gitlab-runner, wire §1.1: dial and TLS handshake).
const CONNECT_LIMIT: Duration = Duration::from_secs(40);

/// How long an answer may take once GitLab has the whole request (gitlab-runner, wire §1.1).
const ANSWER_LIMIT: Duration = Duration::from_secs(10 * 60);

/// How long a request may take in all, its answer included (gitlab-runner, wire §1.1).
const REQUEST_LIMIT: Duration = Duration::from_secs(60 * 60);

/// How much of an error's content is read, in bytes.
const MAX_ERROR_BODY: usize = 64 << 10;

/// The header that carries a job's token (gitlab-runner, wire §1.4).
const JOB_TOKEN: HeaderName = HeaderName::from_static("job-token");
/// The header that carries a call's correlation ID (gitlab-runner, wire §1.2).
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// GitLab cannot be called at all.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// By its URL.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// With the certificates that the job brings.
    #[error("cannot use the GitLab server's CA certificates: {0}")]
    Certificates(String),
    /// The token is none.
    #[error("the job's token cannot be sent: it holds characters that a header must not hold")]
    Token,
    /// Something else is amiss.
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
}

/// A request that got no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nothing came back.
    #[error("couldn't execute {method} against {url}: {cause}")]
    Lost {
        /// What was asked: the method.
        method: String,
        /// Where: GitLab's own URL, or another one without its query.
        url: String,
        /// What went wrong.
        cause: String,
    },
    /// It was sent elsewhere in a way that is not followed.
    #[error(transparent)]
    Redirect(#[from] RedirectError),
    /// The answer did not arrive in full.
    #[error("{0}")]
    Broken(String),
}

/// A client of one GitLab server.
#[derive(Debug)]
pub struct GitLab {
    http: reqwest::Client,
    pub(super) api: Api,
}

/// What is asked of GitLab.
pub(super) struct Call<'a> {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) token: &'a Token,
    pub(super) body: Option<&'a Multipart<'a>>,
    /// The call's correlation ID.
    pub(super) id: String,
}

/// The request of a call that is made next.
struct Step {
    url: Url,
    method: Method,
    /// Whether the call's content goes along.
    with_body: bool,
}

/// A job's token as a header's value, never shown.
pub(super) struct Token(HeaderValue);

impl Token {
    pub(super) fn new(token: &str) -> Result<Self, ClientError> {
        let mut value = HeaderValue::from_str(token).map_err(|_| ClientError::Token)?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

/// An answer, its content still on the way.
pub(super) struct Reply {
    response: Response,
    until: Instant,
}

impl GitLab {
    /// A client of the server at `server_url`, whose certificate is checked with the host's roots and those of
    /// `ca_pem`. It is reached through `proxies`, unless it is on this host; `user_agent` is how the client calls itself.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn new(
        server_url: &str,
        ca_pem: Option<&str>,
        proxies: &Proxies,
        user_agent: &str,
    ) -> Result<Self, ClientError> {
        let setup = |error| ClientError::Setup(root_cause(&error));
        let api = Api::new(server_url)?;
        let pem = ca_pem
            .filter(|pem| !pem.trim().is_empty())
            .map(str::to_owned);
        let mut builder = reqwest::Client::builder()
            // Followed by hand: who may see the token is decided at each step.
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT_LIMIT)
            .http1_only()
            .tls_backend_preconfigured(vk_http::tls(Trust::Roots(pem.as_slice()))?);
        builder = if api.url().host_str().is_some_and(is_loopback) {
            // As Go's ProxyFromEnvironment.
            builder.no_proxy()
        } else {
            proxies.applied(builder).map_err(setup)?
        };
        let http = builder.user_agent(user_agent).build().map_err(setup)?;
        Ok(Self { http, api })
    }

    /// Makes `call`, again when the answer may be better the next time (gitlab-runner, wire §1.3). The answer may have
    /// any status.
    pub(super) async fn call_with_retries(
        &self,
        call: &Call<'_>,
        output: &OutputSender,
    ) -> Result<Reply, CallError> {
        let mut attempt = 1;
        loop {
            let reply = self.call(call).await?;
            if attempt == retry::ATTEMPTS || !retry::is_passing(reply.status()) {
                return Ok(reply);
            }
            let jitter = fastrand::f64();
            let headers = reply.response.headers();
            let pause = retry::pause(headers, attempt, SystemTime::now(), jitter);
            drop(reply);
            let duration = vk_text::format_duration(pause);
            let fields = [
                ("context", "ratelimit-requester-gitlab-request"),
                ("duration", duration.as_str()),
                ("method", call.method.as_str()),
                ("url", call.url.as_str()),
            ];
            output
                .log(Level::Info, "Waiting before making the next call", &fields)
                .await;
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    /// Makes `call` once, redirects followed.
    async fn call(&self, call: &Call<'_>) -> Result<Reply, CallError> {
        self.follow(call, None).await
    }

    /// As [`Self::call`]; where GitLab sends the request on to is noted (gitlab-runner, wire §1.15).
    pub(super) async fn call_directly(
        &self,
        call: &Call<'_>,
        output: &OutputSender,
    ) -> Result<Reply, CallError> {
        self.follow(call, Some(output)).await
    }

    async fn follow(
        &self,
        call: &Call<'_>,
        direct: Option<&OutputSender>,
    ) -> Result<Reply, CallError> {
        let until = Instant::now() + REQUEST_LIMIT;
        let mut step = Step {
            url: call.url.clone(),
            method: call.method.clone(),
            with_body: true,
        };
        for followed in 0..=MAX_REDIRECTS {
            let response = self.send(call, &step, until).await?;
            let status = response.status();
            let location = response
                .headers()
                .get(LOCATION)
                .and_then(|value| value.to_str().ok());
            let only_reads = step.method == Method::GET || step.method == Method::HEAD;
            let hop = match next_hop(status.as_u16(), location, &step.url, only_reads) {
                Ok(Some(hop)) => hop,
                // As with Go's `http.Client`, a redirect to nowhere is an answer like others.
                Ok(None) | Err(RedirectError::NoLocation) => return Ok(Reply { response, until }),
                Err(error) => return Err(error.into()),
            };
            if let Some(output) = direct
                && followed == 0
                && matches!(status, StatusCode::FOUND | StatusCode::TEMPORARY_REDIRECT)
            {
                let host = hop.url.host_str().unwrap_or_default();
                output.info(&format!("Direct download from {host}")).await;
            }
            step.url = hop.url;
            if !hop.is_same_request {
                step.method = Method::GET;
                step.with_body = false;
            }
        }
        Err(RedirectError::TooMany.into())
    }

    async fn send(
        &self,
        call: &Call<'_>,
        step: &Step,
        until: Instant,
    ) -> Result<Response, CallError> {
        let lost = |cause: String| CallError::Lost {
            method: step.method.to_string(),
            url: clean(&step.url).into(),
            cause,
        };
        let mut request = self
            .http
            .request(step.method.clone(), step.url.clone())
            .header(REQUEST_ID, &call.id);
        if may_see_token(&step.url, self.api.url()) {
            request = request.header(JOB_TOKEN, call.token.0.clone());
        }
        let sent = Arc::new(tokio::sync::Notify::new());
        match call.body.filter(|_| step.with_body) {
            Some(body) => {
                let content = body.open(Arc::clone(&sent)).await;
                let content = content.map_err(|error| lost(error.to_string()))?;
                request = request
                    .header(CONTENT_TYPE, body.content_type())
                    .body(content);
            }
            None => sent.notify_one(),
        }
        let silent = async {
            sent.notified().await;
            tokio::time::sleep(ANSWER_LIMIT).await;
        };
        tokio::select! {
            answer = timeout_at(until, request.send()) => match answer {
                Ok(Ok(response)) => Ok(response),
                Ok(Err(error)) => Err(lost(root_cause(&error))),
                Err(_) => Err(lost(over(REQUEST_LIMIT))),
            },
            () = silent => Err(lost(over(ANSWER_LIMIT))),
        }
    }
}

impl Reply {
    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// The correlation ID of `call`: the server's own, where it names one.
    pub(super) fn correlation_id<'r>(&'r self, call: &'r Call<'_>) -> &'r str {
        self.response
            .headers()
            .get(REQUEST_ID)
            .and_then(|id| id.to_str().ok())
            .filter(|id| !id.is_empty())
            .unwrap_or(&call.id)
    }

    /// The next part of its content; `None` at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<bytes::Bytes>, CallError> {
        match timeout_at(self.until, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(CallError::Broken(root_cause(&error))),
            Err(_) => Err(CallError::Broken(over(REQUEST_LIMIT))),
        }
    }

    /// What the answer says, in words; reads its content.
    pub(super) async fn text(mut self, call: &Call<'_>, is_download: bool) -> String {
        let mut body = Vec::new();
        // Its status says enough when the rest does not come.
        while body.len() < MAX_ERROR_BODY
            && let Ok(Some(chunk)) = self.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
        body.truncate(MAX_ERROR_BODY);
        let answer = Answer {
            method: &call.method,
            url: &call.url,
            status: self.status(),
            headers: self.response.headers(),
            body: &body,
        };
        if is_download {
            answer.text_of_download()
        } else {
            answer.text()
        }
    }
}

fn over(limit: Duration) -> String {
    format!("no answer within {}", vk_text::format_duration(limit))
}

/// Whether the token may go to `url`: it has the origin of `gitlab` (RFC 6454: scheme, host and port; dispatch protocol,
/// "Artifact uploads").
fn may_see_token(url: &Url, gitlab: &Url) -> bool {
    url.origin() == gitlab.origin()
}

impl From<TlsError> for ClientError {
    fn from(error: TlsError) -> Self {
        match error {
            TlsError::Certificates(cause) => Self::Certificates(cause),
            other => Self::Setup(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_that_are_none_are_named() {
        let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let error = GitLab::new(
            "https://gitlab.example.com",
            Some(bad),
            &Proxies::default(),
            "vk",
        )
        .err()
        .unwrap();
        assert!(matches!(error, ClientError::Certificates(_)), "{error}");
    }

    #[test]
    fn a_token_that_would_break_the_header_is_refused_unseen() {
        let error = Token::new("secret\r\nX: y").err().unwrap();
        assert!(!error.to_string().contains("secret"));
    }

    /// Dispatch protocol, "Artifact uploads".
    #[test]
    fn the_token_goes_to_gitlabs_own_origin_only() {
        let url = |text: &str| Url::parse(text).unwrap();
        let gitlab = url("https://gitlab.example.com/");
        for own in [
            "https://gitlab.example.com/x",
            "https://gitlab.example.com:443/",
        ] {
            assert!(may_see_token(&url(own), &gitlab), "{own}");
        }
        for other in [
            "http://gitlab.example.com/",
            "https://gitlab.example.com:444/",
            "https://gitlab.example.com.evil.example/",
            "https://evil.example/gitlab.example.com",
            "https://u@evil.example/",
        ] {
            assert!(!may_see_token(&url(other), &gitlab), "{other}");
        }
    }
}
