//! Patterns as the Go library doublestar (v4) reads them: `*`, `?`, `[class]`, `{a,b}`, `\` and `**`.
//!
//! A pattern becomes a small machine whose set of states moves along a path: the time is that of path times
//! pattern, whatever a job writes, and a folder whose name leaves no state need not be looked into.

/// Most alternatives that the braces of one pattern may spell out. Braces after braces multiply.
const MOST_ALTERNATIVES: usize = 1000;

/// Most steps of a pattern's machine.
const MOST_STEPS: usize = 64 << 10;

/// A text is no pattern: a bracket or brace without its end, or a `\` at the end; or it is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("syntax error in pattern")]
pub struct PatternError;

/// A pattern for paths relative to where it starts.
#[derive(Clone, Debug)]
pub struct Pattern {
    steps: Vec<Step>,
    start: States,
    /// For each step the steps that are reached from it without a letter, as bits; none if there are too many steps.
    closures: Vec<u64>,
}

#[derive(Clone, Debug)]
enum Step {
    /// This letter.
    Letter(u32),
    /// Any letter but a slash.
    One,
    /// Any letter.
    Any,
    /// A letter in these ranges, or in none of them; never a slash.
    Class {
        negated: bool,
        ranges: Vec<(u32, u32)>,
    },
    /// Go on at both of these steps.
    Split(usize, usize),
    /// Go on there.
    Jump(usize),
    /// The path matches if it ends here.
    Match,
}

/// Where a pattern may stand in a path: its steps in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct States(Vec<usize>);

impl States {
    /// Whether nothing that begins so can match.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As bits; there are none for steps from 64 on.
    fn bits(&self) -> u64 {
        let bit = |step: &usize| {
            u32::try_from(*step)
                .ok()
                .and_then(|it| 1u64.checked_shl(it))
        };
        self.0.iter().filter_map(bit).fold(0, |all, bit| all | bit)
    }

    fn of_bits(bits: u64) -> Self {
        Self(
            (0..u64::BITS as usize)
                .filter(|step| bits >> step & 1 == 1)
                .collect(),
        )
    }
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// [`PatternError`].
    pub fn new(text: &[u8]) -> Result<Self, PatternError> {
        let letters: Vec<u32> = letters(text).collect();
        let alternatives = alternatives(&letters)?;
        let mut steps = Vec::new();
        let last = alternatives.len().saturating_sub(1);
        for (number, alternative) in alternatives.iter().enumerate() {
            let split = (number < last).then(|| {
                steps.push(Step::Match);
                steps.len() - 1
            });
            compile(alternative, &mut steps)?;
            if let Some(split) = split {
                let next = steps.len();
                set(&mut steps, split, Step::Split(split + 1, next));
            }
        }
        let mut pattern = Self {
            steps,
            start: States::default(),
            closures: Vec::new(),
        };
        pattern.start = pattern.close(vec![0]);
        if pattern.steps.len() <= u64::BITS as usize {
            let closures = (0..pattern.steps.len()).map(|step| pattern.close(vec![step]).bits());
            pattern.closures = closures.collect();
        }
        Ok(pattern)
    }

    /// Whether it matches all of `path`.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        self.accepts(&self.advance(&self.start, path))
    }

    /// Before any letter.
    pub(super) fn start(&self) -> &States {
        &self.start
    }

    /// After some more of a path.
    pub(super) fn advance(&self, from: &States, text: &[u8]) -> States {
        if !self.closures.is_empty() {
            return States::of_bits(self.advance_bits(from.bits(), text));
        }
        let mut states = from.clone();
        for letter in letters(text) {
            if states.is_empty() {
                break;
            }
            let next = states
                .0
                .iter()
                .filter(|&&step| self.steps.get(step).is_some_and(|it| it.takes(letter)))
                .map(|step| step + 1)
                .collect();
            states = self.close(next);
        }
        states
    }

    /// As [`Pattern::advance`], for a pattern of few steps.
    fn advance_bits(&self, mut states: u64, text: &[u8]) -> u64 {
        for letter in letters(text) {
            let mut next = 0;
            let mut left = states;
            while left != 0 {
                let step = left.trailing_zeros() as usize;
                left &= left - 1;
                if self.steps.get(step).is_some_and(|it| it.takes(letter)) {
                    next |= self.closures.get(step + 1).copied().unwrap_or_default();
                }
            }
            states = next;
            if states == 0 {
                break;
            }
        }
        states
    }

    /// Whether the path may end there.
    pub(super) fn accepts(&self, states: &States) -> bool {
        let ends = |step: &usize| matches!(self.steps.get(*step), Some(Step::Match));
        states.0.iter().any(ends)
    }

    /// All steps that are reached from these without a letter.
    fn close(&self, mut waiting: Vec<usize>) -> States {
        let mut states = Vec::new();
        let mut seen = std::collections::HashSet::new();
        while let Some(step) = waiting.pop() {
            if !seen.insert(step) {
                continue;
            }
            match self.steps.get(step) {
                Some(Step::Split(one, other)) => waiting.extend([*one, *other]),
                Some(Step::Jump(to)) => waiting.push(*to),
                Some(_) => states.push(step),
                None => {}
            }
        }
        states.sort_unstable();
        States(states)
    }
}

