//! What the preparing stages make and the others run in.

use std::sync::Arc;

use super::image_process::ImageProcess;
use super::script::Shell;
use crate::guest::Guest;

/// What `prepare_executor` makes: a guest, and how processes start in its image.
#[derive(Clone, Debug)]
pub(super) struct Booted {
    pub(super) guest: Arc<Guest>,
    pub(super) process: ImageProcess,
}

/// What `prepare_script` makes of it: all that the stages after it run in.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) guest: Arc<Guest>,
    pub(super) process: ImageProcess,
    pub(super) tools: ImageTools,
}

/// What the job's image has that scripts depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageTools {
    /// The shell that reads scripts; none in an image without one.
    pub(super) shell: Option<ImageShell>,
    /// Whether there is git.
    pub(super) has_git: bool,
}

/// A shell of the job's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ImageShell {
    /// What it understands.
    pub(super) dialect: Shell,
    /// Where it is, or its name to look for in the image's PATH.
    pub(super) program: &'static str,
}

impl Booted {
    pub(super) fn with(&self, tools: ImageTools) -> Session {
        Session {
            guest: Arc::clone(&self.guest),
            process: self.process.clone(),
            tools,
        }
    }
}

/// How far the preparation has come.
#[derive(Clone, Debug, Default)]
pub(super) enum Prepared {
    /// There is nothing yet.
    #[default]
    Nothing,
    /// There is a guest.
    Booted(Arc<Booted>),
    /// Scripts can run in it.
    Ready(Arc<Session>),
}

impl Prepared {
    /// The guest, once it is up.
    pub(super) fn guest(&self) -> Option<&Guest> {
        match self {
            Self::Nothing => None,
            Self::Booted(booted) => Some(&booted.guest),
            Self::Ready(session) => Some(&session.guest),
        }
    }
}
