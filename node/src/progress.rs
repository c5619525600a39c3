//! Progress on standard error, while there is nothing of the job to read yet.

use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How long something has to take until it gets a line: lines on their way to the same terminal arrive first.
const WAIT_LIMIT: Duration = Duration::from_millis(300);

/// How often the line moves.
const TICK: Duration = Duration::from_millis(120);

/// A line that moves on a terminal; nothing elsewhere. While it is there, nothing else may go to the terminal.
pub(crate) struct Progress {
    drawer: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Starts to show `message`.
    pub(crate) fn start(message: &'static str) -> Self {
        let drawer = std::io::stderr().is_terminal().then(|| {
            let (stop, stopped) = mpsc::channel();
            let thread = thread::spawn(move || {
                if stopped.recv_timeout(WAIT_LIMIT) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                let bar = bar(message);
                // Returns when the other end is dropped.
                let _ = stopped.recv();
                bar.finish_and_clear();
            });
            (stop, thread)
        });
        Self { drawer }
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if let Some((stop, thread)) = self.drawer.take() {
            drop(stop);
            // It only draws.
            let _ = thread.join();
        }
    }
}

fn bar(message: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(message);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(TICK);
    bar
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
