//! Patterns in references: `*`, `?` and `[…]` over a variable's value.

use super::MAX_PATTERN;
use super::classes::class;
use super::error::ExpandError;
use super::evaluate::Work;
use super::tree::End;

/// What a letter of a pattern is reckoned as: classes are put in order.
const READ_WORK: usize = 16;

/// What fits one letter.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// This letter.
    Letter(char),
    /// Any letter.
    Any,
    /// `[[:alpha:]]` and the like.
    Kind(fn(&char) -> bool),
    /// One of these ranges, or none of them. They are in order and share no letter.
    Class {
        ranges: Vec<(char, char)>,
        is_not: bool,
    },
}

/// A pattern: the pieces before, between and after its stars. There is one at least.
#[derive(Clone, Debug)]
pub(super) struct Glob(Vec<Vec<Part>>);

/// Which of all the lengths that fit is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    /// The shortest one that is not below this one.
    Shortest(usize),
    Longest,
}

impl Glob {
    /// Reads a pattern; nothing if a class in it does not end or makes no sense.
    pub(super) fn new(text: &str, work: &Work<'_>) -> Result<Option<Self>, ExpandError> {
        let letters: Vec<char> = text.chars().take(MAX_PATTERN + 1).collect();
        if letters.len() > MAX_PATTERN {
            return Err(ExpandError::LongPattern(MAX_PATTERN));
        }
        work.add(letters.len() * READ_WORK)?;
        Ok(Self::read(&letters))
    }

    fn read(letters: &[char]) -> Option<Self> {
        // Where the last `:]` begins, from the end.
        let named = letters.windows(2).rposition(|end| end == [':', ']']);
        let named = named.map(|at| letters.len() - at);
        let mut pieces = Vec::new();
        let mut piece = Vec::new();
        let mut at = 0;
        while let Some(letter) = letters.get(at) {
            at += 1;
            piece.push(match letter {
                '*' => {
                    // Two stars are as one.
                    if !piece.is_empty() || pieces.is_empty() {
                        pieces.push(std::mem::take(&mut piece));
                    }
                    continue;
                }
                '?' => Part::Any,
                '\\' => {
                    let hidden = letters.get(at)?;
                    at += 1;
                    Part::Letter(*hidden)
                }
                '[' => {
                    let (class, len) = class(letters.get(at..)?, named)?;
                    at += len;
                    class
                }
                letter => Part::Letter(*letter),
            });
        }
        pieces.push(piece);
        Some(Self(pieces))
    }

    /// The same pattern for texts whose letters are in the other order.
    pub(super) fn reversed(mut self) -> Self {
        self.0.reverse();
        for piece in &mut self.0 {
            piece.reverse();
        }
        self
    }

    /// How many of the first letters fit.
    pub(super) fn len(
        &self,
        text: &[char],
        wanted: Wanted,
        work: &Work<'_>,
    ) -> Result<Option<usize>, ExpandError> {
        let Some((first, rest)) = self.0.split_first() else {
            return Ok(None);
        };
        if !fits(first, text, work)? {
            return Ok(None);
        }
        self.len_after(rest, first.len(), text, wanted, work)
    }

    /// How many of the first letters fit, of which the first piece fits `len` and `rest` is to follow.
    fn len_after(
        &self,
        rest: &[Vec<Part>],
        mut len: usize,
        text: &[char],
        wanted: Wanted,
        work: &Work<'_>,
    ) -> Result<Option<usize>, ExpandError> {
        let Some((last, between)) = rest.split_last() else {
            return Ok(match wanted {
                Wanted::Shortest(least) if len < least => None,
                _ => Some(len),
            });
        };
        // Each piece where it fits first: that leaves most for those that follow.
        for piece in between {
            match first_fit(piece, text, len, End::Front, work)? {
                Some(at) => len = at + piece.len(),
                None => return Ok(None),
            }
        }
        let (from, end) = match wanted {
            Wanted::Shortest(least) => (len.max(least.saturating_sub(last.len())), End::Front),
            Wanted::Longest => (len, End::Back),
        };
        let at = first_fit(last, text, from, end, work)?;
        Ok(at.map(|at| at + last.len()))
    }

    /// The first place from `from` on where letters fit, and how many at most.
    pub(super) fn find(
        &self,
        text: &[char],
        from: usize,
        work: &Work<'_>,
    ) -> Result<Option<(usize, usize)>, ExpandError> {
        let Some((first, rest)) = self.0.split_first() else {
            return Ok(None);
        };
        let Some(at) = first_fit(first, text, from, End::Front, work)? else {
            return Ok(None);
        };
        let text = text.get(at..).unwrap_or_default();
        // What does not follow here follows no later place either.
        let len = self.len_after(rest, first.len(), text, Wanted::Longest, work)?;
        Ok(len.map(|len| (at, len)))
    }
}

/// The first place from `from` on where `piece` fits, or the last one.
fn first_fit(
    piece: &[Part],
    text: &[char],
    from: usize,
    end: End,
    work: &Work<'_>,
) -> Result<Option<usize>, ExpandError> {
    let Some(last) = text.len().checked_sub(piece.len()) else {
        return Ok(None);
    };
    for step in 0..(last + 1).saturating_sub(from) {
        let at = match end {
            End::Front => from + step,
            End::Back => last - step,
        };
        if fits(piece, text.get(at..).unwrap_or_default(), work)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Whether the first letters fit `piece`.
fn fits(piece: &[Part], text: &[char], work: &Work<'_>) -> Result<bool, ExpandError> {
    let mut steps = 1;
    let mut letters = text.iter();
    let fits = piece.iter().all(|part| {
        steps += part.work();
        letters.next().is_some_and(|letter| part.fits(*letter))
    });
    work.add(steps)?;
    Ok(fits)
}

impl Part {
    fn fits(&self, letter: char) -> bool {
        match self {
            Self::Letter(own) => *own == letter,
            Self::Any => true,
            Self::Kind(is_kind) => is_kind(&letter),
            Self::Class { ranges, is_not } => {
                let next = ranges.partition_point(|(_, to)| *to < letter);
                let is_in = ranges.get(next).is_some_and(|(from, _)| *from <= letter);
                is_in != *is_not
            }
        }
    }

    /// What it takes to see whether a letter fits.
    fn work(&self) -> usize {
        match self {
            Self::Class { ranges, .. } => 2 + (ranges.len() + 1).ilog2() as usize,
            Self::Kind(_) => 2,
            _ => 1,
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

#[cfg(test)]
mod tests {
    use super::super::evaluate::Budget;
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
            let budget = Budget::default();
            let work = Work::of(&budget);
            let glob = Glob::new(pattern, &work).unwrap().unwrap();
            let longest = glob.len(&letters, Wanted::Longest, &work).unwrap();
            assert_eq!(longest == Some(letters.len()), fits, "{pattern} {text}");
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
            let glob = Glob::new(pattern, &Work::of(&Budget::default())).unwrap();
            assert!(glob.is_none(), "{pattern}");
        }
    }
}
