//! Reads what sums stand in: `$((…))`, `$[…]`, indices, and the numbers of parts (gitlab-runner, wire §3.2).

use super::MAX_SUM_DEPTH;
use super::error::{ExpandError, Wrong};
use super::source::Place;
use super::tokens::{COMMA, Token};
use super::tree::Sum;
use super::words::Parser;

/// What is special in a sum, by what stands around it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SumContext {
    /// Whether this is a sum at all.
    is_sum: bool,
    /// Whether a closing brace is no letter of a word.
    pub(super) brace_ends: bool,
    /// Whether `@` begins no word, and nothing follows parentheses: for other shells, what they have is a flag.
    pub(super) is_subscript: bool,
    /// Whether a colon ends it.
    pub(super) colon_ends: bool,
}

impl SumContext {
    /// The same where a colon ends the sum.
    pub(super) fn ended_by_colon(self) -> Self {
        Self {
            colon_ends: true,
            ..self
        }
    }
}

impl Parser<'_> {
    /// What `read` reads in `context`.
    pub(super) fn within<T>(
        &mut self,
        context: SumContext,
        read: impl FnOnce(&mut Self) -> Result<T, ExpandError>,
    ) -> Result<T, ExpandError> {
        let outer = std::mem::replace(&mut self.context, context);
        let read = read(self)?;
        self.context = outer;
        Ok(read)
    }

    /// What `read` reads as a part of a sum.
    pub(super) fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, ExpandError>,
    ) -> Result<T, ExpandError> {
        self.count_part()?;
        self.sum_depth += 1;
        if self.sum_depth > MAX_SUM_DEPTH {
            return Err(ExpandError::TooDeep);
        }
        let read = read(self)?;
        self.sum_depth -= 1;
        Ok(read)
    }

    /// The sum that was opened with `opened` at `place`, and what closes it.
    pub(super) fn whole_sum(
        &mut self,
        place: Place,
        opened: &'static str,
        closes: &'static str,
    ) -> Result<Sum, ExpandError> {
        self.skip_spaces();
        if self.source.peek() == Some('#') {
            let wrong = Wrong::OtherShell("unsigned expressions are", "mksh");
            return Err(ExpandError::Syntax(place, wrong));
        }
        let context = SumContext {
            is_sum: true,
            ..SumContext::default()
        };
        self.within(context, |parser| {
            let sum = parser.required(COMMA, place, opened)?;
            if !parser.is_next(closes) {
                return Err(match parser.source.peek() {
                    None | Some(')') => parser.open(place, opened, closes),
                    Some(_) => parser.no_operator(),
                });
            }
            for _ in closes.chars() {
                parser.source.next();
            }
            Ok(sum)
        })
    }

    /// The index of the variable of a reference; it begins with the bracket that is next.
    pub(super) fn index(&mut self) -> Result<Sum, ExpandError> {
        self.bracketed(|parser, place| match parser.source.peek() {
            Some(letter) if parser.is_odd(letter) => parser.no_operator(),
            _ => parser.open(place, "[", "]"),
        })
    }

    /// An index, which begins with the bracket that is next; `unclosed` says why the letter after it does not close it.
    pub(super) fn bracketed(
        &mut self,
        unclosed: impl FnOnce(&mut Self, Place) -> ExpandError,
    ) -> Result<Sum, ExpandError> {
        let place = self.source.place();
        self.source.next();
        let context = SumContext {
            is_sum: true,
            brace_ends: true,
            is_subscript: true,
            colon_ends: false,
        };
        let read = |parser: &mut Self| {
            parser.skip_spaces();
            // All values; no operator, and no part of a longer word.
            let all = match (parser.source.peek(), parser.source.second()) {
                (Some('*'), Some('*' | '=')) => None,
                (Some(all @ ('@' | '*')), _) => Some(all),
                _ => None,
            };
            let first = match all {
                Some(all) => {
                    parser.source.next();
                    let all = parser.item(Sum::Literal(all.to_string()))?;
                    Some(parser.step_after(all)?)
                }
                None => parser.operand()?,
            };
            let sum = parser
                .sum_after(first, COMMA)?
                .ok_or(ExpandError::Syntax(place, Wrong::NothingFollows("[")))?;
            match parser.source.take(']') {
                true => Ok(sum),
                false => Err(unclosed(parser, place)),
            }
        };
        self.within(context, |parser| parser.deeper(read))
    }

    /// The numbers of a part; the first follows the colon at `place`. The brace at the end closes what was opened at
    /// `open`.
    pub(super) fn part_numbers(
        &mut self,
        place: Place,
        open: Place,
    ) -> Result<(Sum, Option<Sum>), ExpandError> {
        let is_in_sum = self.context.is_sum;
        let context = |colon_ends| SumContext {
            is_sum: true,
            brace_ends: true,
            is_subscript: true,
            colon_ends,
        };
        self.within(context(true), |parser| {
            parser.skip_spaces();
            // `${A::1}` begins at the front.
            let from = match parser.source.peek() {
                Some(':') => Sum::Literal(String::new()),
                _ => parser.required(COMMA, place, ":")?,
            };
            let colon = parser.source.place();
            let len = match parser.source.take(':') {
                true => parser.within(context(false), |parser| {
                    parser.required(COMMA, colon, ":").map(Some)
                })?,
                false => None,
            };
            match parser.source.peek() {
                Some('}') => Ok((from, len)),
                Some(letter) if parser.is_odd(letter) => Err(parser.no_operator()),
                Some(letter) if is_in_sum && letter != ')' => Err(parser.no_operator()),
                _ => Err(parser.open(open, "${", "}")),
            }
        })
    }

    /// That what is next is no operator.
    pub(super) fn no_operator(&mut self) -> ExpandError {
        let place = self.source.place();
        let wrong = match self.token() {
            Some(Token::Mark(mark)) if mark == "." => {
                Wrong::OtherShell("floating point arithmetic is", "zsh")
            }
            Some(Token::Mark(mark)) if mark == "[" => Wrong::NoArrayBefore,
            Some(Token::Word { word: token, .. } | Token::Mark(token)) => Wrong::SumOperator(token),
            None => Wrong::SumOperator(String::new()),
        };
        ExpandError::Syntax(place, wrong)
    }
}
