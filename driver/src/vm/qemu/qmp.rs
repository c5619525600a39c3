//! QEMU's monitor: why it shut down, and whether it is still there. QEMU Machine Protocol, `qmp-spec.txt`.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, sleep_until};

/// How often QEMU is asked whether it is there.
const INTERVAL: Duration = Duration::from_secs(5);

/// How many times it may fail to answer. A loaded host can hold it up for seconds. Questions are counted rather than
/// seconds, since this process may itself stand still.
const MAX_UNANSWERED: u32 = 6;

/// How long QEMU was silent when [`Monitor::watch`] returns.
pub(super) const PATIENCE: Duration = INTERVAL.saturating_mul(MAX_UNANSWERED);

/// Longest message read, in bytes; QEMU's are far shorter.
const MAX_LINE: u64 = 64 * 1024;

/// Why QEMU says it shut down (`ShutdownCause` of QEMU's `qapi/run-state.json`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ShutdownReason {
    GuestShutdown,
    GuestReset,
    GuestPanic,
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct Message {
    event: Option<String>,
    data: Option<Data>,
}

#[derive(Debug, Deserialize)]
struct Data {
    reason: Option<ShutdownReason>,
}

/// Why QEMU shut down, once it has said so. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Reason(Arc<Mutex<Option<ShutdownReason>>>);

impl Reason {
    pub(super) fn get(&self) -> Option<ShutdownReason> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, reason: ShutdownReason) {
        // The first is the cause, what follows its consequence.
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(reason);
    }
}

/// The connection to a running QEMU.
pub(super) struct Monitor {
    lines: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    reason: Reason,
}

impl Monitor {
    /// Waits for QEMU's greeting, which it sends when the machine is set up.
    pub(super) async fn greet(stream: UnixStream) -> io::Result<Self> {
        let (reader, writer) = stream.into_split();
        let mut monitor = Self {
            lines: BufReader::new(reader),
            writer,
            reason: Reason::default(),
        };
        let mut line = Vec::new();
        read_line(&mut monitor.lines, &mut line).await?;
        monitor.ask("qmp_capabilities").await?;
        Ok(monitor)
    }

    pub(super) fn reason(&self) -> Reason {
        self.reason.clone()
    }

    async fn ask(&mut self, command: &str) -> io::Result<()> {
        let line = format!("{{\"execute\":\"{command}\"}}\n");
        self.writer.write_all(line.as_bytes()).await
    }

    /// Returns when QEMU has been silent for [`PATIENCE`]; not at all if it hangs up, since its end follows.
    pub(super) async fn watch(mut self) {
        let mut unanswered = 0;
        let mut ask = Instant::now() + INTERVAL;
        let mut line = Vec::new();
        loop {
            let mut hung_up = false;
            tokio::select! {
                // An answer that is there counts, however late we come to read it.
                biased;
                read = read_line(&mut self.lines, &mut line) => {
                    unanswered = 0;
                    match read {
                        Ok(()) => self.handle(&line),
                        Err(_) => hung_up = true,
                    }
                    line.clear();
                }
                () = sleep_until(ask) => {
                    if unanswered == MAX_UNANSWERED {
                        return;
                    }
                    unanswered += 1;
                    ask = Instant::now() + INTERVAL;
                    hung_up = self.ask("query-status").await.is_err();
                }
            }
            if hung_up {
                std::future::pending::<()>().await;
            }
        }
    }

    fn handle(&self, line: &[u8]) {
        let message: Message = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) => {
                tracing::debug!(%error, "QEMU said something unexpected");
                return;
            }
        };
        if message.event.as_deref() == Some("SHUTDOWN")
            && let Some(reason) = message.data.and_then(|data| data.reason)
        {
            self.reason.set(reason);
        }
    }
}

/// Reads on in a line until it is whole; may be dropped in between, as long as `line` is kept.
async fn read_line(from: &mut BufReader<OwnedReadHalf>, line: &mut Vec<u8>) -> io::Result<()> {
    let left = MAX_LINE.saturating_sub(line.len() as u64);
    from.take(left).read_until(b'\n', line).await?;
    if line.ends_with(b"\n") {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
