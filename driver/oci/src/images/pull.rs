//! Pulls: from a reference to an image of the store.

use std::sync::Arc;
use std::time::Duration;

use vk_hub_proto::job::{RegistryCredential, Secret};

use super::convert;
use super::error::{PullCause, PullError};
use super::event::PullEvent;
use super::login::{self, JobLogins};
use super::name::{self, NameError};
use super::platform::Platform;
use super::policy::PullPolicy;
use super::resolve::Resolved;
use super::room::Room;
use super::store::{EntryRecord, Key, PullLock, Store, StoreError, StoredImage};
use super::{ImageSettings, Progress};
use crate::registry::{Digest, Reference, RegistryClient, RegistryOptions};

/// How often it is looked whether another process is done with an image.
const WAIT: Duration = Duration::from_millis(100);

/// An image that is wanted.
#[derive(Clone, Debug)]
pub struct PullRequest {
    /// The image as it was named, variables expanded.
    pub reference: String,
    /// Policies that the job names, in order; empty for none.
    pub policies: Vec<String>,
    /// Policies that the person at this host chose, in order; empty for none. They go before all others, and the
    /// configuration's list of allowed ones, which is for jobs, does not bind them.
    pub own_policies: Vec<PullPolicy>,
    /// The policy, if neither the job nor the configuration names one.
    pub default_policy: PullPolicy,
    /// `os/architecture[/variant]`; `None` for the guest's.
    pub platform: Option<String>,
    /// The job's variable `DOCKER_AUTH_CONFIG`.
    pub docker_auth_config: Option<Secret>,
    /// The job's registry logins.
    pub registry_credentials: Vec<RegistryCredential>,
}

impl PullRequest {
    /// A request for `reference`, without a job.
    #[must_use]
    pub fn new(reference: &str, default_policy: PullPolicy) -> Self {
        Self {
            reference: reference.to_owned(),
            policies: Vec::new(),
            own_policies: Vec::new(),
            default_policy,
            platform: None,
            docker_auth_config: None,
            registry_credentials: Vec::new(),
        }
    }
}

/// The images of this host. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ImageStore {
    pub(super) store: Store,
    settings: Arc<ImageSettings>,
}

impl ImageStore {
    /// Opens, and if need be makes, the store below the state folder `state`, and removes what killed pulls left
    /// there. Works on the disk.
    ///
    /// # Errors
    ///
    /// If it cannot be made or written.
    pub fn open(state: &std::path::Path, settings: ImageSettings) -> Result<Self, StoreError> {
        Ok(Self {
            store: Store::open(&state.join("images"))?,
            settings: Arc::new(settings),
        })
    }

    /// What all images together may take on the disk, in bytes.
    pub(super) fn max_bytes(&self) -> u64 {
        self.settings.max_bytes
    }

    /// The image that `request` asks for: this host's, or pulled, as the policies say.
    ///
    /// # Errors
    ///
    /// If it cannot be had. Dropping the future ends the pull.
    pub async fn ensure(
        &self,
        request: &PullRequest,
        progress: Progress<'_>,
    ) -> Result<StoredImage, PullError> {
        let image = &request.reference;
        let reference = match name::parse(image) {
            Err(error @ (NameError::Reserved { .. } | NameError::Local(_))) => {
                return Err(PullError::Reserved(error));
            }
            reference => reference,
        };
        let settings = &self.settings.policies;
        let policies = match request.own_policies.as_slice() {
            [] => settings.effective(image, &request.policies, request.default_policy)?,
            own => own.to_vec(),
        };
        progress(PullEvent::Policies(&policies));
        let mut last = None;
        for (number, policy) in (1..).zip(policies.iter().copied()) {
            if number > 1 {
                progress(PullEvent::Attempt { number, policy });
            }
            let attempt = match &reference {
                Ok(reference) => self.attempt(request, reference, policy, progress).await,
                Err(error) => Err(PullCause::Name(error.clone())),
            };
            match attempt {
                Ok(image) => return Ok(image),
                Err(cause) => {
                    progress(PullEvent::Failed {
                        policy,
                        cause: &cause,
                    });
                    last = Some(cause);
                }
            }
        }
        let cause = last.unwrap_or_else(|| PullCause::NotHere {
            image: image.clone(),
        });
        Err(PullError::Failed {
            image: image.clone(),
            policies,
            cause: Box::new(cause),
        })
    }

