//! Compares a trace with a recorded one.
//!
//! 1. Times, epochs, the address and identifiers become placeholders, on both sides.
//! 2. What stands before section `get_sources` names the executor: only its sections and their order
//!    count.
//! 3. Lines that depend on how an executor reaches git and caches are dropped. Of a line with log
//!    fields behind it, the message counts.
//! 4. The runner's lines and standard output count in their order, standard error in its own; one
//!    against the other they may interleave differently.
//!
//! Everything else counts byte for byte.

use std::fmt;
use std::sync::LazyLock;

use regex::bytes::Regex;
use similar::TextDiff;

/// How two traces differ: unified diffs, from what was recorded to what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff(String);

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Diff {}

/// Compares `actual`, from a server at `host` (host:port), with `golden`, by the module's rules.
///
/// # Errors
///
/// If they differ.
pub fn compare(golden: &[u8], actual: &[u8], host: Option<&str>) -> Result<(), Diff> {
    compare_with(golden, actual, host, true)
}

/// As [`compare`]; unless `counts_matter`, lines of standard output that are a number do not count.
pub(super) fn compare_with(
    golden: &[u8],
    actual: &[u8],
    host: Option<&str>,
    counts_matter: bool,
) -> Result<(), Diff> {
    let mut sides = [golden, actual].map(|text| Side::read(text, host));
    if !counts_matter {
        for side in &mut sides {
            side.output.retain(|line| !NUMBER.is_match(line));
        }
    }
    let [golden, mut actual] = sides;
    for line in golden.output.iter().chain(&golden.errors) {
        actual.put_free_text(line);
    }
    let diffs: String = [
        (
            "sections before get_sources",
            golden.sections,
            actual.sections,
        ),
        ("runner and stdout", golden.output, actual.output),
        ("stderr", golden.errors, actual.errors),
    ]
    .iter()
    .map(|(name, golden, actual)| diff(name, golden, actual))
    .collect();
    if diffs.is_empty() {
        Ok(())
    } else {
        Err(Diff(diffs))
    }
}

/// What counts of a trace.
struct Side {
    /// Section markers before get_sources: `start:NAME` or `end:NAME`.
    sections: Vec<Vec<u8>>,
    /// Lines of the runner and of standard output.
    output: Vec<Vec<u8>>,
    /// Lines of standard error.
    errors: Vec<Vec<u8>>,
}

impl Side {
    fn read(text: &[u8], host: Option<&str>) -> Side {
        let text = placeholders(text, host);
        let mut side = Side {
            sections: Vec::new(),
            output: Vec::new(),
            errors: Vec::new(),
        };
        let mut before = true;
        for line in text.split(|&byte| byte == b'\n') {
            let stamped = STAMP.captures(line);
            let mut counted = line;
            if before {
                let start = SOURCES.find(line).map(|found| found.start());
                let (preparing, sources) = line.split_at(start.unwrap_or(line.len()));
                for marker in MARKER.captures_iter(preparing) {
                    side.sections.push([&marker[1], b":", &marker[2]].concat());
                }
                if start.is_none() && !contains(line, TITLE) {
                    continue;
                }
                before = false;
                // Without stamps, the end of the section before stands on the same line.
                if stamped.is_none() && start.is_some() {
                    counted = sources;
                }
            }
            let (stream, body) = match &stamped {
                Some(parts) => (&parts[1], parts.get(2).map_or(line, |body| body.as_bytes())),
                None => (b"O".as_slice(), counted),
            };
            if !DROPPED.is_match(&COLOUR.replace_all(body, b"".as_slice())) {
                let lines = if stream == b"E" {
                    &mut side.errors
                } else {
                    &mut side.output
                };
                lines.push(counted.to_vec());
            }
        }
        side
    }

