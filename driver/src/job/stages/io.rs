//! A stage's connection to the runner: output one way, stops the other.

use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use crate::job::order::StopMode;

/// Something a stage writes to the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::job) enum StageOutput {
    /// Standard output of the stage's work.
    Stdout(Bytes),
    /// Standard error of the stage's work.
    Stderr(Bytes),
    /// A plain line of vk's own.
    Own(String),
    /// A warning of vk's own.
    Warning(String),
}

/// The stage's end of the channels; two halves, so that a stage can wait for room and for a stop at once.
pub(in crate::job) struct StageIo {
    pub(super) out: StageOut,
    pub(super) stop: StopSignal,
}

/// Takes the stage's output. A clone takes output of the same stage.
#[derive(Clone)]
pub(super) struct StageOut(mpsc::Sender<StageOutput>);

/// Tells when the stage is to stop.
pub(super) struct StopSignal(watch::Receiver<Option<StopMode>>);

impl StageIo {
    pub(in crate::job) fn new(
        output: mpsc::Sender<StageOutput>,
        stop: watch::Receiver<Option<StopMode>>,
    ) -> Self {
        Self {
            out: StageOut(output),
            stop: StopSignal(stop),
        }
    }
}

impl StageOut {
    /// Sends output; waits while the trace is behind. Dropped meanwhile, it has sent nothing.
    pub(super) async fn send(&self, output: StageOutput) {
        // The runner drops its end only when it has given the stage up.
        let _ = self.0.send(output).await;
    }

    /// Waits for room, then sends what `held` holds.
    pub(super) async fn send_held(&self, held: &mut Option<StageOutput>) {
        if let Ok(permit) = self.0.reserve().await
            && let Some(output) = held.take()
        {
            permit.send(output);
        }
        held.take();
    }
}

impl StopSignal {
    /// Whether the stage was told to stop, heard or not.
    pub(super) fn is_set(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits until the stage is to stop in a way it has not been told before.
    pub(super) async fn stopped(&mut self) -> StopMode {
        loop {
            if self.0.changed().await.is_err() {
                // The runner is gone; it aborts this task.
                std::future::pending::<()>().await;
            }
            if let Some(mode) = *self.0.borrow_and_update() {
                return mode;
            }
        }
    }
}