    async fn attempt(
        &self,
        request: &PullRequest,
        reference: &Reference,
        policy: PullPolicy,
        progress: Progress<'_>,
    ) -> Result<StoredImage, PullCause> {
        let platform = match &request.platform {
            Some(platform) => platform.parse()?,
            None => Platform::of_guest(),
        };
        if policy != PullPolicy::Always
            && let Some(image) = self.local(reference, &platform).await?
        {
            progress(PullEvent::Found(policy));
            progress(PullEvent::Resolved(image.digest()));
            return Ok(image);
        }
        if policy == PullPolicy::Never {
            let image = reference.to_string();
            return Err(PullCause::NotHere { image });
        }
        let pull = Pull {
            images: self,
            reference,
            platform: &platform,
            image: reference.to_string(),
            client: self.client(request, reference, progress).await,
            progress,
        };
        progress(PullEvent::Pulling {
            reference,
            platform: request.platform.as_deref(),
        });
        pull.run().await
    }

    /// What the reference means on this host.
    async fn local(
        &self,
        reference: &Reference,
        platform: &Platform,
    ) -> Result<Option<StoredImage>, PullCause> {
        let (reference, platform) = (reference.clone(), platform.clone());
        self.blocking(move |store| match store.look_up(&reference, &platform)? {
            Some((key, digest)) => store.get(&key, &reference, digest),
            None => Ok(None),
        })
        .await
    }

    /// A client with the login that fits.
    async fn client(
        &self,
        request: &PullRequest,
        reference: &Reference,
        progress: Progress<'_>,
    ) -> RegistryClient {
        let logins = JobLogins {
            docker_auth_config: request.docker_auth_config.as_ref().map(Secret::expose),
            registry_credentials: &request.registry_credentials,
        };
        let mut options: RegistryOptions = self.settings.registries.clone();
        let docker_config = self.settings.docker_config.as_deref();
        let (found, warnings) = login::find(reference.repository(), &logins, docker_config).await;
        for warning in &warnings {
            progress(PullEvent::Warning(warning));
        }
        if let Some(found) = found {
            progress(PullEvent::Login {
                source: &found.source,
            });
            let registry = reference.repository().registry();
            options.credentials.insert(registry, found.credential);
        }
        // Mirrors are the operator's: what a job brings along is none of their business.
        for mirror in options.mirrors_of(reference.repository()) {
            if options.credentials.of(mirror.registry()).is_none()
                && let Some(credential) = login::host_login(&mirror, docker_config).await
            {
                options.credentials.insert(mirror.registry(), credential);
            }
        }
        RegistryClient::new(options)
    }

    /// Works on the store where waiting for the disk does no harm.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, PullCause> {
        let store = self.store.clone();
        match tokio::task::spawn_blocking(move || work(&store)).await {
            Ok(result) => Ok(result?),
            Err(error) => Err(PullCause::Internal {
                image: String::new(),
                source: std::io::Error::other(error),
            }),
        }
    }
}

/// A pull under way.
pub(super) struct Pull<'a> {
    images: &'a ImageStore,
    pub(super) reference: &'a Reference,
    pub(super) platform: &'a Platform,
    /// The full reference, for errors.
    pub(super) image: String,
    pub(super) client: RegistryClient,
    progress: Progress<'a>,
}

