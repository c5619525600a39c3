//! One transfer, and what it wrote to the trace.

use std::path::Path;

use tempfile::TempDir;
use vk_http::Proxies;
use vk_tests::gitlab::GitLab;
use vk_trace::{Output, OutputSender, output_channel};
use vk_transfer::{Download, DownloadError, GitLab as Client, Upload, UploadError};
use vk_transfer::{Spool, Spooled};

/// The job of all tests.
pub(crate) const JOB: u64 = 4018;

/// Its token.
pub(crate) const TOKEN: &str = "glcbt-64_00000000000000004018";

/// What a transfer wrote.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Transcript {
    /// The messages, without colours, fields and padding.
    pub(crate) fn messages(&self) -> Vec<String> {
        self.err
            .lines()
            .map(|line| {
                let message = line.split("\x1b[0;m ").next().unwrap_or(line);
                let coloured = message
                    .strip_prefix('\x1b')
                    .and_then(|rest| rest.split_once('m'));
                coloured
                    .map_or(message, |(_, message)| message)
                    .trim_end()
                    .to_owned()
            })
            .collect()
    }

    /// No message, nor any field, holds the token.
    pub(crate) fn assert_no_secret(&self) {
        for text in [&self.out, &self.err] {
            assert!(!text.contains(TOKEN), "{text}");
        }
    }
}

/// Does `work` and collects its output.
pub(crate) async fn noting<T>(work: impl AsyncFnOnce(&OutputSender) -> T) -> (T, Transcript) {
    let (output, mut read) = output_channel();
    let collect = async {
        let mut said = Transcript::default();
        while let Some(note) = read.recv().await {
            let text = note.output.text();
            match note.output {
                Output::Stderr(_) => said.err += &text,
                _ => said.out += &text,
            }
        }
        said
    };
    let work = async {
        let result = work(&output).await;
        drop(output);
        result
    };
    let (result, said) = tokio::join!(work, collect);
    said.assert_no_secret();
    (result, said)
}

pub(crate) async fn spooled(content: &[u8], folder: &Path) -> Spooled {
    let mut spool = Spool::create(folder).unwrap();
    spool.write(content).await.unwrap();
    spool.finish().await.unwrap()
}

/// A server that knows the job.
pub(crate) fn server() -> GitLab {
    let server = GitLab::start();
    server.add_job(JOB, TOKEN);
    server
}

/// A server that knows the job, over TLS.
pub(crate) fn tls_server() -> GitLab {
    let server = GitLab::start_tls();
    server.add_job(JOB, TOKEN);
    server
}

pub(crate) fn client(server: &GitLab) -> Client {
    Client::new(
        &server.url(),
        Some(server.ca_pem()),
        &Proxies::default(),
        "vk 0 linux/amd64",
    )
    .unwrap()
}

/// Uploads `content` as the recordings do.
pub(crate) async fn upload(
    server: &GitLab,
    content: &[u8],
) -> (Result<(), UploadError>, Transcript) {
    let folder = TempDir::new().unwrap();
    let file = spooled(content, folder.path()).await;
    let client = client(server);
    noting(async |output| {
        let upload = Upload {
            job_id: JOB,
            token: TOKEN,
            file: &file,
            file_name: "main.zip",
            format: "zip",
            artifact_type: "archive",
            expire_in: "1 week",
            meter: None,
        };
        client.upload(&upload, output).await
    })
    .await
}

/// Downloads what the job left.
pub(crate) async fn download(
    server: &GitLab,
    direct: bool,
) -> (Result<Vec<u8>, DownloadError>, Transcript) {
    let folder = TempDir::new().unwrap();
    let client = client(server);
    noting(async |output| {
        let download = Download {
            job_id: JOB,
            token: TOKEN,
            direct,
            folder: folder.path(),
            meter: None,
        };
        let file = client.download(&download, output).await?;
        Ok(std::fs::read(file.path()).unwrap())
    })
    .await
}
