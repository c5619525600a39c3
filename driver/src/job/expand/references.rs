//! Reads what stands between `${` and `}` (gitlab-runner, wire §3.2).

use super::commands;
use super::error::{ExpandError, Wrong};
use super::source::Place;
use super::tree::{End, Fallback, Operation, Piece, Reference, Subject};
use super::words::{Parser, is_name_start, is_special};

impl Parser<'_> {
    /// What follows the `${` at `open`, and the brace that closes it.
    pub(super) fn reference(&mut self, open: Place) -> Result<Piece, ExpandError> {
        if let Some(' ' | '\t' | '\n' | '|') = self.source.peek_raw() {
            self.source.next();
            return match commands::skip_block(&mut self.source) {
                true => Ok(Piece::Command(open)),
                false => Err(unended(open)),
            };
        }
        let mut place = self.source.place_before();
        let is_apart = place != self.source.place();
        if is_apart && !self.source.peek().is_some_and(begins_name) {
            // After a line's end that a backslash hides, nothing but names can be.
            return Err(ExpandError::Syntax(place, Wrong::Name));
        }
        self.check_other_shells(open)?;
        let mut subject = self.subject();
        if subject != Subject::Value {
            place = self.source.place_before();
        }
        let name = self.parameter(open, place)?;
        let place = self.source.place();
        let index = match self.source.peek() {
            Some('[') if !name.starts_with(is_name_start) => {
                return Err(ExpandError::Syntax(place, Wrong::IndexedSpecial));
            }
            Some('[') => Some(self.index()?),
            _ => None,
        };
        let place = self.source.place();
        let operation = match self.source.peek() {
            None => return Err(unended(open)),
            Some('}') => Operation::None,
            Some(_) if subject == Subject::Length => {
                return Err(ExpandError::Syntax(place, Wrong::Combined));
            }
            Some('*' | '@')
                if subject == Subject::Indirect && self.source.second() == Some('}') =>
            {
                subject = Subject::Names;
                self.source.next();
                Operation::None
            }
            // What follows is read and forgotten.
            Some('*') if subject == Subject::Indirect => {
                self.source.next();
                self.word(&['}'])?;
                Operation::None
            }
            Some(letter) => self.operation(letter, &name, open)?,
        };
        if !self.source.take('}') {
            return Err(unended(open));
        }
        Ok(Piece::Reference(Box::new(Reference {
            name,
            index,
            subject,
            operation,
        })))
    }

    /// What other shells know and this one does not.
    fn check_other_shells(&mut self, open: Place) -> Result<(), ExpandError> {
        let is_name_next = self.source.second().is_none_or(begins_parameter);
        let wrong = match self.source.peek() {
            Some('(') => Wrong::OtherShell("parameter expansion flags are", "zsh"),
            Some('+') if is_name_next => Wrong::OtherShell("`${+foo}` is", "zsh"),
            Some('%') if is_name_next => Wrong::OtherShell("`${%foo}` is", "mksh"),
            _ => return Ok(()),
        };
        Err(ExpandError::Syntax(open, wrong))
    }

    /// What `#` or `!` before a name asks for; both are names as well.
    fn subject(&mut self) -> Subject {
        let subject = match self.source.peek() {
            Some('#') => Subject::Length,
            Some('!') => Subject::Indirect,
            _ => return Subject::Value,
        };
        let is_before_name = match (self.source.second(), self.source.third()) {
            // `${#-}` is a length, `${#-x}` is not.
            (Some('-' | '?'), Some('}')) if subject == Subject::Length => true,
            (Some('-' | '?'), _) if subject == Subject::Length => false,
            (next, _) => next.is_none_or(begins_parameter),
        };
        if !is_before_name {
            return Subject::Value;
        }
        self.source.next();
        subject
    }

    /// A variable's name, or one of the shell's own.
    fn parameter(&mut self, open: Place, place: Place) -> Result<String, ExpandError> {
        match self.source.peek() {
            Some('"') if self.source.second() != Some('$') => {
                return Err(ExpandError::Syntax(open, Wrong::QuotedName));
            }
            _ => {}
        }
        self.source.take('"');
        let dollar = self.source.place();
        match self.source.peek() {
            Some('$') if matches!(self.source.second(), Some('{' | '(')) => {
                let wrong = Wrong::OtherShell("nested parameter expansions are", "zsh");
                return Err(ExpandError::Syntax(dollar, wrong));
            }
            Some(letter) if is_special(letter) => {
                self.source.next();
                return Ok(letter.to_string());
            }
            _ => {}
        }
        let mut name = String::new();
        while let Some(letter) = self.source.peek().filter(char::is_ascii_digit) {
            self.source.next();
            name.push(letter);
        }
        if name.is_empty() {
            name = self.name();
        } else if self.source.peek().is_some_and(is_name_start) {
            name.clear();
        }
        if name.is_empty() {
            return Err(ExpandError::Syntax(place, Wrong::Name));
        }
        Ok(name)
    }

    /// What is done with the variable `name`; it begins with `letter`.
    fn operation(
        &mut self,
        letter: char,
        name: &str,
        open: Place,
    ) -> Result<Operation, ExpandError> {
        let place = self.source.place();
        let second = self.source.second();
        if letter == ':' {
            return match second.and_then(fallback) {
                Some(_) => {
                    self.source.next();
                    self.fallback(true)
                }
                None => self.part_of_value(place, open),
            };
        }
        if fallback(letter).is_some() {
            return self.fallback(false);
        }
        let is_doubled = second == Some(letter);
        match letter {
            '#' | '%' => {
                self.take_operator(is_doubled);
                Ok(Operation::Cut {
                    end: if letter == '#' { End::Front } else { End::Back },
                    is_longest: is_doubled,
                    pattern: self.word(&['}'])?,
                })
            }
            '/' => {
                self.take_operator(is_doubled);
                let pattern = self.word(&['/', '}'])?;
                let replacement = match self.source.take('/') {
                    true => self.word(&['}'])?,
                    false => Vec::new(),
                };
                Ok(Operation::Replace {
                    is_everywhere: is_doubled,
                    pattern,
                    replacement,
                })
            }
            '^' | ',' => {
                self.take_operator(is_doubled);
                Ok(Operation::Case {
                    is_upper: letter == '^',
                    is_everywhere: is_doubled,
                    pattern: self.word(&['}'])?,
                })
            }
            '@' => self.transform(place),
            letter if begins_name(letter) => Err(ExpandError::Syntax(
                place,
                Wrong::FollowedByWord(name.to_owned()),
            )),
            letter => Err(ExpandError::Syntax(
                place,
                Wrong::ReferenceOperator(letter.to_string()),
            )),
        }
    }

    fn take_operator(&mut self, is_doubled: bool) {
        self.source.next();
        if is_doubled {
            self.source.next();
        }
    }

    /// One of `-`, `=`, `+` and `?`, which is next, with its word.
    fn fallback(&mut self, has_colon: bool) -> Result<Operation, ExpandError> {
        let kind = self.source.next().and_then(fallback);
        Ok(Operation::Fallback {
            kind: kind.unwrap_or(Fallback::Default),
            has_colon,
            word: self.word(&['}'])?,
        })
    }

    /// `:` and one or two numbers.
    fn part_of_value(&mut self, place: Place, open: Place) -> Result<Operation, ExpandError> {
        let other = match self.source.second() {
            Some('*') => Some("${name:*arg} is"),
            Some('|') => Some("${name:|arg} is"),
            Some('#') => Some("${name:#arg} is"),
            _ => None,
        };
        if let Some(other) = other {
            return Err(ExpandError::Syntax(place, Wrong::OtherShell(other, "zsh")));
        }
        self.source.next();
        let (from, len) = self.part_numbers(place, open)?;
        Ok(Operation::Part(from, len))
    }

    /// `@` and a letter.
    fn transform(&mut self, place: Place) -> Result<Operation, ExpandError> {
        self.source.next();
        let at = match self.source.peek() {
            None => place,
            Some(_) => self.source.place(),
        };
        let mut letters = String::new();
        while let Some(letter) = self
            .source
            .peek()
            .filter(|letter| !"}$'\"`".contains(*letter))
        {
            self.source.next();
            letters.push(letter);
            if letter == '\\' {
                letters.extend(self.source.next_raw());
            }
        }
        let wrong = match letters.as_str() {
            "" => Wrong::TransformNotLiteral,
            "Q" | "E" | "P" | "A" | "a" | "U" | "u" | "L" | "K" | "k" => {
                self.word(&['}'])?;
                return Ok(Operation::Transform(letters, place));
            }
            "#" => Wrong::OtherShell("this expansion operator is", "mksh"),
            _ => Wrong::Transform(letters),
        };
        Err(ExpandError::Syntax(at, wrong))
    }
}

/// That the reference at `open` is not closed.
fn unended(open: Place) -> ExpandError {
    ExpandError::Syntax(
        open,
        Wrong::Open {
            found: "EOF".to_owned(),
            opened: "${",
            closes: "}",
        },
    )
}

/// Whether `letter` can be the first one of a name or number.
fn begins_name(letter: char) -> bool {
    is_name_start(letter) || letter.is_ascii_digit()
}

/// Whether `letter` can be the first one after another mark, which then is no name itself.
fn begins_parameter(letter: char) -> bool {
    begins_name(letter) || is_special(letter) || letter == '"'
}

fn fallback(letter: char) -> Option<Fallback> {
    match letter {
        '-' => Some(Fallback::Default),
        '=' => Some(Fallback::Assign),
        '+' => Some(Fallback::Alternative),
        '?' => Some(Fallback::Demand),
        _ => None,
    }
}