impl Pull<'_> {
    async fn run(&self) -> Result<StoredImage, PullCause> {
        let Resolved {
            digest,
            manifest_digest,
            manifest,
            config,
        } = self.resolve().await?;
        (self.progress)(PullEvent::Resolved(digest));
        let key = Key::of(manifest_digest, self.platform);
        let lock = match self.present_or_lock(&key, digest).await? {
            Ok(image) => {
                (self.progress)(PullEvent::Present);
                self.note(digest, &key).await?;
                return Ok(image);
            }
            Err(lock) => lock,
        };
        let config = match config {
            Some(config) => config,
            None => self.config(&manifest).await?,
        };
        self.check(&manifest, &config)?;
        let room = Room::new(self.images, &self.image, &manifest);
        let allowed = room.allowed().await?;
        let sizes: Vec<_> = manifest
            .layers
            .iter()
            .map(|layer| (layer.digest, layer.size))
            .collect();
        (self.progress)(PullEvent::Layers(&sizes));
        let workspace = self.images.blocking(Store::workspace).await?;
        let layers = convert::Layers {
            reference: self.reference,
            parts: &manifest.layers,
            diff_ids: &config.diff_ids,
            max_bytes: allowed,
        };
        let rootfs_bytes = tokio::select! {
            end = convert::layers(&self.client, &layers, &workspace, self.progress) => {
                end.map_err(|cause| room.explain(cause, allowed))?
            }
            no_room = room.watch() => return Err(no_room),
        };
        (self.progress)(PullEvent::Storing);
        let record = EntryRecord {
            manifest: manifest_digest.to_string(),
            platform: config
                .platform
                .as_ref()
                .unwrap_or(self.platform)
                .to_string(),
            config: config.config,
            rootfs_bytes,
            rootfs_digest: String::new(),
        };
        let (published, reference) = (key.clone(), self.reference.clone());
        let image = self
            .images
            .blocking(move |store| {
                let image = store.publish(&workspace, &published, record, &reference, digest)?;
                drop(workspace);
                Ok(image)
            })
            .await
            .map_err(|cause| room.explain(cause, allowed))?;
        self.note(digest, &key).await?;
        drop(lock);
        self.collect().await;
        Ok(image)
    }

    /// The image, if this host has it by now, or the right to pull it.
    async fn present_or_lock(
        &self,
        key: &Key,
        digest: Digest,
    ) -> Result<Result<StoredImage, PullLock>, PullCause> {
        let mut waits = false;
        loop {
            // The lock first: whoever held it before has stored the image.
            let (wanted, from) = (key.clone(), self.reference.repository().clone());
            let lock = self
                .images
                .blocking(move |store| store.try_pull_lock(&wanted, &from))
                .await?;
            if let Some(image) = self.get(key, digest).await? {
                return Ok(Ok(image));
            }
            if let Some(lock) = lock {
                return Ok(Err(lock));
            }
            if !waits {
                (self.progress)(PullEvent::Waiting);
                waits = true;
            }
            tokio::time::sleep(WAIT).await;
        }
    }

    async fn get(&self, key: &Key, digest: Digest) -> Result<Option<StoredImage>, PullCause> {
        let (key, reference) = (key.clone(), self.reference.clone());
        self.images
            .blocking(move |store| store.get(&key, &reference, digest))
            .await
    }

    async fn note(&self, digest: Digest, key: &Key) -> Result<(), PullCause> {
        let (reference, platform) = (self.reference.clone(), self.platform.clone());
        let key = key.clone();
        self.images
            .blocking(move |store| store.note(&reference, &platform, digest, &key))
            .await
    }

    /// Keeps the store within its bound. A failure does not make the pull one.
    async fn collect(&self) {
        let limit = self.images.max_bytes();
        let collected = self
            .images
            .blocking(move |store| store.collect(limit))
            .await;
        if let Err(error) = collected {
            tracing::warn!(error = %vk_text::chain(&error), "cannot tidy the image store");
        }
    }
}
