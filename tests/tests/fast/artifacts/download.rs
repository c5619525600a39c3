//! Downloads from a server that misbehaves, or sends them elsewhere.

use std::time::Duration;

use vk_tests::gitlab::{Answer, Call, Fault, GitLab};
use vk_tests::noise::noise;
use vk_transfer::DownloadError;

use super::kit::{JOB, TOKEN, download, server, tls_server};

const PREFIX: &str = "Downloading artifacts from coordinator...";

#[tokio::test]
async fn an_archive_arrives_whole_over_tls() {
    let server = tls_server();
    let content = noise(3 << 20);
    server.set_archive(JOB, &content);

    let (archive, said) = download(&server, false).await;

    assert!(archive.unwrap() == content);
    assert_eq!(said.messages(), [format!("{PREFIX} ok")]);
}

#[tokio::test]
async fn a_download_that_breaks_off_is_made_again_and_never_joined() {
    let server = server();
    let content = noise(1 << 20);
    server.set_archive(JOB, &content);
    server.inject(Call::Download, 1, 2, Fault::DropAfterSending(300_000));

    let (archive, said) = download(&server, true).await;

    assert!(archive.unwrap() == content);
    let (error, retry) = (
        format!("ERROR: {PREFIX} error"),
        "WARNING: Retrying...".to_owned(),
    );
    assert_eq!(
        said.messages(),
        [
            error.clone(),
            retry.clone(),
            error,
            retry,
            format!("{PREFIX} ok")
        ]
    );
    let targets: Vec<String> = server
        .exchanges()
        .iter()
        .map(|exchange| exchange.target().to_owned())
        .collect();
    let api = format!("/api/v4/jobs/{JOB}/artifacts?");
    assert_eq!(
        targets,
        [format!("{api}direct_download=true"), api.clone(), api]
    );
}

/// gitlab-runner, wire §3.5.
#[tokio::test]
async fn a_download_that_always_breaks_off_is_given_up_after_three_tries() {
    let server = server();
    server.set_archive(JOB, &noise(1 << 20));
    server.inject(Call::Download, 1, 9, Fault::DropAfterSending(1000));

    let (archive, _) = download(&server, false).await;

    let error = archive.unwrap_err();
    assert_eq!(error.to_string(), "invalid argument");
    assert_eq!(server.exchanges().len(), 3);
}

#[tokio::test]
async fn a_slow_server_is_waited_for() {
    let server = server();
    let content = noise(100_000);
    server.set_archive(JOB, &content);
    let slow = Fault::SendSlowly(5_000, Duration::from_millis(10));
    server.inject(Call::Download, 1, 1, slow);

    assert!(download(&server, false).await.0.unwrap() == content);
}

#[tokio::test]
async fn errors_that_pass_are_waited_out() {
    let server = server();
    server.set_archive(JOB, b"archive");
    server.inject(Call::Download, 1, 1, Fault::status(502));
    let busy = Answer::status(503).header("Retry-After", "1");
    server.inject(Call::Download, 2, 1, Fault::Answer(busy));

    let (archive, said) = download(&server, false).await;

    assert_eq!(archive.unwrap(), b"archive");
    let wait = "Waiting before making the next call".to_owned();
    assert_eq!(
        said.messages(),
        [wait.clone(), wait, format!("{PREFIX} ok")]
    );
}

/// gitlab-runner, wire §3.5.
#[tokio::test]
async fn what_is_not_there_or_not_ours_is_asked_for_once() {
    for (answer, word, last) in [
        (
            Answer::message(404, "404 Not Found"),
            "not found",
            "file does not exist",
        ),
        (
            Answer::message(401, "401 Unauthorized"),
            "unauthorized",
            "permission denied",
        ),
        (
            Answer::message(403, "403 Forbidden"),
            "forbidden",
            "permission denied",
        ),
        (
            Answer::status(403).body("<html>"),
            "forbidden",
            "permission denied",
        ),
    ] {
        let server = server();
        server.inject(Call::Download, 1, 9, Fault::Answer(answer));

        let (archive, said) = download(&server, true).await;

        assert_eq!(archive.unwrap_err().to_string(), last);
        assert_eq!(said.messages(), [format!("ERROR: {PREFIX} {word}")]);
        assert_eq!(server.exchanges().len(), 1);
    }
}

