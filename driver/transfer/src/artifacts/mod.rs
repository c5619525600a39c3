//! Artifacts to and from GitLab.
//!
//! `client` makes calls: it follows redirects ([`vk_http::next_hop`]) and repeats them by those of `retry`; what an
//! answer says is told by `answer`. `upload` and `download` decide what a call's outcome means, how often it is tried and
//! what the trace says, each as gitlab-runner's helper does. `store` is what jobs use of it.

mod answer;
mod api;
mod client;
mod download;
mod multipart;
mod name;
mod retry;
mod store;
mod upload;

pub use api::ApiError;
pub use client::{CallError, ClientError, GitLab};
pub use download::{Download, DownloadError};
pub use name::{file_name, format_name};
pub use store::{ArtifactStore, BoxFuture, GitLabArtifacts, KeptArtifacts};
pub use upload::{Unmade, Upload, UploadError};
