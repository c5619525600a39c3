//! Places for the VMs of tests: at most two of this target folder's tests run a VM at a time, whichever threads and
//! programs they are in. Tests that boot no VM run beside them.
//!
//! A place is a locked file beside the test programs, so a test that dies leaves its place to others.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test kit fails by panicking"
)]

use std::cell::RefCell;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How many places there are.
const ALL: usize = 2;

/// How long to wait before looking for a free place again.
const PAUSE: Duration = Duration::from_millis(20);

/// How long whoever wants both places holds up the others.
const TURN: Duration = Duration::from_secs(10);

thread_local! {
    /// The places of this thread's test.
    static HELD: RefCell<Vec<File>> = const { RefCell::new(Vec::new()) };
}

/// Waits for a place for a VM, and keeps it until the thread ends, which a test's does with the test. A thread that has
/// one, for the VM before, gets no other.
///
/// # Panics
///
/// If the lock files cannot be made.
pub fn one() {
    hold(1);
}

/// As [`one`], for a test with two VMs at a time.
///
/// # Panics
///
/// If the thread has one place already, since two tests could wait for each other then, or the lock files cannot be
/// made.
pub fn both() {
    hold(ALL);
}

/// Waits for a place and keeps it until the program ends, for a VM that many tests use.
///
/// # Panics
///
/// If the lock files cannot be made.
pub fn one_for_the_program() {
    static OF_THE_PROGRAM: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let places = lock(&folder(), 1);
    OF_THE_PROGRAM
        .lock()
        .expect("nobody panics in here")
        .extend(places);
}

fn hold(count: usize) {
    HELD.with_borrow_mut(|held| {
        if held.is_empty() {
            *held = lock(&folder(), count);
        }
        assert!(
            held.len() >= count,
            "take both places before the first VM starts"
        );
    });
}

/// Beside the folder that cargo puts test programs into.
fn folder() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    let profile = program.ancestors().nth(2).unwrap_or(Path::new("."));
    profile.join("vm-places")
}

/// Locks `count` of the files in `folder`, all at once or none, so that nobody waits for one with another in hand. Who
/// came first is served first.
fn lock(folder: &Path, count: usize) -> Vec<File> {
    fs::create_dir_all(folder).expect("a folder for lock files");
    let open = |name: &str| File::create(folder.join(name)).expect("a lock file");
    loop {
        let turn = open("turn");
        turn.lock().expect("the turn comes");
        let began = Instant::now();
        // A program that keeps a place may want another before it ends: let it pass.
        while count == 1 || began.elapsed() < TURN {
            let mut locked = Vec::new();
            for number in 0..ALL {
                let file = open(&number.to_string());
                match file.try_lock() {
                    Ok(()) => locked.push(file),
                    Err(TryLockError::WouldBlock) => {}
                    Err(TryLockError::Error(error)) => panic!("cannot lock a file: {error}"),
                }
                if locked.len() == count {
                    return locked;
                }
            }
            drop(locked);
            std::thread::sleep(PAUSE);
        }
        drop(turn);
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
                    let count = 1 + number % ALL;
                    let locks = lock(folder, count);
                    let taken = now.fetch_add(count, Ordering::SeqCst) + count;
                    most.fetch_max(taken, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(5));
                    now.fetch_sub(count, Ordering::SeqCst);
                    drop(locks);
                });
            }
        });

        assert_eq!(most.into_inner(), ALL);
        fs::remove_dir_all(folder).expect("the folder of lock files");
    }

    #[test]
    fn a_thread_needs_one_place_for_all_its_vms_and_may_not_want_another() {
        let seen = std::thread::spawn(|| {
            one();
            one();
            let count = HELD.with_borrow(Vec::len);
            (count, std::panic::catch_unwind(both).is_err())
        });

        assert_eq!(seen.join().expect("its end"), (1, true));
    }
}
