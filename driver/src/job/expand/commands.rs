//! Skips commands that a text asks to run.
//!
//! What a text has of them is an error anyway; only where they end matters, for what is wrong after them comes first.
//! Their insides are not read as a shell's, but by quotes and parentheses alone.

use super::error::{ExpandError, Wrong};
use super::source::Source;

/// Skips what follows `$(`; whether it ends.
pub(super) fn skip(source: &mut Source<'_>) -> Result<bool, ExpandError> {
    let mut depth = 1_usize;
    loop {
        let place = source.place();
        let Some(letter) = source.next() else {
            return Ok(false);
        };
        let wrong = match letter {
            '\'' if !skip_to(source, letter, false) => Wrong::Quote("'"),
            '"' if !skip_to(source, letter, true) => Wrong::Quote("\""),
            '`' if !skip_to(source, letter, true) => Wrong::Quote("`"),
            '\\' => {
                source.next_raw();
                continue;
            }
            '(' => {
                depth += 1;
                continue;
            }
            ')' if depth == 1 => return Ok(true),
            ')' => {
                depth -= 1;
                continue;
            }
            _ => continue,
        };
        return Err(ExpandError::Syntax(place, wrong));
    }
}

/// Skips what follows a backquote; whether it ends.
pub(super) fn skip_backquotes(source: &mut Source<'_>) -> bool {
    skip_to(source, '`', true)
}

/// Skips what follows the quote `quote`, in which backslashes hide letters or do not; whether it ends.
fn skip_to(source: &mut Source<'_>, quote: char, has_hidden: bool) -> bool {
    while let Some(letter) = source.next_raw() {
        if letter == quote {
            return true;
        }
        if has_hidden && letter == '\\' {
            source.next_raw();
        }
    }
    false
}

/// Skips what follows `${` and a blank, a line's end or `|`, where commands begin; whether it ends.
pub(super) fn skip_block(source: &mut Source<'_>) -> bool {
    // The brace that closes stands where a command could.
    let mut is_command_start = true;
    while let Some(letter) = source.next() {
        match letter {
            '}' if is_command_start => {
                let is_whole = source
                    .peek()
                    .is_none_or(|letter| " \t\n;&|)<>".contains(letter));
                if is_whole {
                    return true;
                }
            }
            '\\' => {
                source.next_raw();
            }
            _ => {}
        }
        is_command_start = match letter {
            ';' | '\n' | '&' | '|' => true,
            ' ' | '\t' => is_command_start,
            _ => false,
        };
    }
    false
}
