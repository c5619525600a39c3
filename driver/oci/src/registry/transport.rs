//! Connections: who is trusted, who may speak plain HTTP.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rustls::ClientConfig;

use super::error::RegistryErrorKind;
use super::retry::Trouble;
use vk_http::{Proxies, RedirectError, TlsError, is_loopback, root_cause};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// What came of one attempt.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It may pass.
    Passing {
        trouble: Trouble,
        /// HTTP status, where there was one.
        status: Option<u16>,
        cause: String,
    },
    /// It may pass, though hardly: this is the error when it did not in a few attempts.
    Uncertain(RegistryErrorKind),
    /// It will not.
    Final(RegistryErrorKind),
}

impl From<RegistryErrorKind> for Failure {
    fn from(kind: RegistryErrorKind) -> Self {
        Self::Final(kind)
    }
}

impl From<RedirectError> for Failure {
    fn from(error: RedirectError) -> Self {
        RegistryErrorKind::Protocol(error.to_string()).into()
    }
}

impl Failure {
    pub(crate) fn lost(cause: impl Into<String>) -> Self {
        Self::Passing {
            trouble: Trouble::Lost,
            status: None,
            cause: cause.into(),
        }
    }
}

/// HTTP clients, made when they are needed.
pub(crate) struct Transport {
    ca_pem: Vec<String>,
    /// In the form of [`with_port`].
    insecure: BTreeSet<String>,
    proxies: Proxies,
    clients: Mutex<HashMap<(Trust, Route), reqwest::Client>>,
}

/// Which certificates are good.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Trust {
    Checked,
    Any,
}

/// Whether the host's proxies are used; never for loopback, as in Go's `ProxyFromEnvironment`, which
/// Docker uses.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Route {
    Usual,
    Direct,
}

impl Transport {
    pub(crate) fn new(ca_pem: Vec<String>, insecure: &BTreeSet<String>, proxies: Proxies) -> Self {
        Self {
            ca_pem,
            proxies,
            insecure: insecure.iter().flat_map(|host| ports_of(host)).collect(),
            clients: Mutex::default(),
        }
    }

    /// Whether `host` (with its port, if it has one) may speak plain HTTP.
    pub(crate) fn may_be_plain(&self, host: &str) -> bool {
        self.is_insecure(host) || is_loopback(host)
    }

    /// The client for `host` (with its port, if it has one).
    pub(crate) fn client(&self, host: &str) -> Result<reqwest::Client, RegistryErrorKind> {
        let trust = if self.is_insecure(host) {
            Trust::Any
        } else {
            Trust::Checked
        };
        let route = if is_loopback(host) {
            Route::Direct
        } else {
            Route::Usual
        };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&(trust, route)) {
            return Ok(client.clone());
        }
        let client = self.make(trust, route)?;
        clients.insert((trust, route), client.clone());
        Ok(client)
    }

    fn is_insecure(&self, host: &str) -> bool {
        self.insecure.contains(&with_port(host))
    }

    fn make(&self, trust: Trust, route: Route) -> Result<reqwest::Client, RegistryErrorKind> {
        let builder = reqwest::Client::builder()
            .user_agent(concat!("vk/", env!("CARGO_PKG_VERSION")))
            // Followed by hand: who may see the login is decided at each step.
            .redirect(reqwest::redirect::Policy::none())
            // Retries are counted and waited for by `Retries`.
            .retry(reqwest::retry::never())
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .dns_resolver(Arc::new(Resolver))
            .tls_backend_preconfigured(self.tls(trust)?);
        let builder = match route {
            Route::Usual => self
                .proxies
                .applied(builder)
                .map_err(|error| RegistryErrorKind::Client(root_cause(&error)))?,
            Route::Direct => builder.no_proxy(),
        };
        builder
            .build()
            .map_err(|error| RegistryErrorKind::Client(root_cause(&error)))
    }

    fn tls(&self, trust: Trust) -> Result<ClientConfig, RegistryErrorKind> {
        let trust = match trust {
            Trust::Checked => vk_http::Trust::Roots(&self.ca_pem),
            Trust::Any => vk_http::Trust::Any,
        };
        vk_http::tls(trust).map_err(|error| {
            RegistryErrorKind::Client(match error {
                TlsError::Certificates(cause) => {
                    format!("the configured CA certificates: {cause}")
                }
                other => other.to_string(),
            })
        })
    }
}

