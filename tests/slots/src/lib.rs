//! Places for the VMs of tests: two of this target folder's tests run a VM at a time, whichever threads and programs
//! they are in. Tests that boot no VM run beside them.
//!
//! A place is a locked file beside the test programs, so a test that dies leaves its place to others.

#![expect(clippy::expect_used, reason = "a test kit fails by panicking")]

use std::cell::RefCell;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How many VMs there are at a time.
const PLACES: usize = 2;

/// How long to wait before looking for a free place again.
const PAUSE: Duration = Duration::from_millis(20);

/// Places that a test has; others get them once the last copy is dropped.
#[derive(Clone, Debug)]
pub struct Slots {
    _held: Arc<Locks>,
}

#[derive(Debug)]
struct Locks {
    files: Vec<File>,
}

thread_local! {
    /// What this thread's test has: all VMs that it runs one after the other need but one place.
    static HELD: RefCell<Weak<Locks>> = const { RefCell::new(Weak::new()) };
}

/// Waits for a place for a VM. A thread that has places gets a copy of them.
///
/// # Panics
///
/// If the lock files cannot be made.
#[must_use]
pub fn one() -> Slots {
    take(1)
}

/// Waits for both places, for a test with two VMs at a time.
///
/// # Panics
///
/// If the thread has one already, since two tests could wait for each other then, or the lock files cannot be made.
#[must_use]
pub fn both() -> Slots {
    take(PLACES)
}

fn take(count: usize) -> Slots {
    HELD.with_borrow_mut(|held| {
        if let Some(locks) = held.upgrade() {
            assert!(
                locks.files.len() >= count,
                "take both places before the first VM starts"
            );
            return Slots { _held: locks };
        }
        let locks = Arc::new(Locks {
            files: lock(&folder(), count),
        });
        *held = Arc::downgrade(&locks);
        Slots { _held: locks }
    })
}

/// Beside the folder that cargo puts test programs into.
fn folder() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    let profile = program.ancestors().nth(2).unwrap_or(Path::new("."));
    profile.join("vm-places")
}

/// Locks `count` of the files in `folder`.
fn lock(folder: &Path, count: usize) -> Vec<File> {
    fs::create_dir_all(folder).expect("a folder for lock files");
    let open = |name: &str| File::create(folder.join(name)).expect("a lock file");
    // Whoever wants both would never get them if others went past.
    let turn = open("turn");
    turn.lock().expect("the turn is waited for");
    let mut locked = Vec::new();
    let mut free: Vec<File> = (0..PLACES).map(|n| open(&n.to_string())).collect();
    loop {
        free = free
            .into_iter()
            .filter_map(|file| {
                if locked.len() == count {
                    return None;
                }
                match file.try_lock() {
                    Ok(()) => locked.push(file),
                    Err(TryLockError::WouldBlock) => return Some(file),
                    Err(TryLockError::Error(error)) => panic!("cannot lock a file: {error}"),
                }
                None
            })
            .collect();
        if locked.len() == count {
            return locked;
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn two_have_a_place_at_a_time_and_one_may_have_both() {
        let folder = folder().with_file_name("vm-places-of-a-test");
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));

        std::thread::scope(|scope| {
            for number in 0..12 {
                let (folder, now, most) = (&folder, &now, &most);
                scope.spawn(move || {
                    let count = 1 + number % 2;
                    let locks = lock(folder, count);
                    let taken = now.fetch_add(count, Ordering::SeqCst) + count;
                    most.fetch_max(taken, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(5));
                    now.fetch_sub(count, Ordering::SeqCst);
                    drop(locks);
                });
            }
        });

        assert_eq!(most.into_inner(), PLACES);
        fs::remove_dir_all(folder).expect("the folder of lock files");
    }

    #[test]
    fn a_thread_needs_one_place_for_all_its_vms() {
        let first = one();
        let second = one();

        assert!(Arc::ptr_eq(&first._held, &second._held));
        drop(first);
        assert!(HELD.with_borrow(|held| held.upgrade().is_some()));
        drop(second);
        assert!(HELD.with_borrow(|held| held.upgrade().is_none()));
    }

    #[test]
    #[should_panic = "take both places before"]
    fn a_second_place_is_not_waited_for() {
        let _first = one();
        let _both = both();
    }
}
