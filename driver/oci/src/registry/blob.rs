//! Downloads of blobs: verified while they stream, resumed where they broke off.

use std::collections::VecDeque;
use std::fmt;

use bytes::{Buf, Bytes};
use reqwest::header::{CONTENT_RANGE, HeaderValue, RANGE};
use reqwest::{Method, StatusCode};

use super::authorize::Access;
use super::client::{Operation, RegistryClient, Waits};
use super::digest::{Digest, Hasher};
use super::error::{RegistryError, RegistryErrorKind};
use super::exchange::{Call, Reply};
use super::reference::Repository;
use super::transport::Failure;

/// How large a blob may be, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobSize {
    /// As its descriptor says.
    Exactly(u64),
    /// Unknown, but no larger than this.
    AtMost(u64),
}

impl BlobSize {
    fn limit(self) -> u64 {
        match self {
            Self::Exactly(size) | Self::AtMost(size) => size,
        }
    }
}

/// A blob on its way.
pub struct Blob {
    client: RegistryClient,
    operation: Operation,
    digest: Digest,
    size: BlobSize,
    /// Where to get it, the present place first.
    places: VecDeque<Repository>,
    reply: Option<Reply>,
    /// Bytes of the reply that were handed out before.
    skip: u64,
    /// Bytes handed out.
    offset: u64,
    hasher: Option<Hasher>,
    waits: Waits,
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blob")
            .field("digest", &self.digest)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl RegistryClient {
    /// Begins to download a blob: returns when the registry has begun to send it.
    ///
    /// # Errors
    ///
    /// If the registry does not send it.
    pub async fn blob(
        &self,
        repository: &Repository,
        digest: Digest,
        size: BlobSize,
    ) -> Result<Blob, RegistryError> {
        let places: VecDeque<_> = self.places(repository).into();
        let waits = self.retries(places.len() == 1);
        let mut blob = Blob {
            client: self.clone(),
            operation: Operation {
                name: "download",
                subject: format!("{repository}@{digest}"),
            },
            digest,
            size,
            places,
            reply: None,
            skip: 0,
            offset: 0,
            hasher: Some(Hasher::default()),
            waits,
        };
        blob.connect().await?;
        Ok(blob)
    }
}

impl Blob {
    /// The next bytes; `None` when all have come and their digest is right. Bytes of a blob that ends in an error
    /// must not be used.
    ///
    /// # Errors
    ///
    /// If the rest cannot be had, or the whole is not what was asked for.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, RegistryError> {
        loop {
            let Some(reply) = &mut self.reply else {
                if self.hasher.is_none() {
                    return Ok(None);
                }
                self.connect().await?;
                continue;
            };
            let failure = match reply.chunk().await {
                Ok(Some(chunk)) => match self.take(chunk) {
                    Ok(chunk) if chunk.is_empty() => continue,
                    Ok(chunk) => return Ok(Some(chunk)),
                    Err(kind) => return Err(self.failed(kind)),
                },
                Ok(None) => match self.size {
                    // Servers that tell no size end early like this.
                    BlobSize::Exactly(size) if self.offset < size && reply.size().is_none() => {
                        Failure::lost(format!("the connection ended at byte {}", self.offset))
                    }
                    _ => return self.finish(),
                },
                // Only the end's end is missing.
                Err(_) if self.size == BlobSize::Exactly(self.offset) => return self.finish(),
                Err(failure) => failure,
            };
            self.reply = None;
            self.recover(failure).await?;
        }
    }

    /// Counts and hashes `chunk`, without what was handed out before.
    fn take(&mut self, mut chunk: Bytes) -> Result<Bytes, RegistryErrorKind> {
        let length = |chunk: &Bytes| u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        let known = self.skip.min(length(&chunk));
        chunk.advance(usize::try_from(known).unwrap_or(usize::MAX));
        self.skip -= known;
        self.offset = self.offset.saturating_add(length(&chunk));
        if self.offset > self.size.limit() {
            return Err(match self.size {
                BlobSize::Exactly(expected) => RegistryErrorKind::SizeMismatch {
                    expected,
                    found: self.offset,
                },
                BlobSize::AtMost(limit) => RegistryErrorKind::TooLarge { limit },
            });
        }
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&chunk);
        }
        self.waits.brought(length(&chunk));
        Ok(chunk)
    }

    fn finish(&mut self) -> Result<Option<Bytes>, RegistryError> {
        self.reply = None;
        let Some(hasher) = self.hasher.take() else {
            return Ok(None);
        };
        if let BlobSize::Exactly(expected) = self.size
            && self.offset != expected
        {
            let found = self.offset;
            return Err(self.failed(RegistryErrorKind::SizeMismatch { expected, found }));
        }
        let found = hasher.finish();
        if found == self.digest {
            return Ok(None);
        }
        Err(self.failed(RegistryErrorKind::DigestMismatch {
            expected: self.digest,
            found,
            size: self.offset,
        }))
    }

    /// Asks for the rest.
    async fn connect(&mut self) -> Result<(), RegistryError> {
        loop {
            match self.ask().await {
                Ok((reply, skip)) => {
                    self.reply = Some(reply);
                    self.skip = skip;
                    return Ok(());
                }
                Err(failure) => self.recover(failure).await?,
            }
        }
    }

    /// An answer that has the rest, and how much of it is known.
    async fn ask(&self) -> Result<(Reply, u64), Failure> {
        let Some(place) = self.places.front() else {
            return Err(RegistryErrorKind::Client("no place to ask".to_owned()).into());
        };
        let mut headers = Vec::new();
        if self.offset > 0 {
            let range = HeaderValue::try_from(format!("bytes={}-", self.offset))
                .map_err(|error| RegistryErrorKind::Client(error.to_string()))?;
            headers.push((RANGE, range));
        }
        let digest = self.digest.to_string();
        let url = self.client.url(place, "blobs", &digest).await?;
        let call = Call {
            method: Method::GET,
            home: url.origin(),
            url,
            headers,
            body: None,
            repository: place,
            access: Access::Pull,
        };
        let reply = self.client.send(&call).await?;
        if reply.status() != StatusCode::PARTIAL_CONTENT {
            return Ok((reply, self.offset));
        }
        // RFC 9110, section 14.4: `bytes <first>-<last>/<size>`.
        let first = reply
            .headers()
            .get(CONTENT_RANGE)
            .and_then(|range| range.to_str().ok()?.strip_prefix("bytes "))
            .and_then(|range| range.split_once('-')?.0.trim().parse::<u64>().ok());
        if first == Some(self.offset) {
            Ok((reply, 0))
        } else {
            let what = "another part of the blob than was asked for".to_owned();
            Err(RegistryErrorKind::Protocol(what).into())
        }
    }

    /// Waits for a better time, or turns to the next place.
    async fn recover(&mut self, failure: Failure) -> Result<(), RegistryError> {
        let Err(kind) = self.waits.wait(failure).await else {
            return Ok(());
        };
        let error = self.failed(kind);
        if self.places.len() < 2 {
            return Err(error);
        }
        tracing::info!(error = %vk_text::chain(&error), "a mirror does not help");
        self.places.pop_front();
        self.waits = self.client.retries(self.places.len() == 1);
        Ok(())
    }

    fn failed(&self, kind: RegistryErrorKind) -> RegistryError {
        let (operation, digest) = (&self.operation, self.digest);
        match self.places.front() {
            Some(place) => operation.failed(place, kind),
            None => RegistryError {
                operation: operation.name,
                subject: operation.subject.clone(),
                host: digest.to_string(),
                kind: Box::new(kind),
            },
        }
    }
}
