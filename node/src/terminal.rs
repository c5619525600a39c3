//! The terminal that vk runs on, handed to a command in a guest.

use std::io;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use vk_driver::TerminalSize;

/// The terminal on standard input.
pub(crate) struct Terminal {
    before: Termios,
}

impl Terminal {
    /// The one of this process.
    ///
    /// # Errors
    ///
    /// If standard input or output is none.
    pub(crate) fn of_this_process() -> io::Result<Self> {
        let none = |_| io::Error::other("standard input and output must be a terminal");
        tcgetwinsize(io::stdout()).map_err(none)?;
        let before = tcgetattr(io::stdin()).map_err(none)?;
        Ok(Self { before })
    }

    /// Its size now.
    pub(crate) fn size(&self) -> Option<TerminalSize> {
        size()
    }

    /// Its size, each time it changes.
    pub(crate) fn sizes(&self) -> mpsc::Receiver<TerminalSize> {
        let (sender, sizes) = mpsc::channel(1);
        tokio::spawn(async move {
            let Ok(mut changed) = signal(SignalKind::window_change()) else {
                return;
            };
            while changed.recv().await.is_some() {
                if let Some(size) = size()
                    && sender.send(size).await.is_err()
                {
                    return;
                }
            }
        });
        sizes
    }

    /// Hands what is typed on as it is, Ctrl-C too, until the guard is dropped.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(crate) fn raw(&self) -> io::Result<RawMode> {
        let mut raw = self.before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?;
        Ok(RawMode {
            before: self.before.clone(),
        })
    }
}

fn size() -> Option<TerminalSize> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    Some(TerminalSize {
        columns: size.ws_col,
        rows: size.ws_row,
    })
}

/// A terminal in raw mode; dropped, it is as before.
pub(crate) struct RawMode {
    before: Termios,
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A closed terminal needs no restoring.
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.before);
    }
}
