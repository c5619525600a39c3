//! GitLab's answers in GitLab Runner's words (gitlab-runner, wire §1.2).

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use url::Url;

/// What an answer says about itself: its status line, and with an error the server's own message.
pub(super) struct Answer<'a> {
    pub(super) method: &'a Method,
    pub(super) url: &'a Url,
    pub(super) status: StatusCode,
    pub(super) headers: &'a HeaderMap,
    /// Its content, or the beginning of it.
    pub(super) body: &'a [u8],
}

impl Answer<'_> {
    /// The text for a log line.
    pub(super) fn text(&self) -> String {
        if self.status.is_success() || self.media_type() != "application/json" {
            return status_line(self.status);
        }
        let Ok(json) = serde_json::from_slice::<Value>(self.body) else {
            return status_line(self.status);
        };
        let message = message(json.get("message"));
        let line = status_line(self.status);
        let place = format!("{} {}: {line}", self.method, clean(self.url));
        if message == line {
            place
        } else {
            format!("{place} ({message})")
        }
    }

    /// As [`Answer::text`], where object storages answer in XML.
    pub(super) fn text_of_download(&self) -> String {
        if self.status != StatusCode::FORBIDDEN
            || !matches!(self.media_type().as_str(), "application/xml" | "text/xml")
        {
            return self.text();
        }
        let line = status_line(self.status);
        let xml = String::from_utf8_lossy(self.body);
        match (element(&xml, "Code"), element(&xml, "Message")) {
            ("", _) => line,
            (code, message) => format!("{line} ({code}: {message})"),
        }
    }

    /// Without its parameters.
    fn media_type(&self) -> String {
        self.headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split(';').next())
            .map(|value| value.trim().to_ascii_lowercase())
            .unwrap_or_default()
    }
}

/// Code and standard text, in Go's words.
pub(super) fn status_line(status: StatusCode) -> String {
    let text = match status.as_u16() {
        // Go has kept the older names.
        413 => "Request Entity Too Large",
        416 => "Requested Range Not Satisfiable",
        _ => status.canonical_reason().unwrap_or_default(),
    };
    format!("{} {text}", status.as_u16()).trim_end().to_owned()
}

/// Without user, password, query and fragment.
pub(super) fn clean(url: &Url) -> Url {
    let mut url = url.clone();
    // These fail only for URLs that have no host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url
}

fn message(message: Option<&Value>) -> String {
    match message {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(fields)) => {
            let of_field = |(key, values): (&String, &Value)| {
                let values = values.as_array()?.iter();
                let texts: Option<Vec<&str>> = values.map(Value::as_str).collect();
                Some(format!("{key}: {}", texts?.join("; ")))
            };
            let fields: Option<Vec<String>> = fields.iter().map(of_field).collect();
            fields.map_or_else(String::new, |fields| fields.join(", "))
        }
        _ => String::new(),
    }
}

/// The content of the first element called `name`; empty without one.
fn element<'x>(xml: &'x str, name: &str) -> &'x str {
    xml.split_once(&format!("<{name}>"))
        .and_then(|(_, rest)| rest.split_once(&format!("</{name}>")))
        .map_or("", |(content, _)| content)
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn answer(status: u16, media_type: &str, body: &str, download: bool) -> String {
        let url = Url::parse("https://u:p@gitlab.example.com/api/v4/jobs/1/artifacts?a=b").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_str(media_type).unwrap());
        let answer = Answer {
            method: &Method::POST,
            url: &url,
            status: StatusCode::from_u16(status).unwrap(),
            headers: &headers,
            body: body.as_bytes(),
        };
        if download {
            answer.text_of_download()
        } else {
            answer.text()
        }
    }

    /// gitlab-runner, wire §1.2 and wire §8.1.
    #[test]
    fn an_answer_is_told_as_by_gitlab_runner() {
        let place = "POST https://gitlab.example.com/api/v4/jobs/1/artifacts: 400 Bad Request";
        let json = "application/json; charset=utf-8";
        let cases = [
            (201, json, r#"{"message":"x"}"#, "201 Created".to_owned()),
            (
                413,
                "text/plain",
                "x",
                "413 Request Entity Too Large".to_owned(),
            ),
            (
                400,
                json,
                r#"{"message":"duplicate variables"}"#,
                format!("{place} (duplicate variables)"),
            ),
            (
                400,
                json,
                r#"{"message":"400 Bad Request"}"#,
                place.to_owned(),
            ),
            (400, json, "no json", "400 Bad Request".to_owned()),
            (
                400,
                json,
                r#"{"message":{"base":["a","b"]}}"#,
                format!("{place} (base: a; b)"),
            ),
            (400, json, r#"{"message":3}"#, format!("{place} ()")),
            (400, json, "{}", format!("{place} ()")),
            (
                400,
                "text/html",
                r#"{"message":"x"}"#,
                "400 Bad Request".to_owned(),
            ),
        ];
        for (status, media_type, body, expected) in cases {
            assert_eq!(answer(status, media_type, body, false), expected);
        }
    }

    /// gitlab-runner, wire §1.2.
    #[test]
    fn an_object_storages_refusal_is_told() {
        let xml = "<Error><Code>AccessDenied</Code><Message>no</Message></Error>";
        assert_eq!(
            answer(403, "application/xml", xml, true),
            "403 Forbidden (AccessDenied: no)"
        );
        assert_eq!(answer(403, "text/xml", "<Error/>", true), "403 Forbidden");
        assert_eq!(answer(404, "application/xml", xml, true), "404 Not Found");
    }
}
