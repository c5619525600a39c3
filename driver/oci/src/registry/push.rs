//! Uploads (OCI distribution spec 1.1, "Push").

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderValue};

use super::authorize::Access;
use super::client::{Operation, RegistryClient};
use super::digest::Digest;
use super::error::{RegistryError, RegistryErrorKind};
use super::exchange::{BlobSource, Call, location_of};
use super::reference::{Reference, Repository};
use super::transport::Failure;
use vk_http::locate;

/// What an upload had to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The registry had it.
    AlreadyThere,
    /// It was sent.
    Uploaded,
}

impl RegistryClient {
    /// Whether the registry has a blob.
    ///
    /// # Errors
    ///
    /// If it does not tell.
    pub async fn blob_exists(
        &self,
        repository: &Repository,
        digest: Digest,
    ) -> Result<bool, RegistryError> {
        let operation = Operation {
            name: "look for",
            subject: format!("{repository}@{digest}"),
        };
        let mut waits = self.retries(true);
        loop {
            match self.try_blob_exists(repository, digest, Access::Pull).await {
                Ok(exists) => return Ok(exists),
                Err(failure) => waits
                    .wait(failure)
                    .await
                    .map_err(|kind| operation.failed(repository, kind))?,
            }
        }
    }

    /// Uploads a blob of `size` bytes, unless the registry has it.
    ///
    /// # Errors
    ///
    /// If it cannot be uploaded.
    pub async fn push_blob(
        &self,
        repository: &Repository,
        digest: Digest,
        size: u64,
        source: BlobSource,
    ) -> Result<Pushed, RegistryError> {
        let operation = Operation {
            name: "upload",
            subject: format!("{repository}@{digest}"),
        };
        let mut waits = self.retries(true);
        loop {
            match self.try_push_blob(repository, digest, size, &source).await {
                Ok(pushed) => return Ok(pushed),
                Err(failure) => waits
                    .wait(failure)
                    .await
                    .map_err(|kind| operation.failed(repository, kind))?,
            }
        }
    }

    /// Uploads a manifest of the media type `media_type` and answers its digest.
    ///
    /// # Errors
    ///
    /// If it cannot be uploaded.
    pub async fn push_manifest(
        &self,
        reference: &Reference,
        media_type: &str,
        bytes: Vec<u8>,
    ) -> Result<Digest, RegistryError> {
        let operation = Operation {
            name: "upload",
            subject: reference.to_string(),
        };
        let repository = reference.repository();
        let digest = Digest::of(&bytes);
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let source = BlobSource::Bytes(bytes.into());
        let mut waits = self.retries(true);
        loop {
            let sent = self
                .try_push_manifest(reference, media_type, &source, size)
                .await;
            match sent {
                Ok(()) => return Ok(digest),
                Err(failure) => waits
                    .wait(failure)
                    .await
                    .map_err(|kind| operation.failed(repository, kind))?,
            }
        }
    }

    async fn try_blob_exists(
        &self,
        repository: &Repository,
        digest: Digest,
        access: Access,
    ) -> Result<bool, Failure> {
        let url = self.url(repository, "blobs", &digest.to_string()).await?;
        let mut call = Call {
            method: Method::HEAD,
            home: url.origin(),
            url,
            headers: Vec::new(),
            body: None,
            repository,
            access,
        };
        let mut answer = self.send(&call).await;
        // Storages refuse what their link was not signed for. The body of the answer is not read.
        if let Err(Failure::Uncertain(RegistryErrorKind::StorageRefused { .. })) = answer {
            call.method = Method::GET;
            answer = self.send(&call).await;
        }
        match answer {
            Ok(_) => Ok(true),
            Err(Failure::Final(RegistryErrorKind::NotFound { .. })) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    async fn try_push_blob(
        &self,
        repository: &Repository,
        digest: Digest,
        size: u64,
        source: &BlobSource,
    ) -> Result<Pushed, Failure> {
        let access = Access::PullPush;
        if self.try_blob_exists(repository, digest, access).await? {
            return Ok(Pushed::AlreadyThere);
        }
        let url = self.url(repository, "blobs", "uploads/").await?;
        let begin = Call {
            method: Method::POST,
            home: url.origin(),
            url,
            headers: Vec::new(),
            body: Some((BlobSource::Bytes(bytes::Bytes::new()), 0)),
            repository,
            access,
        };
        let reply = self.send(&begin).await?;
        let mut url = locate(location_of(reply.headers()), reply.url())?;
        let from = &begin.url;
        if from.scheme() == "https" && url.scheme() != "https" {
            let what = "an upload's location that leaves https".to_owned();
            return Err(RegistryErrorKind::Protocol(what).into());
        }
        url.query_pairs_mut()
            .append_pair("digest", &digest.to_string());
        let put = Call {
            method: Method::PUT,
            home: begin.home.clone(),
            url,
            headers: vec![(
                CONTENT_TYPE,
                HeaderValue::from_static("application/octet-stream"),
            )],
            body: Some((source.clone(), size)),
            repository,
            access,
        };
        self.send(&put).await?;
        Ok(Pushed::Uploaded)
    }

    async fn try_push_manifest(
        &self,
        reference: &Reference,
        media_type: &str,
        source: &BlobSource,
        size: u64,
    ) -> Result<(), Failure> {
        let repository = reference.repository();
        let media_type = HeaderValue::from_str(media_type)
            .map_err(|error| RegistryErrorKind::Client(error.to_string()))?;
        let name = reference.manifest_name();
        let url = self.url(repository, "manifests", &name).await?;
        let call = Call {
            method: Method::PUT,
            home: url.origin(),
            url,
            headers: vec![(CONTENT_TYPE, media_type)],
            body: Some((source.clone(), size)),
            repository,
            access: Access::PullPush,
        };
        self.send(&call).await?;
        Ok(())
    }
}
