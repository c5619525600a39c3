//! SIGINT and SIGTERM: the first one cancels gracefully, the second at once.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use vk_driver::CancelMode;

/// Signals that may wait to be heard: behind the second they say nothing new.
const WAITING: usize = 4;

/// Catches the signals from now on and answers the cancels that they ask for. A hang-up asks as a terminate does.
///
/// # Errors
///
/// When the kernel refuses to have them caught.
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
                // Nobody listens any more.
                () = sender.closed() => return,
            }
            // A full channel holds enough cancels already.
            let _ = sender.try_send(mode);
            mode = CancelMode::Immediate;
        }
    });
    Ok(cancels)
}
