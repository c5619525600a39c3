//! vk's side of the trace: which stream what goes to, sections, titles, the first and the last line.

use std::time::SystemTime;

use super::context::JobContext;
use super::order::StageFailure;
use super::stage::Stage;
use vk_hub_proto::job::Failure;
use vk_trace::{
    JOB_STREAM, OWN_STREAM, Output, StampedOutput, Stream, StreamKind, Trace, TraceConfig, lines,
};

use crate::host::Texts;

/// Writes one job's trace.
pub(super) struct Printer {
    trace: Trace,
    /// Greeting, section headers and endings, until the job ends.
    own: Option<Stream>,
    /// The running stage's standard output and standard error.
    work: Option<(Stream, Stream)>,
    texts: Texts,
    sections: bool,
    /// Output of the trace that the writer has not taken yet, from `taken` on.
    pending: Vec<u8>,
    taken: usize,
}

impl Printer {
    pub(super) fn new(config: TraceConfig, texts: &Texts, sections: bool) -> Self {
        let mut trace = Trace::new(config);
        let own = Some(trace.open(OWN_STREAM, StreamKind::Out));
        Self {
            trace,
            own,
            work: None,
            texts: texts.clone(),
            sections,
            pending: Vec::new(),
            taken: 0,
        }
    }

    /// The lines before the first stage (gitlab-runner, build §1.9.2).
    pub(super) fn header(&mut self, context: &JobContext) {
        let changed = context.environment.flags().changed();
        let flags: Vec<String> = changed.map(|(name, on)| format!("{name}:{on}")).collect();
        self.greet(&flags.join(", "));
        let warnings = context.environment.warnings();
        if !warnings.is_empty() {
            self.warning(&warnings.join("\n"));
        }
    }

    /// The greeting, which has a logger of its own in GitLab Runner: what follows starts afresh.
    pub(super) fn greet(&mut self, flags: &str) {
        let stream = self.trace.open(OWN_STREAM, StreamKind::Out);
        let now = SystemTime::now();
        let greeting = lines::plain(&self.texts.greeting);
        self.trace.write(&stream, now, greeting.as_bytes());
        if !flags.is_empty() {
            let flags = lines::plain(&format!("  feature flags: {flags}"));
            self.trace.write(&stream, now, flags.as_bytes());
        }
        self.trace.close(stream, now);
    }

    /// A `WARNING:` line of vk's own.
    pub(super) fn warning(&mut self, text: &str) {
        self.own(&lines::warning(text));
    }

    /// A line of vk's own about the job.
    pub(super) fn info(&mut self, text: &str) {
        self.own(&lines::info(text));
    }

    /// Opens a stage: its section, its title, its streams.
    pub(super) fn begin(&mut self, stage: &Stage) {
        if self.sections {
            self.own(&lines::section_start(SystemTime::now(), &stage.name()));
        }
        self.own(&lines::title(&stage.title(&self.texts.executor)));
        self.work = Some((
            self.trace.open(JOB_STREAM, StreamKind::Out),
            self.trace.open(JOB_STREAM, StreamKind::Err),
        ));
    }

    /// Closes a stage: what its streams held back comes out before the section's end.
    pub(super) fn end(&mut self, stage: &Stage) {
        let now = SystemTime::now();
        if let Some((out, err)) = self.work.take() {
            self.trace.close(out, now);
            self.trace.close(err, now);
        }
        if self.sections {
            self.own(&lines::section_end(now, &stage.name()));
        }
    }

    /// What the running stage wrote, stamped with the moment when this host had it.
    pub(super) fn output(&mut self, StampedOutput { at, output }: &StampedOutput) {
        match (output, &self.work) {
            (Output::Stdout(bytes), Some((out, _))) => self.trace.write(out, *at, bytes),
            (Output::Stderr(bytes), Some((_, err))) => self.trace.write(err, *at, bytes),
            (Output::Own(text), _) => self.own_at(*at, &lines::plain(text)),
            (Output::Warning(text), _) => self.own_at(*at, &lines::warning(text)),
            (_, None) => {}
        }
    }

    /// The last line (gitlab-runner, build §1.9.4). It comes from a logger of its own, so on a line of its own.
    pub(super) fn final_line(&mut self, failure: Option<&StageFailure>) {
        let now = SystemTime::now();
        if let Some(own) = self.own.take() {
            self.trace.close(own, now);
        }
        let line = match failure {
            None => lines::info("Job succeeded"),
            Some(failure) if failure.class == Failure::System => {
                lines::error(&format!("Job failed (system failure): {}", failure.message))
            }
            Some(failure) => lines::error(&format!("Job failed: {}", failure.message)),
        };
        let stream = self.trace.open(OWN_STREAM, StreamKind::Out);
        self.trace.write(&stream, now, line.as_bytes());
        self.trace.close(stream, now);
    }

    /// What waits to be written.
    pub(super) fn pending(&mut self) -> &[u8] {
        if self.taken == self.pending.len() {
            self.pending.clear();
            self.taken = 0;
            self.pending.extend_from_slice(self.trace.output());
            self.trace.clear_output();
        }
        self.pending.get(self.taken..).unwrap_or_default()
    }

    /// Bytes that wait to be written.
    pub(super) fn backlog(&self) -> usize {
        self.pending.len() - self.taken + self.trace.output().len()
    }

    /// Takes note that the first `count` bytes of [`Printer::pending`] were written.
    pub(super) fn written(&mut self, count: usize) {
        self.taken = (self.taken + count).min(self.pending.len());
    }

    /// Drops what waits: it will not be read.
    pub(super) fn discard(&mut self) {
        self.trace.clear_output();
        self.taken = self.pending.len();
    }

