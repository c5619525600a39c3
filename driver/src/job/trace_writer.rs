//! The printer's output on its way out.

use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::machine::CancelMode;
use super::printer::Printer;

/// A printer and the writer that takes what it prints.
pub(super) struct TraceWriter<'a> {
    pub(super) printer: Printer,
    out: &'a mut (dyn AsyncWrite + Send + Unpin),
    failed: Option<io::Error>,
}

impl<'a> TraceWriter<'a> {
    pub(super) fn new(printer: Printer, out: &'a mut (dyn AsyncWrite + Send + Unpin)) -> Self {
        Self {
            printer,
            out,
            failed: None,
        }
    }

    /// Why the trace could not be written, if it could not.
    pub(super) fn failed(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Writes some of what waits; for ever when nothing does, or nothing can be written any more. Answers whether
    /// the writer still takes the trace. Dropped before it resolves, it has written nothing.
    pub(super) async fn write_some(&mut self) -> bool {
        if self.printer.backlog() == 0 || self.failed.is_some() {
            std::future::pending::<()>().await;
        }
        match self.out.write(self.printer.pending()).await {
            Ok(0) => self.fail(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                self.printer.written(count);
                true
            }
            Err(error) => self.fail(error),
        }
    }

    /// Writes all that waits, unless an immediate cancel says not to wait for the trace's reader.
    pub(super) async fn finish(&mut self, cancel: &mut mpsc::Receiver<CancelMode>) {
        while self.failed.is_none() && self.printer.backlog() > 0 {
            tokio::select! {
                biased;
                () = told_at_once(cancel) => {
                    self.fail(io::Error::other("cancelled while it was still being written"));
                }
                _ = self.write_some() => {}
            }
        }
        if self.failed.is_none()
            && let Err(error) = self.out.flush().await
        {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: io::Error) -> bool {
        self.failed = Some(error);
        self.printer.discard();
        false
    }
}

/// Waits for an immediate cancel; for ever once none can come.
async fn told_at_once(cancel: &mut mpsc::Receiver<CancelMode>) {
    loop {
        match cancel.recv().await {
            Some(CancelMode::Immediate) => return,
            Some(CancelMode::Graceful) => {}
            None => std::future::pending().await,
        }
    }
}
