//! What stands between `${` and `}`.

use super::arithmetic::evaluate;
use super::glob::Glob;
use super::{ExpandError, Lookup, name_len};

/// Longest value that patterns are looked for in, in letters: the time grows with its cube.
const MAX_SEARCHED: usize = 512;

/// A reference: a variable, and what is done with it.
pub(super) struct Parameter<'t> {
    text: &'t str,
    name: &'t str,
    operation: Operation<'t>,
}

#[derive(Clone, Copy)]
enum Operation<'t> {
    None,
    Length,
    Indirect,
    /// `-`, `=`, `+` or `?`, with a word; whether an empty value counts as none.
    Default(char, &'t str, bool),
    /// From a letter, so many letters.
    Part(&'t str, Option<&'t str>),
    /// `#` or `%`, the pattern, whether the longest fit counts.
    Cut(char, &'t str, bool),
    /// Where (`/` everywhere, `#` at the start, `%` at the end, else the first place), pattern, replacement.
    Replace(char, &'t str, &'t str),
    /// `^` or `,`, whether all letters.
    Case(char, bool),
}

impl<'t> Parameter<'t> {
    pub(super) fn parse(text: &'t str) -> Result<Self, ExpandError> {
        let bad = || ExpandError::Operator(text.to_owned());
        let (inner, prefix) = match text.chars().next() {
            Some('#') if text.len() > 1 => {
                (text.get(1..).unwrap_or_default(), Some(Operation::Length))
            }
            Some('!') if text.len() > 1 => {
                (text.get(1..).unwrap_or_default(), Some(Operation::Indirect))
            }
            _ => (text, None),
        };
        let len = name_len(inner);
        let (name, rest) = inner.split_at_checked(len).ok_or_else(bad)?;
        if name.is_empty() {
            return Err(bad());
        }
        let operation = match (prefix, rest) {
            (Some(operation), "") => operation,
            (Some(_), _) => return Err(bad()),
            (None, rest) => operation(rest).ok_or_else(bad)?,
        };
        Ok(Self {
            text,
            name,
            operation,
        })
    }

    /// Its value; `expand` expands the words in it.
    pub(super) fn value(
        &self,
        lookup: &Lookup<'_>,
        expand: &dyn Fn(&str) -> Result<String, ExpandError>,
    ) -> Result<String, ExpandError> {
        let found = lookup(self.name);
        let value = found.clone().unwrap_or_default();
        match self.operation {
            Operation::None => Ok(value),
            Operation::Length => Ok(value.chars().count().to_string()),
            Operation::Indirect => Ok(lookup(&value).unwrap_or_default()),
            Operation::Default(kind, word, empty_is_none) => {
                let is_set = found.is_some() && !(empty_is_none && value.is_empty());
                match (kind, is_set) {
                    ('+', true) | ('-' | '=', false) => expand(word),
                    ('+', false) => Ok(String::new()),
                    ('?', false) => Err(ExpandError::Unset(self.name.to_owned(), expand(word)?)),
                    _ => Ok(value),
                }
            }
            Operation::Part(from, len) => {
                let number = |text: &str| evaluate(&expand(text)?, lookup);
                let from = number(from)?;
                part(&value, from, len.map(number).transpose()?)
                    .ok_or_else(|| ExpandError::Operator(self.text.to_owned()))
            }
            Operation::Cut(end, pattern, longest) => {
                cut(&value, end, &Glob::new(&expand(pattern)?), longest)
            }
            Operation::Replace(place, pattern, replacement) => {
                let pattern = expand(pattern)?;
                if pattern.is_empty() {
                    return Ok(value);
                }
                replace(&value, place, &Glob::new(&pattern), &expand(replacement)?)
            }
            Operation::Case(kind, all) => Ok(case(&value, kind, all)),
        }
    }
}

/// What follows a variable's name.
fn operation(rest: &str) -> Option<Operation<'_>> {
    let mut letters = rest.chars();
    let Some(first) = letters.next() else {
        return Some(Operation::None);
    };
    let after = letters.as_str();
    let doubled = after.strip_prefix(first);
    match first {
        '-' | '=' | '+' | '?' => Some(Operation::Default(first, after, false)),
        ':' => match after.chars().next() {
            Some(kind @ ('-' | '=' | '+' | '?')) => {
                Some(Operation::Default(kind, after.get(1..)?, true))
            }
            _ => Some(match after.split_once(':') {
                Some((from, len)) => Operation::Part(from, Some(len)),
                None => Operation::Part(after, None),
            }),
        },
        '#' | '%' => Some(Operation::Cut(
            first,
            doubled.unwrap_or(after),
            doubled.is_some(),
        )),
        '/' => {
            let place = after.chars().next().filter(|place| "/#%".contains(*place));
            let body = place.map_or(after, |_| after.get(1..).unwrap_or_default());
            let (pattern, replacement) = body.split_once('/').unwrap_or((body, ""));
            Some(Operation::Replace(
                place.unwrap_or(' '),
                pattern,
                replacement,
            ))
        }
        '^' | ',' => match doubled.unwrap_or(after) {
            "" => Some(Operation::Case(first, doubled.is_some())),
            _ => None,
        },
        _ => None,
    }
}

