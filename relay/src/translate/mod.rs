//! From GitLab's job response to the job spec, as the dispatch protocol's field table maps it.

mod cache;
mod error;
mod image;
mod job;
mod options;
mod policy;
mod sources;
mod variables;

pub use error::{Refusal, TranslateError};
pub use job::{Translated, translate};
pub use options::{Options, Runner};
