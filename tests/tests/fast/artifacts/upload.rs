//! Uploads to a server that misbehaves, or sends them elsewhere.

use std::time::Duration;

use tempfile::TempDir;
use vk_http::Proxies;
use vk_tests::gitlab::{Answer, Call, Fault, GitLab};
use vk_tests::noise::noise;
use vk_transfer::{ArtifactStore, GitLab as Client, GitLabArtifacts, Unmade, Upload, UploadError};

use super::kit::{JOB, TOKEN, noting, server, spooled, tls_server, upload};

fn only_upload(server: &GitLab) -> Vec<u8> {
    let uploads = server.uploads(JOB);
    assert_eq!(uploads.len(), 1);
    uploads[0].content.clone()
}

#[tokio::test]
async fn an_archive_arrives_whole_over_tls_with_what_the_job_says_of_it() {
    let server = tls_server();
    let content = noise(3 << 20);

    upload(&server, &content).await.0.unwrap();

    let uploads = server.uploads(JOB);
    assert!(uploads[0].content == content);
    assert_eq!(uploads[0].file_name, "main.zip");
    let query: Vec<(&str, &str)> = uploads[0]
        .query
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        query,
        [
            ("artifact_format", "zip"),
            ("artifact_type", "archive"),
            ("expire_in", "1 week")
        ]
    );
}

#[tokio::test]
async fn a_server_whose_certificate_nobody_knows_gets_nothing() {
    let server = tls_server();
    let client = Client::new(&server.url(), None, &Proxies::default(), "vk 0 linux/amd64").unwrap();
    let folder = TempDir::new().unwrap();
    let file = spooled(b"x", folder.path()).await;
    let (result, said) = noting(async |notes| {
        let upload = Upload {
            job_id: JOB,
            token: TOKEN,
            file: &file,
            file_name: "a.zip",
            format: "",
            artifact_type: "",
            expire_in: "",
            meter: None,
        };
        client.upload(&upload, notes).await
    })
    .await;

    assert!(matches!(result, Err(UploadError::Lost(_))));
    assert!(server.exchanges().is_empty());
    assert!(said.err.contains("certificate"), "{}", said.err);
    assert!(
        said.err
            .contains("Uploading artifacts to coordinator... error")
    );
}

#[tokio::test]
async fn errors_that_pass_are_waited_out() {
    let server = server();
    server.inject(Call::Upload, 1, 1, Fault::status(500));
    let busy = Answer::status(429).header("Retry-After", "1");
    server.inject(Call::Upload, 2, 1, Fault::Answer(busy));
    server.inject(Call::Upload, 3, 1, Fault::status(503));

    upload(&server, b"archive").await.0.unwrap();

    assert_eq!(only_upload(&server), b"archive");
    assert_eq!(server.exchanges().len(), 4);
}

#[tokio::test]
async fn a_connection_lost_within_the_archive_is_tried_again() {
    let server = server();
    server.inject(Call::Upload, 1, 2, Fault::DropAfterReading(1 << 20));
    let content = noise(8 << 20);

    let (result, said) = upload(&server, &content).await;

    result.unwrap();
    assert!(only_upload(&server) == content);
    let retries = said
        .messages()
        .iter()
        .filter(|line| line.contains("Retrying"))
        .count();
    assert_eq!(retries, 2);
}

#[tokio::test]
async fn a_connection_that_is_always_lost_is_given_up_after_three_tries() {
    let server = server();
    server.inject(Call::Upload, 1, 9, Fault::Drop);

    let (result, _) = upload(&server, b"x").await;

    let error = result.unwrap_err();
    assert!(matches!(error, UploadError::Lost(_)), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("couldn't execute POST against http://"),
        "{error}"
    );
    assert_eq!(server.exchanges().len(), 3);
}

#[tokio::test]
async fn a_refusal_without_reading_the_archive_is_understood() {
    let server = server();
    server.inject(Call::Upload, 1, 9, Fault::AnswerUnread(413));

    let (result, _) = upload(&server, &noise(16 << 20)).await;

    assert!(matches!(result, Err(UploadError::TooLarge)), "{result:?}");
    assert_eq!(server.exchanges().len(), 1);
}

