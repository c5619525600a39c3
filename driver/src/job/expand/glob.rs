//! Patterns in references: `*`, `?` and `[…]` over a variable's value.

/// A pattern's part.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// This letter.
    Letter(char),
    /// Any letter.
    Any,
    /// Any letters, or none.
    Star,
    /// One of these ranges, or none of them.
    Class {
        ranges: Vec<(char, char)>,
        is_not: bool,
    },
}

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob(Vec<Part>);

impl Glob {
    /// Reads a pattern; what has no meaning in it is itself.
    pub(super) fn new(text: &str) -> Self {
        let letters: Vec<char> = text.chars().collect();
        let mut parts = Vec::new();
        let mut at = 0;
        while let Some(letter) = letters.get(at) {
            at += 1;
            parts.push(match letter {
                '*' => Part::Star,
                '?' => Part::Any,
                '\\' => {
                    let next = letters.get(at);
                    at += 1;
                    Part::Letter(*next.unwrap_or(&'\\'))
                }
                '[' => match class(letters.get(at..).unwrap_or_default()) {
                    Some((class, len)) => {
                        at += len;
                        class
                    }
                    None => Part::Letter('['),
                },
                letter => Part::Letter(*letter),
            });
        }
        Self(parts)
    }

    /// Whether all of `text` fits.
    pub(super) fn matches(&self, text: &[char]) -> bool {
        let parts = &self.0;
        let (mut part, mut at) = (0, 0);
        // Where the last star stands, and how much it has taken.
        let mut star: Option<(usize, usize)> = None;
        loop {
            match (parts.get(part), text.get(at)) {
                (Some(Part::Star), _) => {
                    star = Some((part, at));
                    part += 1;
                    continue;
                }
                (Some(one), Some(letter)) if one.fits(*letter) => {
                    part += 1;
                    at += 1;
                    continue;
                }
                (None, None) => return true,
                _ => {}
            }
            match star {
                Some((place, taken)) if taken < text.len() => {
                    star = Some((place, taken + 1));
                    part = place + 1;
                    at = taken + 1;
                }
                _ => return false,
            }
        }
    }
}

impl Part {
    fn fits(&self, letter: char) -> bool {
        match self {
            Self::Letter(own) => *own == letter,
            Self::Any => true,
            Self::Star => false,
            Self::Class { ranges, is_not } => {
                let is_in = ranges
                    .iter()
                    .any(|(from, to)| (*from..=*to).contains(&letter));
                is_in != *is_not
            }
        }
    }
}

/// The class whose bracket was opened before `letters`, and its length.
fn class(letters: &[char]) -> Option<(Part, usize)> {
    let is_not = matches!(letters.first(), Some('!' | '^'));
    let start = usize::from(is_not);
    let mut ranges = Vec::new();
    let mut at = start;
    loop {
        let letter = *letters.get(at)?;
        if letter == ']' && at > start {
            return Some((Part::Class { ranges, is_not }, at + 1));
        }
        match (letters.get(at + 1), letters.get(at + 2)) {
            (Some('-'), Some(to)) if *to != ']' => {
                ranges.push((letter, *to));
                at += 3;
            }
            _ => {
                ranges.push((letter, letter));
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("?", "ä", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[", "[", true),
            (r"\*", "*", true),
            (r"\*", "a", false),
            ("*a*b*a*b*a*b*x", &"ab".repeat(500), false),
        ] {
            let letters: Vec<char> = text.chars().collect();
            assert_eq!(
                Glob::new(pattern).matches(&letters),
                fits,
                "{pattern} {text}"
            );
        }
    }
}
