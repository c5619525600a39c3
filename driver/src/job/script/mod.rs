//! The scripts that a job's stages run in the guest's shell, as GitLab Runner's bash writer writes them (gitlab-runner,
//! build §2).
//!
//! A script is a fixed wrapper around a body that is quoted as a whole and handed to `eval`, so that the shell reads
//! all of it before it runs any. In bash the text is GitLab Runner's, byte for byte; for an image that has only a
//! POSIX `sh`, quoting and notices are our own, since neither `$'…'` nor `echo` can be relied on there.

mod check;
mod cleanup;
mod commands;
mod quote;
mod stages;
mod writer;

pub(crate) use stages::ENV_FILE;
pub(crate) use stages::remove_caches_script;
pub(crate) use stages::{ScriptContext, Shell, hook_script, stage_script};

#[cfg(test)]
mod examples;
#[cfg(test)]
mod running;
