//! What a parsed text comes to.
//!
//! Words are expanded whether their value is wanted or not, as GitLab Runner's helper does: what cannot be expanded in
//! them is an error (gitlab-runner, wire §3.2).

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::error::ExpandError;
use super::glob::{self, Glob};
use super::sums::is_name;
use super::tree::{Fallback, Operation, Piece, Reference, Subject, Sum};
use super::{Lookup, MAX_EXPANDED, MAX_WORK, arithmetic, values};

/// How many variables may name one another in a sum.
const MAX_NAMES: usize = 100;

/// What one look-up is reckoned as.
const LOOKUP_WORK: usize = 64;

/// How much texts that belong together may ask for.
pub(crate) struct Budget(AtomicUsize);

impl Default for Budget {
    fn default() -> Self {
        Self(AtomicUsize::new(MAX_WORK))
    }
}

/// What is left of a [`Budget`] while one text is expanded: a short text can ask for much.
pub(super) struct Work<'a> {
    budget: &'a Budget,
    left: Cell<usize>,
}

impl<'a> Work<'a> {
    pub(super) fn of(budget: &'a Budget) -> Self {
        let left = Cell::new(budget.0.load(Ordering::Relaxed));
        Self { budget, left }
    }

    /// Counts `steps` more. Where they are too many, nothing is left for other texts.
    pub(super) fn add(&self, steps: usize) -> Result<(), ExpandError> {
        let left = self.left.get().checked_sub(steps);
        self.left.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(ExpandError::TooMuchWork)
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        self.budget.0.store(self.left.get(), Ordering::Relaxed);
    }
}

