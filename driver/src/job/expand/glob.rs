//! Patterns in references: `*`, `?` and `[…]` over a variable's value.

use super::MAX_SEARCHED;
use super::error::ExpandError;
use super::evaluate::Work;

/// A pattern's part.
#[derive(Clone, Debug)]
enum Part {
    /// This letter.
    Letter(char),
    /// Any letter.
    Any,
    /// Any letters, or none.
    Star,
    /// `[[:alpha:]]` and the like.
    Kind(fn(&char) -> bool),
    /// One of these ranges, or none of them.
    Class {
        ranges: Vec<(char, char)>,
        is_not: bool,
    },
}

/// A pattern.
#[derive(Clone, Debug)]
pub(super) struct Glob(Vec<Part>);

impl Glob {
    /// Reads a pattern; nothing if a class in it does not end or makes no sense.
    pub(super) fn new(text: &str) -> Option<Self> {
        let letters: Vec<char> = text.chars().collect();
        let mut parts = Vec::new();
        let mut at = 0;
        while let Some(letter) = letters.get(at) {
            at += 1;
            parts.push(match letter {
                '*' => Part::Star,
                '?' => Part::Any,
                '\\' => {
                    let hidden = letters.get(at)?;
                    at += 1;
                    Part::Letter(*hidden)
                }
                '[' => {
                    let (class, len) = class(letters.get(at..)?)?;
                    at += len;
                    class
                }
                letter => Part::Letter(*letter),
            });
        }
        Some(Self(parts))
    }

    /// Whether it has a star.
    pub(super) fn has_star(&self) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Star))
    }

    /// How many of the first letters fit: all such numbers, in order.
    pub(super) fn lengths(&self, text: &[char], work: &Work) -> Result<Vec<usize>, ExpandError> {
        let parts = &self.0;
        if parts.len() > MAX_SEARCHED {
            return Err(ExpandError::TooLong);
        }
        // Before which parts the pattern can be.
        let mut places = vec![false; parts.len() + 1];
        if let Some(start) = places.first_mut() {
            *start = true;
        }
        let mut lengths = Vec::new();
        let mut letters = text.iter();
        for len in 0.. {
            work.add(places.len())?;
            // A star may be nothing.
            let mut is_reached = false;
            for (place, part) in places.iter_mut().zip(parts.iter().map(Some).chain([None])) {
                *place |= is_reached;
                is_reached = *place && matches!(part, Some(Part::Star));
            }
            if places.last() == Some(&true) {
                lengths.push(len);
            }
            let Some(letter) = letters.next().filter(|_| places.contains(&true)) else {
                break;
            };
            let mut is_reached = false;
            for (place, part) in places.iter_mut().zip(parts.iter().map(Some).chain([None])) {
                let was = *place;
                let stays = was && matches!(part, Some(Part::Star));
                *place = stays || is_reached;
                is_reached = was && part.is_some_and(|part| part.fits(*letter));
            }
        }
        Ok(lengths)
    }
}

impl Part {
    fn fits(&self, letter: char) -> bool {
        match self {
            Self::Letter(own) => *own == letter,
            Self::Any => true,
            Self::Star => false,
            Self::Kind(is_kind) => is_kind(&letter),
            Self::Class { ranges, is_not } => {
                let is_in = ranges
                    .iter()
                    .any(|(from, to)| (*from..=*to).contains(&letter));
                is_in != *is_not
            }
        }
    }
}

/// A pattern for `text` and nothing else.
pub(super) fn hidden(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        if "*?[\\".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

/// The class whose bracket was opened before `letters`, and its length.
fn class(letters: &[char]) -> Option<(Part, usize)> {
    if let ['[', ':', named @ ..] = letters {
        let len = named.windows(3).position(|end| end == [':', ']', ']'])?;
        let name: String = named.iter().take(len).collect();
        return Some((Part::Kind(kind(&name)?), len + 5));
    }
    let is_not = matches!(letters.first(), Some('!' | '^'));
    let start = usize::from(is_not);
    let mut ranges = Vec::new();
    let mut at = start;
    loop {
        let rest = letters.get(at..)?;
        match rest {
            [']', ..] if at > start => return Some((Part::Class { ranges, is_not }, at + 1)),
            // Classes with names must be alone, and what else can be in double brackets is not known.
            ['[', ':', ..] => return None,
            ['[', '.' | '=', ..] if at == start => return None,
            _ => {}
        }
        let (from, len) = member(rest)?;
        at += len;
        let to = match letters.get(at..)? {
            ['-', to, ..] if *to != ']' => {
                let (to, len) = member(letters.get(at + 1..)?)?;
                at += 1 + len;
                to
            }
            _ => from,
        };
        if from > to {
            return None;
        }
        ranges.push((from, to));
    }
}

/// The letter that a class goes on with, and how long it is written. A backslash hides marks; before letters it would
/// mean something of a regular expression.
fn member(letters: &[char]) -> Option<(char, usize)> {
    match letters {
        ['\\', hidden, ..] if hidden.is_ascii_alphanumeric() => None,
        ['\\', hidden, ..] => Some((*hidden, 2)),
        [letter, ..] => Some((*letter, 1)),
        [] => None,
    }
}

fn kind(name: &str) -> Option<fn(&char) -> bool> {
    Some(match name {
        "alnum" => char::is_ascii_alphanumeric,
        "alpha" => char::is_ascii_alphabetic,
        "ascii" => char::is_ascii,
        "blank" => |letter| matches!(letter, ' ' | '\t'),
        "cntrl" => char::is_ascii_control,
        "digit" => char::is_ascii_digit,
        "graph" => char::is_ascii_graphic,
        "lower" => char::is_ascii_lowercase,
        "print" => |letter| matches!(letter, ' '..='~'),
        "punct" => char::is_ascii_punctuation,
        "space" => |letter| matches!(letter, ' ' | '\t'..='\r'),
        "upper" => char::is_ascii_uppercase,
        "word" => |letter| letter.is_ascii_alphanumeric() || *letter == '_',
        "xdigit" => char::is_ascii_hexdigit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_gitlab_runners_helper() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("?", "ä", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[^a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[a-]", "-", true),
            ("[[:digit:]]", "7", true),
            (r"[\]]", "]", true),
            (r"\*", "*", true),
            (r"\*", "a", false),
            ("*a*b*a*b*a*b*x", &"ab".repeat(200), false),
        ] {
            let letters: Vec<char> = text.chars().collect();
            let lengths = Glob::new(pattern)
                .unwrap()
                .lengths(&letters, &Work::default())
                .unwrap();
            assert_eq!(lengths.contains(&letters.len()), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn patterns_without_meaning_are_none() {
        for pattern in [
            "[",
            "[]",
            "a[b",
            "[!]",
            "[c-a]",
            "[[:nope:]]",
            "[[:alpha:]_]",
            "[![:alpha:]]",
            "[[.a.]]",
            "[[:alpha:]",
            r"a\",
        ] {
            assert!(Glob::new(pattern).is_none(), "{pattern}");
        }
    }
}