impl Step {
    fn takes(&self, letter: u32) -> bool {
        match self {
            Self::Letter(wanted) => letter == *wanted,
            Self::One => letter != SLASH,
            Self::Any => true,
            Self::Class { negated, ranges } => {
                let inside = ranges
                    .iter()
                    .any(|(low, high)| (*low..=*high).contains(&letter));
                letter != SLASH && inside != *negated
            }
            Self::Split(..) | Self::Jump(_) | Self::Match => false,
        }
    }
}

const SLASH: u32 = '/' as u32;
const STAR: u32 = '*' as u32;
const BACKSLASH: u32 = '\\' as u32;

/// Letters of a text; a byte that is no part of one is a letter of its own, beyond Unicode's.
fn letters(text: &[u8]) -> impl Iterator<Item = u32> + '_ {
    text.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid().chars().map(u32::from);
        let invalid = chunk.invalid().iter();
        valid.chain(invalid.map(|byte| 0x11_0000 + u32::from(*byte)))
    })
}

/// What the braces of a pattern spell out.
fn alternatives(pattern: &[u32]) -> Result<Vec<Vec<u32>>, PatternError> {
    let mut done = Vec::new();
    let mut waiting = vec![pattern.to_vec()];
    let mut size = 0;
    while let Some(pattern) = waiting.pop() {
        match first_braces(&pattern)? {
            None => {
                size += pattern.len();
                done.push(pattern);
            }
            Some(braces) => {
                for option in braces.options.iter().rev() {
                    let parts = [braces.before, option, braces.after];
                    waiting.push(parts.concat());
                }
            }
        }
        let held: usize = waiting.iter().map(Vec::len).sum();
        if done.len() + waiting.len() > MOST_ALTERNATIVES || size + held > MOST_STEPS {
            return Err(PatternError);
        }
    }
    Ok(done)
}

struct Braces<'a> {
    before: &'a [u32],
    options: Vec<&'a [u32]>,
    after: &'a [u32],
}

