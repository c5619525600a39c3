//! A job to run, and what its embedder decides about it.

use std::path::PathBuf;
use std::sync::Arc;

use vk_hub_proto::job::{CiJob, Secret};
use vk_transfer::{ArtifactStore, CacheStore};

use super::variables::Slot;
use crate::guest::VmSize;

/// A job to run: its spec, and what its embedder decides.
///
/// ```
/// use vk_driver::{Job, Slot, VmSize, spec};
///
/// let job = Job::new(spec::CiJob::default())
///     .size(VmSize::new(4, 8192))
///     .slot(Slot::new("/builds", 3, 0))
///     .secrets(["a value that the trace must not show"]);
/// assert_eq!(job.spec().timeout_secs, spec::CiJob::default().timeout_secs);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a job does nothing until it is run"]
pub struct Job {
    pub(super) spec: CiJob,
    pub(super) options: JobOptions,
}

/// What the embedder decides.
#[derive(Clone, Debug, Default)]
pub(super) struct JobOptions {
    pub(super) slot: Slot,
    pub(super) size: Option<VmSize>,
    pub(super) secrets: Vec<Secret>,
    pub(super) timestamps: Option<bool>,
    pub(super) local_repo: Option<PathBuf>,
    pub(super) notices: Vec<String>,
    pub(super) artifacts_dir: Option<PathBuf>,
    pub(super) artifacts: Option<Arc<dyn ArtifactStore>>,
    pub(super) caches: Option<Arc<dyn CacheStore>>,
}

impl Job {
    /// The job that `spec` describes, alone on its host, with the size that its variables ask for.
    pub fn new(spec: CiJob) -> Self {
        Self {
            spec,
            options: JobOptions::default(),
        }
    }

    /// The job's spec.
    #[must_use]
    pub fn spec(&self) -> &CiJob {
        &self.spec
    }

    /// Its place among the jobs of its host; jobs that run side by side have different ones.
    pub fn slot(mut self, slot: Slot) -> Self {
        self.options.slot = slot;
        self
    }

    /// The size that its VM has, instead of what the job's variables ask for.
    pub fn size(mut self, size: VmSize) -> Self {
        self.options.size = Some(size);
        self
    }

    /// Values to hide in the trace, beside those that the spec names.
    pub fn secrets(mut self, values: impl IntoIterator<Item = impl Into<Secret>>) -> Self {
        self.options
            .secrets
            .extend(values.into_iter().map(Into::into));
        self
    }

    /// Whether lines of the trace are stamped, instead of what the job's `FF_TIMESTAMPS` says.
    pub fn timestamps(mut self, on: bool) -> Self {
        self.options.timestamps = Some(on);
        self
    }

    /// A repository on this host to take the sources from, instead of the job's URL.
    pub fn local_repo(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.local_repo = Some(path.into());
        self
    }

    /// Lines that the trace shows before the first step, as GitLab Runner shows where a policy's job comes from
    /// (gitlab-runner, build §1.5.3).
    pub fn notices(mut self, lines: Vec<String>) -> Self {
        self.options.notices = lines;
        self
    }

    /// A folder of this host to keep artifacts in instead of uploading them to GitLab; made when it is needed.
    pub fn keep_artifacts(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.artifacts_dir = Some(folder.into());
        self
    }

    /// Where artifacts go to and come from, instead of GitLab.
    pub fn artifacts(mut self, store: Arc<dyn ArtifactStore>) -> Self {
        self.options.artifacts = Some(store);
        self
    }

    /// Where caches are, instead of the host's.
    pub fn caches(mut self, store: Arc<dyn CacheStore>) -> Self {
        self.options.caches = Some(store);
        self
    }
}
