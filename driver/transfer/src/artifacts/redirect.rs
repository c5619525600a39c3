//! Where a redirect leads, and what may go there.
//!
//! Go's rules (gitlab-runner, wire §1.1), with the dispatch protocol's two exceptions ("Artifact uploads"): nothing
//! goes from https to http, and the job's token goes to GitLab's own origin only.

use reqwest::{Method, StatusCode};
use url::Url;

/// Redirects of one request that are followed at most (Go's `http.Client`).
pub(super) const MAX_REDIRECTS: usize = 10;

/// Why a redirect is not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedirectError {
    /// It leads from https to something else.
    #[error("refused a redirect from https to {0}: what it moves could be read on the way")]
    LeavesHttps(String),
    /// It names no place that HTTP knows.
    #[error("a redirect to what is no URL of http or https")]
    BadLocation,
    /// There is no end to them.
    #[error("stopped after {MAX_REDIRECTS} redirects")]
    TooMany,
}

impl RedirectError {
    /// Whether it would be wrong to ask again: vk itself does not follow.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::LeavesHttps(_))
    }
}

/// A request's next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) url: Url,
    pub(super) method: Method,
    /// Whether the request's content goes along.
    pub(super) with_body: bool,
}

/// Where an answer with `status` and `location` to `method` at `from` leads; `None` if it is no redirect, or names no
/// place: as with Go's `http.Client`, that is an answer like others.
pub(super) fn next(
    status: StatusCode,
    location: Option<&str>,
    from: &Url,
    method: &Method,
) -> Option<Result<Hop, RedirectError>> {
    let keeps_method = match status.as_u16() {
        301..=303 => *method == Method::GET || *method == Method::HEAD,
        307 | 308 => true,
        _ => return None,
    };
    let location = location.filter(|location| !location.is_empty())?;
    Some(target(location, from).map(|url| Hop {
        url,
        method: if keeps_method {
            method.clone()
        } else {
            Method::GET
        },
        with_body: matches!(status.as_u16(), 307 | 308),
    }))
}

fn target(location: &str, from: &Url) -> Result<Url, RedirectError> {
    let url = from
        .join(location)
        .map_err(|_| RedirectError::BadLocation)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(RedirectError::BadLocation);
    }
    if from.scheme() == "https" && url.scheme() != "https" {
        return Err(RedirectError::LeavesHttps(url.scheme().to_owned()));
    }
    Ok(url)
}

/// Whether the token may go to `url`: it has the origin of `gitlab` (RFC 6454: scheme, host and port).
pub(super) fn may_see_token(url: &Url, gitlab: &Url) -> bool {
    url.origin() == gitlab.origin()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn follow(
        status: u16,
        location: Option<&str>,
        from: &str,
    ) -> Option<Result<Hop, RedirectError>> {
        let status = StatusCode::from_u16(status).unwrap();
        next(status, location, &url(from), &Method::POST)
    }

    const API: &str = "https://gitlab.example.com/api/v4/jobs/1/artifacts";

    /// gitlab-runner, wire §1.1.
    #[test]
    fn method_and_content_are_kept_by_307_and_308_only() {
        for status in [301, 302, 303] {
            let hop = follow(status, Some("/x"), API).unwrap().unwrap();
            assert_eq!((hop.method, hop.with_body), (Method::GET, false));
        }
        for status in [307, 308] {
            let hop = follow(status, Some("new-location"), API).unwrap().unwrap();
            assert_eq!((hop.method, hop.with_body), (Method::POST, true));
            assert_eq!(
                hop.url,
                url("https://gitlab.example.com/api/v4/jobs/1/new-location")
            );
        }
        for status in [200, 201, 300, 304, 305, 404] {
            assert_eq!(follow(status, Some("/x"), API), None);
        }
    }

    /// Dispatch protocol, "Artifact uploads".
    #[test]
    fn nothing_leaves_https() {
        assert_eq!(
            follow(307, Some("http://gitlab.example.com/x"), API),
            Some(Err(RedirectError::LeavesHttps("http".into())))
        );
        assert_eq!(
            follow(307, Some("ftp://a/x"), API),
            Some(Err(RedirectError::BadLocation))
        );
        assert_eq!(
            follow(307, Some("file:///etc/passwd"), API),
            Some(Err(RedirectError::BadLocation))
        );
        assert!(
            follow(307, Some("https://b/x"), "http://a/")
                .unwrap()
                .is_ok()
        );
        assert!(
            follow(307, Some("http://b/x"), "http://a/")
                .unwrap()
                .is_ok()
        );
        for status in [301, 302, 303, 307, 308] {
            assert_eq!(follow(status, None, API), None);
            assert_eq!(follow(status, Some(""), API), None);
        }
        assert_eq!(
            follow(307, Some("https://"), API),
            Some(Err(RedirectError::BadLocation))
        );
    }

    /// Dispatch protocol, "Artifact uploads".
    #[test]
    fn the_token_goes_to_gitlabs_own_origin_only() {
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
