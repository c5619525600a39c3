//! Reads classes in patterns: `[…]`.

use super::glob::Part;

/// The class whose bracket was opened before `letters`, and its length; `named` tells where the last `:]` begins, from
/// the end.
pub(super) fn class(letters: &[char], named: Option<usize>) -> Option<(Part, usize)> {
    if let ['[', ':', named @ ..] = letters {
        let len = named.windows(3).position(|end| end == [':', ']', ']'])?;
        let name: String = named.iter().take(len).collect();
        return Some((Part::Kind(kind(&name)?), len + 5));
    }
    let is_not = matches!(letters.first(), Some('!' | '^'));
    let start = usize::from(is_not);
    let mut ranges = Vec::new();
    let mut at = start;
    loop {
        let rest = letters.get(at..)?;
        match rest {
            [']', ..] if at > start => break,
            // Classes with names must be alone, and what else can be in double brackets is not known.
            ['[', ':', after @ ..] if named.is_some_and(|named| named <= after.len()) => {
                return None;
            }
            ['[', '.' | '=', ..] if at == 0 => return None,
            _ => {}
        }
        let (from, len) = member(rest)?;
        at += len;
        let to = match letters.get(at..)? {
            ['-', to, ..] if *to != ']' => {
                let (to, len) = member(letters.get(at + 1..)?)?;
                at += 1 + len;
                to
            }
            _ => from,
        };
        if from > to {
            return None;
        }
        ranges.push((from, to));
    }
    is_in_order(letters.get(..at)?).then(|| {
        let ranges = in_order(ranges);
        (Part::Class { ranges, is_not }, at + 1)
    })
}

/// Whether no hyphen in a class stands between letters of the wrong order.
///
/// The helper asks so of all hyphens, those that are no range's too: before the first one is the bracket or `!` or `^`.
fn is_in_order(letters: &[char]) -> bool {
    let mut before = '[';
    let mut letters = letters.iter().peekable();
    while let Some(letter) = letters.next() {
        let next = letters.peek();
        if *letter == '-' && next.is_some_and(|next| before > **next) {
            return false;
        }
        before = match letter {
            '\\' => *letters.next().unwrap_or(letter),
            letter => *letter,
        };
    }
    true
}

/// The same letters in ranges that are in order and share no letter.
fn in_order(mut ranges: Vec<(char, char)>) -> Vec<(char, char)> {
    ranges.sort_unstable();
    let mut merged: Vec<(char, char)> = Vec::new();
    for (from, to) in ranges {
        match merged.last_mut() {
            Some((_, last)) if from <= *last => *last = to.max(*last),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// The letter that a class goes on with, and how long it is written. A backslash hides marks; before letters it would
/// mean something of a regular expression.
fn member(letters: &[char]) -> Option<(char, usize)> {
    match letters {
        ['\\', hidden, ..] if hidden.is_ascii_alphanumeric() => None,
        ['\\', hidden, ..] => Some((*hidden, 2)),
        [letter, ..] => Some((*letter, 1)),
        [] => None,
    }
}

fn kind(name: &str) -> Option<fn(&char) -> bool> {
    Some(match name {
        "alnum" => char::is_ascii_alphanumeric,
        "alpha" => char::is_ascii_alphabetic,
        "ascii" => char::is_ascii,
        "blank" => |letter| matches!(letter, ' ' | '\t'),
        "cntrl" => char::is_ascii_control,
        "digit" => char::is_ascii_digit,
        "graph" => char::is_ascii_graphic,
        "lower" => char::is_ascii_lowercase,
        "print" => |letter| matches!(letter, ' '..='~'),
        "punct" => char::is_ascii_punctuation,
        "space" => |letter| matches!(letter, ' ' | '\t'..='\r'),
        "upper" => char::is_ascii_uppercase,
        "word" => |letter| letter.is_ascii_alphanumeric() || *letter == '_',
        "xdigit" => char::is_ascii_hexdigit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_that_are_put_in_order_have_the_same_letters(
            ends in prop::collection::vec((prop::char::range('a', 'p'), prop::char::range('a', 'p')), 0..12)
        ) {
            let ranges: Vec<_> = ends.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect();
            let ordered = in_order(ranges.clone());

            prop_assert!(ordered.is_sorted_by(|before, after| before.1 < after.0));
            let has = |ranges: &[(char, char)], letter| {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&letter))
            };
            for letter in 'a'..='q' {
                prop_assert_eq!(has(&ordered, letter), has(&ranges, letter), "{}", letter);
            }
        }
    }
}
