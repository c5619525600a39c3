//! A stage's connection to the runner: output one way, stops the other.

use tokio::sync::watch;
use vk_trace::OutputSender;

use crate::job::order::StopMode;

/// The stage's end of the channels; two halves, so that a stage can wait for room and for a stop at once.
pub(in crate::job) struct StageIo {
    pub(super) output: OutputSender,
    pub(super) stop: StopSignal,
}

/// Tells when the stage is to stop.
pub(super) struct StopSignal(watch::Receiver<Option<StopMode>>);

impl StageIo {
    pub(in crate::job) fn new(
        output: OutputSender,
        stop: watch::Receiver<Option<StopMode>>,
    ) -> Self {
        Self {
            output,
            stop: StopSignal(stop),
        }
    }

    /// For work that is stopped by being dropped.
    pub(super) fn without_stop(output: OutputSender) -> Self {
        Self::new(output, watch::channel(None).1)
    }
}

impl StopSignal {
    /// Whether the stage was told to stop, whether or not it has noticed.
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
