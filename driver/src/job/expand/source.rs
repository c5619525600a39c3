//! A text that is read letter by letter, with the place of each.

use std::fmt;

/// A letter's place, both counted from one: the column in bytes, as GitLab Runner's helper counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    line: usize,
    column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// What is left of a text.
///
/// NUL bytes and the `\r` of a line's end are not there for anyone.
#[derive(Clone)]
pub(super) struct Source<'t> {
    rest: &'t str,
    place: Place,
    is_after_backslash: bool,
}

impl<'t> Source<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            rest: text,
            place: Place { line: 1, column: 1 },
            is_after_backslash: false,
        }
    }

    /// The next letter; a backslash at a line's end and this end are skipped, if no backslash is before them.
    pub(super) fn peek(&mut self) -> Option<char> {
        loop {
            let letter = self.peek_raw()?;
            if letter != '\\' || self.is_after_backslash || self.second() != Some('\n') {
                return Some(letter);
            }
            self.next_raw();
            self.next_raw();
        }
    }

    /// The letter right after the next one.
    pub(super) fn second(&self) -> Option<char> {
        self.ahead(1)
    }

    /// The letter right after [`Self::second`].
    pub(super) fn third(&self) -> Option<char> {
        self.ahead(2)
    }

    fn ahead(&self, count: usize) -> Option<char> {
        let mut ahead = self.clone();
        for _ in 0..count {
            ahead.next_raw()?;
        }
        ahead.peek_raw()
    }

    /// Takes the letter that [`Self::peek`] shows.
    pub(super) fn next(&mut self) -> Option<char> {
        self.peek()?;
        self.next_raw()
    }

    /// Takes the next letter if it is `wanted`.
    pub(super) fn take(&mut self, wanted: char) -> bool {
        let is_next = self.peek() == Some(wanted);
        if is_next {
            self.next_raw();
        }
        is_next
    }

    /// The next letter where backslashes hide nothing.
    pub(super) fn peek_raw(&mut self) -> Option<char> {
        loop {
            let mut letters = self.rest.chars();
            let letter = letters.next()?;
            let is_line_end = letter == '\r' && letters.next() == Some('\n');
            if letter != '\0' && !is_line_end {
                return Some(letter);
            }
            self.pass(letter);
        }
    }

    /// Takes the letter that [`Self::peek_raw`] shows.
    pub(super) fn next_raw(&mut self) -> Option<char> {
        let letter = self.peek_raw()?;
        self.pass(letter);
        self.is_after_backslash = letter == '\\';
        Some(letter)
    }

    /// Where the next letter stands.
    pub(super) fn place(&mut self) -> Place {
        self.peek();
        self.place
    }

    /// Where the letter before the next one ends.
    pub(super) fn place_before(&self) -> Place {
        self.place
    }

    fn pass(&mut self, letter: char) {
        self.rest = self.rest.get(letter.len_utf8()..).unwrap_or_default();
        if letter == '\n' {
            self.place.line += 1;
            self.place.column = 1;
        } else {
            self.place.column += letter.len_utf8();
        }
    }
}