#[tokio::test]
async fn a_slow_reader_gets_it_all() {
    let server = server();
    let slow = Fault::ReadSlowly(Duration::from_millis(20));
    server.inject(Call::Upload, 1, 1, slow);
    let content = noise(1 << 20);

    upload(&server, &content).await.0.unwrap();

    assert!(only_upload(&server) == content);
}

#[tokio::test]
async fn what_gitlab_says_against_an_artifact_is_told() {
    let server = server();
    let answer = Answer::message(400, "duplicate variables");
    server.inject(Call::Upload, 1, 3, Fault::Answer(answer));

    let (result, said) = upload(&server, b"x").await;

    assert!(matches!(result, Err(UploadError::Failed)));
    assert_eq!(server.exchanges().len(), 3);
    let line = &said.messages()[0];
    assert!(line.starts_with("WARNING: "), "{line}");
    assert!(
        line.contains("artifacts: 400 Bad Request (duplicate variables)"),
        "{line}"
    );
}

#[tokio::test]
async fn a_redirect_within_gitlab_takes_archive_and_token_along() {
    let server = server();
    let target = format!("/api/v4/jobs/{JOB}/artifacts?artifact_type=archive");
    server.inject(Call::Upload, 1, 1, Fault::redirect(307, &target));

    upload(&server, b"archive").await.0.unwrap();

    assert_eq!(only_upload(&server), b"archive");
    assert_eq!(server.exchanges()[1].header("job-token"), TOKEN);
}

#[tokio::test]
async fn a_redirect_to_an_object_storage_takes_the_archive_and_not_the_token() {
    for status in [307, 308] {
        let (server, storage) = (server(), GitLab::start());
        let target = format!("{}/storage/a?signature=s3cret", storage.url());
        server.inject(Call::Upload, 1, 1, Fault::redirect(status, &target));

        let (result, said) = upload(&server, b"archive").await;

        result.unwrap();
        assert_eq!(storage.storage("a").unwrap(), b"archive");
        let arrived = &storage.exchanges()[0];
        assert_eq!(arrived.header("job-token"), "");
        assert_eq!(arrived.target(), "/storage/a?signature=s3cret");
        assert!(!said.err.contains("s3cret"), "{}", said.err);
    }
}

#[tokio::test]
async fn a_redirect_from_https_to_http_is_refused_and_not_tried_again() {
    let (server, plain) = (tls_server(), GitLab::start());
    let target = format!("{}/storage/a", plain.url());
    server.inject(Call::Upload, 1, 9, Fault::redirect(307, &target));

    let (result, said) = upload(&server, b"archive").await;

    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("refused a redirect from https to http"),
        "{error}"
    );
    assert!(
        said.messages()[0].ends_with("error"),
        "{:?}",
        said.messages()
    );
    assert!(plain.exchanges().is_empty());
    assert_eq!(server.exchanges().len(), 1);
}

#[tokio::test]
async fn a_circle_of_redirects_ends() {
    let server = server();
    server.inject(
        Call::Upload,
        1,
        100,
        Fault::redirect(307, &format!("/api/v4/jobs/{JOB}/artifacts")),
    );

    let (result, _) = upload(&server, b"x").await;

    assert!(
        result
            .unwrap_err()
            .to_string()
            .contains("stopped after 10 redirects")
    );
    // Each of three tries.
    assert_eq!(server.exchanges().len(), 33);
}

/// gitlab-runner, wire §1.14.
#[tokio::test]
async fn a_redirect_to_nowhere_is_a_failure_like_others() {
    let prefix = "Uploading artifacts as \"archive\" to coordinator...";
    for (answer, line) in [
        (
            Answer::status(307),
            format!("ERROR: {prefix} 307 Temporary Redirect empty location"),
        ),
        (Answer::status(302), format!("WARNING: {prefix} 302 Found")),
        (
            Answer::status(307).header("Location", "gopher://a/b"),
            format!("ERROR: {prefix} error"),
        ),
    ] {
        let server = server();
        server.inject(Call::Upload, 1, 9, Fault::Answer(answer));

        let (result, said) = upload(&server, b"x").await;

        result.unwrap_err();
        let retrying = "WARNING: Retrying...".to_owned();
        assert_eq!(
            said.messages(),
            [line.clone(), retrying.clone(), line.clone(), retrying, line]
        );
        assert_eq!(server.exchanges().len(), 3);
    }
}

