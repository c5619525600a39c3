//! How a running job or command is told to end.

use tokio::sync::watch;

/// How urgently a job is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CancelMode {
    /// The steps are stopped; `after_script` and what follows still run.
    Graceful,
    /// Everything is stopped at once.
    Immediate,
}

/// Cancels what runs with it. Clones cancel the same.
///
/// ```
/// use vk_driver::{Cancel, CancelMode};
///
/// let cancel = Cancel::new();
/// let handle = cancel.clone();
/// handle.cancel(CancelMode::Graceful);
/// assert_eq!(cancel.mode(), Some(CancelMode::Graceful));
/// ```
#[derive(Clone, Debug)]
pub struct Cancel(watch::Sender<Option<CancelMode>>);

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}

impl Cancel {
    /// One that has not been used.
    #[must_use]
    pub fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Asks for the end; an immediate cancel stays immediate. Asked again for an immediate end, a job does not wait for
    /// the reader of its trace either.
    pub fn cancel(&self, mode: CancelMode) {
        self.0.send_if_modified(|current| {
            let counts = Some(mode) >= *current;
            if counts {
                *current = Some(mode);
            }
            counts
        });
    }

    /// What was asked for.
    #[must_use]
    pub fn mode(&self) -> Option<CancelMode> {
        *self.0.borrow()
    }

    /// Waits until something is asked for.
    pub async fn requested(&self) -> CancelMode {
        self.requests().next().await
    }

    pub(crate) fn requests(&self) -> CancelRequests {
        let mut requests = self.0.subscribe();
        requests.mark_changed();
        CancelRequests(requests)
    }
}

/// What is asked of one job, request by request.
pub(crate) struct CancelRequests(watch::Receiver<Option<CancelMode>>);

impl CancelRequests {
    /// The next request; requests that came meanwhile are one. For ever once none can come. Dropped before it resolves,
    /// it has taken none.
    pub(crate) async fn next(&mut self) -> CancelMode {
        loop {
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if let Some(mode) = *self.0.borrow_and_update() {
                return mode;
            }
        }
    }

    /// Waits for a request to end at once.
    pub(crate) async fn immediate(&mut self) {
        while self.next().await != CancelMode::Immediate {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn next(requests: &mut CancelRequests) -> Option<CancelMode> {
        tokio::time::timeout(Duration::from_millis(1), requests.next())
            .await
            .ok()
    }

    #[tokio::test]
    async fn an_early_request_is_heard_and_the_more_urgent_one_counts() {
        let cancel = Cancel::new();
        cancel.cancel(CancelMode::Graceful);
        let mut requests = cancel.requests();
        assert_eq!(next(&mut requests).await, Some(CancelMode::Graceful));
        assert_eq!(next(&mut requests).await, None);

        cancel.cancel(CancelMode::Immediate);
        cancel.cancel(CancelMode::Graceful);
        assert_eq!(next(&mut requests).await, Some(CancelMode::Immediate));
        assert_eq!(next(&mut requests).await, None);

        cancel.cancel(CancelMode::Immediate);
        assert_eq!(next(&mut requests).await, Some(CancelMode::Immediate));
        drop(cancel);
        assert_eq!(next(&mut requests).await, None);
    }

    #[tokio::test]
    async fn every_job_hears_of_the_same_cancel() {
        let cancel = Cancel::new();
        let (mut one, mut other) = (cancel.requests(), cancel.clone().requests());
        cancel.cancel(CancelMode::Graceful);
        assert_eq!(next(&mut one).await, Some(CancelMode::Graceful));
        assert_eq!(next(&mut other).await, Some(CancelMode::Graceful));
    }
}
