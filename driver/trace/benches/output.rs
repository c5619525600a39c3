//! Speed of the output pipeline, against a plain copy of the same bytes line by line.
//!
//! `cargo bench -p vk-trace --bench output`; the figures are in `docs/benchmarks.md`.

#![allow(clippy::indexing_slicing, reason = "a benchmark")]

use std::hint::black_box;
use std::time::{Duration, SystemTime};

use criterion::{Criterion, Throughput};
use vk_trace::{StreamKind, Trace, TraceConfig};

/// Bytes of text per iteration.
const TEXT_LEN: usize = 300_000_000;

/// Bytes per write: what one frame of the agent carries.
const WRITE_LEN: usize = 65_536;

/// Numbers that look random, the same in each run (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Log lines of 75 bytes, line end included, in words of a compiler's output.
fn lines() -> Vec<u8> {
    const WORDS: [&str; 32] = [
        "Compiling",
        "warning:",
        "unused",
        "variable",
        "src/main.rs:42:7",
        "git",
        "note",
        "--help",
        "Finished",
        "https://example.com/a?b=c&d",
        "in",
        "0.52s",
        "single",
        "global",
        "[INFO]",
        "test_case_7",
        "Downloading",
        "libfoo-1.2.3.tar.gz",
        "(2.3",
        "MB)",
        "error[E0499]:",
        "cannot",
        "borrow",
        "`value`",
        "ok",
        "GET",
        "/api/v4/jobs",
        "200",
        "user=alice",
        "\u{1b}[32mpass\u{1b}[0m",
        "2026-11-29",
        "--",
    ];
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut text = Vec::with_capacity(TEXT_LEN + 100);
    while text.len() < TEXT_LEN {
        let end = text.len() + 74;
        while text.len() < end {
            text.extend_from_slice(WORDS[(random.next() >> 59) as usize].as_bytes());
            text.push(b' ');
        }
        text.truncate(end);
        text.push(b'\n');
    }
    text
}

/// Secrets of 8 (GitLab's own minimum) to 36 letters and digits.
fn secrets(count: usize) -> Vec<String> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut secret = || {
        let len = 8 + random.next() % 29;
        (0..len)
            .map(|_| char::from(LETTERS[(random.next() >> 58) as usize]))
            .collect()
    };
    (0..count).map(|_| secret()).collect()
}

/// What a filter that looks for line ends alone would cost.
fn copy_lines(text: &[u8]) {
    let mut out = Vec::new();
    for piece in text.chunks(WRITE_LEN) {
        let mut from = 0;
        for end in memchr::memchr_iter(b'\n', piece) {
            out.extend_from_slice(&piece[from..=end]);
            from = end + 1;
        }
        out.extend_from_slice(&piece[from..]);
        black_box(&out);
        out.clear();
    }
}

fn run_trace(text: &[u8], secrets: &[String], timestamps: bool) {
    let mut trace = Trace::new(TraceConfig {
        secrets: secrets.to_vec(),
        token_prefixes: Vec::new(),
        mask_all_default_tokens: true,
        timestamps,
        limit_bytes: u64::MAX,
    });
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let stream = trace.open(1, StreamKind::Out);
    for piece in text.chunks(WRITE_LEN) {
        trace.write(&stream, now, piece);
        black_box(trace.output());
        trace.clear_output();
    }
    trace.close(stream, now);
}

fn output(criterion: &mut Criterion) {
    let text = lines();
    let unbroken: Vec<u8> = text
        .iter()
        .map(|&byte| if byte == b'\n' { b' ' } else { byte })
        .collect();

    let mut group = criterion.benchmark_group("output");
    group
        .throughput(Throughput::Bytes(text.len() as u64))
        .sample_size(10);
    group.bench_function("copy by line", |b| b.iter(|| copy_lines(&text)));
    for count in [0, 5, 200] {
        let secrets = secrets(count);
        group.bench_function(format!("lines, {count} secrets"), |b| {
            b.iter(|| run_trace(&text, &secrets, true));
        });
    }
    let secrets = secrets(5);
    group.bench_function("no line breaks, 5 secrets", |b| {
        b.iter(|| run_trace(&unbroken, &secrets, true));
    });
    group.bench_function("no time stamps, 5 secrets", |b| {
        b.iter(|| run_trace(&text, &secrets, false));
    });
    let many = vec!["warning:".to_owned(), "git".to_owned()];
    group.bench_function("a mask or two in most lines", |b| {
        b.iter(|| run_trace(&text, &many, true));
    });
    group.finish();
}

mod groups {
    #![allow(missing_docs)]

    use super::output;

    criterion::criterion_group!(benches, output);
}

criterion::criterion_main!(groups::benches);
