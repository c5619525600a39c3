//! How a registry is persuaded: Basic logins and Bearer tokens.
//!
//! A registry answers 401 and names a scheme; for Bearer also a token service, which is asked with the login, or
//! without one (distribution's "Token Authentication Specification" and "OAuth2 Token Authentication").

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use serde::Deserialize;
use url::Url;
use url::form_urlencoded::Serializer;
use vk_http::{MAX_REDIRECTS, RedirectError, next_hop};

use super::credential::Credential;
use super::error::RegistryErrorKind;
use super::exchange::{Reply, failure_of, location_of};
use super::reference::Repository;
use super::transport::{Failure, Transport, classify};

/// Longest answer of a token service, in bytes. Real ones have a few thousand.
const MAX_TOKEN_ANSWER: u64 = 1 << 20;

/// How long a token lives when the service does not say (Token Authentication Specification, `expires_in`).
const DEFAULT_LIFETIME: Duration = Duration::from_secs(60);

/// How much earlier a token is renewed, for clocks and requests on their way.
const EARLY: Duration = Duration::from_secs(10);

/// What a request wants to do with a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Access {
    Pull,
    PullPush,
}

impl Access {
    fn scope(self, repository: &str) -> String {
        match self {
            Self::Pull => format!("repository:{repository}:pull"),
            Self::PullPush => format!("repository:{repository}:pull,push"),
        }
    }
}

/// What a registry let in, by its host, repository and access.
#[derive(Default)]
pub(crate) struct Passes(Mutex<HashMap<(String, String, Access), Pass>>);

#[derive(Clone)]
struct Pass {
    header: HeaderValue,
    until: Option<Instant>,
}

/// The scheme that a registry asks for.
#[derive(Debug, PartialEq, Eq)]
enum Challenge {
    Basic,
    Bearer {
        realm: String,
        service: Option<String>,
    },
}

/// A request that a registry did not let in.
pub(crate) struct Refused<'a> {
    pub(crate) transport: &'a Transport,
    pub(crate) repository: &'a Repository,
    pub(crate) access: Access,
    pub(crate) credential: Option<&'a Credential>,
    /// Whether the registry was asked over plain HTTP.
    pub(crate) plain: bool,
    pub(crate) timeout: Option<Duration>,
    pub(crate) stall: Duration,
}

impl Passes {
    /// The `Authorization` that was good for such a request before.
    pub(crate) fn known(&self, repository: &Repository, access: Access) -> Option<HeaderValue> {
        let passes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |access| {
            let pass = passes.get(&key(repository, access))?;
            let fresh = pass.until.is_none_or(|until| Instant::now() < until);
            fresh.then(|| pass.header.clone())
        };
        // Who may push may pull.
        find(access).or_else(|| find(Access::PullPush))
    }

    /// Gets an `Authorization` that answers the challenge in `headers`; `None` if there is none to be had but the
    /// one already tried.
    pub(crate) async fn renew(
        &self,
        refused: &Refused<'_>,
        headers: &HeaderMap,
        tried: Option<&HeaderValue>,
    ) -> Result<Option<HeaderValue>, Failure> {
        let Some(challenge) = challenge(headers) else {
            return Ok(None);
        };
        let pass = match (challenge, refused.credential) {
            (_, Some(Credential::Bearer(token))) => Pass::forever(bearer(token)?),
            (Challenge::Basic, Some(Credential::Basic { username, password })) => {
                Pass::forever(basic(username, password)?)
            }
            (Challenge::Basic, _) => return Ok(None),
            (Challenge::Bearer { realm, service }, credential) => {
                token(refused, &realm, service.as_deref(), credential).await?
            }
        };
        if tried == Some(&pass.header) {
            return Ok(None);
        }
        let header = pass.header.clone();
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key(refused.repository, refused.access), pass);
        Ok(Some(header))
    }
}

fn key(repository: &Repository, access: Access) -> (String, String, Access) {
    (
        repository.registry().to_owned(),
        repository.path().to_owned(),
        access,
    )
}

impl Pass {
    fn forever(header: HeaderValue) -> Self {
        Self {
            header,
            until: None,
        }
    }
}

