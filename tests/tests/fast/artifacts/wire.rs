//! The calls that a real gitlab-runner made, one by one.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use vk_tests::gitlab::{Answer, Call, Exchange, Fault, GitLab};

use super::kit::{JOB, TOKEN, download, server, upload};

/// A call of the recordings.
#[derive(Debug, Deserialize)]
struct Recorded {
    t: f64,
    method: String,
    path: String,
    headers: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    part: Vec<String>,
    status: serde_json::Value,
}

#[derive(Deserialize)]
struct Instructions {
    faults: Vec<Instruction>,
}

#[derive(Deserialize)]
struct Instruction {
    call: String,
    from: usize,
    times: usize,
    code: Option<u16>,
    #[serde(default)]
    headers: std::collections::BTreeMap<String, String>,
}

fn read(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/wire");
    fs::read_to_string(folder.join(file)).unwrap()
}

/// The recorded artifact calls, their job's number made ours.
fn recorded(name: &str) -> Vec<Recorded> {
    let number = name.get(..2).unwrap();
    read(&format!("{name}.jsonl"))
        .replace(&format!("40{number}"), &JOB.to_string())
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|call: &Recorded| call.path.contains("/artifacts"))
        .collect()
}

/// Does to our server what was done to the recorded one.
fn instruct(server: &GitLab, name: &str) {
    let instructions: Instructions =
        serde_json::from_str(&read(&format!("{name}.server.json"))).unwrap();
    for fault in instructions.faults {
        let call = match fault.call.as_str() {
            "artifacts" => Call::Upload,
            "download" => Call::Download,
            other => panic!("{other}"),
        };
        let what = match fault.code {
            None => Fault::Drop,
            Some(code) => Fault::Answer(
                fault
                    .headers
                    .iter()
                    .fold(Answer::status(code), |answer, (name, value)| {
                        answer.header(name, value)
                    }),
            ),
        };
        server.inject(call, fault.from, fault.times, what);
    }
}

/// Whether `ours` is what was recorded, headers that name no agent, boundary or ID letter by letter.
fn assert_same(ours: &[Exchange], recorded: &[Recorded]) {
    assert_eq!(ours.len(), recorded.len(), "{ours:#?}\n{recorded:#?}");
    let mut before = None;
    let mut boundary = None;
    for (our, theirs) in ours.iter().zip(recorded) {
        assert_eq!(our.request.method, theirs.method);
        assert_eq!(our.target(), theirs.path);
        for (name, value) in &theirs.headers {
            let found = our.header(&name.to_lowercase());
            match value.as_str() {
                "@AGENT@" => assert!(found.starts_with("vk "), "{found}"),
                "@ID@" => {
                    assert_eq!(found.len(), 32);
                    assert!(found.bytes().all(|digit| digit.is_ascii_hexdigit()));
                }
                "multipart/form-data; boundary=@BOUNDARY@" => {
                    assert!(
                        found.starts_with("multipart/form-data; boundary="),
                        "{found}"
                    );
                    // The same however often it is sent.
                    assert_eq!(boundary.get_or_insert_with(|| found.to_owned()), found);
                }
                value => assert_eq!(found, value, "{name}"),
            }
        }
        let part = our.part.as_ref().map(|part| part.headers.clone());
        assert_eq!(part.unwrap_or_default(), theirs.part);
        assert_eq!(our.status.map(u64::from), theirs.status.as_u64());
        // Where a wait was asked for, or is the client's own, ours is no shorter.
        if let Some((at, t)) = before.replace((our.at, theirs.t)) {
            assert!(our.at - at > theirs.t - t - 0.5, "{} after {at}", our.at);
        }
    }
}

async fn check_upload(name: &str) -> (GitLab, Vec<String>) {
    let server = server();
    instruct(&server, name);
    let (_, said) = upload(&server, b"PK\x05\x06").await;
    assert_same(&server.exchanges(), &recorded(name));
    (server, said.messages())
}

const WHAT: &str = "Uploading artifacts as \"archive\" to coordinator...";

#[tokio::test]
async fn a_server_without_time_is_called_again_when_it_says() {
    let (server, said) = check_upload("18-upload-503-retry-after").await;
    assert_eq!(
        said,
        [
            "Waiting before making the next call".to_owned(),
            format!("{WHAT} 201 Created")
        ]
    );
    assert_eq!(server.uploads(JOB).len(), 1);
}

#[tokio::test]
async fn what_is_too_large_is_sent_once() {
    let (_, said) = check_upload("20-upload-413").await;
    assert_eq!(
        said,
        [format!("ERROR: {WHAT} 413 Request Entity Too Large")]
    );
}

#[tokio::test]
async fn what_is_forbidden_is_sent_once() {
    let (_, said) = check_upload("21-upload-403").await;
    assert_eq!(said, [format!("ERROR: {WHAT} 403 Forbidden")]);
}

#[tokio::test]
async fn a_dropped_connection_is_tried_again_after_a_second() {
    let (server, said) = check_upload("22-upload-drop").await;
    assert_eq!(
        said,
        [
            format!("ERROR: {WHAT} error"),
            "WARNING: Retrying...".to_owned(),
            format!("{WHAT} 201 Created")
        ]
    );
    assert_eq!(server.uploads(JOB)[0].content, b"PK\x05\x06");
}

#[tokio::test]
async fn a_download_is_direct_once_and_repeated_within_a_try_later() {
    let name = "23-source";
    let server = server();
    instruct(&server, name);
    upload(&server, b"PK\x05\x06").await.0.unwrap();

    let (archive, said) = download(&server, true).await;

    assert_eq!(archive.unwrap(), b"PK\x05\x06");
    assert_same(&server.exchanges(), &recorded(name));
    assert_eq!(
        said.messages(),
        [
            "WARNING: Downloading artifacts from coordinator... failed",
            "WARNING: Retrying...",
            "Waiting before making the next call",
            "Downloading artifacts from coordinator... ok",
        ]
    );
    assert_eq!(server.exchanges()[1].header("job-token"), TOKEN);
}
