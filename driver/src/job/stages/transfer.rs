//! What the stages of caches and artifacts share: lines for the trace, archives out of the guest and into it.

use std::time::Instant;

use tokio::io::AsyncRead;
use vk_agent_client::{
    ArchiveEvent, ArchiveFormat, ArchiveRequest, ExtractRequest, Line, Severity,
};
use vk_hub_proto::job::Failure;
use vk_trace::helper::{self, Level};
use vk_trace::lines::{RESET, YELLOW};
use vk_trace::{Output, OutputSender};
use vk_transfer::{MAX_ARCHIVE, Spool, Spooled};

use super::Moment;
use super::helper::HelperEnvironment;
use super::io::{StageIo, StopSignal};
use super::pack_error::PackError;
use crate::job::context::{JobContext, system};
use crate::job::order::StageFailure;
use crate::job::session::Session;

/// Most entries of an archive that is unpacked.
const MAX_ENTRIES: u64 = 10_000_000;

/// A stage of artifacts or caches at work.
pub(super) struct Transfer<'a> {
    pub(super) context: &'a JobContext,
    pub(super) session: &'a Session,
    pub(super) environment: HelperEnvironment,
    pub(super) output: OutputSender,
}

/// Does the work of a stage of artifacts or caches, until the stage is told to stop.
pub(super) async fn transferring<'a, F>(
    context: &'a JobContext,
    session: &'a Session,
    moment: Moment,
    io: StageIo,
    work: impl FnOnce(Transfer<'a>) -> F,
) -> Result<(), StageFailure>
where
    F: Future<Output = Result<(), StageFailure>>,
{
    let StageIo { output, stop } = io;
    let environment = context.environment_at(moment.status);
    let work = async {
        let environment = match HelperEnvironment::read(environment, &session.guest, &output).await
        {
            Ok(environment) => environment,
            Err(error) => return Err(failure(&output, &error).await),
        };
        work(Transfer {
            context,
            session,
            environment,
            output,
        })
        .await
    };
    until_stopped(stop, work).await
}

async fn until_stopped(
    mut stop: StopSignal,
    work: impl Future<Output = Result<(), StageFailure>>,
) -> Result<(), StageFailure> {
    tokio::select! {
        result = work => result,
        _ = stop.stopped() => Err(system("the transfer was stopped".to_owned())),
    }
}

/// A warning of the script that calls the helper: a line in yellow, without a prefix.
pub(super) async fn script_warning(output: &OutputSender, text: &str) {
    output.out(format!("{YELLOW}{text}{RESET}\n")).await;
}

/// A failure of the helper: its last line, and how its script ends. The reason is another service's.
pub(super) async fn fatal(output: &OutputSender, text: &str) -> StageFailure {
    output.log(Level::Fatal, text, &[]).await;
    StageFailure {
        class: Failure::ExternalDependency,
        exit_code: None,
        message: "exit code 1".to_owned(),
        detail: Some(text.to_owned()),
    }
}

/// As [`fatal`], unless guest or host failed.
pub(super) async fn failure(output: &OutputSender, error: &PackError) -> StageFailure {
    match error {
        PackError::Broken(text) | PackError::Disk(text) => system(text.clone()),
        error => fatal(output, &error.to_string()).await,
    }
}

impl Transfer<'_> {
    /// Packs files of the guest into an archive on the host; `None` when there are none.
    pub(super) async fn pack(&self, request: ArchiveRequest) -> Result<Option<Spooled>, PackError> {
        let began = Instant::now();
        let mut spool = Spool::create(self.session.guest.work_dir())?;
        let mut archive = self.session.guest.agent().archive(request).await?;
        while let Some(event) = archive.next().await? {
            match event {
                ArchiveEvent::Data(bytes) => spool.write(&bytes).await?,
                ArchiveEvent::Line(line) => self.output.send(helper_line(&line)).await,
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
    ) -> Result<Unpacked, PackError> {
        let request = ExtractRequest {
            dest: self.context.environment.dirs().project.clone(),
            format,
            owner: self.session.process.user().map(str::to_owned),
            max_archive_bytes: MAX_ARCHIVE,
            max_entries: MAX_ENTRIES,
            max_bytes: self.session.guest.size().scratch_bytes,
        };
        let began = Instant::now();
        let tell = |line: Line| self.output.send_now(helper_line(&line));
        let agent = self.session.guest.agent();
        let summary = agent.extract(request, archive, tell).await?;
        let took_us = began.elapsed().as_micros();
        tracing::debug!(took_us, bytes = summary.bytes, "unpacked an archive");
        Ok(match summary.obstructed {
            text if text.is_empty() => Unpacked::Whole,
            text => Unpacked::Obstructed(text),
        })
    }
}

/// What came of an archive.
#[must_use]
pub(super) enum Unpacked {
    /// All is there.
    Whole,
    /// All but a link in whose place other entries need a folder, which GitLab Runner's helper fails on, in its words.
    Obstructed(String),
}

/// A line of the guest's as the helper's log has it.
fn helper_line(line: &Line) -> Output {
    let level = match line.severity {
        Severity::Plain => return Output::Stderr(format!("{}\n", line.text).into()),
        Severity::Info => Level::Info,
        Severity::Warning => Level::Warning,
        Severity::Error => Level::Error,
    };
    Output::Stderr(helper::line(level, &line.text, &[]).into())
}

#[cfg(test)]
mod tests {
    use vk_trace::{MAX_WAITING, output_channel};

    use super::*;

    #[test]
    fn a_guest_that_never_stops_sending_lines_is_cut_off() {
        let (output, mut received) = output_channel();
        let line = Line {
            severity: Severity::Warning,
            text: "x".repeat(1 << 20),
        };
        for _ in 0..100 {
            output.send_now(helper_line(&line));
        }
        let mut bytes = 0;
        while let Some(line) = received.try_recv() {
            bytes += line.output.text().len();
        }
        assert!(bytes > 0 && bytes <= MAX_WAITING, "{bytes}");
    }

    #[tokio::test]
    async fn output_comes_in_its_order_and_a_stop_ends_the_work() {
        let (output, mut trace) = output_channel();
        let (stop, stopped) = tokio::sync::watch::channel(None);
        let StageIo {
            output,
            stop: signal,
        } = StageIo::new(output, stopped);
        let work = until_stopped(signal, async {
            output.notice("a").await;
            output.info("b").await;
            script_warning(&output, "c").await;
            std::future::pending().await
        });
        let read = async {
            let mut all = Vec::new();
            for _ in 0..3 {
                all.push(trace.recv().await.unwrap().output);
            }
            stop.send_replace(Some(crate::job::order::StopMode::AtOnce));
            all
        };

        let (result, all) = tokio::join!(work, read);

        assert_eq!(result.unwrap_err().class, Failure::System);
        assert_eq!(all[0], Output::Stdout("\x1b[32;1ma\x1b[0;m\n".into()));
        assert!(matches!(&all[1], Output::Stderr(line) if line.starts_with(b"b ")));
        assert_eq!(all[2], Output::Stdout("\x1b[0;33mc\x1b[0;m\n".into()));
    }
}
