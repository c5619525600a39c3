//! The printer's output on its way out.

use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::cancel::CancelRequests;
use super::printer::Printer;

/// Why a trace is not whole.
#[derive(Debug)]
pub(super) enum TraceLost {
    /// Its writer failed.
    Failed(io::Error),
    /// An immediate cancel ended the wait for its reader.
    Cancelled,
}

/// A printer and the writer that takes what it prints.
pub(super) struct TraceWriter<'a> {
    pub(super) printer: Printer,
    out: &'a mut (dyn AsyncWrite + Send + Unpin),
    lost: Option<TraceLost>,
}

impl<'a> TraceWriter<'a> {
    pub(super) fn new(printer: Printer, out: &'a mut (dyn AsyncWrite + Send + Unpin)) -> Self {
        Self {
            printer,
            out,
            lost: None,
        }
    }

    /// Why the trace is not whole, if it is not.
    pub(super) fn lost(&self) -> Option<&TraceLost> {
        self.lost.as_ref()
    }

    /// Writes some of what waits; for ever when nothing does, or nothing can be written any more. Answers whether
    /// the writer still takes the trace. Dropped before it resolves, it has written nothing.
    pub(super) async fn write_some(&mut self) -> bool {
        if self.printer.backlog() == 0 || self.lost.is_some() {
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
    pub(super) async fn finish(&mut self, cancel: &mut CancelRequests) {
        let told = tokio::select! {
            biased;
            () = cancel.immediate() => true,
            () = self.write_all() => false,
        };
        if told && self.lost.is_none() {
            self.lost = Some(TraceLost::Cancelled);
        }
    }

    async fn write_all(&mut self) {
        while self.lost.is_none() && self.printer.backlog() > 0 {
            self.write_some().await;
        }
        if self.lost.is_none()
            && let Err(error) = self.out.flush().await
        {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: io::Error) -> bool {
        self.lost = Some(TraceLost::Failed(error));
        self.printer.discard();
        false
    }
}
