//! What a running job tells whoever watches it.

use super::stage::Stage;
use crate::guest::VmSize;

/// Something an onlooker may want to show or record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobEvent {
    /// A stage begins.
    StageStarted(Stage),
    /// The job's VM is up, of this size.
    GuestStarted(VmSize),
    /// The job is over; its last line follows.
    Ending,
}

/// Watches a job. It is called by the task that runs the job and must not block.
pub trait JobObserver: Send {
    /// Something happened.
    fn event(&mut self, event: JobEvent);
}

impl<F: FnMut(JobEvent) + Send> JobObserver for F {
    fn event(&mut self, event: JobEvent) {
        self(event);
    }
}

/// Nobody watches.
impl JobObserver for () {
    fn event(&mut self, _: JobEvent) {}
}
