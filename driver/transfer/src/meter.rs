//! Progress of a transfer: bytes are counted, and told in the trace (gitlab-runner, wire §3.5:
//! `commands/helpers/meter`).

use std::time::Duration;

use tokio::time::Instant;

use vk_http::Count;

use vk_trace::OutputSender;

/// What erases the rest of a longer line before.
const ERASER: &str = "                ";

/// How a transfer's progress is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    /// What is transferred.
    pub(crate) label: &'static str,
    /// How often it is told (`TRANSFER_METER_FREQUENCY`); `None` for never.
    pub(crate) every: Option<Duration>,
    /// Bytes in all, where that is known.
    pub(crate) total: Option<u64>,
    /// Whether it is told at once; else of work that moves nothing, and is soon over, nothing is told.
    pub(crate) at_once: bool,
}

/// Progress is told no more often, whatever is asked for.
const LEAST: Duration = Duration::from_secs(1);

impl Meter {
    /// Does `work`, whose bytes are counted by `count`, and tells about it again and again, and at its end.
    pub(crate) async fn run<T>(
        self,
        count: &Count,
        output: &OutputSender,
        work: impl Future<Output = T>,
    ) -> T {
        let Some(every) = self.every else {
            return work.await;
        };
        let every = every.max(LEAST);
        let began = Instant::now();
        let mut told = self.at_once;
        if told {
            output.out(self.line(0, Duration::ZERO)).await;
        }
        let line = || self.line(count.bytes(), began.elapsed());
        tokio::pin!(work);
        let result = loop {
            tokio::select! {
                result = &mut work => break result,
                () = tokio::time::sleep(every) => {
                    output.out(line()).await;
                    told = true;
                }
            }
        };
        if told || count.bytes() > 0 {
            output.out(format!("{}\n", line())).await;
        }
        result
    }

    fn line(self, bytes: u64, elapsed: Duration) -> String {
        let total = self
            .total
            .map_or_else(String::new, |total| format!("/{}", amount(total)));
        format!(
            "\r{} {}{total} ({}){ERASER}",
            self.label,
            amount(bytes),
            rate(bytes, elapsed)
        )
    }
}

/// Number and unit of `value`, in steps of 1000; no prefix below it.
fn scaled(value: f64) -> (f64, &'static str) {
    let mut scaled = value;
    for prefix in ["", "K", "M", "G", "T", "P"] {
        if scaled < 1000.0 {
            return (scaled, prefix);
        }
        scaled /= 1000.0;
    }
    (scaled, "E")
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn amount(bytes: u64) -> String {
    match scaled(bytes as f64) {
        (_, "") => format!("{bytes} B"),
        (number, prefix) => format!("{number:.2} {prefix}B"),
    }
}

/// Bytes a second; a time too short to measure counts as a nanosecond.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn rate(bytes: u64, elapsed: Duration) -> String {
    let seconds = elapsed.max(Duration::from_nanos(1)).as_secs_f64();
    match scaled(bytes as f64 / seconds) {
        (number, "") => format!("{number:.0} B/s"),
        (number, prefix) => format!("{number:.1} {prefix}B/s"),
    }
}

#[cfg(test)]
mod tests {
    use vk_trace::output_channel;

    use super::*;

    /// gitlab-runner, wire §8.10 and wire §3.5.
    #[test]
    fn figures_are_those_of_gitlab_runner() {
        assert_eq!(amount(1), "1 B");
        assert_eq!(amount(1100), "1.10 KB");
        assert_eq!(amount(1_110_000), "1.11 MB");
        assert_eq!(amount(u64::MAX), "18.45 EB");
        assert_eq!(rate(1490, Duration::from_secs(1)), "1.5 KB/s");
        assert_eq!(rate(10, Duration::from_secs(2)), "5 B/s");
        assert_eq!(rate(10, Duration::ZERO), "10.0 GB/s");
    }

    #[test]
    fn a_line_starts_over_and_erases_what_was_longer() {
        let mut meter = Meter {
            label: "Uploading artifacts",
            every: None,
            total: Some(2000),
            at_once: true,
        };
        let second = Duration::from_secs(1);
        assert_eq!(
            meter.line(10, second),
            "\rUploading artifacts 10 B/2.00 KB (10 B/s)                "
        );
        meter.total = None;
        assert_eq!(
            meter.line(10, second),
            "\rUploading artifacts 10 B (10 B/s)                "
        );
    }

    async fn told_of(
        meter: Meter,
        count: &Count,
        work: impl Future<Output = &'static str>,
    ) -> Vec<String> {
        let (output, mut read) = output_channel();
        let run = async {
            let result = meter.run(count, &output, work).await;
            drop(output);
            result
        };
        let told = async {
            let mut lines = Vec::new();
            while let Some(note) = read.recv().await {
                lines.push(note.output.text().to_owned());
            }
            lines
        };
        let (result, lines) = tokio::join!(run, told);
        assert_eq!(result, "done");
        lines
    }

    /// gitlab-runner, wire §3.5.
    #[tokio::test(start_paused = true)]
    async fn progress_is_told_at_once_while_the_work_goes_on_and_at_its_end() {
        let lines = async |every: u64| {
            let meter = Meter {
                label: "Uploading artifacts",
                every: Some(Duration::from_millis(every)),
                total: None,
                at_once: true,
            };
            let count = Count::default();
            let work = async {
                count.add(700);
                tokio::time::sleep(Duration::from_millis(3500)).await;
                "done"
            };
            told_of(meter, &count, work).await
        };
        let line = |rest: &str| format!("\rUploading artifacts {rest}{ERASER}");
        let wanted = [
            line("0 B (0 B/s)"),
            line("700 B (700 B/s)"),
            line("700 B (350 B/s)"),
            line("700 B (233 B/s)"),
            line("700 B (200 B/s)") + "\n",
        ];

        for every in [1, 500, 1000] {
            assert_eq!(lines(every).await, wanted, "{every}");
        }
        assert_eq!(
            lines(2000).await,
            [0, 2, 4].map(|at: usize| wanted[at].clone())
        );
        assert_eq!(lines(3_600_000).await.len(), 2);
    }

    #[tokio::test]
    async fn nothing_is_told_unless_it_is_asked_for_or_of_nothing_that_may_be_silent() {
        let meter = Meter {
            label: "Uploading cache",
            every: None,
            total: Some(7),
            at_once: true,
        };
        let lines = told_of(meter, &Count::default(), async { "done" }).await;
        assert_eq!(lines, [""; 0]);

        let meter = Meter {
            every: Some(Duration::from_secs(3600)),
            at_once: false,
            ..meter
        };
        let lines = told_of(meter, &Count::default(), async { "done" }).await;
        assert_eq!(lines, [""; 0]);
        let count = Count::default();
        count.add(7);
        assert_eq!(told_of(meter, &count, async { "done" }).await.len(), 1);
    }
}
