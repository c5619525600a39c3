//! `restore_cache` and `archive_cache`, `archive_cache_on_failure` (facts, wire §4.3 and §4.4, and build §2.9.7).
//!
//! A cache that cannot be had or kept never fails a job.

use vk_hub_proto::job::{Cache, CachePolicy};

use super::Moment;
use super::io::StageIo;
use super::transfer::{
    PackError, caution, compression, expanded_paths, notice, noting, pack, unpack,
};
use crate::agent::{ArchiveFormat, ArchiveRequest};
use crate::cache::keys::{self, Key};
use crate::cache::{CacheError, CacheStore, Stored, place};
use crate::job::context::{JobContext, has_content, system};
use crate::job::feature_flags::FeatureFlag;
use crate::job::machine::StageFailure;
use crate::job::variables::JobEnvironment;
use crate::notes::Notes;
use crate::report::chain;
use crate::spool::Spooled;

/// Limit on a cache's archive in bytes, 0 for none (facts, wire §4.5).
const SIZE_LIMIT: &str = "CACHE_MAX_UPLOADED_ARCHIVE_SIZE";

/// Restores the job's caches.
pub(super) async fn restore(
    context: &JobContext,
    moment: Moment,
    mut io: StageIo,
) -> Result<(), StageFailure> {
    let environment = context.environment_at(moment.status);
    noting(&mut io, |notes| async move {
        let mut caches = Caches::new(context, &environment, &notes).await;
        for cache in &context.job.caches {
            if has_content(&cache.paths, cache.untracked) {
                caches.restore(cache).await?;
            }
        }
        Ok(())
    })
    .await
}

/// Saves the job's caches for the case that the steps ended in `success`.
pub(super) async fn save(
    context: &JobContext,
    success: bool,
    moment: Moment,
    mut io: StageIo,
) -> Result<(), StageFailure> {
    let environment = context.environment_at(moment.status);
    noting(&mut io, |notes| async move {
        let mut caches = Caches::new(context, &environment, &notes).await;
        for cache in &context.job.caches {
            if cache.when.applies(success) && has_content(&cache.paths, cache.untracked) {
                caches.save(cache).await?;
            }
        }
        Ok(())
    })
    .await
}

/// The caches of one stage.
struct Caches<'a> {
    context: &'a JobContext,
    environment: &'a JobEnvironment,
    notes: &'a Notes,
    /// Where they are, or why they are nowhere.
    store: Result<CacheStore, String>,
    /// Whether asking again would fare no better.
    is_unavailable: bool,
}

/// Why a cache is not restored or saved.
enum Trouble {
    /// The next cache may fare better.
    This(String),
    /// No other will.
    All(String),
    /// Nor will the job.
    Job(StageFailure),
}

impl From<CacheError> for Trouble {
    fn from(error: CacheError) -> Self {
        if error.is_unavailable() {
            Self::All(chain(&error))
        } else {
            Self::This(chain(&error))
        }
    }
}

impl From<PackError> for Trouble {
    fn from(error: PackError) -> Self {
        match error {
            PackError::Broken(text) => Self::Job(system(text)),
            error => Self::This(error.to_string()),
        }
    }
}

impl<'a> Caches<'a> {
    async fn new(
        context: &'a JobContext,
        environment: &'a JobEnvironment,
        notes: &'a Notes,
    ) -> Self {
        let limit = environment.settings().cache_request_timeout;
        Self {
            context,
            environment,
            notes,
            store: place::of_job(&context.host, &context.job, limit).await,
            is_unavailable: false,
        }
    }

    async fn restore(&mut self, cache: &Cache) -> Result<(), StageFailure> {
        let notes = self.notes;
        let Some(key) = self.key(cache, "extraction").await else {
            return Ok(());
        };
        if cache.policy == CachePolicy::Push {
            let text = format!("Not downloading cache {} due to policy", key.human);
            notice(notes, &text).await;
            return Ok(());
        }
        let hash = self.environment.is_on(FeatureFlag::HashCacheKeys);
        let (fallbacks, warning) = keys::fallbacks(cache, self.environment.variables(), hash);
        if let Some(warning) = warning {
            caution(notes, &warning).await;
        }
        for key in std::iter::once(key).chain(fallbacks) {
            if self.skips("extraction").await {
                return Ok(());
            }
            notice(notes, &format!("Checking cache for {}...", key.human)).await;
            let restored = self.fetch_and_unpack(&key).await;
            if matches!(restored, Ok(true)) {
                notice(notes, "Successfully extracted cache").await;
                return Ok(());
            }
            match restored {
                Ok(_) => notes.warning("Cache file does not exist").await,
                Err(trouble) => self.tell(trouble).await?,
            }
            caution(notes, "Failed to extract cache").await;
        }
        Ok(())
    }