#[tokio::test]
async fn an_object_storage_gives_the_archive_and_sees_no_token() {
    let (server, storage) = (server(), GitLab::start());
    storage.put_storage("archive", b"from storage");
    let target = format!("{}/storage/archive?X-Amz-Signature=s3cret", storage.url());
    server.inject(Call::Download, 1, 1, Fault::redirect(302, &target));

    let (archive, said) = download(&server, true).await;

    assert_eq!(archive.unwrap(), b"from storage");
    // Another port of the same host.
    let direct = "Direct download from 127.0.0.1".to_owned();
    assert_eq!(said.messages(), [direct, format!("{PREFIX} ok")]);
    assert_eq!(storage.exchanges()[0].header("job-token"), "");
    assert_eq!(server.exchanges()[0].header("job-token"), TOKEN);
    assert!(!said.err.contains("s3cret"), "{}", said.err);
}

#[tokio::test]
async fn an_object_storages_refusal_is_told_in_its_words() {
    let (server, storage) = (server(), GitLab::start());
    let refusal = Answer::status(403)
        .header("Content-Type", "application/xml")
        .body("<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>");
    storage.inject(Call::Storage, 1, 9, Fault::Answer(refusal));
    let target = format!("{}/storage/archive", storage.url());
    server.inject(Call::Download, 1, 9, Fault::redirect(307, &target));

    let (archive, said) = download(&server, true).await;

    assert!(matches!(archive, Err(DownloadError::Denied)));
    assert!(
        said.err
            .contains("403 Forbidden (AccessDenied: Request has expired)"),
        "{}",
        said.err
    );
}

/// gitlab-runner, wire §1.15: of the direct try alone, whether the storage gives anything or not.
#[tokio::test]
async fn where_a_direct_download_leads_is_told_once() {
    let server = server();
    server.put_storage("archive", b"from storage");
    server.inject(Call::Storage, 1, 1, Fault::Drop);
    server.inject(
        Call::Download,
        1,
        9,
        Fault::redirect(307, "/storage/archive"),
    );

    let (archive, said) = download(&server, true).await;

    assert_eq!(archive.unwrap(), b"from storage");
    assert_eq!(
        said.messages(),
        [
            "Direct download from 127.0.0.1".to_owned(),
            format!("ERROR: {PREFIX} error"),
            "WARNING: Retrying...".to_owned(),
            format!("{PREFIX} ok"),
        ]
    );
}

/// gitlab-runner, wire §3.5: such an answer is one more status that gives no archive.
#[tokio::test]
async fn a_redirect_to_nowhere_is_asked_again() {
    for (answer, line) in [
        (Answer::status(302), format!("WARNING: {PREFIX} failed")),
        (
            Answer::status(302).header("Location", "gopher://a/b"),
            format!("ERROR: {PREFIX} error"),
        ),
    ] {
        let server = server();
        server.inject(Call::Download, 1, 9, Fault::Answer(answer));

        let (archive, said) = download(&server, true).await;

        assert_eq!(archive.unwrap_err().to_string(), "invalid argument");
        let retrying = "WARNING: Retrying...".to_owned();
        assert_eq!(
            said.messages(),
            [line.clone(), retrying.clone(), line.clone(), retrying, line]
        );
        assert_eq!(server.exchanges().len(), 3);
    }
}

#[tokio::test]
async fn nothing_is_downloaded_over_http_from_a_gitlab_that_speaks_https() {
    let (server, plain) = (tls_server(), GitLab::start());
    plain.put_storage("archive", b"forged");
    let target = format!("{}/storage/archive", plain.url());
    server.inject(Call::Download, 1, 9, Fault::redirect(302, &target));

    let (archive, _) = download(&server, true).await;

    assert!(matches!(archive, Err(DownloadError::Refused(_))));
    assert!(plain.exchanges().is_empty());
    assert_eq!(server.exchanges().len(), 1);
}

/// gitlab-runner, wire §1.4.
#[tokio::test]
async fn another_jobs_token_opens_nothing() {
    let server = GitLab::start();
    server.add_job(JOB, "another");
    server.set_archive(JOB, b"x");

    assert!(matches!(
        download(&server, false).await.0,
        Err(DownloadError::Denied)
    ));
}
