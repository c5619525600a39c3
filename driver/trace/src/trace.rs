//! The trace of one job: its streams, and the end that they share.

use std::sync::Arc;
use std::time::SystemTime;

use super::finder::Finder;
use super::limit::Limit;
use super::mask::Masker;
use super::requests::{Part, Requests};
use super::sink::{MASK, Sink};
use super::stamp::{Stamp, Stamper, StreamKind};
use super::tokens::{TokenFilter, TokenState};
use super::url::{UrlFilter, UrlState};
use super::{lines, requests, secrets, tokens, utf8};

/// Number of the stream for vk's own lines (gitlab-runner, build §6.1).
pub const OWN_STREAM: u8 = 0;

/// Number of the streams for what the job's stages write (gitlab-runner, build §6.1).
pub const JOB_STREAM: u8 = 1;

/// What a trace hides, and how it looks.
#[derive(Clone)]
pub struct TraceConfig {
    /// Values of the masked variables, after expansion.
    pub secrets: Vec<String>,
    /// Prefixes to mask behind, beside the default ones.
    pub token_prefixes: Vec<String>,
    /// Whether to mask behind all of GitLab's own prefixes (`FF_MASK_ALL_DEFAULT_TOKENS`), not only
    /// `glpat-`.
    pub mask_all_default_tokens: bool,
    /// Whether lines carry time stamps (`FF_TIMESTAMPS`).
    pub timestamps: bool,
    /// Bytes after which the trace is cut, stamps counted. The notice that says so comes on top.
    pub limit_bytes: u64,
}

/// One open stream of a [`Trace`]. Not to be used with another trace.
#[derive(Debug)]
#[must_use = "a stream that is not closed keeps its last line back"]
pub struct Stream(usize);

/// The trace of one job.
///
/// One owner writes all streams to it and takes the output from it:
///
/// ```
/// use std::time::SystemTime;
/// use vk_trace::{JOB_STREAM, StreamKind, Trace, TraceConfig};
///
/// let mut trace = Trace::new(TraceConfig {
///     secrets: vec!["hunter2".into()],
///     token_prefixes: Vec::new(),
///     mask_all_default_tokens: true,
///     timestamps: false,
///     limit_bytes: 4 << 20,
/// });
/// let stdout = trace.open(JOB_STREAM, StreamKind::Out);
/// trace.write(&stdout, SystemTime::now(), b"the password is hun");
/// trace.write(&stdout, SystemTime::now(), b"ter2\n");
/// trace.close(stdout, SystemTime::now());
/// assert_eq!(trace.take_output(), b"the password is [MASKED]\n");
/// ```
pub struct Trace {
    /// What is hidden, and what finds it.
    patterns: Vec<Vec<u8>>,
    phrases: Option<Arc<Finder>>,
    /// What the running job may still ask to hide.
    requests_left: Room,
    prefixes: Option<Arc<Finder>>,
    timestamps: bool,
    streams: Vec<Option<State>>,
    out: Vec<u8>,
    limit: Limit,
}

/// One stream's filters.
struct State {
    requests: Requests,
    masker: Masker,
    url: UrlState,
    tokens: TokenState,
    end: End,
}

