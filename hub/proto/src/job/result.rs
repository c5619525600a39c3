//! How a job ended.

use serde::{Deserialize, Serialize};

use super::Failure;

/// How a job ended, as a node reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobResult {
    /// The class of failure; `None` for success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Exit code of the failing script, where a script failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// One line that says what happened; masked like the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Bytes of trace the job produced.
    pub output_len: u64,
    /// Outcome of each artifact, in the job's order.
    pub artifacts: Vec<ArtifactResult>,
    /// What the job used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// What became of one artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactResult {
    /// The artifact's name, as the job wrote it.
    pub name: String,
    /// What became of it.
    pub outcome: ArtifactOutcome,
}

/// What became of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ArtifactOutcome {
    /// GitLab has it.
    Uploaded,
    /// Nothing to upload, or not wanted in this case.
    Skipped,
    /// GitLab refused its size.
    TooLarge,
    /// The upload failed.
    Failed,
    /// An outcome that this build does not know: nothing may rely on GitLab having the artifact.
    #[serde(other)]
    Other,
}

/// What a job used on its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// From the driver's start to the job's end, cleanup included, in milliseconds.
    pub wall_ms: u64,
    /// CPU time of the job's processes, user plus system, guest included, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Sum of the job's processes' peak resident sizes, in bytes: an upper bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_mem_bytes: Option<u64>,
    /// vCPUs of the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Memory of the guest, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_mib: Option<u32>,
}
