//! Any text with any secrets, cut anywhere, through the trace's filters.

use std::time::{Duration, SystemTime};

use vk_trace::{JOB_STREAM, OWN_STREAM, StreamKind, Trace, TraceConfig};

use super::input::Input;

/// Bytes of a time stamp's header (gitlab-runner, build §6.5).
const HEADER: usize = 32;

const STREAMS: [(u8, StreamKind); 3] = [
    (JOB_STREAM, StreamKind::Out),
    (JOB_STREAM, StreamKind::Err),
    (OWN_STREAM, StreamKind::Out),
];

/// Writes texts that `bytes` describe to three streams, and checks what the trace promises:
///
/// * text cut into writes comes out as the whole text does,
/// * no secret is in what comes out,
/// * without the stamps, the lines of a stream are its text,
/// * a trace cut at its limit is a piece of the whole one with the notice behind it.
pub fn trace(bytes: &[u8]) {
    let case = Case::read(bytes);
    let texts = case.whole();
    assert_eq!(case.cut(), texts, "cut text differs from the whole one");
    for text in &texts {
        assert_hidden(text, &case.secrets);
    }

    let plain = case.run(false, u64::MAX);
    assert_eq!(plain.len(), texts.iter().map(String::len).sum::<usize>());

    let stamped = case.run(true, u64::MAX);
    for (stream, text) in texts.iter().enumerate() {
        let lines = without_stamps(&stamped, STREAMS.get(stream));
        assert!(
            lines == *text || lines.strip_suffix('\n') == Some(text),
            "{lines:?} is not {text:?}"
        );
    }
    for (timestamps, all) in [(false, &plain), (true, &stamped)] {
        check_limit(&case.run(timestamps, case.limit), all, case.limit);
    }
}

struct Case {
    secrets: Vec<String>,
    token_prefixes: Vec<String>,
    mask_all_default_tokens: bool,
    /// In bytes, at least 1.
    limit: u64,
    /// Stream number and text of each write.
    writes: Vec<(usize, Vec<u8>)>,
}

impl Case {
    fn read(bytes: &[u8]) -> Case {
        let mut input = Input::new(bytes);
        let mask_all_default_tokens = input.below(2) == 0;
        let limit = 1 + 8 * u64::from(input.byte());
        let secrets = (0..input.below(6)).map(|_| input.text(32)).collect();
        let token_prefixes = (0..input.below(4)).map(|_| input.text(16)).collect();
        let mut writes = Vec::new();
        while !input.is_empty() {
            let kind = input.below(64);
            // A few are long, so that lines are cut at 8 KiB.
            let times = if kind == 63 { 300 } else { 1 };
            writes.push((kind % 3, input.bytes(64).repeat(times)));
        }
        Case {
            secrets,
            token_prefixes,
            mask_all_default_tokens,
            limit,
            writes,
        }
    }

    fn trace(&self, timestamps: bool, limit_bytes: u64) -> Trace {
        Trace::new(TraceConfig {
            secrets: self.secrets.clone(),
            token_prefixes: self.token_prefixes.clone(),
            mask_all_default_tokens: self.mask_all_default_tokens,
            timestamps,
            limit_bytes,
        })
    }

    fn pieces(&self, stream: usize) -> impl Iterator<Item = &[u8]> {
        let of_it = self.writes.iter().filter(move |(to, _)| *to == stream);
        of_it.map(|(_, text)| text.as_slice())
    }

    /// What comes of each stream's text in one write.
    fn whole(&self) -> [String; 3] {
        let mut trace = self.trace(false, u64::MAX);
        [0, 1, 2].map(|stream| {
            let all = self.pieces(stream).collect::<Vec<_>>().concat();
            alone(&mut trace, [all.as_slice()].into_iter())
        })
    }

    /// What comes of it as it is cut.
    fn cut(&self) -> [String; 3] {
        let mut trace = self.trace(false, u64::MAX);
        [0, 1, 2].map(|stream| alone(&mut trace, self.pieces(stream)))
    }

    /// The trace of all streams.
    fn run(&self, timestamps: bool, limit_bytes: u64) -> String {
        let mut trace = self.trace(timestamps, limit_bytes);
        let streams = STREAMS.map(|(id, kind)| trace.open(id, kind));
        let mut now = SystemTime::UNIX_EPOCH;
        for (to, text) in &self.writes {
            now += Duration::from_micros(1);
            if let Some(stream) = streams.get(*to) {
                trace.write(stream, now, text);
            }
        }
        for stream in streams {
            trace.close(stream, now);
        }
        assert_eq!(trace.len(), trace.output().len() as u64);
        valid(trace.take_output())
    }
}

/// What comes of `pieces` written to a stream of their own.
fn alone<'a>(trace: &mut Trace, pieces: impl Iterator<Item = &'a [u8]>) -> String {
    let stream = trace.open(JOB_STREAM, StreamKind::Out);
    for piece in pieces {
        trace.write(&stream, SystemTime::UNIX_EPOCH, piece);
    }
    trace.close(stream, SystemTime::UNIX_EPOCH);
    valid(trace.take_output())
}

fn valid(output: Vec<u8>) -> String {
    let text = String::from_utf8(output);
    assert!(text.is_ok(), "the trace is no UTF-8");
    text.unwrap_or_default()
}

/// Between the masks stands no secret: no value without the white space around it, and no line of 8 bytes or more
/// of a value of several (gitlab-runner, build §6.2; golden job 09).
fn assert_hidden(output: &str, secrets: &[String]) {
    for value in secrets.iter().map(|secret| secret.trim()) {
        let lines = value.lines().map(str::trim).filter(|line| line.len() >= 8);
        for pattern in [value].into_iter().chain(lines) {
            // A byte that is no UTF-8 may become this letter after the masks are set.
            if pattern.is_empty() || pattern.contains('\u{fffd}') {
                continue;
            }
            for shown in output.split("[MASKED]") {
                assert!(!shown.contains(pattern), "{pattern:?} is in {output:?}");
            }
        }
    }
}

/// The lines of one stream, as a reader puts them together.
fn without_stamps(trace: &str, stream: Option<&(u8, StreamKind)>) -> String {
    let Some((id, kind)) = stream else {
        return String::new();
    };
    let letter = match kind {
        StreamKind::Out => 'O',
        StreamKind::Err => 'E',
    };
    let name = format!("{id:02x}{letter}");
    let mut text = String::new();
    for record in trace.split_inclusive('\n') {
        assert!(record.ends_with('\n'), "a record without end: {record:?}");
        let (header, line) = record.split_at(HEADER);
        if header.get(28..31) != Some(&name) {
            continue;
        }
        match header.get(31..) {
            Some("+") => assert_eq!(text.pop(), Some('\n'), "nothing to go on with"),
            mark => assert_eq!(mark, Some(" ")),
        }
        text.push_str(line);
    }
    text
}

fn check_limit(cut: &str, all: &str, limit: u64) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if all.len() < limit {
        assert_eq!(cut, all);
        return;
    }
    let notice = format!(
        "\n\x1b[33;1mJob's log exceeded limit of {limit} bytes.\n\
         Job execution will continue but no more output will be collected.\x1b[0;m\n"
    );
    let kept = cut.strip_suffix(&notice);
    assert!(
        kept.is_some_and(|kept| all.starts_with(kept)
            && kept.len() <= limit
            && kept.len() + 3 >= limit),
        "cut at {limit}: {cut:?}"
    );
}
