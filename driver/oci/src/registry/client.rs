//! The client: manifests, and what all operations share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, StatusCode};
use tokio::sync::Mutex;
use tokio::time::Instant;
use url::Url;
use vk_http::Proxies;

use super::authorize::{Access, Passes};
use super::credential::Credentials;
use super::digest::Digest;
use super::error::{RegistryError, RegistryErrorKind};
use super::exchange::{Call, Exchange, Reply, failure_of};
use super::media_type;
use super::reference::{Reference, Repository, api_host, same_registry};
use super::retry::{Retries, RetryPolicy, Trouble};
use super::transport::{Failure, Transport, classify, hung_up, is_not_tls};

/// Largest manifest in bytes (OCI distribution spec 1.1, "Pushing Manifests": registries should take four
/// megabytes, and may refuse more).
pub const MAX_MANIFEST: u64 = 4 << 20;

/// The header in which a registry names a manifest's digest (OCI distribution spec 1.1, "Pulling manifests").
const DIGEST_HEADER: &str = "docker-content-digest";

/// How registries are spoken to.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// Logins.
    pub credentials: Credentials,
    /// PEM certificates that servers are checked with, beside the host's own.
    pub ca_pem: Vec<String>,
    /// Registries (host, with a port where it has one) that may speak plain HTTP, or TLS with any certificate.
    pub insecure: BTreeSet<String>,
    /// By registry: where to ask before it, in this order. A mirror is a registry, perhaps with a path that stands
    /// before each repository's own.
    pub mirrors: BTreeMap<String, Vec<String>>,
    /// What is tried again, and for how long.
    pub retry: RetryPolicy,
    /// Limit on each single request, its answer's body included. A request that runs into it is not tried again.
    pub request_timeout: Option<Duration>,
    /// A connection over which nothing moves for so long counts as lost.
    pub stall: Duration,
    /// The proxies that registries are reached through.
    pub proxies: Proxies,
}

impl RegistryOptions {
    /// Where to look for what `repository` has before it is asked itself. A mirror that is no registry's name was
    /// refused with the configuration.
    pub(crate) fn mirrors_of(&self, repository: &Repository) -> Vec<Repository> {
        self.mirrors
            .iter()
            .filter(|(registry, _)| same_registry(registry, repository.registry()))
            .flat_map(|(_, mirrors)| mirrors)
            .filter_map(|mirror| mirrored(mirror, repository))
            .collect()
    }
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            credentials: Credentials::default(),
            ca_pem: Vec::new(),
            insecure: BTreeSet::new(),
            mirrors: BTreeMap::new(),
            retry: RetryPolicy::default(),
            request_timeout: None,
            stall: Duration::from_secs(60),
            proxies: Proxies::default(),
        }
    }
}

/// A client of registries. Clones share connections and tokens. Its connections live in the tokio runtime that it was
/// first used in: use it in no other.
#[derive(Clone)]
pub struct RegistryClient {
    shared: Arc<Shared>,
}

struct Shared {
    exchange: Exchange,
    options: RegistryOptions,
    /// Of registries that may speak plain HTTP: how they do.
    schemes: Mutex<HashMap<String, &'static str>>,
}

/// A manifest as it came.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The digest of its bytes.
    pub digest: Digest,
    /// Media type, without parameters; empty when neither the answer nor the manifest says.
    pub media_type: String,
    /// Its bytes, [`MAX_MANIFEST`] at most.
    pub bytes: Vec<u8>,
}

/// An operation, for its error.
#[derive(Clone)]
pub(super) struct Operation {
    pub(super) name: &'static str,
    pub(super) subject: String,
}

impl Operation {
    pub(super) fn failed(&self, at: &Repository, kind: RegistryErrorKind) -> RegistryError {
        RegistryError {
            operation: self.name,
            subject: self.subject.clone(),
            host: at.registry().to_owned(),
            kind: Box::new(kind),
        }
    }
}

impl fmt::Debug for RegistryClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryClient").finish_non_exhaustive()
    }
}

impl RegistryClient {
    /// A client that has not connected to anything yet.
    #[must_use]
    pub fn new(options: RegistryOptions) -> Self {
        let exchange = Exchange {
            transport: Transport::new(
                options.ca_pem.clone(),
                &options.insecure,
                options.proxies.clone(),
            ),
            passes: Passes::default(),
            timeout: options.request_timeout,
            stall: options.stall,
        };
        Self {
            shared: Arc::new(Shared {
                exchange,
                options,
                schemes: Mutex::default(),
            }),
        }
    }

