//! `restore_cache` and `archive_cache`, `archive_cache_on_failure` (gitlab-runner, wire §4.3 and wire §4.4, and build
//! §2.9.7).
//!
//! A cache that cannot be had or kept never fails a job.

use std::sync::Arc;

use vk_hub_proto::job::{Cache, CachePolicy};

use super::Moment;
use super::io::StageIo;
use super::pack_error::PackError;
use super::script;
use super::transfer::{Transfer, Unpacked, script_warning, transferring};
use crate::job::context::{JobContext, configuration, has_content, system};
use crate::job::feature_flags::FeatureFlag;
use crate::job::order::StageFailure;
use crate::job::script::remove_caches_script;
use crate::job::session::Session;
use vk_agent_client::{ArchiveFormat, ArchiveRequest};
use vk_text::chain;
use vk_trace::helper::Level;
use vk_transfer::keys::{self, Fallback, Key};
use vk_transfer::{CacheError, CacheStore, ProgressReporting, Stored};

/// Limit on a cache's archive in bytes, 0 for none (gitlab-runner, wire §4.5).
const SIZE_LIMIT: &str = "CACHE_MAX_UPLOADED_ARCHIVE_SIZE";

/// Restores the job's caches.
pub(super) async fn restore(
    context: &JobContext,
    session: &Session,
    moment: Moment,
    io: StageIo,
) -> Result<(), StageFailure> {
    transferring(context, session, moment, io, |transfer| async move {
        let mut caches = Caches::new(&transfer, Direction::Down).await;
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
    session: &Session,
    success: bool,
    moment: Moment,
    io: StageIo,
) -> Result<(), StageFailure> {
    transferring(context, session, moment, io, |transfer| async move {
        let mut caches = Caches::new(&transfer, Direction::Up).await;
        for cache in &context.job.caches {
            if cache.when.applies(success) && has_content(&cache.paths, cache.untracked) {
                caches.save(cache).await?;
            }
        }
        Ok(())
    })
    .await
}

/// Which way a stage moves caches.
#[derive(Clone, Copy, Debug)]
enum Direction {
    /// Into the guest.
    Down,
    /// Out of it.
    Up,
}

impl Direction {
    fn action(self) -> &'static str {
        match self {
            Self::Down => "extraction",
            Self::Up => "archiving",
        }
    }

    /// Says that `policy` excludes this way; `None` if it does not.
    fn forbidden(self, policy: CachePolicy, key: &Key) -> Option<String> {
        let doing = match (self, policy) {
            (Self::Down, policy) if !policy.restores() => "downloading",
            (Self::Up, policy) if !policy.saves() => "uploading",
            _ => return None,
        };
        Some(format!("Not {doing} cache {} due to policy", key.human))
    }
}

/// The caches of one stage.
struct Caches<'a> {
    transfer: &'a Transfer<'a>,
    direction: Direction,
    /// Where they are, or why they are nowhere.
    store: Result<Arc<dyn CacheStore>, String>,
    /// Whether asking again would fare no better.
    is_unavailable: bool,
}

/// Why a cache is not restored or saved.
enum Trouble {
    /// The next cache may fare better.
    This(String),
    /// No other will.
    All(String),
    /// It was restored but for a link, and counts as not found; the helper's last line (golden job 223).
    Obstructed(String),
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
            // Nothing that follows could run.
            PackError::Broken(text) => Self::Job(system(text)),
            PackError::Refused(_)
            | PackError::Unmade(_)
            | PackError::Disk(_)
            | PackError::TooLarge(_) => Self::This(error.to_string()),
        }
    }
}

impl<'a> Caches<'a> {
    async fn new(transfer: &'a Transfer<'a>, direction: Direction) -> Self {
        Self {
            transfer,
            direction,
            store: transfer.context.caches().await,
            is_unavailable: false,
        }
    }

