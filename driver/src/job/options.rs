//! What one run of a job may be told beside the job itself.

use std::path::PathBuf;

/// Options of one run of a job.
#[derive(Clone, Debug, Default)]
pub struct JobOptions {
    /// Whether lines of the trace are stamped; `None` leaves it to the job's `FF_TIMESTAMPS`.
    pub timestamps: Option<bool>,
    /// A repository on this host to take the sources from, instead of the job's URL.
    pub local_repo: Option<PathBuf>,
    /// A folder to keep artifacts in instead of uploading them; made when it is needed.
    pub artifacts_dir: Option<PathBuf>,
    /// Lines that the trace shows before the first step, as GitLab Runner shows where a policy's job comes from
    /// (gitlab-runner, build §1.5.3).
    pub notices: Vec<String>,
}