    /// The manifest, or index, of `reference`; its bytes have the reference's digest, if it has one.
    ///
    /// # Errors
    ///
    /// If it cannot be had.
    pub async fn manifest(&self, reference: &Reference) -> Result<Manifest, RegistryError> {
        let operation = Operation {
            name: "pull",
            subject: reference.to_string(),
        };
        let mut places = self.places(reference.repository()).into_iter().peekable();
        loop {
            let Some(place) = places.next() else {
                let kind = RegistryErrorKind::Client("no place to ask".to_owned());
                return Err(operation.failed(reference.repository(), kind));
            };
            let is_last = places.peek().is_none();
            let mut retries = self.retries(is_last);
            let end = loop {
                match self.try_manifest(&place, reference).await {
                    Ok(manifest) => return Ok(manifest),
                    Err(failure) => match retries.wait(failure).await {
                        Ok(()) => {}
                        Err(kind) => break kind,
                    },
                }
            };
            let error = operation.failed(&place, end);
            if is_last {
                return Err(error);
            }
            tracing::info!(error = %vk_text::chain(&error), "a mirror does not help");
        }
    }

    async fn try_manifest(
        &self,
        place: &Repository,
        reference: &Reference,
    ) -> Result<Manifest, Failure> {
        let url = self
            .url(place, "manifests", &reference.manifest_name())
            .await?;
        let call = Call {
            method: Method::GET,
            home: url.origin(),
            url,
            headers: vec![(
                ACCEPT,
                HeaderValue::from_static(media_type::ACCEPTED_MANIFESTS),
            )],
            body: None,
            repository: place,
            access: Access::Pull,
        };
        let mut reply = self.send(&call).await?;
        let told = reply
            .headers()
            .get(DIGEST_HEADER)
            .and_then(|digest| digest.to_str().ok()?.parse().ok());
        let media_type = reply
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .map(|value| value.split(';').next().unwrap_or(value).trim().to_owned())
            .unwrap_or_default();
        let bytes = reply.read_all(MAX_MANIFEST).await?;
        let found = Digest::of(&bytes);
        // The digest of a signed manifest of the first schema leaves its signatures out.
        let told = told.filter(|_| !media_type::is_schema1(&media_type));
        let wrong = [reference.digest(), told]
            .into_iter()
            .flatten()
            .find(|expected| *expected != found);
        if let Some(expected) = wrong {
            let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            return Err(RegistryErrorKind::DigestMismatch {
                expected,
                found,
                size,
            }
            .into());
        }
        Ok(Manifest {
            digest: found,
            media_type,
            bytes,
        })
    }

    /// Where to look for what `repository` has: its mirrors, then itself.
    pub(super) fn places(&self, repository: &Repository) -> Vec<Repository> {
        let mut places = self.shared.options.mirrors_of(repository);
        places.push(repository.clone());
        places
    }

    /// What a request at a place may be put off by: where there is another place, nothing is waited for.
    pub(super) fn retries(&self, is_last: bool) -> Waits {
        let none = RetryPolicy::none();
        Waits {
            retries: Retries::new(if is_last {
                &self.shared.options.retry
            } else {
                &none
            }),
            since: Instant::now(),
        }
    }

    /// Sends `call` once; an answer without success is a failure.
    pub(super) async fn send(&self, call: &Call<'_>) -> Result<Reply, Failure> {
        let credential = self
            .shared
            .options
            .credentials
            .of(call.repository.registry());
        let reply = self.shared.exchange.send(call, credential).await?;
        if reply.status().is_success() {
            Ok(reply)
        } else {
            Err(failure_of(reply, credential).await)
        }
    }

    /// The address of something in `repository`; `kind` is `manifests` or `blobs`.
    pub(super) async fn url(
        &self,
        repository: &Repository,
        kind: &str,
        name: &str,
    ) -> Result<Url, Failure> {
        let host = api_host(repository.registry());
        let scheme = self.scheme(host).await?;
        let path = repository.path();
        Url::parse(&format!("{scheme}://{host}/v2/{path}/{kind}/{name}"))
            .map_err(|error| RegistryErrorKind::Client(error.to_string()).into())
    }

