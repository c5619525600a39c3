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

/// How long QEMU has not answered when [`Monitor::watch`] returns.
pub(super) const WAIT_LIMIT: Duration = INTERVAL.saturating_mul(MAX_UNANSWERED);

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
    /// Waits until QEMU answers, which it does once the machine is set up. Its greeting may come before.
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
        line.clear();
        read_line(&mut monitor.lines, &mut line).await?;
        Ok(monitor)
    }

    pub(super) fn reason(&self) -> Reason {
        self.reason.clone()
    }

    async fn ask(&mut self, command: &str) -> io::Result<()> {
        let line = format!("{{\"execute\":\"{command}\"}}\n");
        self.writer.write_all(line.as_bytes()).await
    }

    /// Returns when QEMU has not answered for [`WAIT_LIMIT`]; not at all if it hangs up, since its end follows.
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

#[cfg(test)]
mod tests {
    use tokio::time::{self, timeout};

    use super::*;

    /// A monitor and QEMU's end of it, which has greeted.
    async fn monitor() -> (Monitor, BufReader<UnixStream>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut qemu = BufReader::new(theirs);
        qemu.write_all(b"{\"QMP\":{}}\r\n{\"return\":{}}\r\n")
            .await
            .unwrap();
        let monitor = Monitor::greet(ours).await.unwrap();
        let mut line = String::new();
        qemu.read_line(&mut line).await.unwrap();
        assert_eq!(line, "{\"execute\":\"qmp_capabilities\"}\n");
        (monitor, qemu)
    }

    #[tokio::test]
    async fn first_reason_for_a_shutdown_is_kept() {
        let (monitor, mut qemu) = monitor().await;
        let reason = monitor.reason();
        for name in ["guest-reset", "host-signal"] {
            let event = format!(
                "{{\"event\":\"SHUTDOWN\",\"data\":{{\"guest\":true,\"reason\":\"{name}\"}}}}\r\n"
            );
            qemu.write_all(event.as_bytes()).await.unwrap();
        }
        drop(qemu);

        // It hangs up, so that watching does not return.
        timeout(Duration::from_millis(200), monitor.watch())
            .await
            .unwrap_err();

        assert_eq!(reason.get(), Some(ShutdownReason::GuestReset));
    }

    #[tokio::test(start_paused = true)]
    async fn qemu_that_answers_is_left_alone_and_one_that_does_not_is_given_up() {
        let (monitor, mut qemu) = monitor().await;
        let watch = tokio::spawn(monitor.watch());
        for _ in 0..100 {
            let mut line = String::new();
            qemu.read_line(&mut line).await.unwrap();
            assert!(line.contains("query-status"));
            qemu.write_all(b"{\"return\":{}}\r\n").await.unwrap();
        }
        assert!(!watch.is_finished());

        let silent = time::Instant::now();
        watch.await.unwrap();

        assert!(silent.elapsed() >= WAIT_LIMIT, "{:?}", silent.elapsed());
    }

    #[tokio::test]
    async fn unknown_and_broken_messages_are_passed_over() {
        let (monitor, mut qemu) = monitor().await;
        let reason = monitor.reason();
        qemu.write_all(b"rubbish\n{\"event\":\"STOP\"}\n[1]\n")
            .await
            .unwrap();
        let event = b"{\"event\":\"SHUTDOWN\",\"data\":{\"reason\":\"new-one\"}}\n";
        qemu.write_all(event).await.unwrap();

        timeout(Duration::from_millis(200), monitor.watch())
            .await
            .unwrap_err();

        assert_eq!(reason.get(), Some(ShutdownReason::Other));
    }
}
