//! Work done on several threads whose results come out in order.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Results that may be under way or wait beyond one a thread.
const AHEAD: u64 = 2;

struct Shared<U, O> {
    units: U,
    /// Number of the unit that is given out next.
    next: u64,
    /// Number of the result that comes out next.
    wanted: u64,
    done: BTreeMap<u64, O>,
    /// There are no more units.
    ended: bool,
    /// Nobody wants results any more.
    stopped: bool,
}

/// Does `work` on each of `units` on `threads` threads, each of which has a state of its own, and gives the results
/// to `sink` in the order of the units, on this thread. At most `threads` + 3 results exist at once, the sink's one among
/// them.
///
/// # Errors
///
/// The sink's first one. Work that was begun is finished and forgotten.
pub(super) fn ordered<U: Send, S, O: Send, E>(
    threads: usize,
    units: impl Iterator<Item = U> + Send,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, U) -> O + Sync,
    mut sink: impl FnMut(O) -> Result<(), E>,
) -> Result<(), E> {
    let threads = threads.max(1);
    let window = threads as u64 + AHEAD;
    let pool = Pool {
        shared: Mutex::new(Shared {
            units,
            next: 0,
            wanted: 0,
            done: BTreeMap::new(),
            ended: false,
            stopped: false,
        }),
        room: Condvar::new(),
        result: Condvar::new(),
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let _stop = StopOnPanic(&pool);
                let mut state = state();
                while let Some((number, unit)) = pool.take(window) {
                    let result = work(&mut state, unit);
                    pool.put(number, result);
                }
            });
        }
        let _stop = StopOnPanic(&pool);
        while let Some(result) = pool.next() {
            if let Err(error) = sink(result) {
                pool.stop();
                return Err(error);
            }
        }
        Ok(())
    })
}

struct Pool<U, O> {
    shared: Mutex<Shared<U, O>>,
    /// There may be room for another result.
    room: Condvar,
    /// There may be a result.
    result: Condvar,
}

impl<U: Iterator, O> Pool<U, O> {
    fn lock(&self) -> MutexGuard<'_, Shared<U, O>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A unit to work on, once there is room for its result; none if all are done.
    fn take(&self, window: u64) -> Option<(u64, U::Item)> {
        let mut shared = self.lock();
        while !shared.stopped && !shared.ended && shared.next >= shared.wanted + window {
            shared = self
                .room
                .wait(shared)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if shared.stopped || shared.ended {
            return None;
        }
        let number = shared.next;
        let unit = shared.units.next();
        if unit.is_some() {
            shared.next += 1;
        } else {
            shared.ended = true;
            self.room.notify_all();
            self.result.notify_one();
        }
        unit.map(|unit| (number, unit))
    }

    fn put(&self, number: u64, result: O) {
        let mut shared = self.lock();
        shared.done.insert(number, result);
        if number == shared.wanted {
            self.result.notify_one();
        }
    }

    /// The next result; none after the last.
    fn next(&self) -> Option<O> {
        let mut shared = self.lock();
        loop {
            let wanted = shared.wanted;
            if shared.stopped {
                return None;
            }
            if let Some(result) = shared.done.remove(&wanted) {
                shared.wanted += 1;
                self.room.notify_one();
                return Some(result);
            }
            if shared.ended && shared.next == wanted {
                return None;
            }
            shared = self
                .result
                .wait(shared)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn stop(&self) {
        self.lock().stopped = true;
        self.room.notify_all();
        self.result.notify_one();
    }
}

/// A thread that panics must not leave the others waiting; the scope passes its panic on.
struct StopOnPanic<'a, U: Iterator, O>(&'a Pool<U, O>);

impl<U: Iterator, O> Drop for StopOnPanic<'_, U, O> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn results_come_in_order_and_few_are_held() {
        let held = AtomicU64::new(0);
        let mut seen = Vec::new();

        let result: Result<(), ()> = ordered(
            3,
            0..1000u64,
            || (),
            |(), number| {
                let now = held.fetch_add(1, Ordering::SeqCst);
                assert!(now < 3 + AHEAD + 1, "{now}");
                number
            },
            |number| {
                held.fetch_sub(1, Ordering::SeqCst);
                seen.push(number);
                Ok(())
            },
        );

        assert_eq!(result, Ok(()));
        assert_eq!(seen, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn an_error_of_the_sink_ends_it() {
        let result = ordered(
            2,
            0..,
            || (),
            |(), n: u64| n,
            |n| if n == 5 { Err(n) } else { Ok(()) },
        );

        assert_eq!(result, Err(5));
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_panic_is_passed_on() {
        let work = |(): &mut (), n: u64| {
            assert!(n != 3, "as it happens");
            n
        };
        let _ = ordered(2, 0.., || (), work, |_| Ok::<(), ()>(()));
    }
}