/// Expands a tree.
pub(super) struct Evaluator<'a> {
    lookup: &'a Lookup<'a>,
    work: Work<'a>,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(lookup: &'a Lookup<'a>, work: Work<'a>) -> Self {
        Self { lookup, work }
    }

    pub(super) fn word(&self, word: &[Piece]) -> Result<String, ExpandError> {
        let mut out = String::new();
        for piece in word {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Quoted(word) => out.push_str(&self.word(word)?),
                Piece::Reference(reference) => out.push_str(&self.reference(reference)?),
                Piece::Sum(sum) => out.push_str(&self.sum(sum)?.to_string()),
                Piece::Command(place) => return Err(ExpandError::Command(*place)),
            }
            if out.len() > MAX_EXPANDED {
                return Err(ExpandError::TooLong);
            }
        }
        self.work.add(out.len())?;
        Ok(out)
    }

    /// A pattern in which the letters between quotes mean no more than themselves: they do in patterns to replace, and
    /// do not in others.
    fn pattern(&self, word: &[Piece]) -> Result<String, ExpandError> {
        let mut out = String::new();
        for piece in word {
            match piece {
                Piece::Quoted(word) => out.push_str(&glob::hidden(&self.word(word)?)),
                piece => out.push_str(&self.word(std::slice::from_ref(piece))?),
            }
            if out.len() > MAX_EXPANDED {
                return Err(ExpandError::TooLong);
            }
        }
        self.work.add(out.len())?;
        Ok(out)
    }

    fn variable(&self, name: &str) -> Result<String, ExpandError> {
        self.work.add(LOOKUP_WORK)?;
        let value = (self.lookup)(name).unwrap_or_default();
        self.work.add(value.len())?;
        Ok(value)
    }

    fn reference(&self, reference: &Reference) -> Result<String, ExpandError> {
        let part = match &reference.operation {
            Operation::Part(from, len) => {
                let len = || len.as_ref().map(|len| self.sum(len)).transpose();
                Some((self.sum(from)?, len()?))
            }
            _ => None,
        };
        let own = self.variable(&reference.name)?;
        let is_set = !own.is_empty();
        if reference.subject == Subject::Indirect && !is_set {
            return Err(ExpandError::Indirect);
        }
        let is_list = reference.index.as_ref().is_some_and(is_list);
        let value = match &reference.index {
            Some(index) => self.item(own, index)?,
            None => own,
        };
        match reference.subject {
            Subject::Length if is_list => return Ok(usize::from(is_set).to_string()),
            Subject::Length => return Ok(value.chars().count().to_string()),
            // What is to be done with it is forgotten.
            Subject::Indirect => return self.variable(&value),
            Subject::Names => return Ok(String::new()),
            Subject::Value => {}
        }
        match &reference.operation {
            Operation::None => Ok(value),
            Operation::Fallback {
                kind,
                has_colon,
                word,
            } => {
                let word = self.word(word)?;
                let is_none = if *has_colon {
                    value.is_empty()
                } else {
                    !is_set
                };
                match (kind, is_none) {
                    (Fallback::Default, true) | (Fallback::Alternative, false) => Ok(word),
                    (Fallback::Alternative, true) => Ok(String::new()),
                    (Fallback::Assign, true) => Err(ExpandError::ReadOnly),
                    (Fallback::Demand, true) => {
                        Err(ExpandError::Unset(reference.name.clone(), word))
                    }
                    _ => Ok(value),
                }
            }
            Operation::Part(..) => Ok(match part {
                Some((from, len)) => values::part(&value, from, len),
                None => value,
            }),
            Operation::Cut {
                end,
                is_longest,
                pattern,
            } => match Glob::new(&self.word(pattern)?, &self.work)? {
                Some(glob) => values::cut(&value, *end, glob, *is_longest, &self.work),
                None => Ok(value),
            },
            Operation::Replace {
                is_everywhere,
                pattern,
                replacement,
            } => {
                let pattern = self.pattern(pattern)?;
                if pattern.is_empty() {
                    return Ok(value);
                }
                let replacement = self.word(replacement)?;
                match Glob::new(&pattern, &self.work)? {
                    Some(glob) => {
                        values::replace(&value, &glob, &replacement, *is_everywhere, &self.work)
                    }
                    None => Ok(value),
                }
            }
            Operation::Case {
                is_upper,
                is_everywhere,
                pattern,
            } => {
                let pattern = self.word(pattern)?;
                let pattern = match pattern.as_str() {
                    "" => "?",
                    pattern => pattern,
                };
                match Glob::new(pattern, &self.work)? {
                    Some(glob) => {
                        values::case(&value, *is_upper, *is_everywhere, &glob, &self.work)
                    }
                    None => Ok(value),
                }
            }
            Operation::Transform(kind, place) => Err(ExpandError::Transform(kind.clone(), *place)),
        }
    }

    /// The value with this index: a variable has one, whose index is zero.
    fn item(&self, value: String, index: &Sum) -> Result<String, ExpandError> {
        if value.is_empty() || is_list(index) || self.sum(index)? == 0 {
            return Ok(value);
        }
        Ok(String::new())
    }

    fn sum(&self, sum: &Sum) -> Result<i64, ExpandError> {
        self.work.add(1)?;
        match sum {
            Sum::Literal(text) => self.operand(text.clone()),
            Sum::Word(word) => self.operand(self.word(word)?),
            Sum::Item(name, index) => {
                let value = self.item(self.variable(name)?, index)?;
                Ok(arithmetic::number(&value))
            }
            Sum::Sign(sign, inner) => Ok(arithmetic::signed(*sign, self.sum(inner)?)),
            Sum::Chain(first, rest) => {
                let mut value = self.sum(first)?;
                for (operator, right) in rest {
                    value = arithmetic::result(value, operator, self.sum(right)?)?;
                }
                Ok(value)
            }
            // Only one is true here, as in the helper.
            Sum::Choice(condition, then, otherwise) => match self.sum(condition)? {
                1 => self.sum(then),
                _ => self.sum(otherwise),
            },
            Sum::Assign {
                target,
                operator,
                value,
            } => {
                let value = self.sum(value)?;
                let operator = operator.strip_suffix('=').unwrap_or_default();
                if !operator.is_empty() {
                    let before = match target.as_ref() {
                        Sum::Literal(_) => self.sum(target)?,
                        _ => 0,
                    };
                    arithmetic::result(before, operator, value)?;
                }
                Err(ExpandError::ReadOnly)
            }
            Sum::Step => Err(ExpandError::ReadOnly),
        }
    }

    /// The number that `text` is, or that the variable of this name holds.
    fn operand(&self, mut text: String) -> Result<i64, ExpandError> {
        for _ in 0..MAX_NAMES {
            if !is_name(&text) {
                break;
            }
            let value = self.variable(&text)?;
            if value.is_empty() {
                break;
            }
            text = value;
        }
        Ok(arithmetic::number(&text))
    }
}

/// Whether an index means all values.
fn is_list(index: &Sum) -> bool {
    match index {
        Sum::Literal(text) => text == "@" || text == "*",
        _ => false,
    }
}