    /// Puts `golden` in the place of lines that equal it but for what stands for its `@ANY@`.
    fn put_free_text(&mut self, golden: &[u8]) {
        let Some(at) = golden.windows(ANY.len()).position(|part| part == ANY) else {
            return;
        };
        let (start, end) = (&golden[..at], &golden[at + ANY.len()..]);
        for line in self.output.iter_mut().chain(&mut self.errors) {
            let middle = line
                .strip_prefix(start)
                .and_then(|rest| rest.strip_suffix(end));
            if middle.is_some() {
                *line = golden.to_vec();
            }
        }
    }
}

/// Stands for free text in a recorded line, once a line.
const ANY: &[u8] = b"@ANY@";

/// The title of get_sources, where a job has no sections.
const TITLE: &[u8] = b"Getting source from Git repository";

static SOURCES: LazyLock<Regex> = LazyLock::new(|| regex("section_start:@EPOCH@:get_sources"));
static MARKER: LazyLock<Regex> =
    LazyLock::new(|| regex(r"section_(start|end):@EPOCH@:([0-9A-Za-z_.-]+)"));
static STAMP: LazyLock<Regex> = LazyLock::new(|| regex(r"(?s)^@TIME@ [0-9a-f]{2}([OE])[+ ](.*)$"));
static COLOUR: LazyLock<Regex> = LazyLock::new(|| regex(r"\x1b\[[0-9;]*[mK]"));
static NUMBER: LazyLock<Regex> = LazyLock::new(|| regex(r"^@TIME@ 01O \d+$"));

/// Lines that depend on how an executor reaches git and caches, without colours.
static DROPPED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(?x) Gitaly\ correlation\ ID:\  | ^Runtime\ platform | ^Terminated$ | ^Cloning\ into\ '
        | ^From\ http | ^\ \*\ \[new\  | ^Entering\ ' | ^Synchronizing\ submodule\ url
        | ^HEAD\ is\ now\ at | ^Submodule\ '[^']*'\ \(
        | ^Using\ (?:default\ image|effective\ pull\ policy|docker\ image|locally\ found\ image
            |helper\ image)
        | ^No\ URL\ provided,\ cache | Cache\ file\ does\ not\ exist | ^Downloading\ cache
        | ^Uploading\ cache",
    )
});

/// What becomes a placeholder: pattern and replacement, in this order.
static PLACEHOLDERS: LazyLock<[(Regex, &str); 7]> = LazyLock::new(|| {
    [
        (r"(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z ", "@TIME@ "),
        (r"section_(start|end):\d+:", "section_${1}:@EPOCH@:"),
        (
            r"Gitaly correlation ID: [0-9a-f]{32}",
            "Gitaly correlation ID: @ID@",
        ),
        (
            r"(?m)(^|@TIME@ 01E )[^\s:]+: line \d+: ",
            "${1}@SHELL@: line @N@: ",
        ),
        // A long line is cut where reads end, which may be right behind it.
        (r"x{50,}(?:\n@TIME@ 01O\+x*)*", "@70000_X@"),
        // Log fields behind a message.
        (
            r"(?m)(coordinator\.\.\. (?:201 Created|ok|not found)) *\x1b\[0;m.*$",
            "${1}",
        ),
        (r"(?m) *\x1b\[0;m $", ""),
    ]
    .map(|(pattern, replacement)| (regex(pattern), replacement))
});

#[expect(clippy::expect_used, reason = "the patterns are constants")]
fn regex(pattern: &str) -> Regex {
    Regex::new(&format!("(?-u){pattern}")).expect("valid pattern")
}

fn placeholders(text: &[u8], host: Option<&str>) -> Vec<u8> {
    let mut text = text.to_vec();
    if let Some(host) = host {
        text = replaced(&text, host, "@HOST@");
    }
    for (pattern, replacement) in &*PLACEHOLDERS {
        text = pattern
            .replace_all(&text, replacement.as_bytes())
            .into_owned();
    }
    text
}

