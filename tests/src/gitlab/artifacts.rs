//! Artifacts: what GitLab does with a well-formed call (gitlab-runner, wire §1.14 and wire §1.15).

use super::{Answer, Exchange, JobRecord, Shared};
use crate::http::locked;
use std::collections::BTreeMap;

/// An artifact as it was uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// The query's parameters.
    pub query: BTreeMap<String, String>,
    /// The file's name.
    pub file_name: String,
    /// The file's content.
    pub content: Vec<u8>,
}

/// The answer to a call.
pub(super) fn answer(shared: &Shared, exchange: &Exchange) -> Answer {
    let request = &exchange.request;
    if request.path.starts_with("/storage/") {
        return storage(shared, exchange);
    }
    let Some(id) = job_id(&request.path) else {
        return Answer::message(404, "404 Not Found");
    };
    let mut jobs = locked(&shared.jobs);
    let Some(job) = jobs.get_mut(&id) else {
        return Answer::message(404, "404 Not Found");
    };
    match exchange.header("job-token") {
        "" => return Answer::message(401, "401 Unauthorized"),
        token if token != job.token => return Answer::message(403, "403 Forbidden"),
        _ => {}
    }
    match request.method.as_str() {
        "POST" => upload(job, exchange),
        "GET" => download(job),
        _ => Answer::message(405, "405 Not Allowed"),
    }
}

/// Of `/api/v4/jobs/<id>/artifacts`.
fn job_id(path: &str) -> Option<u64> {
    path.strip_prefix("/api/v4/jobs/")?
        .strip_suffix("/artifacts")?
        .parse()
        .ok()
}

fn upload(job: &mut JobRecord, exchange: &Exchange) -> Answer {
    let named = exchange
        .part
        .as_ref()
        .and_then(|part| Some((part.names()?, part)));
    let Some((("file", file_name), part)) = named else {
        return Answer::message(400, "400 Bad request - file is missing");
    };
    job.uploads.push(Upload {
        query: query(&exchange.request.query),
        file_name: file_name.to_owned(),
        content: part.content.clone(),
    });
    Answer::status(201)
        .header("Content-Type", "application/json")
        .body("{}")
}

fn download(job: &JobRecord) -> Answer {
    let uploaded = job
        .uploads
        .iter()
        .rev()
        .find(|upload| upload.query.get("artifact_type").map(String::as_str) == Some("archive"))
        .map(|upload| upload.content.clone());
    match job.archive.clone().or(uploaded) {
        Some(archive) => Answer::status(200)
            .header("Content-Type", "application/octet-stream")
            .body(archive),
        None => Answer::message(404, "404 Not Found"),
    }
}

fn storage(shared: &Shared, exchange: &Exchange) -> Answer {
    let path = exchange.request.path.clone();
    let mut storage = locked(&shared.storage);
    match (exchange.request.method.as_str(), &exchange.part) {
        ("GET", _) => match storage.get(&path) {
            Some(content) => Answer::status(200).body(content.clone()),
            None => Answer::status(404),
        },
        ("POST", Some(part)) => {
            storage.insert(path, part.content.clone());
            Answer::status(201)
        }
        _ => Answer::status(400),
    }
}

fn query(text: &str) -> BTreeMap<String, String> {
    url::form_urlencoded::parse(text.as_bytes())
        .into_owned()
        .collect()
}
