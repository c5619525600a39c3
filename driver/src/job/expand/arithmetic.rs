//! Sums: whole numbers, variables, `+ - * / %` and parentheses.

use std::iter::Peekable;
use std::str::Chars;

use super::{ExpandError, Lookup};

/// How deep parentheses and signs may be in one another.
const MAX_DEPTH: u32 = 64;

/// The value of `text`.
pub(super) fn evaluate(text: &str, lookup: &Lookup<'_>) -> Result<i64, ExpandError> {
    let mut sum = Sum {
        letters: text.chars().peekable(),
        lookup,
        depth: 0,
    };
    let value = sum.terms();
    sum.skip_spaces();
    match (value, sum.letters.next()) {
        (Some(value), None) => Ok(value),
        _ => Err(ExpandError::Arithmetic(text.to_owned())),
    }
}

struct Sum<'t> {
    letters: Peekable<Chars<'t>>,
    lookup: &'t Lookup<'t>,
    depth: u32,
}

impl Sum<'_> {
    fn skip_spaces(&mut self) {
        while self
            .letters
            .next_if(|letter| letter.is_whitespace())
            .is_some()
        {}
    }

    fn take(&mut self, wanted: &[char]) -> Option<char> {
        self.skip_spaces();
        self.letters.next_if(|letter| wanted.contains(letter))
    }

    fn terms(&mut self) -> Option<i64> {
        let mut value = self.factors()?;
        while let Some(sign) = self.take(&['+', '-']) {
            let other = self.factors()?;
            value = match sign {
                '+' => value.checked_add(other)?,
                _ => value.checked_sub(other)?,
            };
        }
        Some(value)
    }

    fn factors(&mut self) -> Option<i64> {
        let mut value = self.factor()?;
        while let Some(sign) = self.take(&['*', '/', '%']) {
            let other = self.factor()?;
            value = match sign {
                '*' => value.checked_mul(other)?,
                '/' => value.checked_div(other)?,
                _ => value.checked_rem(other)?,
            };
        }
        Some(value)
    }

    fn factor(&mut self) -> Option<i64> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let value = match self.take(&['-', '+', '(']) {
            Some('-') => self.factor()?.checked_neg(),
            Some('+') => self.factor(),
            Some(_) => {
                let inner = self.terms()?;
                self.take(&[')']).map(|_| inner)
            }
            None => self.operand(),
        };
        self.depth -= 1;
        value
    }

    /// A number, or a variable that holds one; nothing in it is zero.
    fn operand(&mut self) -> Option<i64> {
        let mut word = String::new();
        while let Some(letter) = self
            .letters
            .next_if(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
        {
            word.push(letter);
        }
        if word.starts_with(|first: char| first.is_ascii_digit()) {
            return word.parse().ok();
        }
        if word.is_empty() {
            return None;
        }
        let value = (self.lookup)(&word).unwrap_or_default();
        let value = value.trim();
        if value.is_empty() {
            return Some(0);
        }
        value.parse().ok()
    }
}
