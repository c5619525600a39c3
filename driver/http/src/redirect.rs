//! Where a redirect leads.
//!
//! The rules of Go's `http.Client`, which Docker and GitLab Runner use, with one more: nothing goes from https to http.
//! Who may see a login there is the caller's to decide.

use url::Url;

/// Redirects of one request that are followed at most, as with Go's `http.Client`.
pub const MAX_REDIRECTS: usize = 10;

/// Why a redirect is not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedirectError {
    /// It leads from https to something else.
    #[error("refused a redirect from https to {0}: what it moves could be read on the way")]
    LeavesHttps(String),
    /// It names no place.
    #[error("an answer that should name a location does not")]
    NoLocation,
    /// It names no place that HTTP knows.
    #[error("a location that is no URL of http or https")]
    BadLocation,
    /// There is no end to them.
    #[error("stopped after {MAX_REDIRECTS} redirects")]
    TooMany,
}

/// The next step of a request that was sent elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Where to.
    pub url: Url,
    /// Whether the request is made there as it was, with its method and content; else it becomes a GET without
    /// content.
    pub is_same_request: bool,
}

/// Where an answer with `status` and the header `Location` leads that came from `from`; `None` if it is no redirect.
/// `only_reads` says that the request was a GET or a HEAD: 301 to 303 make others a GET (RFC 9110, section 15.4).
///
/// # Errors
///
/// If the redirect must not be followed, or cannot be.
pub fn next_hop(
    status: u16,
    location: Option<&str>,
    from: &Url,
    only_reads: bool,
) -> Result<Option<Hop>, RedirectError> {
    let is_same_request = match status {
        301..=303 => only_reads,
        307 | 308 => true,
        _ => return Ok(None),
    };
    let url = locate(location, from)?;
    if from.scheme() == "https" && url.scheme() != "https" {
        return Err(RedirectError::LeavesHttps(url.scheme().to_owned()));
    }
    Ok(Some(Hop {
        url,
        is_same_request,
    }))
}

/// The place that the header `Location` of an answer from `from` names, wherever that is.
///
/// # Errors
///
/// If it names none that HTTP knows.
pub fn locate(location: Option<&str>, from: &Url) -> Result<Url, RedirectError> {
    let location = location
        .filter(|location| !location.is_empty())
        .ok_or(RedirectError::NoLocation)?;
    let url = from
        .join(location)
        .map_err(|_| RedirectError::BadLocation)?;
    if matches!(url.scheme(), "http" | "https") {
        Ok(url)
    } else {
        Err(RedirectError::BadLocation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: &str = "https://gitlab.example.com/api/v4/jobs/1/artifacts";

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn post(status: u16, location: Option<&str>, from: &str) -> Result<Option<Hop>, RedirectError> {
        next_hop(status, location, &url(from), false)
    }

    /// gitlab-runner, wire §1.1.
    #[test]
    fn method_and_content_are_kept_by_307_and_308_only() {
        for status in [301, 302, 303] {
            let hop = post(status, Some("/x"), FROM).unwrap().unwrap();
            assert!(!hop.is_same_request, "{status}");
            let read = next_hop(status, Some("/x"), &url(FROM), true);
            assert!(read.unwrap().unwrap().is_same_request, "{status}");
        }
        for status in [307, 308] {
            let hop = post(status, Some("new-location"), FROM).unwrap().unwrap();
            assert!(hop.is_same_request);
            assert_eq!(
                hop.url,
                url("https://gitlab.example.com/api/v4/jobs/1/new-location")
            );
        }
        for status in [200, 201, 300, 304, 305, 404] {
            assert_eq!(post(status, Some("/x"), FROM), Ok(None));
        }
    }

    /// Dispatch protocol, "Artifact uploads".
    #[test]
    fn nothing_leaves_https() {
        assert_eq!(
            post(307, Some("http://gitlab.example.com/x"), FROM),
            Err(RedirectError::LeavesHttps("http".into()))
        );
        assert!(post(307, Some("https://b/x"), "http://a/").is_ok());
        assert!(post(307, Some("http://b/x"), "http://a/").is_ok());
    }

    #[test]
    fn what_names_no_place_of_http_is_told() {
        for bad in ["ftp://a/x", "file:///etc/passwd", "https://"] {
            assert_eq!(
                post(307, Some(bad), FROM),
                Err(RedirectError::BadLocation),
                "{bad}"
            );
        }
        for status in [301, 302, 303, 307, 308] {
            assert_eq!(post(status, None, FROM), Err(RedirectError::NoLocation));
            assert_eq!(post(status, Some(""), FROM), Err(RedirectError::NoLocation));
        }
    }

    #[test]
    fn a_location_is_relative_to_what_was_asked() {
        let from = url("http://localhost:1/v2/a/blobs/uploads/");
        let of = |location| locate(Some(location), &from).map(String::from);

        assert_eq!(
            of("/v2/x?y=1"),
            Ok("http://localhost:1/v2/x?y=1".to_owned())
        );
        assert_eq!(
            of("https://other.example.com/z"),
            Ok("https://other.example.com/z".to_owned())
        );
        assert_eq!(of("file:///etc/passwd"), Err(RedirectError::BadLocation));
    }
}