/// The best scheme of a 401 answer.
fn challenge(headers: &HeaderMap) -> Option<Challenge> {
    let mut basic = None;
    for header in headers.get_all(WWW_AUTHENTICATE) {
        let Ok(text) = header.to_str() else { continue };
        let Ok(challenges) = http_auth::parse_challenges(text) else {
            continue;
        };
        for challenge in challenges {
            let parameter = |name: &str| {
                let (_, value) = challenge
                    .params
                    .iter()
                    .find(|(key, _)| key.eq_ignore_ascii_case(name))?;
                Some(value.to_unescaped())
            };
            if challenge.scheme.eq_ignore_ascii_case("bearer") {
                if let Some(realm) = parameter("realm") {
                    let service = parameter("service");
                    return Some(Challenge::Bearer { realm, service });
                }
            } else if challenge.scheme.eq_ignore_ascii_case("basic") {
                basic = Some(Challenge::Basic);
            }
        }
    }
    basic
}

/// Asks the token service.
async fn token(
    refused: &Refused<'_>,
    realm: &str,
    service: Option<&str>,
    credential: Option<&Credential>,
) -> Result<Pass, Failure> {
    let bad = |what: &str| Failure::from(RegistryErrorKind::Protocol(what.to_owned()));
    let mut url =
        Url::parse(realm).map_err(|_| bad("its token service has no address that can be read"))?;
    let scope = refused.access.scope(refused.repository.path());
    let mut reply = if let Some(Credential::Identity(token)) = credential {
        let form = refresh_form(token, &scope, service);
        let request = reach(refused, &url, Method::POST)?
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form);
        ask(refused, request, None).await?
    } else {
        url.query_pairs_mut().append_pair("scope", &scope);
        if let Some(service) = service {
            url.query_pairs_mut().append_pair("service", service);
        }
        let login = match credential {
            Some(Credential::Basic { username, password }) => Some(basic(username, password)?),
            _ => None,
        };
        get(refused, url, login).await?
    };
    if !reply.status().is_success() {
        return Err(failure_of(reply, refused.credential).await);
    }
    let answer = reply.read_all(MAX_TOKEN_ANSWER).await?;
    let answer: TokenAnswer = serde_json::from_slice(&answer)
        .map_err(|_| bad("its token service's answer cannot be read"))?;
    let token = answer
        .token
        .or(answer.access_token)
        .filter(|token| !token.is_empty())
        .ok_or_else(|| bad("its token service's answer has no token"))?;
    let lifetime = answer
        .expires_in
        .map_or(DEFAULT_LIFETIME, Duration::from_secs);
    let until = Instant::now().checked_add(lifetime.saturating_sub(EARLY));
    Ok(Pass {
        header: bearer(&token)?,
        until,
    })
}

/// What a token service is asked with a refresh token (OAuth2 Token Authentication, "Getting a token").
fn refresh_form(token: &str, scope: &str, service: Option<&str>) -> String {
    let mut form = Serializer::new(String::new());
    form.append_pair("grant_type", "refresh_token")
        .append_pair("client_id", "vk")
        .append_pair("scope", scope)
        .append_pair("refresh_token", token);
    if let Some(service) = service {
        form.append_pair("service", service);
    }
    form.finish()
}

/// A request to the token service at `url`.
fn reach(
    refused: &Refused<'_>,
    url: &Url,
    method: Method,
) -> Result<reqwest::RequestBuilder, Failure> {
    let bad = |what: &str| Failure::from(RegistryErrorKind::Protocol(what.to_owned()));
    // A login goes the way the registry itself is spoken with, or a better one.
    let plain = refused.plain && url.scheme() == "http";
    if url.scheme() != "https" && !plain {
        return Err(bad("its token service is not reached by https"));
    }
    let host = host_of(url).ok_or_else(|| bad("its token service has no host"))?;
    let client = refused.transport.client(&host)?;
    Ok(client.request(method, url.clone()))
}