/// gitlab-runner, wire §3.2 and wire §8.10: each try has up to five requests of its own (gitlab-runner, wire §1.3).
#[tokio::test]
async fn a_gitlab_without_time_is_tried_six_times() {
    let server = server();
    server.inject(Call::Upload, 1, 100, Fault::status(503));

    let (result, said) = upload(&server, b"x").await;

    assert_eq!(result.unwrap_err().to_string(), "service unavailable");
    let count = |text: &str| said.messages().iter().filter(|line| *line == text).count();
    assert_eq!(count("WARNING: Retrying..."), 5);
    assert_eq!(
        count(
            "ERROR: Uploading artifacts as \"archive\" to coordinator... 503 Service Unavailable"
        ),
        6
    );
    assert_eq!(count("Waiting before making the next call"), 24);
    assert_eq!(server.exchanges().len(), 30);
}

#[tokio::test]
async fn other_redirects_do_not_take_the_archive_along() {
    let server = server();
    server.inject(Call::Upload, 1, 1, Fault::redirect(302, "/storage/a"));
    server.put_storage("a", b"something");

    let (result, _) = upload(&server, b"archive").await;

    // A page that answers 200 has not taken the artifact: it is tried again, where GitLab takes it.
    result.unwrap();
    let exchanges = server.exchanges();
    assert_eq!(exchanges[1].request.method, "GET");
    assert_eq!(exchanges[1].body_bytes, 0);
    assert_eq!(exchanges.len(), 3);
}

/// GitLab Runner packs while it uploads: what cannot be packed is an upload that fails.
#[tokio::test]
async fn an_archive_that_cannot_be_made_is_told_as_often_as_an_upload_is_tried() {
    let server = server();
    let url = server.url();
    let store = GitLabArtifacts::new(url.clone(), None, Proxies::default(), "vk".to_owned());
    let unmade = Unmade {
        job_id: JOB,
        format: "raw",
        artifact_type: "junit",
        expire_in: "",
        meter: Some(Duration::from_secs(1)),
        reason: "only one file can be sent as raw",
    };

    let (error, said) = noting(async |notes| store.unmade(unmade, notes).await).await;

    let url = format!("{url}/api/v4/jobs/{JOB}/artifacts?artifact_format=raw&artifact_type=junit");
    let text = format!(
        "couldn't execute POST against {url}: Post \"{url}\": only one file can be sent as raw"
    );
    assert_eq!(error.to_string(), text);
    let line = "ERROR: Uploading artifacts as \"junit\" to coordinator... error".to_owned();
    let retrying = "WARNING: Retrying...".to_owned();
    assert_eq!(
        said.messages(),
        [line.clone(), retrying.clone(), line.clone(), retrying, line]
    );
    let lines: Vec<&str> = said.out.split('\r').skip(1).map(str::trim_end).collect();
    assert_eq!(
        lines, ["Uploading artifacts 0 B (0 B/s)"; 6],
        "{}",
        said.out
    );
    assert!(server.exchanges().is_empty());
}

#[tokio::test]
async fn progress_is_told_when_it_is_asked_for() {
    let server = server();
    server.inject(
        Call::Upload,
        1,
        1,
        Fault::ReadSlowly(Duration::from_millis(50)),
    );
    let folder = TempDir::new().unwrap();
    let file = spooled(&noise(2 << 20), folder.path()).await;
    let client = Client::new(&server.url(), None, &Proxies::default(), "vk 0 linux/amd64").unwrap();

    let (result, said) = noting(async |notes| {
        let upload = Upload {
            job_id: JOB,
            token: TOKEN,
            file: &file,
            file_name: "a.zip",
            format: "zip",
            artifact_type: "archive",
            expire_in: "",
            meter: Some(Duration::from_millis(20)),
        };
        client.upload(&upload, notes).await
    })
    .await;

    result.unwrap();
    assert!(
        said.out
            .starts_with("\rUploading artifacts 0 B (0 B/s)                \r"),
        "{}",
        said.out
    );
    assert!(
        said.out.contains("\rUploading artifacts 2.10 MB ("),
        "{}",
        said.out
    );
    assert!(said.out.ends_with('\n'));
}
