//! What a transfer writes to the trace while it goes on.

use tokio::sync::mpsc;

use vk_trace::helper::{Level, line};

/// Notes that may wait for the trace.
const BACKLOG: usize = 16;

/// Some output of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// For standard output.
    Out(String),
    /// For standard error.
    Err(String),
}

impl Note {
    /// The text, whichever stream it is for.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Out(text) | Self::Err(text) => text,
        }
    }
}

/// Takes a transfer's notes. Clones write to the same trace.
#[derive(Clone, Debug)]
pub struct Notes(mpsc::Sender<Note>);

impl Notes {
    /// A sink, and where its notes come out.
    #[must_use]
    pub fn channel() -> (Self, mpsc::Receiver<Note>) {
        let (sender, receiver) = mpsc::channel(BACKLOG);
        (Self(sender), receiver)
    }

    /// Writes to standard output as it is.
    pub async fn out(&self, text: String) {
        // Nobody listens any more: the stage was given up.
        let _ = self.0.send(Note::Out(text)).await;
    }

    /// Writes to standard error as it is.
    pub async fn err(&self, text: String) {
        let _ = self.0.send(Note::Err(text)).await;
    }

    /// Writes a line of the helper's log to standard error.
    pub async fn log(&self, level: Level, text: &str, fields: &[(&str, &str)]) {
        self.err(line(level, text, fields)).await;
    }

    /// A line for information, without fields.
    pub async fn info(&self, text: &str) {
        self.log(Level::Info, text, &[]).await;
    }

    /// A warning without fields.
    pub async fn warning(&self, text: &str) {
        self.log(Level::Warning, text, &[]).await;
    }
}
