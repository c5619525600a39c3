//! References in artifact names and paths, as a shell expands them in a here-document (gitlab-runner, wire §3.2).
//!
//! GitLab Runner's helper expands these texts with `mvdan.cc/sh`, so more than `$NAME` works: defaults, parts, patterns,
//! replacements, changes of case and sums. Quotes are plain letters outside references; a backslash hides `$`, a backtick
//! and itself. A variable that is empty is the same as none. Command substitution is an error.
//!
//! As there, the whole text is parsed first, and what is wrong in it has a place, `line:column`. Then everything is
//! expanded, words whose value nobody needs too. `expansions.json` has texts and what the helper makes of them.
//!
//! What differs on purpose:
//!
//! - What is in a command is skipped by its quotes and parentheses, not parsed: an error in it is none, as long as it
//!   ends.
//! - `${NAME@Q}` and the other transformations are refused; most of them make the helper crash.
//! - `++x++` in a sum, on which the helper crashes too, is refused as `x++` is.
//! - A class with `[:alpha:]` or the like fits only alone, as `[[:alpha:]]`. With more in it, the helper crashes or takes
//!   it for none. In other classes a backslash before a letter or digit means nothing of Go's regular expressions: the
//!   class fits nothing.
//! - Half a letter, which a part can leave, is U+FFFD at once, and two halves do not become one again.
//! - In changes of case, rare letters go by the newer Unicode of Rust, and Greek ones with an iota below stay.
//! - A backslash at a line's end within a name that is no word (`$\` and `1`, `${#\` and a mark) has plain rules; the
//!   helper has odd ones. A carriage return after such a backslash does not count for the column.
//! - Texts are bounded: their length, depth and parts, how long patterns are, and the work that all texts of a stage
//!   ask for together. What is over a bound stays as it is, with a warning that names the bound.

mod arithmetic;
mod brackets;
mod classes;
mod commands;
mod error;
mod escapes;
mod evaluate;
mod glob;
mod references;
mod source;
mod sums;
mod tokens;
mod tree;
mod values;
mod words;

#[cfg(test)]
mod tests;

pub(crate) use error::ExpandError;
pub(crate) use evaluate::Budget;

use evaluate::{Evaluator, Work};
use words::Parser;

/// Longest text that comes out, in bytes: replacements multiply.
const MAX_EXPANDED: usize = 1 << 20;

/// How deep references may be in one another.
const MAX_DEPTH: u32 = 64;

/// How deep the parts of sums may be in one another.
const MAX_SUM_DEPTH: u32 = 64;

/// Longest pattern, in letters; those in classes count.
const MAX_PATTERN: usize = 1 << 15;

/// How many references, quotes, and numbers in sums a text may have: each takes far more memory than its letters.
const MAX_PARTS: usize = 1 << 14;

/// What texts of one [`Budget`] may ask for, in bytes that are copied and in letters that are compared.
const MAX_WORK: usize = 1 << 25;

/// What gives variables' values; `None` for one that is not set.
pub(super) type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// What a text, each of its bytes, and each of its parts are reckoned as.
const TEXT_WORK: usize = 64;
const BYTE_WORK: usize = 8;
const PART_WORK: usize = 256;

/// `text` with its references replaced.
pub(super) fn expand(
    text: &str,
    lookup: &Lookup<'_>,
    budget: &Budget,
) -> Result<String, ExpandError> {
    if text.len() > MAX_EXPANDED {
        return Err(ExpandError::LongText);
    }
    // Nothing in it asks for anything, and no budget is touched.
    if !text.contains(['$', '\\', '`', '\0', '\r']) {
        return Ok(text.to_owned());
    }
    let work = Work::of(budget);
    work.add(TEXT_WORK + text.len() * BYTE_WORK)?;
    let mut parser = Parser::new(text);
    let word = parser.text();
    work.add(parser.parts() * PART_WORK)?;
    Evaluator::new(lookup, work).word(&word?)
}
