//! What the stages of caches and artifacts share: notes to the trace, archives out of the guest and into it.

use std::sync::Arc;
use std::time::Instant;

use tokio::io::AsyncRead;
use vk_hub_proto::job::Failure;

use super::Moment;
use super::helper::HelperEnvironment;
use super::io::{StageIo, StageOut, StageOutput};
use crate::guest::Guest;
use crate::guest::SCRATCH_BYTES;
use crate::job::context::{JobContext, system};
use crate::job::order::StageFailure;
use vk_agent_client::{
    AgentError, ArchiveEvent, ArchiveFormat, ArchiveRequest, ExtractRequest, Line, Severity,
};
use vk_text::chain;
use vk_trace::helper::Level;
use vk_trace::lines::{self, RESET, YELLOW};
use vk_transfer::{MAX_ARCHIVE, Spool, SpoolError, Spooled};
use vk_transfer::{Note, Notes};

/// Most entries of an archive that is unpacked.
const MAX_ENTRIES: u64 = 10_000_000;

/// Bytes of an unpacking's lines that are kept for the trace.
const MAX_LINES: usize = 256 << 10;

/// Why an archive does not get out of the guest, or into it.
#[derive(Debug, thiserror::Error)]
pub(super) enum PackError {
    /// The guest says why.
    #[error("{0}")]
    Refused(String),
    /// The guest is lost, or does not keep to the protocol.
    #[error("{0}")]
    Broken(String),
    /// This host's disk is full or broken: the guest is well.
    #[error("{0}")]
    Disk(String),
    /// It is larger than archives may be.
    #[error(transparent)]
    TooLarge(SpoolError),
}

impl From<AgentError> for PackError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Failed { message, .. } => Self::Refused(message),
            // What goes to the guest lies on this host's disk.
            error @ AgentError::Source { .. } => Self::Disk(chain(&error)),
            error => Self::Broken(chain(&error)),
        }
    }
}

impl From<SpoolError> for PackError {
    fn from(error: SpoolError) -> Self {
        match error {
            SpoolError::TooLarge => Self::TooLarge(error),
            SpoolError::Io(_) => Self::Disk(chain(&error)),
        }
    }
}

/// A stage of artifacts or caches at work.
pub(super) struct Transfer<'a> {
    pub(super) context: &'a JobContext,
    pub(super) environment: HelperEnvironment,
    pub(super) guest: Arc<Guest>,
    pub(super) notes: Notes,
}

/// Does the work of a stage of artifacts or caches. Its notes go to the trace as they come, until the stage is told to
/// stop.
pub(super) async fn transferring<'a, F>(
    context: &'a JobContext,
    moment: Moment,
    io: &mut StageIo,
    work: impl FnOnce(Transfer<'a>) -> F,
) -> Result<(), StageFailure>
where
    F: Future<Output = Result<(), StageFailure>>,
{
    let guest = context.guest().ok_or_else(|| {
        system("there is no VM to take files from, or to put them into".to_owned())
    })?;
    let environment = context.environment_at(moment.status);
    noting(io, |notes| async move {
        let environment = match HelperEnvironment::read(environment, &guest, &notes).await {
            Ok(environment) => environment,
            Err(error) => return Err(failure(&notes, &error).await),
        };
        work(Transfer {
            context,
            environment,
            guest,
            notes,
        })
        .await
    })
    .await
}

/// Does `work`, whose notes go to the trace as they come, until the stage is told to stop.
async fn noting<F>(io: &mut StageIo, work: impl FnOnce(Notes) -> F) -> Result<(), StageFailure>
where
    F: Future<Output = Result<(), StageFailure>>,
{
    let (notes, read) = Notes::channel();
    let StageIo { out, stop } = io;
    // Both to their end: notes on their way to a trace that is behind must not get lost.
    let all = async {
        let (result, ()) = tokio::join!(work(notes), forward(read, out));
        result
    };
    tokio::select! {
        result = all => result,
        _ = stop.stopped() => Err(system("the transfer was stopped".to_owned())),
    }
}

async fn forward(mut notes: tokio::sync::mpsc::Receiver<Note>, out: &StageOut) {
    while let Some(note) = notes.recv().await {
        out.send(match note {
            Note::Out(text) => StageOutput::Stdout(text.into()),
            Note::Err(text) => StageOutput::Stderr(text.into()),
        })
        .await;
    }
}

/// A notice of the script that calls the helper: a line in green.
pub(super) async fn notice(notes: &Notes, text: &str) {
    notes.out(lines::info(text)).await;
}

/// A warning of the script that calls the helper: a line in yellow, without a prefix.
pub(super) async fn caution(notes: &Notes, text: &str) {
    notes.out(format!("{YELLOW}{text}{RESET}\n")).await;
}

