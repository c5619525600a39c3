//! What references make of values: parts, what is cut off, replacements and letters of another case.

use super::MAX_EXPANDED;
use super::error::ExpandError;
use super::evaluate::Work;
use super::glob::{Glob, Wanted};
use super::tree::End;

/// What a place that is replaced is reckoned as.
const PLACE_WORK: usize = 8;

/// What a byte in another case is reckoned as.
const CASE_WORK: usize = 4;

/// `bytes` as text: each that is part of no letter becomes U+FFFD, as in Go.
pub(super) fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '\u{fffd}'));
    }
    text
}

/// Bytes from number `from` on, which counts from the end when it is negative; as `len` does.
pub(super) fn part(value: &str, from: i64, len: Option<i64>) -> String {
    let bytes = value.as_bytes();
    // Where `number` points to in so many bytes.
    let place = |number: i64, count: usize| match usize::try_from(number) {
        Ok(number) => Some(number.min(count)),
        Err(_) => usize::try_from(number.unsigned_abs())
            .ok()
            .and_then(|back| count.checked_sub(back)),
    };
    let from = place(from, bytes.len()).unwrap_or(bytes.len());
    let rest = bytes.get(from..).unwrap_or_default();
    // More than there are from the end are none at all.
    let len = len.and_then(|len| place(len, rest.len()));
    text(rest.get(..len.unwrap_or(rest.len())).unwrap_or_default())
}

fn searched(value: &str, work: &Work<'_>) -> Result<Vec<char>, ExpandError> {
    work.add(value.len())?;
    Ok(value.chars().collect())
}

/// `value` without what fits at one of its ends.
pub(super) fn cut(
    value: &str,
    end: End,
    pattern: Glob,
    is_longest: bool,
    work: &Work<'_>,
) -> Result<String, ExpandError> {
    let mut letters = searched(value, work)?;
    let pattern = match end {
        End::Front => pattern,
        End::Back => {
            letters.reverse();
            pattern.reversed()
        }
    };
    let longest = pattern.len(&letters, Wanted::Longest, work)?;
    let len = match (longest, end) {
        (None, _) => 0,
        (Some(len), _) if is_longest => len,
        (Some(_), End::Front) => shortest(&pattern, &letters, 0, work)?,
        // What is cut off begins in the first line that it can begin in, as in the helper.
        (Some(len), End::Back) => {
            let mut line = letters.iter().take(len);
            let least = line
                .rposition(|letter| *letter == '\n')
                .map_or(0, |at| at + 1);
            shortest(&pattern, &letters, least, work)?
        }
    };
    let left = letters.iter().skip(len);
    Ok(match end {
        End::Front => left.collect(),
        End::Back => left.rev().collect(),
    })
}

fn shortest(
    pattern: &Glob,
    letters: &[char],
    least: usize,
    work: &Work<'_>,
) -> Result<usize, ExpandError> {
    let len = pattern.len(letters, Wanted::Shortest(least), work)?;
    Ok(len.unwrap_or(0))
}

/// `value` with the first place that fits, or all of them, replaced; each is as long as it can be.
pub(super) fn replace(
    value: &str,
    pattern: &Glob,
    replacement: &str,
    is_everywhere: bool,
    work: &Work<'_>,
) -> Result<String, ExpandError> {
    let letters = searched(value, work)?;
    let mut out = String::new();
    let mut done = 0;
    while let Some((start, len)) = pattern.find(&letters, done, work)? {
        // Nothing right after a place that was replaced is no further place; nothing is found at the end alone.
        if len == 0 && start > 0 && start == done {
            break;
        }
        out.extend(letters.get(done..start).unwrap_or_default());
        out.push_str(replacement);
        work.add(replacement.len() + PLACE_WORK)?;
        if out.len() > MAX_EXPANDED {
            return Err(ExpandError::TooLong);
        }
        done = start + len;
        if len == 0 || !is_everywhere {
            break;
        }
    }
    out.extend(letters.get(done..).unwrap_or_default());
    Ok(out)
}

/// `value` with the first letter that fits, or all of them, in another case.
pub(super) fn case(
    value: &str,
    is_upper: bool,
    is_everywhere: bool,
    pattern: &Glob,
    work: &Work<'_>,
) -> Result<String, ExpandError> {
    work.add(value.len() * CASE_WORK)?;
    let mut out = String::with_capacity(value.len());
    let mut is_over = false;
    for letter in value.chars() {
        let fits = !is_over && pattern.len(&[letter], Wanted::Longest, work)? == Some(1);
        if fits {
            out.push(in_case(letter, is_upper));
            is_over = !is_everywhere;
        } else {
            out.push(letter);
        }
    }
    Ok(out)
}

/// The one letter that is `letter` in another case; itself, where there would be several.
fn in_case(letter: char, is_upper: bool) -> char {
    let single = |letters: &mut dyn Iterator<Item = char>| {
        let first = letters.next();
        first.filter(|_| letters.next().is_none())
    };
    let changed = match (is_upper, letter) {
        // The only letter whose small form has two.
        (false, 'İ') => Some('i'),
        (true, _) => single(&mut letter.to_uppercase()),
        (false, _) => single(&mut letter.to_lowercase()),
    };
    changed.unwrap_or(letter)
}
