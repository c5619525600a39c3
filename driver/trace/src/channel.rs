//! How the output of a stage's work comes to the trace: a bounded channel.
//!
//! There is one [`OutputReceiver`] and any number of [`OutputSender`]s. Output carries the moment in which this host had it,
//! which is the line's stamp however late it is written. [`OutputSender::send`] waits while the trace is behind, so that a
//! slow reader of the trace slows the work; [`OutputSender::send_now`] is for callbacks that cannot wait, and bounded by
//! [`MAX_WAITING`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::helper::{Level, line};
use crate::lines;

/// Bytes that may wait before [`OutputSender::send`] waits, too: some frames of the agent's.
const BACKLOG: usize = 1 << 20;

/// Bytes that may wait in all. What [`OutputSender::send_now`] brings beyond them is dropped: four times the default limit of a
/// trace, behind which nobody would see it.
pub const MAX_WAITING: usize = 16 << 20;

/// What something costs that waits, beside its text.
const OVERHEAD: usize = 64;

/// Output of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard output of the stage's work, in any pieces.
    Stdout(Bytes),
    /// Its standard error.
    Stderr(Bytes),
    /// A plain line of the executor's own.
    Own(String),
    /// A warning of the executor's own.
    Warning(String),
}

impl Output {
    /// This output, which came just now.
    #[must_use]
    pub fn now(self) -> StampedOutput {
        StampedOutput {
            at: SystemTime::now(),
            output: self,
        }
    }

    fn bytes(&self) -> usize {
        let text = match self {
            Self::Stdout(bytes) | Self::Stderr(bytes) => bytes.len(),
            Self::Own(text) | Self::Warning(text) => text.len(),
        };
        text.saturating_add(OVERHEAD)
    }

    /// Its text; what is no UTF-8 in it is replaced.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Stdout(bytes) | Self::Stderr(bytes) => {
                String::from_utf8_lossy(bytes).into_owned()
            }
            Self::Own(text) | Self::Warning(text) => text.clone(),
        }
    }
}

/// Output and its moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StampedOutput {
    /// When this host had it.
    pub at: SystemTime,
    /// The output.
    pub output: Output,
}

/// Takes a stage's output. A clone sends to the same receiver.
#[derive(Debug)]
pub struct OutputSender(Arc<Shared>);

/// Where it comes out.
#[derive(Debug)]
pub struct OutputReceiver(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is output, or the last sender has gone.
    arrived: Notify,
    /// Some was received, or the receiver has gone.
    left: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<StampedOutput>,
    bytes: usize,
    senders: usize,
    gone: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room(&self) -> bool {
        self.gone || self.bytes < BACKLOG
    }

    fn push(&mut self, at: SystemTime, output: Output) {
        let bytes = output.bytes();
        if self.gone || self.bytes.saturating_add(bytes) > MAX_WAITING {
            return;
        }
        self.bytes += bytes;
        self.waiting.push_back(StampedOutput { at, output });
    }

    fn pop(&mut self) -> Option<StampedOutput> {
        let received = self.waiting.pop_front()?;
        self.bytes -= received.output.bytes();
        Some(received)
    }
}

/// A channel's two ends.
#[must_use]
pub fn output_channel() -> (OutputSender, OutputReceiver) {
    let shared = Arc::new(Shared::default());
    shared.state().senders = 1;
    (OutputSender(Arc::clone(&shared)), OutputReceiver(shared))
}

impl OutputSender {
    /// Sends output; waits while the trace is behind. Dropped meanwhile, it has sent nothing.
    pub async fn send(&self, output: Output) {
        let at = SystemTime::now();
        self.room().await;
        self.push(at, output);
    }

    /// Sends output without waiting.
    pub fn send_now(&self, output: Output) {
        self.push(SystemTime::now(), output);
    }

    /// Sends, once there is room, what `held` holds, with its own moment. Dropped meanwhile, it has sent nothing and `held`
    /// still holds it.
    pub async fn send_held(&self, held: &mut Option<StampedOutput>) {
        self.room().await;
        if let Some(StampedOutput { at, output }) = held.take() {
            self.push(at, output);
        }
    }

    /// Writes to standard output as it is.
    pub async fn out(&self, text: impl Into<Bytes>) {
        self.send(Output::Stdout(text.into())).await;
    }

    /// Writes to standard error as it is.
    pub async fn err(&self, text: impl Into<Bytes>) {
        self.send(Output::Stderr(text.into())).await;
    }

    /// A line in green on standard output, as GitLab Runner's scripts print what they are about to do.
    pub async fn notice(&self, text: &str) {
        self.out(lines::info(text)).await;
    }

    /// A line of the helper's log on standard error.
    pub async fn log(&self, level: Level, text: &str, fields: &[(&str, &str)]) {
        self.err(line(level, text, fields)).await;
    }

    /// A line of the helper's log for information, without fields.
    pub async fn info(&self, text: &str) {
        self.log(Level::Info, text, &[]).await;
    }

    /// A warning of the helper's log, without fields.
    pub async fn warning(&self, text: &str) {
        self.log(Level::Warning, text, &[]).await;
    }

    async fn room(&self) {
        loop {
            let left = self.0.left.notified();
            tokio::pin!(left);
            // Before the look: what leaves behind it wakes.
            left.as_mut().enable();
            if self.0.state().has_room() {
                return;
            }
            left.await;
        }
    }