async fn ask(
    refused: &Refused<'_>,
    request: reqwest::RequestBuilder,
    login: Option<HeaderValue>,
) -> Result<Reply, Failure> {
    let request = match &login {
        Some(login) => request.header(AUTHORIZATION, login),
        None => request,
    };
    let send = async { request.send().await.map_err(|error| classify(&error)) };
    let reply = Reply::receive(send, refused.timeout, refused.stall).await?;
    Ok(reply.with_authorization(login))
}

/// Asks the token service at `url`, or where it has moved to; another origin than the first is not shown the login.
async fn get(
    refused: &Refused<'_>,
    mut url: Url,
    login: Option<HeaderValue>,
) -> Result<Reply, Failure> {
    let home = url.origin();
    for _ in 0..=MAX_REDIRECTS {
        let request = reach(refused, &url, Method::GET)?;
        let shown = login.clone().filter(|_| url.origin() == home);
        let reply = ask(refused, request, shown).await?;
        let status = reply.status().as_u16();
        match next_hop(status, location_of(reply.headers()), &url, true) {
            Ok(Some(next)) => url = next.url,
            Ok(None) | Err(RedirectError::NoLocation) => return Ok(reply),
            Err(error) => return Err(error.into()),
        }
    }
    Err(RedirectError::TooMany.into())
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

/// Host and port of `url`.
pub(crate) fn host_of(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    Some(match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

/// RFC 7617, section 2.
fn basic(username: &str, password: &str) -> Result<HeaderValue, RegistryErrorKind> {
    secret_header(format!(
        "Basic {}",
        STANDARD.encode(format!("{username}:{password}"))
    ))
}

/// RFC 6750, section 2.1.
fn bearer(token: &str) -> Result<HeaderValue, RegistryErrorKind> {
    secret_header(format!("Bearer {token}"))
}

fn secret_header(text: String) -> Result<HeaderValue, RegistryErrorKind> {
    let mut header = HeaderValue::try_from(text)
        .map_err(|_| RegistryErrorKind::Client("the login cannot stand in a header".to_owned()))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge_of(lines: &[&'static str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(line));
        }
        challenge(&headers)
    }

    #[test]
    fn a_bearer_challenge_is_taken_before_a_basic_one() {
        let expected = Challenge::Bearer {
            realm: "https://auth.example.com/token".to_owned(),
            service: Some("registry, the".to_owned()),
        };

        let found = challenge_of(&[
            "Basic realm=\"a\"",
            "bearer Realm=\"https://auth.example.com/token\",service=\"registry, the\",scope=\"repository:a:pull\"",
        ]);

        assert_eq!(found, Some(expected));
        assert_eq!(challenge_of(&["Basic realm=\"a\""]), Some(Challenge::Basic));
    }

    #[test]
    fn schemes_that_nobody_knows_are_no_challenge() {
        assert_eq!(challenge_of(&[]), None);
        assert_eq!(challenge_of(&["Negotiate"]), None);
        assert_eq!(challenge_of(&["Bearer service=\"x\""]), None);
        assert_eq!(challenge_of(&["\"\"\"=,,"]), None);
    }

    #[test]
    fn a_pass_to_push_is_one_to_pull_and_not_the_other_way() {
        let passes = Passes::default();
        let repository = Repository::new("r.example.com", "a").unwrap();
        let pass = Pass::forever(HeaderValue::from_static("x"));
        let insert = |access| {
            let mut map = passes.0.lock().unwrap();
            map.clear();
            map.insert(key(&repository, access), pass.clone());
        };

        insert(Access::PullPush);
        assert!(passes.known(&repository, Access::Pull).is_some());
        insert(Access::Pull);
        assert!(passes.known(&repository, Access::PullPush).is_none());
    }

    #[test]
    fn an_expired_pass_is_not_shown_again() {
        let passes = Passes::default();
        let repository = Repository::new("r.example.com", "a").unwrap();
        let pass = Pass {
            header: HeaderValue::from_static("x"),
            until: Some(Instant::now()),
        };
        passes
            .0
            .lock()
            .unwrap()
            .insert(key(&repository, Access::Pull), pass);

        assert!(passes.known(&repository, Access::Pull).is_none());
    }
}