impl Trace {
    /// A trace that is still empty.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a configuration makes one trace"
    )]
    pub fn new(config: TraceConfig) -> Trace {
        let prefixes = config.token_prefixes.iter().map(String::as_str);
        let prefixes = tokens::prefixes(prefixes, config.mask_all_default_tokens);
        let patterns = secrets::patterns(config.secrets.iter().map(String::as_str));
        Trace {
            phrases: Finder::new(patterns.clone()).map(Arc::new),
            patterns,
            requests_left: Room::default(),
            prefixes: Finder::new(prefixes).map(Arc::new),
            timestamps: config.timestamps,
            streams: Vec::new(),
            out: Vec::new(),
            limit: Limit::new(config.limit_bytes),
        }
    }

    /// Opens a stream: [`OWN_STREAM`], [`JOB_STREAM`], or 15 and up for services
    /// (gitlab-runner, build §6.1). Streams may share a number; each has filters of its own.
    pub fn open(&mut self, id: u8, kind: StreamKind) -> Stream {
        let end = match self.timestamps {
            true => End::Stamped(Stamper::new(id, kind)),
            false => End::Plain(Vec::new()),
        };
        let state = Some(State::new(self.phrases.clone(), self.prefixes.clone(), end));
        let free = self.streams.iter().position(Option::is_none);
        let index = free.unwrap_or(self.streams.len());
        match self.streams.get_mut(index) {
            Some(slot) => *slot = state,
            None => self.streams.push(state),
        }
        Stream(index)
    }

    /// Takes the next bytes of `stream`, which came at `now`, cut anywhere. What one write puts out
    /// is bounded by its own length: each byte becomes at most a stamp and a mask.
    pub fn write(&mut self, stream: &Stream, now: SystemTime, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(part) = self
            .state(stream.0)
            .and_then(|state| state.requests.next(&mut rest))
        {
            self.part(stream.0, now, part);
        }
    }

    /// The filters of an open stream, while the trace takes more.
    fn state(&mut self, stream: usize) -> Option<&mut State> {
        let open = !self.limit.reached();
        self.streams
            .get_mut(stream)
            .and_then(Option::as_mut)
            .filter(|_| open)
    }

    fn part(&mut self, stream: usize, now: SystemTime, part: Part<'_>) {
        match part {
            Part::Text(text) => self.feed(stream, now, |masker, next| masker.write(&text, next)),
            Part::Value(value) => match self.requests_left.take(value.len()) {
                Some(()) => self.hide(now, &value),
                None => {
                    let notice = lines::warning(TOO_MANY_REQUESTS);
                    self.feed(stream, now, |masker, next| {
                        masker.write(notice.as_bytes(), next);
                    });
                }
            },
        }
    }

    /// Hides `value` from here on, in all streams.
    fn hide(&mut self, now: SystemTime, value: &[u8]) {
        self.patterns.extend(requests::patterns(value));
        let Some(finder) = Finder::new(self.patterns.clone()).map(Arc::new) else {
            return;
        };
        for stream in 0..self.streams.len() {
            let finder = Arc::clone(&finder);
            self.feed(stream, now, |masker, next| masker.change(finder, next));
        }
        self.phrases = Some(finder);
    }

    /// Lets the filters of a stream work, and stores what they put out.
    fn feed(
        &mut self,
        stream: usize,
        now: SystemTime,
        work: impl FnOnce(&mut Masker, &mut Chain<'_>),
    ) {
        if let Some(Some(state)) = self.streams.get_mut(stream)
            && !self.limit.reached()
        {
            let start = self.out.len();
            state.run(now, &mut self.out, work);
            state.end.hold_back(&mut self.out, start);
            store(&mut self.out, &mut self.limit, start);
        }
    }

    /// Ends `stream` and puts out what it held back (gitlab-runner, build §6.7).
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a closed stream must not be written to"
    )]
    pub fn close(&mut self, stream: Stream, now: SystemTime) {
        if let Some(part) = self
            .state(stream.0)
            .and_then(|state| state.requests.close())
        {
            self.part(stream.0, now, part);
        }
        if let Some(mut state) = self.streams.get_mut(stream.0).and_then(Option::take)
            && !self.limit.reached()
        {
            let start = self.out.len();
            state.run(now, &mut self.out, |masker, next| masker.close(next));
            state.end.close(&mut self.out);
            store(&mut self.out, &mut self.limit, start);
        }
    }

    /// `text` with everything hidden that the trace hides at this moment: what the running job asked for included, in
    /// traces that have reached their limit, too. The trace itself takes nothing of it.
    ///
    /// Lines in it that ask for a value to be hidden are left out, as they are in the trace, and hide nothing more.
    #[must_use]
    pub fn masked(&self, text: &str) -> String {
        let mut out = Vec::new();
        let mut state = State::new(
            self.phrases.clone(),
            self.prefixes.clone(),
            End::Plain(Vec::new()),
        );
        // No stamps: no time.
        let now = SystemTime::UNIX_EPOCH;
        let mut requests = Requests::new();
        let mut rest = text.as_bytes();
        while let Some(part) = requests.next(&mut rest) {
            if let Part::Text(text) = part {
                state.run(now, &mut out, |masker, next| masker.write(&text, next));
            }
        }
        if let Some(Part::Text(text)) = requests.close() {
            state.run(now, &mut out, |masker, next| masker.write(&text, next));
        }
        state.run(now, &mut out, |masker, next| masker.close(next));
        utf8::repair(&mut out, 0);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// What has come out since the output was last taken or cleared.
    pub fn output(&self) -> &[u8] {
        &self.out
    }

    /// Forgets [`Trace::output`], keeping its memory for what comes next.
    pub fn clear_output(&mut self) {
        self.out.clear();
    }

    /// Takes [`Trace::output`] away.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Bytes of the whole trace so far, taken or not.
    pub fn len(&self) -> u64 {
        self.limit.total()
    }

    /// Whether nothing has come out yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the trace has reached its limit: what is written from now on is dropped.
    #[cfg(test)]
    fn limit_reached(&self) -> bool {
        self.limit.reached()
    }
}