    /// `https`, or `http` for a registry that may speak it and does not speak TLS.
    async fn scheme(&self, host: &str) -> Result<&'static str, Failure> {
        let transport = &self.shared.exchange.transport;
        if !transport.may_be_plain(host) {
            return Ok("https");
        }
        let mut schemes = self.shared.schemes.lock().await;
        if let Some(scheme) = schemes.get(host) {
            return Ok(scheme);
        }
        let scheme = match self.probe("https", host).await? {
            Ok(_) => "https",
            Err(error) if is_not_tls(&error) => "http",
            // Some hang up on TLS, others for a moment: the first kind answers to plain HTTP as registries do.
            Err(error) if hung_up(&error) => match self.probe("http", host).await? {
                Ok(status) if status.is_success() || status == StatusCode::UNAUTHORIZED => "http",
                _ => return Err(classify(&error)),
            },
            Err(error) => return Err(classify(&error)),
        };
        schemes.insert(host.to_owned(), scheme);
        Ok(scheme)
    }

    /// What `host` answers to being asked whether it is a registry (OCI distribution spec 1.1, end-1).
    async fn probe(
        &self,
        scheme: &str,
        host: &str,
    ) -> Result<Result<StatusCode, reqwest::Error>, Failure> {
        let exchange = &self.shared.exchange;
        let client = exchange.transport.client(host)?;
        let probe = client.get(format!("{scheme}://{host}/v2/")).send();
        match tokio::time::timeout(exchange.stall, probe).await {
            Ok(answer) => Ok(answer.map(|reply| reply.status())),
            Err(_) => Err(Failure::lost("no answer")),
        }
    }
}

/// Where `mirror` keeps what `repository` has.
fn mirrored(mirror: &str, repository: &Repository) -> Option<Repository> {
    let (registry, prefix) = mirror.split_once('/').unwrap_or((mirror, ""));
    let path = if prefix.is_empty() {
        repository.path().to_owned()
    } else {
        format!("{}/{}", prefix.trim_end_matches('/'), repository.path())
    };
    Repository::new(registry, &path).ok()
}

/// The pauses of one request.
pub(super) struct Waits {
    retries: Retries,
    /// When all was well the last time.
    since: Instant,
}

impl Waits {
    /// Some bytes came that had not come before.
    pub(super) fn brought(&mut self, bytes: u64) {
        let now = Instant::now();
        if self.retries.brought(bytes, now.into_std()) {
            self.since = now;
        }
    }

    /// Waits until the request can be tried again.
    ///
    /// # Errors
    ///
    /// The failure, if it is not to be tried again.
    pub(super) async fn wait(&mut self, failure: Failure) -> Result<(), RegistryErrorKind> {
        let (trouble, status, cause) = match failure {
            Failure::Final(kind) => return Err(kind),
            Failure::Uncertain(kind) => {
                let now = Instant::now().into_std();
                let Some(pause) = self.retries.after(Trouble::Uncertain, now, fastrand::f64())
                else {
                    return Err(kind);
                };
                tracing::debug!(%kind, ?pause, "a registry's request is tried again");
                tokio::time::sleep(pause).await;
                return Ok(());
            }
            Failure::Passing {
                trouble,
                status,
                cause,
            } => (trouble, status, cause),
        };
        if let Some(pause) = self
            .retries
            .after(trouble, Instant::now().into_std(), fastrand::f64())
        {
            tracing::debug!(
                ?trouble,
                cause,
                ?pause,
                "a registry's request is tried again"
            );
            tokio::time::sleep(pause).await;
            return Ok(());
        }
        let tried_for = self.since.elapsed();
        let cause = match self.retries.brought_since_failure() {
            0 => cause,
            bytes => format!("{cause} (since it first failed, only {bytes} bytes came)")
                .trim_start()
                .to_owned(),
        };
        Err(match trouble {
            Trouble::Lost | Trouble::UnknownHost | Trouble::Uncertain => {
                RegistryErrorKind::Unreachable { cause, tried_for }
            }
            Trouble::Busy { .. } => RegistryErrorKind::Unavailable {
                status: status.unwrap_or_default(),
                message: cause,
                tried_for,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_come_first_and_may_have_a_path() {
        let client = RegistryClient::new(RegistryOptions {
            mirrors: BTreeMap::from([(
                "index.docker.io".to_owned(),
                vec![
                    "mirror.example.com:5000".to_owned(),
                    "hub.example.com/proxy".to_owned(),
                ],
            )]),
            ..RegistryOptions::default()
        });
        let places = |text: &str| {
            let reference: Reference = text.parse().unwrap();
            let places = client.places(reference.repository());
            places.iter().map(ToString::to_string).collect::<Vec<_>>()
        };

        assert_eq!(
            places("alpine"),
            [
                "mirror.example.com:5000/library/alpine",
                "hub.example.com/proxy/library/alpine",
                "docker.io/library/alpine"
            ]
        );
        assert_eq!(places("r.example.com/a"), ["r.example.com/a"]);
    }
}
