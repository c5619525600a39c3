//! Choosing files of a project (gitlab-runner, wire §3.3).
//!
//! What comes out is a set: each path once, in the order of its bytes.

mod chooser;
mod collector;
mod git;
mod index;
mod list;
mod pattern;
mod runs;
mod selection;
mod unread;
mod untracked;
mod walk;

pub use chooser::{Request, select};
#[doc(hidden)]
pub use index::{Index, ObjectFormat};
pub use pattern::{Pattern, PatternError};
pub use selection::{Entry, EntryKind, Selection};
