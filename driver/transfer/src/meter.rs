//! Progress of a transfer: bytes are counted, and told in the trace (gitlab-runner, wire §3.5:
//! `commands/helpers/meter`).

use std::time::{Duration, Instant};

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
}

impl Meter {
    /// Does `work`, whose bytes are counted by `count`, and tells about it. Of work that ends before it is time to tell
    /// and moved nothing, nothing is told.
    pub(crate) async fn run<T>(
        self,
        count: &Count,
        output: &OutputSender,
        work: impl Future<Output = T>,
    ) -> T {
        let Some(every) = self.every else {
            return work.await;
        };
        let began = Instant::now();
        let mut told = false;
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

    #[tokio::test]
    async fn progress_is_told_while_the_work_goes_on_and_once_at_its_end() {
        let (output, mut read) = output_channel();
        let meter = Meter {
            label: "Downloading artifacts",
            every: Some(Duration::from_millis(1)),
            total: None,
        };
        let count = Count::default();
        let work = async {
            count.add(7);
            tokio::time::sleep(Duration::from_millis(50)).await;
            "done"
        };

        let told = async {
            let mut lines = Vec::new();
            while let Some(note) = read.recv().await {
                let end = note.output.text().ends_with('\n');
                lines.push(note.output.text().to_owned());
                if end {
                    break;
                }
            }
            lines
        };
        let (result, lines) = tokio::join!(meter.run(&count, &output, work), told);

        assert_eq!(result, "done");
        assert!(lines.len() > 1, "{lines:?}");
        assert!(
            lines
                .iter()
                .all(|line| line.starts_with("\rDownloading artifacts 7 B"))
        );
    }

    #[tokio::test]
    async fn nothing_is_told_of_nothing() {
        let (output, mut read) = output_channel();
        let meter = Meter {
            label: "Uploading cache",
            every: Some(Duration::from_secs(3600)),
            total: Some(7),
        };
        meter.run(&Count::default(), &output, async {}).await;
        drop(output);
        assert_eq!(read.recv().await, None);
    }
}
