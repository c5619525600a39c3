//! What references make of values: parts, what is cut off, replacements and letters of another case.

use super::error::ExpandError;
use super::evaluate::Work;
use super::glob::Glob;
use super::tree::End;
use super::{MAX_EXPANDED, MAX_SEARCHED};

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

fn searched(value: &str) -> Result<Vec<char>, ExpandError> {
    let letters: Vec<char> = value.chars().take(MAX_SEARCHED + 1).collect();
    if letters.len() > MAX_SEARCHED {
        return Err(ExpandError::TooLong);
    }
    Ok(letters)
}

/// `value` without what fits at one of its ends.
pub(super) fn cut(
    value: &str,
    end: End,
    pattern: &Glob,
    is_longest: bool,
    work: &Work,
) -> Result<String, ExpandError> {
    let letters = searched(value)?;
    let count = letters.len();
    let len = match end {
        End::Front => {
            let fits = pattern.lengths(&letters, work)?;
            match is_longest {
                true => fits.last().copied(),
                false => fits.first().copied(),
            }
        }
        End::Back => {
            // What is left before the shortest star ends with the line, as in the helper.
            let left = match is_longest || !pattern.has_star() {
                true => count,
                false => letters.iter().take_while(|letter| **letter != '\n').count(),
            };
            let mut fitting = None;
            for len in count - left..=count {
                let part = letters.get(count - len..).unwrap_or_default();
                if pattern.lengths(part, work)?.last() == Some(&len) {
                    fitting = Some(len);
                    if !is_longest {
                        break;
                    }
                }
            }
            fitting
        }
    };
    let len = len.unwrap_or(0);
    let left = match end {
        End::Front => letters.get(len..),
        End::Back => letters.get(..count - len),
    };
    Ok(left.unwrap_or_default().iter().collect())
}

/// `value` with the first place that fits, or all of them, replaced; each is as long as it can be.
pub(super) fn replace(
    value: &str,
    pattern: &Glob,
    replacement: &str,
    is_everywhere: bool,
    work: &Work,
) -> Result<String, ExpandError> {
    let letters = searched(value)?;
    let mut out = String::new();
    let mut is_over = false;
    // Where the last place that was replaced ended: nothing right after it is no further place.
    let mut last = None;
    let mut at = 0;
    while at <= letters.len() {
        let rest = letters.get(at..).unwrap_or_default();
        let fitting = match is_over {
            true => None,
            false => pattern.lengths(rest, work)?.last().copied(),
        };
        let fitting = fitting.filter(|len| *len > 0 || last != Some(at));
        if fitting.is_some() {
            out.push_str(replacement);
            is_over = !is_everywhere;
        }
        match fitting {
            Some(len) if len > 0 => {
                at += len;
                last = Some(at);
            }
            _ => {
                out.extend(rest.first());
                at += 1;
            }
        }
        if out.len() > MAX_EXPANDED {
            return Err(ExpandError::TooLong);
        }
    }
    Ok(out)
}

/// `value` with the first letter that fits, or all of them, in another case.
pub(super) fn case(
    value: &str,
    is_upper: bool,
    is_everywhere: bool,
    pattern: &Glob,
    work: &Work,
) -> Result<String, ExpandError> {
    let mut out = String::with_capacity(value.len());
    let mut is_over = false;
    for letter in value.chars() {
        let fits = !is_over && pattern.lengths(&[letter], work)?.last() == Some(&1);
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
