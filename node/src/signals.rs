//! SIGINT and SIGTERM: the first one cancels gracefully, the second at once.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use vk_driver::CancelMode;

/// Signals that may wait: further ones change nothing after the second.
const WAITING: usize = 4;

/// Catches the signals from now on and answers the cancels that they ask for. A hang-up asks as a terminate does.
///
/// # Errors
///
/// When the kernel refuses the handlers.
pub(crate) fn cancels() -> io::Result<mpsc::Receiver<CancelMode>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let (sender, cancels) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        let mut mode = CancelMode::Graceful;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
                // The receiver is gone.
                () = sender.closed() => return,
            }
            // A full channel holds enough cancels already.
            let _ = sender.try_send(mode);
            mode = CancelMode::Immediate;
        }
    });
    Ok(cancels)
}