    fn push(&self, at: SystemTime, output: Output) {
        self.0.state().push(at, output);
        self.0.arrived.notify_one();
    }
}

impl Clone for OutputSender {
    fn clone(&self) -> Self {
        self.0.state().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl Drop for OutputSender {
    fn drop(&mut self) {
        self.0.state().senders -= 1;
        self.0.arrived.notify_one();
    }
}

impl OutputReceiver {
    /// The next output; `None` once all was received and every sender has gone. Dropped before it resolves, it has received
    /// nothing.
    pub async fn recv(&mut self) -> Option<StampedOutput> {
        loop {
            {
                let mut state = self.0.state();
                if let Some(received) = state.pop() {
                    drop(state);
                    self.0.left.notify_waiters();
                    return Some(received);
                }
                if state.senders == 0 {
                    return None;
                }
            }
            self.0.arrived.notified().await;
        }
    }

    /// The next output, if any waits.
    pub fn try_recv(&mut self) -> Option<StampedOutput> {
        let received = self.0.state().pop();
        self.0.left.notify_waiters();
        received
    }
}

impl Drop for OutputReceiver {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.gone = true;
        state.waiting.clear();
        state.bytes = 0;
        drop(state);
        self.0.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn out(text: &'static str) -> Output {
        Output::Stdout(Bytes::from_static(text.as_bytes()))
    }

    fn large() -> Output {
        Output::Stderr(Bytes::from(vec![b'x'; BACKLOG]))
    }

    #[tokio::test]
    async fn all_is_heard_in_its_order_until_the_last_voice_has_gone() {
        let (sender, mut receiver) = output_channel();
        let other = sender.clone();
        sender.send(out("a")).await;
        other.send_now(Output::Warning("b".into()));
        drop(sender);
        assert_eq!(receiver.recv().await.unwrap().output, out("a"));
        assert_eq!(receiver.recv().await.unwrap().output.text(), "b");
        let end = async {
            tokio::task::yield_now().await;
            drop(other);
        };
        let ((), received) = tokio::join!(end, receiver.recv());
        assert_eq!(received, None);
    }

    #[tokio::test]
    async fn a_slow_receiver_is_waited_for_and_the_moment_kept() {
        let (sender, mut receiver) = output_channel();
        sender.send(large()).await;
        let before = SystemTime::now();
        let late = async {
            sender.send(out("late")).await;
            SystemTime::now()
        };
        let slow = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            receiver.recv().await.unwrap();
            receiver.recv().await.unwrap()
        };
        let (after, received) = tokio::join!(late, slow);
        assert_eq!(received.output, out("late"));
        assert!(received.at.duration_since(before).unwrap() < Duration::from_millis(50));
        assert!(after >= received.at);
    }

    #[tokio::test]
    async fn what_was_given_up_while_it_waited_was_not_sent() {
        let (sender, mut receiver) = output_channel();
        sender.send(large()).await;
        let mut held = Some(StampedOutput {
            at: SystemTime::UNIX_EPOCH,
            output: out("held"),
        });
        let given_up = tokio::time::timeout(Duration::from_millis(1), sender.send_held(&mut held));
        assert!(given_up.await.is_err());
        assert!(held.is_some());
        receiver.recv().await.unwrap();
        sender.send_held(&mut held).await;
        assert_eq!(receiver.recv().await.unwrap().at, SystemTime::UNIX_EPOCH);
        assert_eq!(held, None);
    }

    #[tokio::test]
    async fn nobody_waits_for_a_receiver_that_has_gone() {
        let (sender, receiver) = output_channel();
        sender.send(large()).await;
        drop(receiver);
        sender.send(large()).await;
        assert_eq!(sender.0.state().bytes, 0);
    }

    #[test]
    fn what_cannot_wait_is_bounded() {
        let (sender, mut receiver) = output_channel();
        for _ in 0..2 * MAX_WAITING / BACKLOG {
            sender.send_now(large());
        }
        let mut bytes = 0;
        while let Some(received) = receiver.try_recv() {
            bytes += received.output.bytes();
        }
        assert!(
            bytes <= MAX_WAITING && bytes > MAX_WAITING - 2 * BACKLOG,
            "{bytes}"
        );
    }

    proptest! {
        /// Two tasks at once: what each sends is received once, in its order.
        #[test]
        fn nothing_is_lost_or_mixed(lengths in proptest::collection::vec(0_usize..3 * BACKLOG / 2, 1..12)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let (first, mut receiver) = output_channel();
                let second = first.clone();
                let speak = |sender: OutputSender, mark: u8| {
                    let lengths = lengths.clone();
                    async move {
                        for length in lengths {
                            sender.out(vec![mark; length]).await;
                            tokio::task::yield_now().await;
                        }
                    }
                };
                let recv = async {
                    let mut all = [Vec::new(), Vec::new()];
                    while let Some(received) = receiver.recv().await {
                        let Output::Stdout(bytes) = received.output else { unreachable!() };
                        if let Some(mark) = bytes.first() {
                            all[usize::from(*mark)].push(bytes.len());
                        }
                    }
                    all
                };
                let ((), (), all) = tokio::join!(speak(first, 0), speak(second, 1), recv);
                let expected: Vec<usize> = lengths.iter().copied().filter(|length| *length > 0).collect();
                assert_eq!(all, [expected.clone(), expected]);
            });
        }
    }
}
