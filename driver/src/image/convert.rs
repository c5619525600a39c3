//! From an image's layers in a registry to a root file system in a workspace.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
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
            through_file(spool_file(&workspace.layer(number)).map_err(internal)?)
        };
        sinks.push(sink);
        feeds.push(feed);
    }
    let rootfs = create(&workspace.rootfs()?).map_err(internal)?;
    let work = ConvertWork {
        image: image.clone(),
        parts: layers.parts.to_vec(),
        diff_ids: layers.diff_ids.to_vec(),
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
            Some(download) = downloads.join_next() => match download {
                Ok(Ok(())) => {}
                // The converter ends soon after.
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(error) => failure = failure.or_else(|| Some(FeedError::File(io::Error::other(error)))),
            },
            _ = tick.tick() => tell(&received, &mut told, progress),
        }
        if failure.is_some() {
            downloads.abort_all();
        }
    };
    tell(&received, &mut told, progress);
    match failure {
        Some(FeedError::Registry(error)) => return Err(error.into()),
        Some(FeedError::File(error)) => return Err(internal(error)),
        None => {}
    }
    end.map_err(|_| internal(io::Error::other("the converter's thread ended")))?
}

fn start(
    client: &RegistryClient,
    layers: &Layers<'_>,
    sinks: Vec<Sink>,
    received: &Arc<[AtomicU64]>,
) -> JoinSet<Result<(), FeedError>> {
    let turns = Arc::new(Semaphore::new(CONCURRENT));
    let mut downloads = JoinSet::new();
    for (number, (part, sink)) in layers.parts.iter().zip(sinks).enumerate() {
        let (client, part) = (client.clone(), *part);
        let repository = layers.reference.repository().clone();
        let (turns, received) = (Arc::clone(&turns), Arc::clone(received));
        downloads.spawn(async move {
            // Turns are given in the order they are asked for. The semaphore is never closed.
            let _turn = turns.acquire().await;
            let size = BlobSize::Exactly(part.size);
            let blob = client
                .blob(&repository, part.digest, size)
                .await
                .map_err(FeedError::Registry)?;
            match received.get(number) {
                Some(received) => sink.fill(blob, received).await,
                None => Ok(()),
            }
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
    spools: Vec<std::path::PathBuf>,
}

impl ConvertWork {
    fn run(self, rootfs: File, feeds: Vec<Feed>) -> Result<u64, PullCause> {
        let disk = |source| PullCause::Disk {
            image: self.image.clone(),
            source,
        };
        let mut converter = Converter::new(rootfs, Limits::default()).map_err(disk)?;
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

fn spool_file(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
}