/// What all streams share: repair, then limit (gitlab-runner, build §6.6).
fn store(out: &mut Vec<u8>, limit: &mut Limit, start: usize) {
    utf8::repair(out, start);
    limit.apply(out, start);
}

/// How much a running job may still ask to hide: each value costs a look at all the others.
struct Room {
    values: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            values: 1000,
            bytes: 1 << 20,
        }
    }
}

impl Room {
    /// Takes room for a value of `len` bytes; none if there is none left.
    fn take(&mut self, len: usize) -> Option<()> {
        self.values = self.values.checked_sub(1)?;
        self.bytes = self.bytes.checked_sub(len)?;
        Some(())
    }
}

/// What stands in place of a request that is too much.
const TOO_MANY_REQUESTS: &str =
    "A value is not masked: a job can have 1000 values of 1 MiB together masked by ::add-mask::";

impl State {
    fn new(phrases: Option<Arc<Finder>>, prefixes: Option<Arc<Finder>>, end: End) -> Self {
        Self {
            requests: Requests::new(),
            masker: Masker::new(phrases),
            url: UrlState::default(),
            tokens: TokenState::new(prefixes),
            end,
        }
    }

    /// Lets the masker hand on to the filters behind it.
    fn run(
        &mut self,
        now: SystemTime,
        out: &mut Vec<u8>,
        feed: impl FnOnce(&mut Masker, &mut Chain<'_>),
    ) {
        if let End::Plain(held) = &mut self.end {
            out.append(held);
        }
        let next = EndSink {
            end: &mut self.end,
            now: Stamp::new(now),
            out,
        };
        let next = TokenFilter {
            state: &mut self.tokens,
            next,
        };
        feed(
            &mut self.masker,
            &mut UrlFilter {
                state: &mut self.url,
                next,
            },
        );
    }
}

/// What follows the masker (gitlab-runner, build §6.1: URL parameters, tokens, stamps).
type Chain<'a> = UrlFilter<'a, TokenFilter<'a, EndSink<'a>>>;

/// The last filter of a stream.
enum End {
    Stamped(Stamper),
    /// Text goes out as it is, but for the beginning of a character: another stream must not come
    /// between it and its rest. At most 3 bytes.
    Plain(Vec<u8>),
}

impl End {
    /// After a write that put out what `out` holds from `start` on.
    fn hold_back(&mut self, out: &mut Vec<u8>, start: usize) {
        if let End::Plain(held) = self {
            let tail = utf8::incomplete_tail(out.get(start..).unwrap_or_default());
            held.extend(out.drain(out.len() - tail..));
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if let End::Stamped(stamper) = self {
            stamper.close(out);
        }
    }
}

struct EndSink<'a> {
    end: &'a mut End,
    now: Stamp,
    out: &'a mut Vec<u8>,
}

impl Sink for EndSink<'_> {
    fn text(&mut self, text: &[u8]) {
        match self.end {
            End::Stamped(stamper) => stamper.text(&self.now, text, self.out),
            End::Plain(_) => self.out.extend_from_slice(text),
        }
    }

