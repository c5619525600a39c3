//! Processor time of the thread that serves a device: it belongs to the guest's use of this host.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// The time that one device's thread has used. Clones tell of the same; it stays known when the thread has ended.
#[derive(Clone, Debug, Default)]
pub struct CpuTime(Arc<AtomicU64>);

impl CpuTime {
    /// Processor time so far.
    #[must_use]
    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// Notes what the calling thread, the device's, has used in all.
    pub(super) fn note(&self) {
        let Ok(now) = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID) else {
            return;
        };
        let nanos = Duration::from(now).as_nanos();
        self.0
            .store(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_used_is_known_when_it_has_ended() {
        let time = CpuTime::default();
        assert_eq!(time.get(), Duration::ZERO);
        let noted = time.clone();
        let work = move || {
            while noted.get() < Duration::from_millis(5) {
                noted.note();
            }
        };
        std::thread::spawn(work).join().unwrap();
        assert!(time.get() >= Duration::from_millis(5));
    }
}
