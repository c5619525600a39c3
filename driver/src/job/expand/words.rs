//! Reads texts: letters, quotes, and references among them (gitlab-runner, wire §3.2).

use super::brackets::SumContext;
use super::error::{ExpandError, Wrong};
use super::source::{Place, Source};
use super::tree::{Piece, Reference, Word};
use super::{MAX_DEPTH, MAX_PARTS, commands, escapes};

/// Reads a text into a tree. Everything in it is checked before anything is expanded.
pub(super) struct Parser<'t> {
    pub(super) source: Source<'t>,
    /// See [`Self::count_part`].
    parts: usize,
    /// How deep it is in references.
    depth: u32,
    /// How deep it is in the parts of sums.
    pub(super) sum_depth: u32,
    /// What is special in the sum that is read.
    pub(super) context: SumContext,
}

/// A word that is being put together: letters one after the other become one piece.
#[derive(Default)]
pub(super) struct Pieces(Word);

impl Pieces {
    pub(super) fn into_word(self) -> Word {
        self.0
    }

    pub(super) fn push(&mut self, letter: char) {
        match self.0.last_mut() {
            Some(Piece::Text(text)) => text.push(letter),
            _ => self.0.push(Piece::Text(letter.to_string())),
        }
    }

    pub(super) fn extend(&mut self, piece: Piece) {
        match piece {
            Piece::Text(text) => {
                for letter in text.chars() {
                    self.push(letter);
                }
            }
            piece => self.0.push(piece),
        }
    }
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            source: Source::new(text),
            parts: 0,
            depth: 0,
            sum_depth: 0,
            context: SumContext::default(),
        }
    }

    /// How many parts there have been.
    pub(super) fn parts(&self) -> usize {
        self.parts
    }

    /// All of the text, in which quotes are letters like all others.
    pub(super) fn text(&mut self) -> Result<Word, ExpandError> {
        self.letters(None)
    }

    /// What follows a double quote that was opened at `place`, up to the one that closes it.
    fn double_quoted(&mut self, place: Place) -> Result<Word, ExpandError> {
        self.count_part()?;
        self.within(SumContext::default(), |parser| parser.letters(Some(place)))
    }

    /// Letters up to the end, or up to the quote that was opened at `quote`.
    fn letters(&mut self, quote: Option<Place>) -> Result<Word, ExpandError> {
        let mut pieces = Pieces::default();
        loop {
            match self.source.peek() {
                None => match quote {
                    Some(place) => return Err(ExpandError::Syntax(place, Wrong::Quote("\""))),
                    None => return Ok(pieces.0),
                },
                Some('"') if quote.is_some() => {
                    self.source.next();
                    return Ok(pieces.0);
                }
                Some('\\') => {
                    self.source.next();
                    match self.source.peek_raw() {
                        Some(hidden @ ('$' | '\\' | '`')) => {
                            self.source.next_raw();
                            pieces.push(hidden);
                        }
                        Some('"') if quote.is_some() => {
                            self.source.next_raw();
                            pieces.push('"');
                        }
                        _ => pieces.push('\\'),
                    }
                }
                Some('`') => pieces.0.push(self.backquotes()?),
                Some('$') => pieces.extend(self.dollar()?),
                Some(letter) => {
                    self.source.next();
                    pieces.push(letter);
                }
            }
        }
    }

    /// A word in a reference, up to one of the letters `ends`, which is not taken, or the text's end.
    pub(super) fn word(&mut self, ends: &[char]) -> Result<Word, ExpandError> {
        self.within(SumContext::default(), |parser| parser.word_letters(ends))
    }

    fn word_letters(&mut self, ends: &[char]) -> Result<Word, ExpandError> {
        let mut pieces = Pieces::default();
        while let Some(letter) = self.source.peek() {
            if ends.contains(&letter) {
                break;
            }
            match self.part()? {
                Some(part) => pieces.extend(part),
                None => {
                    self.source.next();
                    pieces.push(letter);
                    // Where there are no quotes, a backslash hides the next letter and stays.
                    if let Some(hidden) = (letter == '\\').then(|| self.source.next_raw()).flatten()
                    {
                        pieces.push(hidden);
                    }
                }
            }
        }
        Ok(pieces.0)
    }

    /// Quotes, a reference, a sum or a command, where one of them begins.
    pub(super) fn part(&mut self) -> Result<Option<Piece>, ExpandError> {
        let place = self.source.place();
        let part = match (self.source.peek(), self.source.second()) {
            (Some('\''), _) => {
                self.source.next();
                Piece::Quoted(vec![Piece::Text(self.single_quoted(place)?)])
            }
            (Some('"'), _) => {
                self.source.next();
                Piece::Quoted(self.double_quoted(place)?)
            }
            (Some('$'), Some('"')) => {
                self.source.next();
                self.source.next();
                Piece::Quoted(self.double_quoted(place)?)
            }
            (Some('$'), Some('\'')) => {
                self.source.next();
                self.source.next();
                Piece::Quoted(vec![Piece::Text(self.escaped(place)?)])
            }
            (Some('`'), _) => self.backquotes()?,
            (Some('$'), _) => self.dollar()?,
            _ => return Ok(None),
        };
        Ok(Some(part))
    }

    /// What follows `'`, up to the next one.
    fn single_quoted(&mut self, place: Place) -> Result<String, ExpandError> {
        self.count_part()?;
        let mut text = String::new();
        loop {
            match self.source.next_raw() {
                None => return Err(ExpandError::Syntax(place, Wrong::Quote("'"))),
                Some('\'') => return Ok(text),
                Some(letter) => text.push(letter),
            }
        }
    }

    /// What follows `$'`, up to the next `'`.
    fn escaped(&mut self, place: Place) -> Result<String, ExpandError> {
        self.count_part()?;
        let mut text = String::new();
        loop {
            match self.source.next_raw() {
                None => return Err(ExpandError::Syntax(place, Wrong::Quote("'"))),
                Some('\'') => return Ok(escapes::resolved(&text)),
                Some('\\') => {
                    text.push('\\');
                    text.extend(self.source.next_raw());
                }
                Some(letter) => text.push(letter),
            }
        }
    }

    /// Counts a reference, a command, what is quoted, or a number.
    pub(super) fn count_part(&mut self) -> Result<(), ExpandError> {
        self.parts += 1;
        match self.parts > MAX_PARTS {
            true => Err(ExpandError::TooManyParts),
            false => Ok(()),
        }
    }

    fn backquotes(&mut self) -> Result<Piece, ExpandError> {
        self.count_part()?;
        let place = self.source.place();
        self.source.next();
        match commands::skip_backquotes(&mut self.source) {
            true => Ok(Piece::Command(place)),
            false => Err(ExpandError::Syntax(place, Wrong::Quote("`"))),
        }
    }

    /// What begins with the dollar that is next; it is itself where nothing does.
    fn dollar(&mut self) -> Result<Piece, ExpandError> {
        self.count_part()?;
        let place = self.source.place();
        let (second, third) = (self.source.second(), self.source.third());
        self.source.next();
        match (second, third) {
            (Some('('), Some('(')) => {
                self.source.next();
                self.source.next();
                Ok(Piece::Sum(self.whole_sum(place, "$((", "))")?))
            }
            (Some('('), _) => {
                self.source.next();
                match commands::skip(&mut self.source)? {
                    true => Ok(Piece::Command(place)),
                    false => Err(self.open(place, "$(", ")")),
                }
            }
            (Some('['), _) => {
                self.source.next();
                Ok(Piece::Sum(self.whole_sum(place, "$[", "]")?))
            }
            (Some('{'), _) => {
                self.source.next();
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(ExpandError::TooDeep);
                }
                let piece = self.reference(place)?;
                self.depth -= 1;
                Ok(piece)
            }
            _ => Ok(match self.short_name(second) {
                Some(name) => Piece::Reference(Box::new(Reference::plain(name))),
                None => Piece::Text("$".to_owned()),
            }),
        }
    }

    /// The name that follows a dollar; `second` is right after it, where the shell's own names must be.
    fn short_name(&mut self, second: Option<char>) -> Option<String> {
        let first = self.source.peek()?;
        if second.is_some_and(is_special) || first.is_ascii_digit() {
            self.source.next();
            return Some(first.to_string());
        }
        let name = self.name();
        (!name.is_empty()).then_some(name)
    }

    /// A name, or nothing.
    pub(super) fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(letter) = self.source.peek() {
            let is_part = is_name_start(letter) || (letter.is_ascii_digit() && !name.is_empty());
            if !is_part {
                break;
            }
            self.source.next();
            name.push(letter);
        }
        name
    }
}

/// Whether `letter` is the name of one of the shell's own variables.
pub(super) fn is_special(letter: char) -> bool {
    "@*#?-$!".contains(letter)
}

pub(super) fn is_name_start(letter: char) -> bool {
    letter.is_ascii_alphabetic() || letter == '_'
}