    /// Bytes of the whole trace so far.
    pub(super) fn len(&self) -> u64 {
        self.trace.len()
    }

    /// `text` with everything hidden that the trace hides by now.
    pub(super) fn masked(&self, text: &str) -> String {
        self.trace.masked(text)
    }

    fn own(&mut self, bytes: &str) {
        self.own_at(SystemTime::now(), bytes);
    }

    fn own_at(&mut self, at: SystemTime, bytes: &str) {
        if let Some(own) = &self.own {
            self.trace.write(own, at, bytes.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printer(timestamps: bool, sections: bool) -> Printer {
        let config = TraceConfig {
            secrets: vec!["hunter22".into()],
            token_prefixes: Vec::new(),
            mask_all_default_tokens: true,
            timestamps,
            limit_bytes: 4 << 20,
        };
        Printer::new(config, &Texts::default(), sections)
    }

    /// What was printed, with `T` for the seconds of section markers.
    fn printed(printer: &mut Printer) -> String {
        let text = String::from_utf8(printer.pending().to_vec()).unwrap();
        let is_time =
            |part: &str| part.len() == 10 && part.bytes().all(|byte| byte.is_ascii_digit());
        let parts = text.split(':');
        let parts = parts.map(|part| if is_time(part) { "T" } else { part });
        parts.collect::<Vec<_>>().join(":")
    }

    /// Runs a stage whose output ends in what may be the beginning of a secret.
    fn run(printer: &mut Printer) {
        printer.begin(&Stage::PrepareScript);
        printer.output(&StampedOutput {
            at: SystemTime::now(),
            output: Output::Stdout("a hunter".into()),
        });
        printer.end(&Stage::PrepareScript);
    }

    /// gitlab-runner, build §1.9.2.
    #[test]
    fn the_greeting_names_the_flags_that_differ_from_their_defaults() {
        let running = format!(
            "\x1b[0KRunning with vk {}\x1b[0;m\n",
            env!("CARGO_PKG_VERSION")
        );
        let mut plain = printer(false, true);
        plain.greet("");
        assert_eq!(printed(&mut plain), running);

        let mut changed = printer(false, true);
        changed.greet("FF_A:true, FF_B:false");
        assert_eq!(
            printed(&mut changed),
            format!("{running}\x1b[0K  feature flags: FF_A:true, FF_B:false\x1b[0;m\n")
        );
    }

    /// gitlab-runner, build §1.2.1, build §1.9.2, build §1.9.3 and build §6.7: marker, title, output with what was held
    /// back, marker.
    #[test]
    fn a_stage_is_marker_title_output_marker() {
        let mut printer = printer(false, true);
        run(&mut printer);

        assert_eq!(
            printed(&mut printer),
            "section_start:T:prepare_script\r\x1b[0K\
             \x1b[0K\x1b[36;1mPreparing environment\x1b[0;m\x1b[0;m\n\
             a hunter\
             section_end:T:prepare_script\r\x1b[0K"
        );
    }

    /// However late the loop comes to it.
    #[test]
    fn output_carries_the_moment_in_which_this_host_had_it() {
        let mut stamped = printer(true, false);
        stamped.begin(&Stage::PrepareScript);
        stamped.output(&StampedOutput {
            at: SystemTime::UNIX_EPOCH,
            output: Output::Stdout("late\n".into()),
        });
        let text = printed(&mut stamped);
        assert!(
            text.contains("1970-01-01T00:00:00.000000Z 01O late\n"),
            "{text}"
        );
    }

    #[test]
    fn a_message_hides_what_the_job_asked_to_hide() {
        let mut printer = printer(false, false);
        printer.begin(&Stage::PrepareScript);
        printer.output(&StampedOutput {
            at: SystemTime::now(),
            output: Output::Stdout("::add-mask::v4lue-made\n".into()),
        });
        assert_eq!(printer.masked("v4lue-made, hunter22"), "[MASKED], [MASKED]");
    }

    /// gitlab-runner, build §1.9.3.
    #[test]
    fn a_gitlab_without_sections_gets_titles_alone() {
        let mut printer = printer(false, false);
        run(&mut printer);

        assert_eq!(
            printed(&mut printer),
            "\x1b[0K\x1b[36;1mPreparing environment\x1b[0;m\x1b[0;m\na hunter"
        );
    }

    /// gitlab-runner, build §1.9.4.
    #[test]
    fn the_last_line_says_how_the_job_ended() {
        for (failure, line) in [
            (None, "\x1b[32;1mJob succeeded\x1b[0;m\n"),
            (
                Some(StageFailure::new(Failure::Script, "exit code 3")),
                "\x1b[31;1mERROR: Job failed: exit code 3\x1b[0;m\n",
            ),
            (
                Some(StageFailure::new(Failure::System, "the VM powered off")),
                "\x1b[31;1mERROR: Job failed (system failure): the VM powered off\x1b[0;m\n",
            ),
        ] {
            let mut plain = printer(false, true);
            run(&mut plain);
            plain.final_line(failure.as_ref());
            let text = printed(&mut plain);
            // It goes on with the marker's line.
            let end = format!("section_end:T:prepare_script\r\x1b[0K{line}");
            assert!(text.ends_with(&end), "{text:?}");

            // With stamps it has a line of its own that goes on with none.
            let mut stamped = printer(true, true);
            run(&mut stamped);
            stamped.final_line(failure.as_ref());
            let text = printed(&mut stamped);
            let last = text.lines().last().unwrap();
            assert_eq!(last.get(28..), Some(&*format!("00O {}", line.trim_end())));
        }
    }
}
