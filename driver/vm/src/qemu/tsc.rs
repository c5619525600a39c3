//! How fast the host's time stamp counter runs.

use std::time::{Duration, Instant};

use tokio::sync::OnceCell;

use crate::sys;

/// How long the counter is compared with the clock. With both read within a microsecond the result is good to some
/// 0.005 %: a guest that counts time by it drifts by at most 0.2 s an hour.
const SPAN: Duration = Duration::from_millis(20);

/// How often the pair of counter and clock is read, to find two that were read in one go.
const ATTEMPTS: u32 = 16;

/// The counter's rate in kHz, measured once a process. It takes [`SPAN`].
///
/// Linux in an emulated microvm can neither look it up nor measure it reliably (no HPET, no PM timer, a PIT that runs
/// late), and hangs now and then for lack of it. QEMU's emulation passes the host's counter through.
pub(super) async fn khz() -> u64 {
    static KHZ: OnceCell<u64> = OnceCell::const_new();
    *KHZ.get_or_init(measure).await
}

async fn measure() -> u64 {
    let (start, from) = read();
    tokio::time::sleep(SPAN).await;
    let (end, to) = read();
    let nanoseconds = to.duration_since(from).as_nanos().max(1);
    let khz = u128::from(end.wrapping_sub(start)) * 1_000_000 / nanoseconds;
    u64::try_from(khz).unwrap_or(u64::MAX)
}

/// Counter and clock at (nearly) the same moment: the closest of a few attempts.
fn read() -> (u64, Instant) {
    let attempt = |_| {
        let before = sys::time_stamp_counter();
        let clock = Instant::now();
        let after = sys::time_stamp_counter();
        (after.wrapping_sub(before), before, clock)
    };
    let closest = (0..ATTEMPTS).map(attempt).min();
    let (_, counter, clock) = closest.unwrap_or_else(|| attempt(0));
    (counter, clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn two_measurements_agree() {
        let (first, second) = (measure().await, measure().await);

        assert!(first > 100_000, "{first} kHz");
        assert!(first.abs_diff(second) < first / 1000, "{first}, {second}");
    }
}
