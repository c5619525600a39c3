//! What git makes of a repository's files (gitrepository-layout(5)), so that the image needs no git.

mod config;
mod error;
mod file;
mod folder;
mod format;
mod number;
mod repository;

pub(super) use error::GitError;
pub(super) use repository::Repository;
