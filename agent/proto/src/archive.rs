//! Archives: what to choose and pack, what to unpack, and what is said about it.

use serde::{Deserialize, Serialize};
use vk_archive_format::{Format, Severity};

/// Files of a project to choose as GitLab Runner's helper chooses them, and to send as one archive. No string may
/// hold a NUL.
///
/// If nothing is chosen, no archive is sent, and the summary says that it has no entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archive {
    /// The project's folder, absolute. Paths are relative to it and end up in the archive so.
    pub root: String,
    /// Files, folders and patterns, each as written in `artifacts:paths` or `cache:paths`, variables expanded.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Patterns of what stays out.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Whether files that git does not track are chosen as well.
    #[serde(default)]
    pub untracked: bool,
    /// What to make.
    pub format: Format,
    /// How hard to compress, as the job's variable says: empty is the default level, and what names none is warned of where
    /// compression begins and counts as that.
    #[serde(default)]
    pub level: String,
}

/// Where an archive goes. The archive is kept whole on the scratch disk while it is unpacked, if its format needs
/// that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extract {
    /// Destination folder, absolute; it must exist. Nothing lands outside it.
    pub dest: String,
    /// What it is; none tells by its first bytes: tar+zstd, gzip (which is refused, as GitLab Runner does) or else
    /// zip.
    #[serde(default)]
    pub format: Option<Format>,
    /// Who will own what is unpacked, written like [`crate::Exec::user`]; none is whom the archive names.
    #[serde(default)]
    pub owner: Option<String>,
    /// Most bytes of the archive itself.
    pub max_archive_bytes: u64,
    /// Most entries.
    pub max_entries: u64,
    /// Most bytes of what is unpacked. The room on the disk bounds it as well.
    pub max_bytes: u64,
}

/// What became of a [`Archive`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveSummary {
    /// Files, folders and links that were chosen; zero if no archive was made.
    pub entries: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// Bytes of the archive.
    pub archive_bytes: u64,
}

/// What became of an [`Extract`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractSummary {
    /// Files, folders and links that were unpacked.
    pub entries: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// That all is there but a link in whose place other entries need a folder, in the words of GitLab Runner, which fails
    /// on it then; empty if all is there.
    #[serde(default)]
    pub obstructed: String,
}

/// A message for the job's trace: one line, without its colours and prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// How grave it is.
    pub severity: Severity,
    /// GitLab Runner's words. Bytes of names that are no UTF-8 were replaced.
    pub text: String,
}
