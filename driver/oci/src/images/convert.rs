//! From an image's layers in a registry to a root file system in a workspace.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use vk_erofs::{Converter, Limits};

use super::error::PullCause;
use super::event::PullEvent;
use super::feed::{Feed, FeedError, Sink, sniff, through_file, through_memory};
use super::manifest::Part;
use super::store::Workspace;
use crate::registry::{BlobSize, Digest, Reference, RegistryClient};

/// How many layers are downloaded at the same time; what Docker does (`max-concurrent-downloads`).
const CONCURRENT: usize = 3;

/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);

/// An image's layers and what they must unpack to.
pub(crate) struct Layers<'a> {
    pub(crate) reference: &'a Reference,
    pub(crate) parts: &'a [Part],
    pub(crate) diff_ids: &'a [Digest],
    /// What they may unpack to altogether, in bytes.
    pub(crate) max_bytes: u64,
}

/// Downloads and converts `layers`; answers the length of the root file system, which is not synced.
pub(crate) async fn layers(
    client: &RegistryClient,
    layers: &Layers<'_>,
    workspace: &Workspace,
    progress: &(dyn Fn(PullEvent<'_>) + Sync),
) -> Result<u64, PullCause> {
    let image = layers.reference.to_string();
    let internal = |source: io::Error| PullCause::Internal {
        image: image.clone(),
        source,
    };
    let received: Arc<[AtomicU64]> = layers.parts.iter().map(|_| AtomicU64::new(0)).collect();
    let mut sinks = Vec::new();
    let mut feeds = Vec::new();
    for number in 0..layers.parts.len() {
        let (sink, feed) = if number == 0 {
            through_memory()
        } else {
            through_file(workspace.layer(number))
        };
        sinks.push(sink);
        feeds.push(feed);
    }
    let rootfs = create(&workspace.rootfs()?).map_err(internal)?;
    let work = ConvertWork {
        image: image.clone(),
        parts: layers.parts.to_vec(),
        diff_ids: layers.diff_ids.to_vec(),
        limits: Limits {
            max_bytes: layers.max_bytes,
            ..Limits::default()
        },
        spools: (0..layers.parts.len())
            .map(|n| workspace.layer(n))
            .collect(),
    };
    let (done_sender, mut done) = oneshot::channel();
    std::thread::Builder::new()
        .name("convert".to_owned())
        .spawn(move || {
            // Nobody waits any more when the pull was dropped.
            let _ = done_sender.send(work.run(rootfs, feeds));
        })
        .map_err(internal)?;
    // Dropped with the pull: the downloads end, and so does the converter, which waits for them.
    let mut downloads = start(client, layers, sinks, &received);
    let mut told = vec![0; layers.parts.len()];
    let mut tick = tokio::time::interval(TICK);
    let mut failure = None;
    let end = loop {
        tokio::select! {
            end = &mut done => break end,
            // The converter ends soon after one that failed.
            Some(download) = downloads.join_next() => failure = failure.or(failed(download)),
            _ = tick.tick() => tell(&received, &mut told, progress),
        }
        if failure.is_some() {
            downloads.abort_all();
        }
    };
    // The converter knows of a download that failed only that it broke off.
    downloads.abort_all();
    while let Some(download) = downloads.join_next().await {
        failure = failure.or(failed(download));
    }
    tell(&received, &mut told, progress);
    match failure {
        Some(FeedError::Registry(error)) => return Err(error.into()),
        Some(FeedError::File(error)) => return Err(internal(error)),
        None => {}
    }
    end.map_err(|_| internal(io::Error::other("the converter's thread ended")))?
}

/// Why a download ended without its layer, unless it was told to.
fn failed(end: Result<Result<(), FeedError>, JoinError>) -> Option<FeedError> {
    match end {
        Ok(end) => end.err(),
        Err(error) if error.is_cancelled() => None,
        Err(error) => Some(FeedError::File(io::Error::other(error))),
    }
}

/// Starts the downloads, [`CONCURRENT`] at a time, in the order of the layers.
fn start(
    client: &RegistryClient,
    layers: &Layers<'_>,
    sinks: Vec<Sink>,
    received: &Arc<[AtomicU64]>,
) -> JoinSet<Result<(), FeedError>> {
    let parts = layers.parts.to_vec();
    let queue: VecDeque<_> = parts.into_iter().zip(sinks).enumerate().collect();
    let queue = Arc::new(Mutex::new(queue));
    let mut downloads = JoinSet::new();
    for _ in 0..CONCURRENT {
        let (client, queue, received) = (client.clone(), Arc::clone(&queue), Arc::clone(received));
        let repository = layers.reference.repository().clone();
        downloads.spawn(async move {
            let next = || {
                queue
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .pop_front()
            };
            while let Some((number, (part, sink))) = next() {
                let size = BlobSize::Exactly(part.size);
                let blob = client
                    .blob(&repository, part.digest, size)
                    .await
                    .map_err(FeedError::Registry)?;
                if let Some(received) = received.get(number) {
                    sink.fill(blob, received).await?;
                }
            }
            Ok(())
        });
    }
    downloads
}

/// Tells of the layers of which more has come.
fn tell(received: &[AtomicU64], told: &mut [u64], progress: &(dyn Fn(PullEvent<'_>) + Sync)) {
    for (layer, (received, told)) in received.iter().zip(told).enumerate() {
        let bytes = received.load(Ordering::Relaxed);
        if bytes != *told {
            *told = bytes;
            progress(PullEvent::Received { layer, bytes });
        }
    }
}

/// What the converter's thread has to do.
struct ConvertWork {
    image: String,
    parts: Vec<Part>,
    diff_ids: Vec<Digest>,
    limits: Limits,
    spools: Vec<std::path::PathBuf>,
}

impl ConvertWork {
    fn run(self, rootfs: File, feeds: Vec<Feed>) -> Result<u64, PullCause> {
        let disk = |source| PullCause::Disk {
            image: self.image.clone(),
            source,
        };
        let mut converter = Converter::new(rootfs, self.limits).map_err(disk)?;
        let layers = self.parts.iter().zip(&self.diff_ids).zip(&self.spools);
        for (((part, expected), spool), feed) in layers.zip(feeds) {
            let layer = part.digest;
            let failed = |source| PullCause::Layer {
                image: self.image.clone(),
                layer,
                source,
            };
            let (compression, mut stream) =
                sniff(feed).map_err(|error| failed(vk_erofs::ConvertError::Read(error)))?;
            let summary = converter
                .add_layer(&mut stream, compression)
                .map_err(failed)?;
            let found = Digest::from_sha256(summary.diff_id);
            if found != *expected {
                return Err(PullCause::DiffId {
                    image: self.image,
                    layer,
                    expected: *expected,
                    found,
                });
            }
            // Its room is needed; the first layer has no file.
            let _ = std::fs::remove_file(spool);
        }
        let summary = converter.finish().map_err(disk)?;
        Ok(summary.image_bytes)
    }
}

fn create(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}