/// Letters from number `from` on, which counts from the end when it is negative.
fn part(value: &str, from: i64, len: Option<i64>) -> Option<String> {
    let letters: Vec<char> = value.chars().collect();
    let count = i64::try_from(letters.len()).ok()?;
    let start = if from < 0 {
        count.checked_add(from)?
    } else {
        from
    };
    if start < 0 || start > count {
        return Some(String::new());
    }
    let end = match len {
        None => count,
        Some(len) if len < 0 => count.checked_add(len)?,
        Some(len) => start.saturating_add(len).min(count),
    };
    let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
    Some(letters.get(start..end)?.iter().collect())
}

fn searched(value: &str) -> Result<Vec<char>, ExpandError> {
    let letters: Vec<char> = value.chars().take(MAX_SEARCHED + 1).collect();
    if letters.len() > MAX_SEARCHED {
        return Err(ExpandError::TooLong);
    }
    Ok(letters)
}

fn cut(value: &str, end: char, pattern: &Glob, longest: bool) -> Result<String, ExpandError> {
    let letters = searched(value)?;
    let count = letters.len();
    let fits = |len: &usize| {
        let part = if end == '#' {
            letters.get(..*len)
        } else {
            letters.get(count - *len..)
        };
        part.is_some_and(|part| pattern.matches(part))
    };
    let len = if longest {
        (0..=count).rev().find(fits)
    } else {
        (0..=count).find(fits)
    };
    let len = len.unwrap_or(0);
    let left = if end == '#' {
        letters.get(len..)
    } else {
        letters.get(..count - len)
    };
    Ok(left.unwrap_or_default().iter().collect())
}

fn replace(
    value: &str,
    place: char,
    pattern: &Glob,
    replacement: &str,
) -> Result<String, ExpandError> {
    let letters = searched(value)?;
    let count = letters.len();
    // The longest fit that begins at a letter.
    let fit = |from: usize| {
        (from..=count).rev().find(|to| {
            letters
                .get(from..*to)
                .is_some_and(|part| pattern.matches(part))
        })
    };
    let text = |range: std::ops::Range<usize>| -> String {
        letters.get(range).unwrap_or_default().iter().collect()
    };
    match place {
        '#' => Ok(match fit(0) {
            Some(to) => replacement.to_owned() + &text(to..count),
            None => value.to_owned(),
        }),
        '%' => {
            let from = (0..=count).find(|from| {
                letters
                    .get(*from..)
                    .is_some_and(|part| pattern.matches(part))
            });
            Ok(match from {
                Some(from) => text(0..from) + replacement,
                None => value.to_owned(),
            })
        }
        _ => {
            let mut out = String::new();
            let mut at = 0;
            let mut is_over = false;
            while at < count {
                match fit(at).filter(|to| *to > at && !is_over) {
                    Some(to) => {
                        out.push_str(replacement);
                        at = to;
                        is_over = place != '/';
                    }
                    None => {
                        out.push_str(&text(at..at + 1));
                        at += 1;
                    }
                }
                if out.len() > super::MAX_EXPANDED {
                    return Err(ExpandError::TooLong);
                }
            }
            Ok(out)
        }
    }
}

fn case(value: &str, kind: char, all: bool) -> String {
    let change = |text: &str| match kind {
        '^' => text.to_uppercase(),
        _ => text.to_lowercase(),
    };
    if all {
        return change(value);
    }
    let mut letters = value.chars();
    match letters.next() {
        Some(first) => change(&first.to_string()) + letters.as_str(),
        None => String::new(),
    }
}