/// `text` with `to` for each `from`.
pub(super) fn replaced(text: &[u8], from: &str, to: &str) -> Vec<u8> {
    let pattern = regex(&regex::escape(from));
    let text = pattern.replace_all(text, regex::bytes::NoExpand(to.as_bytes()));
    text.into_owned()
}

fn contains(line: &[u8], part: &[u8]) -> bool {
    line.windows(part.len()).any(|window| window == part)
}

/// A unified diff, empty if the lines are equal.
fn diff(name: &str, golden: &[Vec<u8>], actual: &[Vec<u8>]) -> String {
    let [golden, actual] =
        [golden, actual].map(|lines| lines.iter().map(|line| readable(line)).collect::<String>());
    TextDiff::from_lines(&golden, &actual)
        .unified_diff()
        .context_radius(2)
        .header(&format!("golden: {name}"), &format!("actual: {name}"))
        .to_string()
}

/// A line with control characters and broken letters spelled out, and a line end.
fn readable(line: &[u8]) -> String {
    let mut text = String::new();
    for chunk in line.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\x1b' => text.push_str("\\e"),
                letter if letter.is_control() => text.extend(letter.escape_default()),
                letter => text.push(letter),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{Job, names};

    const HOST: &str = "127.0.0.1:4711";

    /// A trace that the job could have given, placeholders filled in.
    fn instance(trace: &[u8]) -> Vec<u8> {
        let long_line = format!(
            "{}\n2026-11-29T20:07:00.000001Z 01O+{}",
            "x".repeat(65_536),
            "x".repeat(4464)
        );
        let mut text = trace.to_vec();
        for (placeholder, value) in [
            ("@TIME@", "2026-11-29T20:07:00.123456Z"),
            ("@EPOCH@", "1796000000"),
            ("@HOST@", HOST),
            ("@ID@", "0123456789abcdef0123456789abcdef"),
            ("@RUNNER@", "vk 0.1.0"),
            ("@SYSTEM@", "s_0123456789ab"),
            ("@SHELL@: line @N@:", "bash: line 137:"),
            ("@70000_X@", &long_line),
            ("@ANY@", "143"),
        ] {
            text = regex(placeholder)
                .replace_all(&text, value.as_bytes())
                .into_owned();
        }
        text
    }

    fn job(name: &str) -> (Job, String) {
        let job = Job::load(name).unwrap();
        let actual = String::from_utf8(instance(&job.trace)).unwrap();
        (job, actual)
    }

    #[test]
    fn each_golden_trace_equals_itself_with_its_placeholders_filled_in() {
        for name in names().unwrap() {
            let job = Job::load(&name).unwrap();
            let actual = instance(&job.trace);
            assert!(!contains(&actual, b"@TIME@"));
            if let Err(diff) = job.compare(&actual, HOST) {
                panic!("{name}:\n{diff}");
            }
        }
    }

    #[test]
    fn each_changed_byte_of_a_scripts_output_is_reported() {
        let (job, actual) = job("01-hello");
        let start = actual.find("Executing \"step_script\"").unwrap();
        let stamp = "2026-11-29T20:07:00.123456Z";
        for (index, letter) in actual
            .char_indices()
            .skip_while(|(index, _)| *index < start)
        {
            let line = actual[..index].rfind('\n').map_or(0, |end| end + 1);
            let in_stamp = index - line < stamp.len();
            let in_epoch = actual[..index]
                .rfind("1796000000")
                .is_some_and(|at| index - at < 10);
            if in_stamp || in_epoch || letter == '\n' {
                continue;
            }
            let mut changed = actual.clone();
            changed.replace_range(index..index + letter.len_utf8(), "~");
            assert!(
                job.compare(changed.as_bytes(), HOST).is_err(),
                "{letter:?} at {index}"
            );
        }
    }

    #[test]
    fn difference_is_shown_readably() {
        let (job, actual) = job("01-hello");
        let changed = actual.replace("Job succeeded", "Job ended");
        let diff = job
            .compare(changed.as_bytes(), HOST)
            .unwrap_err()
            .to_string();
        assert!(diff.contains("--- golden: runner and stdout\n"), "{diff}");
        assert!(
            diff.contains("-@TIME@ 00O \\e[32;1mJob succeeded\\e[0;m\n"),
            "{diff}"
        );
        assert!(
            diff.contains("+@TIME@ 00O \\e[32;1mJob ended\\e[0;m\n"),
            "{diff}"
        );
    }

    #[test]
    fn continuation_mark_and_missing_line_are_differences() {
        let (job, actual) = job("21-carriage-returns");
        assert!(
            job.compare(actual.replacen("01O+", "01O ", 1).as_bytes(), HOST)
                .is_err()
        );
        let (end, _) = actual.trim_end().rsplit_once('\n').unwrap();
        assert!(job.compare(end.as_bytes(), HOST).is_err());
    }

    #[test]
    fn of_the_preparation_only_sections_count() {
        let (job, actual) = job("01-hello");
        let other_words = actual
            .replace("executor", "machine")
            .replace("Preparing", "Making");
        let machine = other_words.replace("prepare_machine", "prepare_executor");
        job.compare(machine.as_bytes(), HOST).unwrap();
        assert!(job.compare(other_words.as_bytes(), HOST).is_err());
    }

    #[test]
    fn lines_of_git_and_bash_do_not_count() {
        let (job, actual) = job("01-hello");
        let title = "00O+\x1b[0K\x1b[36;1mExecuting";
        let stamp = "2026-11-29T20:07:00.123456Z";
        let more = actual.replace(
            &format!("{stamp} {title}"),
            &format!(
                "{stamp} 01E Cloning into '/builds/x'...\n{stamp} 01E Terminated\n\
                 {stamp} 01O \x1b[0;33mEntering 'lib'\n{stamp} {title}"
            ),
        );
        assert_ne!(more, actual);
        job.compare(more.as_bytes(), HOST).unwrap();
    }

    #[test]
    fn errors_may_interleave_differently_but_keep_their_order() {
        let stamp = "2026-11-29T20:07:00.123456Z";
        let start = format!("{stamp} 00O section_start:1:get_sources\r\x1b[0K\n");
        let trace = |lines: &[&str]| {
            let lines: String = lines
                .iter()
                .map(|line| format!("{stamp} {line}\n"))
                .collect();
            (start.clone() + &lines).into_bytes()
        };
        let golden = trace(&["01O a", "01E x", "01E y", "01O b"]);
        compare(&golden, &trace(&["01O a", "01O b", "01E x", "01E y"]), None).unwrap();
        let swapped = compare(&golden, &trace(&["01O a", "01O b", "01E y", "01E x"]), None);
        assert!(swapped.unwrap_err().to_string().contains("golden: stderr"));
    }

    #[test]
    fn without_stamps_get_sources_begins_within_a_line() {
        let start = "section_end:1:prepare_script\r\x1b[0Ksection_start:1:get_sources\r\x1b[0K\n";
        compare(
            format!("x\n{start}a\n").as_bytes(),
            format!("y\nz\n{start}a\n").as_bytes(),
            None,
        )
        .unwrap();
        let other = start.replace("prepare_script", "prepare_executor");
        assert!(compare(start.as_bytes(), other.as_bytes(), None).is_err());
    }

    #[test]
    fn count_before_a_cancellation_may_differ() {
        let (job, actual) = job("63-cancel-graceful");
        let line = "2026-11-29T20:07:00.123456Z 01O 4\n";
        let fewer = actual.replace(line, "");
        assert_ne!(fewer, actual);
        job.compare(fewer.as_bytes(), HOST).unwrap();
        assert!(compare(&job.trace, fewer.as_bytes(), Some(HOST)).is_err());
    }
}
