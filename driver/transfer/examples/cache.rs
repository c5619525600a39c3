//! Stores an archive as a cache, as a job does once it has packed one: what `bench/cache` measures on the host.
//!
//!     cache store REGISTRY ARCHIVE
//!
//! REGISTRY is `host:port` without TLS or login. Writes the steps and how long each took to standard error.

#![allow(clippy::expect_used, clippy::panic, reason = "a tool for measuring")]

use std::path::Path;
use std::time::Instant;

use tokio::io::AsyncReadExt;
use vk_oci::{RegistryClient, RegistryOptions, Repository};
use vk_trace::output_channel;
use vk_transfer::{ProgressReporting, ProjectCaches, repository};
use vk_transfer::{Spool, Spooled};

/// Bytes of an archive that are moved at a time: what comes from a guest in one frame.
const CHUNK: usize = 64 << 10;

#[tokio::main]
async fn main() {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let ["store", registry, archive] = args.iter().map(String::as_str).collect::<Vec<_>>()[..]
    else {
        panic!("usage: cache store REGISTRY ARCHIVE");
    };
    let name = repository("https://gitlab.example.com", 1).expect("a name");
    let repository = Repository::new(registry, &name).expect("a repository");
    let client = RegistryClient::new(RegistryOptions::default());
    let store = ProjectCaches::registry(client, repository, false);

    let archive = Path::new(archive);
    let began = Instant::now();
    let spooled = spooled(archive).await;
    tracing::debug!(took_us = began.elapsed().as_micros(), "spooled the archive");
    let (output, _) = output_channel();
    let silent = ProgressReporting {
        output: &output,
        every: None,
    };
    let stored = store.store("bench", spooled, silent).await;
    tracing::debug!(stored = ?stored.expect("storing the cache"), "stored the cache");
}

/// The archive as a job has it: in a file beside it, its digest known.
async fn spooled(archive: &Path) -> Spooled {
    let folder = archive.parent().unwrap_or(Path::new("."));
    let mut file = tokio::fs::File::open(archive).await.expect("the archive");
    let mut spool = Spool::create(folder).expect("a spool");
    let mut chunk = vec![0; CHUNK];
    loop {
        let len = file.read(&mut chunk).await.expect("reading the archive");
        if len == 0 {
            break;
        }
        let bytes = chunk.get(..len).unwrap_or_default();
        spool.write(bytes).await.expect("keeping the archive");
    }
    spool.finish().await.expect("keeping the archive")
}
