//! Reads sums: numbers, names and operators (gitlab-runner, wire §3.2).

use super::error::{ExpandError, Wrong};
use super::source::Place;
use super::tokens::{ASSIGN, CHOICE, COMMA, POWER};
use super::tree::{Piece, Sum};
use super::words::{Parser, Pieces, is_name_start};

impl Parser<'_> {
    /// A sum of operators of `level` and higher, which must follow `before` at `place`.
    pub(super) fn required(
        &mut self,
        level: u8,
        place: Place,
        before: &'static str,
    ) -> Result<Sum, ExpandError> {
        if let Some(sum) = self.sum(level)? {
            return Ok(sum);
        }
        if self.source.peek() == Some(':') && before != "?" {
            let colon = self.source.place();
            return Err(ExpandError::Syntax(colon, Wrong::NoQuestion));
        }
        Err(ExpandError::Syntax(place, Wrong::NothingFollows(before)))
    }

    fn sum(&mut self, level: u8) -> Result<Option<Sum>, ExpandError> {
        self.deeper(|parser| {
            let first = parser.operand()?;
            parser.sum_after(first, level)
        })
    }

    /// The sum that begins with `left`, if there is one.
    pub(super) fn sum_after(
        &mut self,
        mut left: Option<Sum>,
        level: u8,
    ) -> Result<Option<Sum>, ExpandError> {
        // The level of the chain that `left` is, if it is one.
        let mut chain = None;
        loop {
            self.skip_blanks();
            let place = self.source.place();
            let Some((operator, own)) = self.operator().filter(|(_, own)| *own >= level) else {
                return Ok(left);
            };
            let wrong = match (operator, own) {
                (":", _) if self.context.colon_ends => return Ok(left),
                (":", _) => Some(Wrong::NoQuestion),
                (_, ASSIGN) if !is_target(left.as_ref()) => Some(Wrong::NoNameBefore(operator)),
                _ if left.is_none() => Some(Wrong::NothingBefore(operator)),
                _ => None,
            };
            let (None, Some(sum)) = (&wrong, left) else {
                let wrong = wrong.unwrap_or(Wrong::NothingBefore(operator));
                return Err(ExpandError::Syntax(place, wrong));
            };
            for _ in operator.chars() {
                self.source.next();
            }
            left = Some(match own {
                ASSIGN => Sum::Assign {
                    target: Box::new(sum),
                    operator,
                    value: Box::new(self.required(ASSIGN, place, operator)?),
                },
                CHOICE => self.choice(sum, place)?,
                // The right side takes all that it can.
                POWER => {
                    let right = self.required(POWER, place, operator)?;
                    Sum::Chain(Box::new(sum), vec![(operator, right)])
                }
                _ => {
                    let right = self.required(own + 1, place, operator)?;
                    match sum {
                        Sum::Chain(first, mut rest) if chain == Some(own) => {
                            rest.push((operator, right));
                            Sum::Chain(first, rest)
                        }
                        sum => Sum::Chain(Box::new(sum), vec![(operator, right)]),
                    }
                }
            });
            chain = (own != POWER).then_some(own);
        }
    }

    /// What follows `condition` and the `?` at `place`.
    fn choice(&mut self, condition: Sum, place: Place) -> Result<Sum, ExpandError> {
        let context = self.context.ended_by_colon();
        let then = self.within(context, |parser| parser.required(COMMA, place, "?"))?;
        let colon = self.source.place();
        if !self.source.take(':') {
            return Err(ExpandError::Syntax(place, Wrong::NoColon));
        }
        let otherwise = self.required(CHOICE, colon, ":")?;
        Ok(Sum::Choice(
            Box::new(condition),
            Box::new(then),
            Box::new(otherwise),
        ))
    }

    /// A number, a name, a sum in parentheses, or one of these with a sign; or nothing.
    pub(super) fn operand(&mut self) -> Result<Option<Sum>, ExpandError> {
        self.skip_blanks();
        let place = self.source.place();
        let (first, second) = (self.source.peek(), self.source.second());
        match (first, second) {
            (Some('!'), Some('=')) => return Ok(None),
            (Some('+' | '-'), Some('=')) => return Ok(None),
            (Some('+'), Some('+')) => return self.step_before("++").map(Some),
            (Some('-'), Some('-')) => return self.step_before("--").map(Some),
            _ => {}
        }
        let sign = match first {
            Some('!') => "!",
            Some('~') => "~",
            Some('+') => "+",
            Some('-') => "-",
            _ => return self.value(),
        };
        self.source.next();
        // No operator has this level: the sign takes the next operand only.
        let inner = self.required(POWER + 1, place, sign)?;
        let sign = sign.chars().next().unwrap_or_default();
        Ok(Some(Sum::Sign(sign, Box::new(inner))))
    }

    /// A number, a name or a sum in parentheses, and what may follow it.
    fn value(&mut self) -> Result<Option<Sum>, ExpandError> {
        let place = self.source.place();
        let value = match self.source.peek() {
            Some('(') => {
                self.source.next();
                let context = self.context.ended_by_colon();
                let sum = self.within(context, |parser| parser.required(COMMA, place, "("))?;
                if !self.source.take(')') {
                    return Err(self.open(place, "(", ")"));
                }
                self.skip_blanks();
                if self.context.is_subscript && self.is_literal_next() {
                    let wrong = Wrong::OtherShell("subscript flags are", "zsh");
                    return Err(ExpandError::Syntax(place, wrong));
                }
                // What is in parentheses is no name any more.
                Sum::Chain(Box::new(sum), Vec::new())
            }
            Some('[') => return Err(ExpandError::Syntax(place, Wrong::NoArrayBefore)),
            _ => match self.sum_word()? {
                Some(word) => self.item(word)?,
                None => return Ok(None),
            },
        };
        self.step_after(value).map(Some)
    }

    /// `value` with the `++` or `--` that may follow it.
    pub(super) fn step_after(&mut self, value: Sum) -> Result<Sum, ExpandError> {
        self.skip_blanks();
        let place = self.source.place();
        for step in ["++", "--"] {
            if !self.is_next(step) {
                continue;
            }
            if !is_target(Some(&value)) {
                return Err(ExpandError::Syntax(place, Wrong::NoNameBefore(step)));
            }
            self.source.next();
            self.source.next();
            return Ok(Sum::Step);
        }
        Ok(value)
    }

    /// `++` or `--`, which is next, and the name after it.
    fn step_before(&mut self, step: &'static str) -> Result<Sum, ExpandError> {
        let place = self.source.place();
        self.source.next();
        self.source.next();
        self.skip_blanks();
        if !self.is_literal_next() {
            return Err(ExpandError::Syntax(place, Wrong::NoLiteralFollows(step)));
        }
        let name = self.literal();
        let item = self.item(Sum::Literal(name))?;
        self.step_after(item)?;
        Ok(Sum::Step)
    }

    /// `word` with the index that may follow it.
    pub(super) fn item(&mut self, word: Sum) -> Result<Sum, ExpandError> {
        self.skip_spaces();
        match (word, self.source.peek()) {
            (Sum::Literal(name), Some('[')) => {
                let index = self.bracketed(|parser, place| match parser.source.peek() {
                    None | Some(')') => parser.open(place, "[", "]"),
                    Some(_) => parser.no_operator(),
                })?;
                Ok(Sum::Item(name, Box::new(index)))
            }
            (word, _) => Ok(word),
        }
    }

    /// A number or a name, or something else that is one.
    fn sum_word(&mut self) -> Result<Option<Sum>, ExpandError> {
        let mut pieces = Pieces::default();
        let mut is_literal = true;
        loop {
            let literal = self.literal();
            let part = self.part()?;
            if is_literal && part.is_none() {
                return Ok((!literal.is_empty()).then_some(Sum::Literal(literal)));
            }
            is_literal = false;
            pieces.extend(Piece::Text(literal));
            match part {
                Some(part) => pieces.extend(part),
                None => return Ok(Some(Sum::Word(pieces.into_word()))),
            }
        }
    }
}

/// Whether a sum may be assigned to it.
fn is_target(sum: Option<&Sum>) -> bool {
    match sum {
        Some(Sum::Item(..)) => true,
        Some(Sum::Literal(name)) => is_name(name),
        _ => false,
    }
}

/// Whether `text` is a variable's name.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(is_name_start)
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}