    fn mask(&mut self) {
        self.text(MASK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn config() -> TraceConfig {
        TraceConfig {
            secrets: Vec::new(),
            token_prefixes: Vec::new(),
            mask_all_default_tokens: true,
            timestamps: false,
            limit_bytes: 4 << 20,
        }
    }

    fn text(trace: &mut Trace) -> String {
        String::from_utf8(trace.take_output()).unwrap()
    }

    /// gitlab-runner, build §6.1.
    #[test]
    fn filters_act_in_gitlab_runners_order() {
        let mut trace = Trace::new(TraceConfig {
            secrets: vec!["secret".into()],
            timestamps: true,
            ..config()
        });
        let stream = trace.open(1, StreamKind::Out);
        trace.write(&stream, NOW, b"?rss_token=asecretb&glpat-abcsecretdef\nsec");
        trace.write(&stream, NOW, b"ret");
        trace.close(stream, NOW);
        assert_eq!(
            text(&mut trace),
            "1970-01-01T00:00:00.000000Z 01O ?rss_token=[MASKED]&glpat-[MASKED][MASKED]\n\
             1970-01-01T00:00:00.000000Z 01O [MASKED]\n"
        );
    }

    #[test]
    fn what_is_told_beside_the_trace_hides_what_the_trace_hides() {
        let mut trace = Trace::new(TraceConfig {
            secrets: vec!["secret".into()],
            timestamps: true,
            limit_bytes: 10,
            ..config()
        });
        let out = trace.open(1, StreamKind::Out);
        trace.write(&out, NOW, b"::add-mask::v4lue-made\n");
        let told = trace.masked("a secret, v4lue-made, glpat-abcdef: sec");
        assert_eq!(told, "a [MASKED], [MASKED], glpat-[MASKED]: sec");
    }

    /// gitlab-runner, build §2.10.
    #[test]
    fn a_value_that_the_job_makes_is_hidden_from_its_line_on_in_all_streams() {
        let mut trace = Trace::new(TraceConfig {
            secrets: vec!["old-secret".into()],
            ..config()
        });
        let out = trace.open(1, StreamKind::Out);
        let err = trace.open(1, StreamKind::Err);
        trace.write(&err, NOW, b"v4lue-made old-sec");
        trace.write(&out, NOW, b"v4lue-made\n::add-m");
        trace.write(&out, NOW, b"ask::v4lue-made\r\nv4lue-made|old-secret\n");
        trace.write(&err, NOW, b"ret v4lue");
        trace.write(&err, NOW, b"-made\n");
        let late = trace.open(1, StreamKind::Out);
        trace.write(&late, NOW, b"djRsdWUtbWFkZQo= v4lue-made\n");
        for stream in [out, err, late] {
            trace.close(stream, NOW);
        }

        assert_eq!(
            text(&mut trace),
            "v4lue-made v4lue-made\n[MASKED]|[MASKED]\n[MASKED] [MASKED]\n[MASKED] [MASKED]\n"
        );
    }

    #[test]
    fn another_text_is_masked_by_what_the_trace_knows_at_that_moment() {
        let mut trace = Trace::new(TraceConfig {
            secrets: vec!["secret".into()],
            token_prefixes: vec!["corp-".into()],
            timestamps: true,
            limit_bytes: 30,
            ..config()
        });
        let message = "secret, made, ?rss_token=x&y, glpat-x, corp-x";
        assert_eq!(
            trace.masked(message),
            "[MASKED], made, ?rss_token=[MASKED]&y, glpat-[MASKED], corp-[MASKED]"
        );

        let stream = trace.open(1, StreamKind::Out);
        trace.write(&stream, NOW, b"::add-mask::made\nsec");
        assert!(trace.masked(message).starts_with("[MASKED], [MASKED], ?"));
        // Neither takes anything from the other.
        assert_eq!(trace.masked("ret"), "ret");
        let before = (trace.len(), trace.output().to_vec());
        assert_eq!(trace.masked("a sec"), "a sec");
        assert_eq!((trace.len(), trace.output().to_vec()), before);

        // At the limit, and when the stream is closed, it is known still.
        trace.write(&stream, NOW, b"ret and more than the limit\n");
        trace.close(stream, NOW);
        assert!(trace.limit_reached());
        assert_eq!(trace.masked("made é"), "[MASKED] é");
        assert_eq!(trace.masked("a\n::add-mask::b\nb"), "a\nb");
    }

    #[test]
    fn what_is_held_when_a_value_becomes_known_is_looked_at_once_more() {
        let mut trace = Trace::new(TraceConfig {
            secrets: vec!["secret-one".into()],
            ..config()
        });
        let out = trace.open(1, StreamKind::Out);
        let err = trace.open(1, StreamKind::Err);
        trace.write(&err, NOW, b"a secret-");
        trace.write(&out, NOW, b"::add-mask::secret-two\n");
        trace.write(&err, NOW, b"two secret-one\n");
        trace.close(out, NOW);
        trace.close(err, NOW);

        assert_eq!(text(&mut trace), "a [MASKED] [MASKED]\n");
    }

    #[test]
    fn a_request_too_many_is_told_and_not_shown() {
        let mut trace = Trace::new(config());
        let out = trace.open(1, StreamKind::Out);
        for number in 0..=1000 {
            let line = format!("::add-mask::value-{number}\n");
            trace.write(&out, NOW, line.as_bytes());
        }
        trace.close(out, NOW);

        let text = text(&mut trace);
        assert_eq!(text, lines::warning(TOO_MANY_REQUESTS));
    }

    /// gitlab-runner, wire §8.6, "Logger".
    #[test]
    fn vks_own_lines_pass_the_filters() {
        let mut trace = Trace::new(config());
        let stream = trace.open(0, StreamKind::Out);
        let line = lines::error(
            "Get http://localhost/?id=123&X-Amz-Signature=abcd1234&private_token=abcd1234",
        );
        trace.write(&stream, NOW, line.as_bytes());
        assert_eq!(
            text(&mut trace),
            "\x1b[31;1mERROR: Get http://localhost/?id=123&X-Amz-Signature=[MASKED]&private_token=[MASKED]\x1b[0;m\n"
        );
        trace.close(stream, NOW);
    }

    /// gitlab-runner, build §1.11.1: a new stream's marker is no continuation, the line behind it is.
    #[test]
    fn section_markers_are_records_that_the_next_line_goes_on_with() {
        let mut trace = Trace::new(TraceConfig {
            timestamps: true,
            ..config()
        });
        let own = trace.open(0, StreamKind::Out);
        for line in [
            lines::section_start(NOW, "step_script"),
            lines::title("Executing"),
            lines::section_end(NOW, "step_script"),
        ] {
            trace.write(&own, NOW, line.as_bytes());
        }
        trace.close(own, NOW);
        let last = trace.open(0, StreamKind::Out);
        trace.write(&last, NOW, lines::info("Job succeeded").as_bytes());
        trace.close(last, NOW);
        let stamp = "1970-01-01T00:00:00.000000Z 00O";
        assert_eq!(
            text(&mut trace),
            format!(
                "{stamp} section_start:0:step_script\r\x1b[0K\n\
                 {stamp}+\x1b[0K\x1b[36;1mExecuting\x1b[0;m\x1b[0;m\n\
                 {stamp} section_end:0:step_script\r\x1b[0K\n\
                 {stamp} \x1b[32;1mJob succeeded\x1b[0;m\n"
            )
        );
    }

    #[test]
    fn streams_never_mix_within_a_line() {
        let mut trace = Trace::new(TraceConfig {
            timestamps: true,
            ..config()
        });
        let streams = [
            trace.open(1, StreamKind::Out),
            trace.open(1, StreamKind::Err),
        ];
        for _ in 0..1000 {
            for (stream, letter) in streams.iter().zip(["a", "b"]) {
                trace.write(stream, NOW, letter.repeat(150).as_bytes());
            }
            for (stream, letter) in streams.iter().zip(["a", "b"]) {
                trace.write(stream, NOW, format!("{}\n", letter.repeat(50)).as_bytes());
            }
        }
        let text = text(&mut trace);
        let lines: Vec<_> = text.lines().map(|line| &line[28..]).collect();
        let pair = [
            format!("01O {}", "a".repeat(200)),
            format!("01E {}", "b".repeat(200)),
        ];
        assert_eq!(lines.len(), 2000);
        assert!(lines.chunks(2).all(|lines| lines == pair));
    }

    #[test]
    fn half_a_character_of_one_stream_survives_a_write_of_another() {
        let mut trace = Trace::new(config());
        let (out, err) = (
            trace.open(1, StreamKind::Out),
            trace.open(1, StreamKind::Err),
        );
        trace.write(&out, NOW, b"a\xe2\x82");
        trace.write(&err, NOW, b"x");
        trace.write(&out, NOW, b"\xacb\xc3");
        trace.close(out, NOW);
        trace.close(err, NOW);
        assert_eq!(text(&mut trace), "ax€b\u{fffd}");
    }

    #[test]
    fn job_goes_on_behind_the_limit_with_one_notice() {
        let limit = 4 << 20;
        let mut trace = Trace::new(TraceConfig {
            limit_bytes: limit,
            ..config()
        });
        let stream = trace.open(1, StreamKind::Out);
        for _ in 0..100 {
            trace.write(&stream, NOW, &b"y\n".repeat(50_000));
        }
        trace.write(&stream, NOW, b"END\n");
        trace.close(stream, NOW);
        let notice = format!(
            "\n\x1b[33;1mJob's log exceeded limit of {limit} bytes.\n\
             Job execution will continue but no more output will be collected.\x1b[0;m\n"
        );
        assert!(trace.limit_reached());
        assert_eq!(trace.len(), limit + notice.len() as u64);
        let output = text(&mut trace);
        assert_eq!(output.len() as u64, trace.len());
        assert!(output.ends_with(&format!("y\ny\n{notice}")));
    }

    /// CRC-32 as IEEE 802.3 has it, bit by bit.
    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| match crc & 1 {
                0 => crc >> 1,
                _ => (crc >> 1) ^ 0xedb8_8320,
            })
        })
    }

    /// gitlab-runner, wire §8.4: the checksums are over text and notice, and GitLab Runner's own.
    #[test]
    fn a_trace_cut_at_its_limit_has_gitlab_runners_bytes() {
        let data = ["data before limit\n", "data after limit\n"];
        for (writes, limit, kept, checksum) in [
            (
                ["This is the long message"; 100].as_slice(),
                10,
                "This is th".to_owned(),
                0x2959_21ca,
            ),
            (&["0123456789"; 100], 10, "0123456789".into(), 0xd4b9_9d81),
            (&["ǲ"; 100], 5, "ǲ".repeat(2), 0x318d_2180),
            (&["ǲ"; 100], 6, "ǲ".repeat(3), 0x8c2a_1eda),
            (&["─"; 100], 20, "─".repeat(6), 0xf187_099c),
            (&["─"; 100], 1, String::new(), 0x9e26_1b5f),
            (&["🐤"; 100], 23, "🐤".repeat(5), 0x10e3_2ecd),
            (&["🐤"; 100], 24, "🐤".repeat(6), 0x26e4_3372),
            (&data, 20, "data before limit\nda".into(), 0x559a_a46f),
        ] {
            let mut trace = Trace::new(TraceConfig {
                limit_bytes: limit,
                ..config()
            });
            let stream = trace.open(1, StreamKind::Out);
            for write in writes {
                trace.write(&stream, NOW, write.as_bytes());
            }
            trace.close(stream, NOW);
            let output = text(&mut trace);
            let cut = output.split_once("\n\x1b[33;1m").map(|(kept, _)| kept);
            assert_eq!(cut, Some(kept.as_str()), "limit {limit}");
            assert_eq!(crc32(output.as_bytes()), checksum, "{kept:?}");
        }
    }

    #[test]
    fn stamps_count_for_the_limit() {
        let mut trace = Trace::new(TraceConfig {
            timestamps: true,
            limit_bytes: 40,
            ..config()
        });
        let stream = trace.open(1, StreamKind::Out);
        trace.write(&stream, NOW, b"12345678\n");
        assert!(
            text(&mut trace).starts_with("1970-01-01T00:00:00.000000Z 01O 12345678\n\x1b[33;1m")
        );
        trace.close(stream, NOW);
        assert!(trace.output().is_empty());
    }

    #[test]
    fn nothing_is_altered_however_letters_are_cut() {
        for timestamps in [false, true] {
            for shift in 0..4 {
                let line = format!("{}{}", "x".repeat(shift), "é€😀".repeat(20_000));
                let mut trace = Trace::new(TraceConfig {
                    timestamps,
                    limit_bytes: u64::MAX,
                    ..config()
                });
                let stream = trace.open(1, StreamKind::Out);
                for piece in line.as_bytes().chunks(65_536) {
                    trace.write(&stream, NOW, piece);
                }
                trace.close(stream, NOW);
                let text = text(&mut trace);
                let plain: String = match timestamps {
                    true => text.lines().map(|record| &record[32..]).collect(),
                    false => text,
                };
                assert!(plain == line, "timestamps {timestamps}, shift {shift}");
            }
        }
    }

    #[test]
    fn closed_streams_place_is_used_again_with_fresh_filters() {
        let mut trace = Trace::new(TraceConfig {
            timestamps: true,
            ..config()
        });
        for _ in 0..3 {
            let stream = trace.open(0, StreamKind::Out);
            trace.write(&stream, NOW, b"a\r");
            trace.close(stream, NOW);
        }
        assert_eq!(trace.streams.len(), 1);
        assert!(!text(&mut trace).contains('+'));
    }

    proptest! {
        /// A message reads as it would in the trace.
        #[test]
        fn a_text_is_masked_as_a_stream_is(
            text in proptest::collection::vec(
                prop_oneof![
                    Just("secret"), Just("sec"), Just("ret"), Just("glpat-"), Just("x"), Just(" "), Just("\n"),
                    Just("?rss_token="), Just("&"), Just("é"), Just("\u{fffd}"),
                ],
                0..12,
            ),
        ) {
            let text = text.concat();
            let mut trace = Trace::new(TraceConfig {
                secrets: vec!["secret".into(), "retx".into()],
                ..config()
            });
            let masked = trace.masked(&text);
            let stream = trace.open(1, StreamKind::Out);
            trace.write(&stream, NOW, text.as_bytes());
            trace.close(stream, NOW);
            prop_assert_eq!(masked.as_bytes(), trace.output());
        }

        #[test]
        fn hostile_bytes_become_valid_text_within_the_limit(
            writes in proptest::collection::vec(
                (any::<bool>(), proptest::collection::vec(
                    prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b'a'), Just(b'?')], 0..20)),
                0..20,
            ),
            timestamps in any::<bool>(),
            limit in 1u64..2000,
        ) {
            let mut trace = Trace::new(TraceConfig {
                secrets: vec!["a".into(), "aab".into()],
                timestamps,
                limit_bytes: limit,
                ..config()
            });
            let streams = [trace.open(1, StreamKind::Out), trace.open(1, StreamKind::Err)];
            let mut all = Vec::new();
            for (which, bytes) in writes {
                trace.write(&streams[usize::from(which)], NOW, &bytes);
                prop_assert!(std::str::from_utf8(trace.output()).is_ok());
                all.extend_from_slice(trace.output());
                trace.clear_output();
            }
            for stream in streams {
                trace.close(stream, NOW);
            }
            all.extend(trace.take_output());
            prop_assert!(std::str::from_utf8(&all).is_ok());
            prop_assert_eq!(all.len() as u64, trace.len());
            prop_assert!(trace.len() < limit + 200);
            prop_assert_eq!(trace.limit_reached(), trace.len() >= limit);
        }
    }
}