    async fn fetch_and_unpack(&self, key: &Key) -> Result<bool, Trouble> {
        let store = self.store()?;
        let folder = self.work_dir()?;
        let what = match store.registry_name() {
            Some(name) => format!("Downloading cache from {name}"),
            None => "No URL provided, cache will not be downloaded from shared cache server. \
                     Instead a local version of cache will be extracted."
                .to_owned(),
        };
        self.notes.info(&what).await;
        let Some(archive) = store.fetch(&key.stored, &folder).await? else {
            return Ok(false);
        };
        let format = Some(ArchiveFormat::TarZstd);
        unpack(self.context, archive, format, self.notes).await?;
        Ok(true)
    }

    async fn save(&mut self, cache: &Cache) -> Result<(), StageFailure> {
        let notes = self.notes;
        let Some(key) = self.key(cache, "archiving").await else {
            return Ok(());
        };
        if cache.policy == CachePolicy::Pull {
            let text = format!("Not uploading cache {} due to policy", key.human);
            notice(notes, &text).await;
            return Ok(());
        }
        if self.skips("archiving").await {
            return Ok(());
        }
        notice(notes, &format!("Creating cache {}...", key.human)).await;
        match self.pack_and_store(cache, &key).await {
            Ok(()) => notice(notes, "Created cache").await,
            Err(trouble) => {
                self.tell(trouble).await?;
                caution(notes, "Failed to create cache").await;
            }
        }
        Ok(())
    }

    async fn pack_and_store(&self, cache: &Cache, key: &Key) -> Result<(), Trouble> {
        let (environment, notes) = (self.environment, self.notes);
        let store = self.store()?;
        let request = ArchiveRequest {
            root: environment.dirs().project.clone(),
            paths: expanded_paths(&cache.paths, environment, notes).await,
            exclude: Vec::new(),
            untracked: cache.untracked,
            format: ArchiveFormat::TarZstd,
            level: compression(environment, "CACHE_COMPRESSION_LEVEL", notes).await,
        };
        let Some(archive) = pack(self.context, request, notes).await? else {
            notes.warning("No files to cache.").await;
            return Ok(());
        };
        let Some(name) = store.registry_name() else {
            let text = "No URL provided, cache will not be uploaded to shared cache server. \
                        Cache will be stored only locally.";
            notes.info(text).await;
            store.store(&key.stored, archive).await?;
            return Ok(());
        };
        if let Some(limit) = self.too_big(&archive) {
            let text = format!(
                "Cache archive size ({}) is too big (Limit is set to {limit}). Cache will not be stored.",
                archive.size()
            );
            notes.info(&text).await;
            return Ok(());
        }
        notes.info(&format!("Uploading cache to {name}")).await;
        if store.store(&key.stored, archive).await? == Stored::Unchanged {
            let text = "Uploading cache was not needed: the registry has these bytes already";
            notes.info(text).await;
        }
        Ok(())
    }

    /// The limit that `archive` is over.
    fn too_big(&self, archive: &Spooled) -> Option<u64> {
        let limit = self
            .environment
            .variables()
            .value(SIZE_LIMIT)
            .parse()
            .ok()?;
        (limit > 0 && archive.size() > limit).then_some(limit)
    }

    /// A cache's own key, after what is to be said of it; `None` when there is none.
    async fn key(&self, cache: &Cache, action: &str) -> Option<Key> {
        let own = keys::own(cache, self.environment.is_on(FeatureFlag::HashCacheKeys));
        if let Some(warning) = own.warning {
            caution(self.notes, &warning).await;
        }
        if own.key.is_none() {
            let text = format!("Skipping cache {action} due to empty cache key");
            notice(self.notes, &text).await;
        }
        own.key
    }

    /// Whether nothing is asked of the caches' place any more.
    async fn skips(&self, action: &str) -> bool {
        if self.is_unavailable {
            let text = format!("Skipping cache {action} due to the cache registry's not answering");
            notice(self.notes, &text).await;
        }
        self.is_unavailable
    }

    async fn tell(&mut self, trouble: Trouble) -> Result<(), StageFailure> {
        let text = match trouble {
            Trouble::This(text) => text,
            Trouble::All(text) => {
                self.is_unavailable = true;
                text
            }
            Trouble::Job(failure) => return Err(failure),
        };
        self.notes.warning(&text).await;
        Ok(())
    }

    fn store(&self) -> Result<&CacheStore, Trouble> {
        self.store
            .as_ref()
            .map_err(|text| Trouble::This(text.clone()))
    }

    fn work_dir(&self) -> Result<std::path::PathBuf, Trouble> {
        let text = "there is no folder to keep a cache in";
        self.context
            .work_dir()
            .ok_or_else(|| Trouble::Job(system(text.to_owned())))
    }
}