    async fn restore(&mut self, cache: &Cache) -> Result<(), StageFailure> {
        let output = &self.transfer.output;
        let Some(key) = self.key(cache).await else {
            return Ok(());
        };
        let job = self.transfer.environment.job();
        let hash = job.is_on(FeatureFlag::HashCacheKeys);
        let mut keys = vec![key];
        for fallback in keys::fallbacks(cache, job.variables(), hash) {
            match fallback {
                Fallback::Warning(text) => script_warning(output, &text).await,
                Fallback::Empty => self.skip_for("empty cache key").await,
                Fallback::Key(key) => keys.push(key),
            }
        }
        for key in keys {
            if self.skips().await {
                return Ok(());
            }
            output
                .notice(&format!("Checking cache for {}...", key.human))
                .await;
            let restored = self.fetch_and_unpack(&key).await;
            if matches!(restored, Ok(true)) {
                output.notice("Successfully extracted cache").await;
                return Ok(());
            }
            match restored {
                Ok(_) => output.warning("Cache file does not exist").await,
                Err(trouble) => self.tell(trouble).await?,
            }
            script_warning(output, "Failed to extract cache").await;
            if job.is_on(FeatureFlag::CleanUpFailedCacheExtract) {
                self.remove(cache).await?;
            }
        }
        Ok(())
    }

    /// Removes what a failed extraction may have left (gitlab-runner, build §2.9.7).
    async fn remove(&self, cache: &Cache) -> Result<(), StageFailure> {
        let Transfer {
            context,
            session,
            environment,
            output,
        } = self.transfer;
        let script = context.script(environment.job(), session.tools);
        let script = remove_caches_script(&cache.paths, &script)
            .map_err(|error| configuration(error.to_string()))?;
        // Stopped by being dropped, as all of this stage.
        let mut io = StageIo::without_stop(output.clone());
        script::run(session, script, &mut io).await
    }

    async fn fetch_and_unpack(&self, key: &Key) -> Result<bool, Trouble> {
        let store = self.store()?;
        let Transfer {
            session, output, ..
        } = self.transfer;
        let what = match store.remote_name() {
            Some(name) => format!("Downloading cache from {name}"),
            None => "No URL provided, cache will not be downloaded from shared cache server. \
                     Instead a local version of cache will be extracted."
                .to_owned(),
        };
        output.info(&what).await;
        let archive = store.fetch(&key.stored, session.guest.work_dir(), self.reporting());
        let Some(archive) = archive.await? else {
            return Ok(false);
        };
        let format = Some(ArchiveFormat::TarZstd);
        match self.transfer.unpack(archive, format).await? {
            Unpacked::Whole => Ok(true),
            Unpacked::Obstructed(text) => Err(Trouble::Obstructed(text)),
        }
    }

    async fn save(&mut self, cache: &Cache) -> Result<(), StageFailure> {
        let output = &self.transfer.output;
        let Some(key) = self.key(cache).await else {
            return Ok(());
        };
        if self.skips().await {
            return Ok(());
        }
        output
            .notice(&format!("Creating cache {}...", key.human))
            .await;
        match self.pack_and_store(cache, &key).await {
            Ok(()) => output.notice("Created cache").await,
            Err(trouble) => {
                self.tell(trouble).await?;
                script_warning(output, "Failed to create cache").await;
            }
        }
        Ok(())
    }

    /// gitlab-runner, wire §4.6.
    async fn pack_and_store(&self, cache: &Cache, key: &Key) -> Result<(), Trouble> {
        let Transfer {
            environment,
            output,
            ..
        } = self.transfer;
        let store = self.store()?;
        let request = ArchiveRequest {
            root: environment.job().dirs().project.clone(),
            paths: environment.expanded_paths(&cache.paths, output).await,
            exclude: Vec::new(),
            untracked: cache.untracked,
            format: ArchiveFormat::TarZstd,
            level: environment.compression("CACHE_COMPRESSION_LEVEL"),
        };
        let Some(archive) = self.transfer.pack(request).await? else {
            output.warning("No files to cache.").await;
            return Ok(());
        };
        let Some(name) = store.remote_name() else {
            let text = "No URL provided, cache will not be uploaded to shared cache server. \
                        Cache will be stored only locally.";
            output.info(text).await;
            store.store(&key.stored, archive, self.reporting()).await?;
            return Ok(());
        };
        if let Some(limit) = environment.limit(SIZE_LIMIT)
            && archive.size() > limit
        {
            let text = format!(
                "Cache archive size ({}) is too big (Limit is set to {limit}). Cache will not be stored.",
                archive.size()
            );
            output.info(&text).await;
            return Ok(());
        }
        output.info(&format!("Uploading cache to {name}")).await;
        let stored = store.store(&key.stored, archive, self.reporting()).await?;
        if stored == Stored::Unchanged {
            let text = "Uploading cache was not needed: the registry has these bytes already";
            output.info(text).await;
        }
        Ok(())
    }