/// A failure of the helper: its last line, and how its script ends. The reason is another service's.
pub(super) async fn fatal(notes: &Notes, text: &str) -> StageFailure {
    notes.log(Level::Fatal, text, &[]).await;
    StageFailure {
        class: Failure::ExternalDependency,
        exit_code: None,
        message: "exit code 1".to_owned(),
        detail: Some(text.to_owned()),
    }
}

/// As [`fatal`], unless guest or host are in trouble.
pub(super) async fn failure(notes: &Notes, error: &PackError) -> StageFailure {
    match error {
        PackError::Broken(text) | PackError::Disk(text) => system(text.clone()),
        error => fatal(notes, &error.to_string()).await,
    }
}

impl Transfer<'_> {
    /// Packs files of the guest into an archive on the host; `None` when there are none.
    pub(super) async fn pack(&self, request: ArchiveRequest) -> Result<Option<Spooled>, PackError> {
        let began = Instant::now();
        let mut spool = Spool::create(self.guest.work_dir())?;
        let mut archive = self.guest.agent().archive(request).await?;
        while let Some(event) = archive.next().await? {
            match event {
                ArchiveEvent::Data(bytes) => spool.write(&bytes).await?,
                ArchiveEvent::Line(line) => say(&self.notes, &line).await,
            }
        }
        if archive.summary().is_none_or(|summary| summary.entries == 0) {
            return Ok(None);
        }
        let archive = spool.finish().await?;
        let took_us = began.elapsed().as_micros();
        tracing::debug!(took_us, bytes = archive.size(), "packed an archive");
        Ok(Some(archive))
    }

    /// Unpacks an archive into the project's folder.
    pub(super) async fn unpack(
        &self,
        archive: impl AsyncRead + Unpin + Send,
        format: Option<ArchiveFormat>,
    ) -> Result<(), PackError> {
        let request = ExtractRequest {
            dest: self.context.environment.dirs().project.clone(),
            format,
            owner: self.context.process().user().map(str::to_owned),
            max_archive_bytes: MAX_ARCHIVE,
            max_entries: MAX_ENTRIES,
            max_bytes: SCRATCH_BYTES,
        };
        let began = Instant::now();
        let mut said = Said::default();
        let result = self
            .guest
            .agent()
            .extract(request, archive, |line| said.push(line))
            .await;
        for line in &said.lines {
            say(&self.notes, line).await;
        }
        let summary = result?;
        let took_us = began.elapsed().as_micros();
        tracing::debug!(took_us, bytes = summary.bytes, "unpacked an archive");
        Ok(())
    }
}

/// Lines of an unpacking, which come from a callback that cannot wait: their sum is bounded.
#[derive(Default)]
struct Said {
    lines: Vec<Line>,
    bytes: usize,
}

impl Said {
    fn push(&mut self, line: Line) {
        // A line costs more than its text.
        self.bytes = self.bytes.saturating_add(line.text.len() + 64);
        if self.bytes <= MAX_LINES {
            self.lines.push(line);
        }
    }
}

async fn say(notes: &Notes, line: &Line) {
    let level = match line.severity {
        Severity::Info => Level::Info,
        Severity::Warning => Level::Warning,
        Severity::Error => Level::Error,
    };
    notes.log(level, &line.text, &[]).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_never_stops_talking_is_cut_off() {
        let mut said = Said::default();
        for _ in 0..100_000 {
            said.push(Line {
                severity: Severity::Warning,
                text: "x".repeat(100),
            });
        }
        assert_eq!(said.lines.len(), MAX_LINES / (100 + 64));
    }

    #[tokio::test]
    async fn notes_reach_the_trace_in_their_order_and_a_stop_ends_the_work() {
        let (sender, mut trace) = tokio::sync::mpsc::channel(1);
        let (stop, stopped) = tokio::sync::watch::channel(None);
        let mut io = StageIo::new(sender, stopped);
        let work = noting(&mut io, |notes| async move {
            notice(&notes, "a").await;
            notes.info("b").await;
            caution(&notes, "c").await;
            std::future::pending().await
        });
        let read = async {
            let mut all = Vec::new();
            for _ in 0..3 {
                all.push(trace.recv().await.unwrap());
            }
            stop.send_replace(Some(crate::job::order::StopMode::AtOnce));
            all
        };

        let (result, all) = tokio::join!(work, read);

        assert_eq!(result.unwrap_err().class, Failure::System);
        assert_eq!(all[0], StageOutput::Stdout("\x1b[32;1ma\x1b[0;m\n".into()));
        assert!(matches!(&all[1], StageOutput::Stderr(line) if line.starts_with(b"b ")));
        assert_eq!(all[2], StageOutput::Stdout("\x1b[0;33mc\x1b[0;m\n".into()));
    }
}