/// The pattern's first pair of braces that is neither escaped nor in a class.
fn first_braces(pattern: &[u32]) -> Result<Option<Braces<'_>>, PatternError> {
    let mut depth = 0usize;
    let (mut start, mut option) = (0, 0);
    let mut options = Vec::new();
    let part = |from: usize, to: usize| pattern.get(from..to).unwrap_or_default();
    let mut at = 0;
    while let Some(&letter) = pattern.get(at) {
        match char::from_u32(letter) {
            Some('\\') => at += 1,
            Some('[') => at = class(pattern, at)?.1 - 1,
            Some('{') => {
                if depth == 0 {
                    (start, option) = (at, at + 1);
                }
                depth += 1;
            }
            Some(',') if depth == 1 => {
                options.push(part(option, at));
                option = at + 1;
            }
            Some('}') if depth == 1 => {
                options.push(part(option, at));
                return Ok(Some(Braces {
                    before: part(0, start),
                    options,
                    after: part(at + 1, pattern.len()),
                }));
            }
            Some('}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    if depth > 0 {
        Err(PatternError)
    } else {
        Ok(None)
    }
}

/// The class whose bracket opens at `at`, and where the pattern goes on behind it.
fn class(pattern: &[u32], at: usize) -> Result<(Step, usize), PatternError> {
    let is = |at: usize, letter: char| pattern.get(at) == Some(&u32::from(letter));
    let mut at = at + 1;
    let negated = is(at, '^') || is(at, '!');
    at += usize::from(negated);
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    // Whether the last letter may begin a range.
    let mut open = false;
    while !is(at, ']') {
        let range = open && is(at, '-') && !is(at + 1, ']');
        at += usize::from(range);
        at += usize::from(is(at, '\\'));
        let letter = *pattern.get(at).ok_or(PatternError)?;
        at += 1;
        match ranges.last_mut() {
            Some(last) if range => last.1 = letter,
            _ => ranges.push((letter, letter)),
        }
        open = !range;
    }
    if ranges.is_empty() {
        return Err(PatternError);
    }
    Ok((Step::Class { negated, ranges }, at + 1))
}

/// Appends the steps of a pattern without braces, `Match` at their end.
fn compile(pattern: &[u32], steps: &mut Vec<Step>) -> Result<(), PatternError> {
    // `**` after `**` says nothing new.
    let mut parts: Vec<&[u32]> = pattern.split(|letter| *letter == SLASH).collect();
    parts.dedup_by(|one, other| *one == [STAR, STAR] && one == other);
    let joined = parts.join(&SLASH);
    let pattern = joined.as_slice();
    let mut at = 0;
    // A part begins here: `**` is more than stars only if it is all of one.
    let mut fresh = true;
    while let Some(&letter) = pattern.get(at) {
        let rest = pattern.get(at..).unwrap_or_default();
        if fresh && rest.starts_with(&[STAR, STAR, SLASH]) {
            // Any folders, or none.
            let split = steps.len();
            steps.push(Step::Match);
            any(steps);
            steps.push(Step::Letter(SLASH));
            let next = steps.len();
            set(steps, split, Step::Split(split + 1, next));
            at += 3;
            continue;
        }
        if fresh && rest == [STAR, STAR] {
            any(steps);
            break;
        }
        if rest == [SLASH, STAR, STAR] {
            // The folder itself, too.
            let split = steps.len();
            steps.push(Step::Match);
            steps.push(Step::Letter(SLASH));
            any(steps);
            let next = steps.len();
            set(steps, split, Step::Split(split + 1, next));
            break;
        }
        fresh = letter == SLASH;
        at += 1;
        match char::from_u32(letter) {
            Some('*') => {
                // star: split(one, next); one; jump star
                let star = steps.len();
                steps.push(Step::Split(star + 1, star + 3));
                steps.push(Step::One);
                steps.push(Step::Jump(star));
            }
            Some('?') => steps.push(Step::One),
            Some('[') => {
                let (step, next) = class(pattern, at - 1)?;
                steps.push(step);
                at = next;
            }
            _ => {
                let escaped = letter == BACKSLASH;
                let letter = if escaped {
                    pattern.get(at).ok_or(PatternError)?
                } else {
                    &letter
                };
                at += usize::from(escaped);
                steps.push(Step::Letter(*letter));
            }
        }
        if steps.len() > MOST_STEPS {
            return Err(PatternError);
        }
    }
    steps.push(Step::Match);
    Ok(())
}

/// Appends steps for any letters or none.
fn any(steps: &mut Vec<Step>) {
    let star = steps.len();
    steps.push(Step::Split(star + 1, star + 3));
    steps.push(Step::Any);
    steps.push(Step::Jump(star));
}

fn set(steps: &mut [Step], at: usize, step: Step) {
    if let Some(place) = steps.get_mut(at) {
        *place = step;
    }
}

/// A clean path split into the folder that is taken literally and the pattern below it: at the last slash before
/// the first letter with a meaning (doublestar's `SplitPattern`). No folder is `.`.
pub(super) fn split(path: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut slash = None;
    let mut at = 0;
    while let Some(byte) = path.get(at) {
        match byte {
            b'\\' => at += 1,
            b'/' => slash = Some(at),
            b'*' | b'?' | b'[' | b'{' => break,
            _ => {}
        }
        at += 1;
    }
    match slash {
        None => (b".".to_vec(), path),
        Some(slash) => {
            let (base, pattern) = path.split_at(slash);
            (unescape(base), pattern.get(1..).unwrap_or_default())
        }
    }
}

/// Without the `\` before letters that would have a meaning.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter().peekable();
    while let Some(byte) = bytes.next() {
        let escapes = *byte == b'\\' && bytes.peek().is_some_and(|next| b"*?[]{}\\".contains(next));
        plain.extend(if escapes { bytes.next() } else { Some(byte) });
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Pattern::new(pattern.as_bytes())
            .unwrap()
            .matches(path.as_bytes())
    }

    #[test]
    fn patterns_match_as_doublestar_does() {
        for (pattern, yes, no) in [
            ("*", &["a", ".hidden"][..], &["a/b"][..]),
            ("a*c", &["abbc", "ac"], &["ab/c", "acd"]),
            ("?", &["x", "é"], &["/", "xy", ""]),
            ("[a-c]x", &["bx"], &["dx", "x"]),
            ("[^a-c]x", &["dx"], &["bx", "/x"]),
            ("[!a]", &["b"], &["a"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[-a]", &["a", "-"], &["b"]),
            ("[\\]]", &["]"], &["\\"]),
            ("x\\[1\\].txt", &["x[1].txt"], &["x1.txt"]),
            ("x[1].txt", &["x1.txt"], &["x[1].txt"]),
            ("{a,b}.txt", &["a.txt", "b.txt"], &["c.txt"]),
            ("{a,{b,c}d}", &["a", "bd", "cd"], &["b", "ad"]),
            ("{a/**,b}/x", &["a/x", "a/q/r/x", "b/x"], &["b/q/x"]),
            ("a{,b}", &["a", "ab"], &["ac"]),
            ("[{]x}", &["{x}"], &["x"]),
            ("}", &["}"], &[""]),
            ("a,b", &["a,b"], &["a"]),
            ("**", &["", "a", "a/.git/b"], &[]),
            ("dir/**", &["dir", "dir/a", "dir/a/b"], &["dirx", "x/dir"]),
            ("dir/*", &["dir/a"], &["dir", "dir/a/b"]),
            ("dir/***", &["dir/a"], &["dir", "dir/a/b"]),
            ("**/x", &["x", "a/x", "a/b/x"], &["ax", "a/xx"]),
            ("a/**/b", &["a/b", "a/x/y/b"], &["ab", "a/xb"]),
            ("a/x**y/b", &["a/xzy/b"], &["a/x/y/b"]),
            (
                "foo/**/*/*.*",
                &["foo/b/f.txt", "foo/b/c/f.txt"],
                &["foo/f.txt"],
            ),
            ("**/**", &["", "a", "a/b"], &[]),
            ("a/**/**", &["a", "a/b"], &["b"]),
            ("a/**/**/b", &["a/b", "a/x/b"], &["a"]),
            ("A", &["A"], &["a"]),
        ] {
            for path in yes {
                assert!(matches(pattern, path), "{pattern} {path}");
            }
            for path in no {
                assert!(!matches(pattern, path), "{pattern} {path}");
            }
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in [
            "dir/[a", "{a", "a\\", "[]", "[]-]", "[^]", "[a", "{a,{b}", "[a\\",
        ] {
            assert!(Pattern::new(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn braces_that_multiply_are_refused() {
        let text = "{a,b}".repeat(40);

        assert!(Pattern::new(text.as_bytes()).is_err());
    }

    #[test]
    fn stars_after_stars_take_no_time() {
        let pattern = Pattern::new("a*".repeat(500).as_bytes()).unwrap();

        assert!(!pattern.matches("a".repeat(499).as_bytes()));
        assert!(pattern.matches("a".repeat(500).as_bytes()));
    }

    #[test]
    fn odd_bytes_are_letters() {
        let pattern = Pattern::new(b"a?\xff*").unwrap();

        assert!(pattern.matches(b"a\xfe\xffb"));
        assert!(!pattern.matches(b"a\xfe\xfeb"));
    }

    #[test]
    fn bases_are_literal() {
        for (path, base, pattern) in [
            ("a/b/*.c", "a/b", "*.c"),
            ("*.c", ".", "*.c"),
            ("a\\*/b/c?", "a*/b", "c?"),
            ("x\\[1\\]/f*", "x[1]", "f*"),
        ] {
            let (got, rest) = split(path.as_bytes());
            assert_eq!(
                (got.as_slice(), rest),
                (base.as_bytes(), pattern.as_bytes()),
                "{path}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_pattern_or_refused(text: Vec<u8>, path: Vec<u8>) {
            if let Ok(pattern) = Pattern::new(&text) {
                let _ = pattern.matches(&path);
            }
        }

        #[test]
        fn a_quoted_path_matches_itself_alone(path in "[a-c*?\\[\\]{},\\\\/]{1,12}", other in "[a-c]{1,3}") {
            let quoted: String = path.chars().flat_map(|letter| match letter {
                '/' => vec!['/'],
                letter => vec!['\\', letter],
            }).collect();
            prop_assert!(matches(&quoted, &path));
            prop_assert_eq!(matches(&quoted, &other), path == other);
        }

        #[test]
        fn what_begins_no_match_leaves_no_state(pattern in "[ab*?/]{1,8}", path in "[ab/]{1,8}") {
            let pattern = Pattern::new(pattern.as_bytes()).unwrap();
            for cut in 0..path.len() {
                let states = pattern.advance(pattern.start(), &path.as_bytes()[..cut]);
                prop_assert!(!states.is_empty() || !pattern.matches(path.as_bytes()));
            }
        }
    }
}