    fn reporting(&self) -> ProgressReporting<'_> {
        ProgressReporting {
            output: &self.transfer.output,
            every: self.transfer.environment.meter(),
        }
    }

    /// The key of a cache that goes this way, after what is to be said of it; `None` when there is none, or it does not.
    async fn key(&self, cache: &Cache) -> Option<Key> {
        let Transfer {
            environment,
            output,
            ..
        } = self.transfer;
        let own = keys::own(cache, environment.job().is_on(FeatureFlag::HashCacheKeys));
        if let Some(warning) = own.warning {
            script_warning(output, &warning).await;
        }
        let Some(key) = own.key else {
            self.skip_for("empty cache key").await;
            return None;
        };
        if let Some(text) = self.direction.forbidden(cache.policy, &key) {
            output.notice(&text).await;
            return None;
        }
        Some(key)
    }

    /// Whether nothing is asked of the caches' place any more.
    async fn skips(&self) -> bool {
        if self.is_unavailable {
            self.skip_for("the cache registry's not answering").await;
        }
        self.is_unavailable
    }

    /// Says why a key is passed over (gitlab-runner, wire §4.3 and wire §4.4).
    async fn skip_for(&self, why: &str) {
        let text = format!("Skipping cache {} due to {why}", self.direction.action());
        self.transfer.output.notice(&text).await;
    }

    async fn tell(&mut self, trouble: Trouble) -> Result<(), StageFailure> {
        let text = match trouble {
            Trouble::This(text) => text,
            Trouble::All(text) => {
                self.is_unavailable = true;
                text
            }
            Trouble::Obstructed(text) => {
                self.transfer.output.log(Level::Fatal, &text, &[]).await;
                return Ok(());
            }
            Trouble::Job(failure) => return Err(failure),
        };
        self.transfer.output.warning(&text).await;
        Ok(())
    }

    fn store(&self) -> Result<&dyn CacheStore, Trouble> {
        self.store
            .as_deref()
            .map_err(|text| Trouble::This(text.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use vk_agent_proto::{FailureKind, FrameError};
    use vk_hub_proto::job::Failure;

    use super::*;
    use vk_agent_client::{AgentError, Operation};
    use vk_transfer::{Spool, SpoolError};

    fn full() -> io::Error {
        io::Error::from(io::ErrorKind::StorageFull)
    }

    /// Dispatch protocol, "Caches": a cache that cannot be had or kept is a warning.
    #[tokio::test]
    async fn a_hosts_disk_and_a_guests_refusal_cost_a_cache_and_a_lost_guest_the_job() {
        let operation = Operation::Extract("/builds".to_owned());
        let no_folder = Spool::create(std::path::Path::new("/nowhere")).err();
        let warnings = [
            PackError::from(SpoolError::Io(full())),
            PackError::from(SpoolError::TooLarge),
            PackError::from(no_folder.unwrap()),
            PackError::from(AgentError::Source {
                operation: operation.clone(),
                source: full(),
            }),
            PackError::from(AgentError::Failed {
                operation: operation.clone(),
                kind: FailureKind::Guest,
                message: "no space left".to_owned(),
            }),
        ];
        for error in warnings {
            let text = error.to_string();
            let Trouble::This(told) = Trouble::from(error) else {
                panic!("{text} ends more than this cache")
            };
            assert_eq!(told, text);
        }

        let losses = [
            AgentError::Closed {
                operation: operation.clone(),
            },
            AgentError::Broken {
                operation,
                source: FrameError::Io(full()),
            },
        ];
        for error in losses {
            let Trouble::Job(failure) = Trouble::from(PackError::from(error)) else {
                panic!("a lost guest is a cache's trouble alone")
            };
            assert_eq!(failure.class, Failure::System);
        }
    }

    /// gitlab-runner, wire §4.3 and wire §4.4.
    #[test]
    fn a_policy_forbids_one_way_and_says_so() {
        let key = keys::own(
            &Cache {
                raw_key: "k".to_owned(),
                key: "k".to_owned(),
                ..Cache::default()
            },
            false,
        );
        let key = key.key.unwrap();
        let told = |policy| {
            [Direction::Down, Direction::Up]
                .map(|direction| direction.forbidden(policy, &key).unwrap_or_default())
        };
        assert_eq!(told(CachePolicy::PullPush), ["", ""]);
        assert!(told(CachePolicy::Other).iter().all(|told| !told.is_empty()));
        assert_eq!(
            told(CachePolicy::Push),
            ["Not downloading cache k due to policy", ""]
        );
        assert_eq!(
            told(CachePolicy::Pull),
            ["", "Not uploading cache k due to policy"]
        );
    }
}