/// `host` in lower case and with its port: that of HTTPS, if it names none.
fn with_port(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    if has_port(&host) {
        host
    } else {
        format!("{host}:443")
    }
}

/// What connections `host` means as a registry: without a port those of both schemes.
fn ports_of(host: &str) -> Vec<String> {
    let host = host.to_ascii_lowercase();
    if has_port(&host) {
        vec![host]
    } else {
        vec![format!("{host}:443"), format!("{host}:80")]
    }
}

fn has_port(host: &str) -> bool {
    // The colons of an IPv6 address are in brackets.
    host.rsplit(']')
        .next()
        .is_some_and(|rest| rest.contains(':'))
}

/// The system's resolver, with errors that can be told from others.
struct Resolver;

/// The resolver knows no address.
#[derive(Debug, thiserror::Error)]
#[error("the host name is not found: {0}")]
struct UnknownHost(io::Error);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((name.as_str(), 0))
                .await
                .map_err(|error| Box::new(UnknownHost(error)))?;
            let addresses: Addrs = Box::new(addresses.collect::<Vec<_>>().into_iter());
            Ok(addresses)
        })
    }
}

/// What `error` means for the next attempt.
pub(crate) fn classify(error: &reqwest::Error) -> Failure {
    let cause = root_cause(error);
    if let Some(tls) = find::<rustls::Error>(error) {
        return Failure::Final(RegistryErrorKind::Tls {
            cause: tls.to_string(),
        });
    }
    if find::<UnknownHost>(error).is_some() {
        return Failure::Passing {
            trouble: Trouble::UnknownHost,
            status: None,
            cause,
        };
    }
    if error.is_builder() {
        return Failure::Final(RegistryErrorKind::Client(cause));
    }
    Failure::lost(cause)
}

/// Whether `error` says that the other side answers, but not by TLS (and not that its certificate is bad).
pub(crate) fn is_not_tls(error: &reqwest::Error) -> bool {
    matches!(
        find::<rustls::Error>(error),
        Some(rustls::Error::InvalidMessage(_))
    )
}

/// Whether `error` says that the other side hung up: on being greeted by TLS, or for any other reason.
pub(crate) fn hung_up(error: &reqwest::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};

    find::<rustls::Error>(error).is_none()
        && causes(error)
            .filter_map(|cause| cause.downcast_ref::<io::Error>())
            .any(|error| {
                matches!(
                    error.kind(),
                    UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe
                )
            })
}

/// The outermost cause of that type in the chain of `error`.
fn find<'e, T: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e T> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

/// `error` and its causes, also those inside of I/O errors.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'e (dyn Error + 'static)| {
        let error: &'e (dyn Error + 'static) = *error;
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(|error| error.get_ref());
        match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_insecure_registry_is_known_by_every_way_to_write_its_port() {
        let insecure = [
            "Plain.example.com",
            "443.example.com:443",
            "[2001:DB8::1]:5000",
        ];
        let insecure = insecure.into_iter().map(str::to_owned).collect();
        let transport = Transport::new(Vec::new(), &insecure, Proxies::default());

        for host in [
            "plain.example.com",
            "PLAIN.example.com:443",
            "plain.example.com:80",
            "443.example.com",
            "443.example.com:443",
            "[2001:db8::1]:5000",
        ] {
            assert!(transport.may_be_plain(host), "{host}");
        }
        for host in [
            "plain.example.com:5000",
            "443.example.com:80",
            "[2001:db8::1]",
            "other.example.com",
        ] {
            assert!(!transport.may_be_plain(host), "{host}");
        }
    }

    #[test]
    fn a_ca_file_without_a_certificate_is_refused() {
        let transport = Transport::new(
            vec!["no PEM".to_owned()],
            &BTreeSet::new(),
            Proxies::default(),
        );

        let error = transport.client("example.com").unwrap_err();

        assert!(error.to_string().contains("CA certificates"), "{error}");
    }
}
