//! SIGINT and SIGTERM: the first one cancels gracefully, the second at once.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use vk_driver::{Cancel, CancelMode};

/// Catches the signals from now on and answers what they cancel. A hang-up asks as a terminate does.
///
/// # Errors
///
/// When the kernel refuses the handlers.
pub(crate) fn cancel() -> io::Result<Cancel> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let cancel = Cancel::new();
    let canceler = cancel.clone();
    tokio::spawn(async move {
        let mut mode = CancelMode::Graceful;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            canceler.cancel(mode);
            mode = CancelMode::Immediate;
        }
    });
    Ok(cancel)
}
