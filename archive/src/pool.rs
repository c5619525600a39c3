//! Work done on several threads whose results come out in order.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::threads;

/// Results that may be under way or wait beyond one a thread.
const AHEAD: u64 = 2;

/// Does `work` on each of `units` on `threads` threads, each of which has a state of its own, and gives the results
/// to `sink` in the order of the units, on this thread. At most `threads` + 3 results exist at once, the sink's one among
/// them.
///
/// # Errors
///
/// The sink's first one. Work that was begun is finished and forgotten.
pub(crate) fn ordered<U: Send, S, O: Send, E>(
    threads: usize,
    units: impl Iterator<Item = U> + Send,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, U) -> O + Sync,
    mut sink: impl FnMut(O) -> Result<(), E>,
) -> Result<(), E> {
    pulled(threads, units, state, work, |results| {
        while let Some(result) = results() {
            sink(result)?;
        }
        Ok(())
    })
}

/// As [`ordered`], but `consume` asks for the results one by one, as long as it wants any.
pub(crate) fn pulled<U: Send, S, O: Send, T>(
    threads: usize,
    units: impl Iterator<Item = U> + Send,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, U) -> O + Sync,
    consume: impl FnOnce(&mut dyn FnMut() -> Option<O>) -> T,
) -> T {
    let count = threads.max(1);
    let window = count as u64 + AHEAD;
    let pool = Pool {
        units: Mutex::new(Units { units, next: 0 }),
        results: Mutex::new(Results {
            wanted: 0,
            done: BTreeMap::new(),
            count: None,
            stopped: false,
        }),
        room: Condvar::new(),
        result: Condvar::new(),
    };
    thread::scope(|scope| {
        let _stop = StopOnPanic(&pool);
        let started = threads::spawn(scope, count, || {
            let _stop = StopOnPanic(&pool);
            let mut state = state();
            while let Some((number, unit)) = pool.take(window) {
                let result = work(&mut state, unit);
                pool.put(number, result);
            }
        });
        let mut alone = (started == 0).then(&state);
        let consumed = consume(&mut || match &mut alone {
            None => pool.next(),
            Some(state) => {
                let (_, unit) = pool.take(window)?;
                pool.results().wanted += 1;
                Some(work(state, unit))
            }
        });
        pool.stop();
        consumed
    })
}

struct Pool<U, O> {
    /// Apart from the results: making a unit may take its time.
    units: Mutex<Units<U>>,
    results: Mutex<Results<O>>,
    /// There may be room for another result.
    room: Condvar,
    /// There may be a result.
    result: Condvar,
}

struct Units<U> {
    units: U,
    /// Number of the unit that is given out next.
    next: u64,
}

struct Results<O> {
    /// Number of the result that comes out next.
    wanted: u64,
    done: BTreeMap<u64, O>,
    /// How many there are, once that is known.
    count: Option<u64>,
    /// Nobody wants results any more.
    stopped: bool,
}

impl<U: Iterator, O> Pool<U, O> {
    fn results(&self) -> MutexGuard<'_, Results<O>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A unit to work on, once there is room for its result; none if all are done.
    fn take(&self, window: u64) -> Option<(u64, U::Item)> {
        // The others would wait for the same room.
        let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        let mut results = self.results();
        while !results.stopped && units.next >= results.wanted + window {
            results = self
                .room
                .wait(results)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if results.stopped || results.count.is_some() {
            return None;
        }
        drop(results);
        let number = units.next;
        let unit = units.units.next();
        if unit.is_some() {
            units.next += 1;
        } else {
            self.results().count = Some(number);
            self.result.notify_one();
        }
        unit.map(|unit| (number, unit))
    }

    fn put(&self, number: u64, result: O) {
        let mut results = self.results();
        results.done.insert(number, result);
        if number == results.wanted {
            self.result.notify_one();
        }
    }

    /// The next result; none after the last.
    fn next(&self) -> Option<O> {
        let mut results = self.results();
        loop {
            let wanted = results.wanted;
            if results.stopped {
                return None;
            }
            if let Some(result) = results.done.remove(&wanted) {
                results.wanted += 1;
                self.room.notify_one();
                return Some(result);
            }
            if results.count == Some(wanted) {
                return None;
            }
            results = self
                .result
                .wait(results)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn stop(&self) {
        self.results().stopped = true;
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
    fn whoever_wants_no_more_need_not_take_all() {
        let first = pulled(2, 0.., || (), |(), n: u64| n, |next| [next(), next()]);

        assert_eq!(first, [Some(0), Some(1)]);
    }

    #[test]
    fn results_come_while_the_next_unit_is_made() {
        let (taken, is_taken) = std::sync::mpsc::channel();
        let units = (0..3).inspect(move |number| {
            if *number == 2 {
                // Made once the others' results are out.
                is_taken.recv().unwrap();
                is_taken.recv().unwrap();
            }
        });

        let mut count = 0;
        let result: Result<(), ()> = ordered(
            2,
            units,
            || (),
            |(), n: u64| n,
            |_| {
                count += 1;
                let _ = taken.send(());
                Ok(())
            },
        );

        assert_eq!((result, count), (Ok(()), 3));
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
