//! Patterns and git indexes.

use vk_archive::{Index, ObjectFormat, Pattern};

use super::input::Input;

/// Matches a path against a pattern and reads a git index, all from `bytes`.
///
/// A pattern of few letters matches what the rules, written a second time, say. An index that is read has its names
/// in order.
pub fn matcher(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    if input.byte().is_multiple_of(4) {
        let format = [ObjectFormat::Sha1, ObjectFormat::Sha256][input.below(2)];
        let rest = input.rest();
        if let Ok(index) = Index::read(rest, rest.len() as u64, format) {
            let names: Vec<_> = index.names().collect();
            assert!(names.is_sorted());
        }
        return;
    }
    let pattern = letters(input.bytes(24));
    let rest = input.rest();
    let path = letters(rest.get(..16).unwrap_or(rest));
    let _ = Pattern::new(rest).is_ok_and(|pattern| pattern.matches(bytes));
    let Ok(compiled) = Pattern::new(&pattern) else {
        return;
    };
    if pattern.contains(&b'[') || pattern.contains(&b'\\') || path.contains(&0) {
        let _ = compiled.matches(&path);
        return;
    }
    let wanted = spelled_out(&pattern).iter().any(|plain| {
        let plain: Vec<&[u8]> = plain.split(|byte| *byte == b'/').collect();
        let path: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        folders_match(&plain, &path)
    });
    assert_eq!(
        compiled.matches(&path),
        wanted,
        "{} {}",
        pattern.escape_ascii(),
        path.escape_ascii()
    );
}

/// Letters that mean something, mostly; no empty parts.
fn letters(bytes: &[u8]) -> Vec<u8> {
    let mut text: Vec<u8> = Vec::new();
    for byte in bytes {
        let letter = b"ab*?/{},[\\]-^*/"[usize::from(*byte) % 15];
        if letter != b'/' || text.last().is_some_and(|last| *last != b'/') {
            text.push(letter);
        }
    }
    if text.last() == Some(&b'/') {
        text.pop();
    }
    text
}

/// A pattern's braces, spelled out.
fn spelled_out(pattern: &[u8]) -> Vec<Vec<u8>> {
    let Some(open) = pattern.iter().position(|byte| *byte == b'{') else {
        return vec![pattern.to_vec()];
    };
    let (mut depth, mut start, mut options) = (0, open + 1, Vec::new());
    for at in open..pattern.len() {
        match pattern[at] {
            b'{' => depth += 1,
            b',' if depth == 1 => {
                options.push(&pattern[start..at]);
                start = at + 1;
            }
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            options.push(&pattern[start..at]);
            let rest = &pattern[at + 1..];
            let whole = options
                .iter()
                .map(|option| [&pattern[..open], option, rest].concat());
            return whole.flat_map(|whole| spelled_out(&whole)).collect();
        }
    }
    Vec::new()
}

fn folders_match(pattern: &[&[u8]], path: &[&[u8]]) -> bool {
    // Whether the rest of the pattern matches the path from each place on, from the last part to the first: trying all
    // ways one by one takes too long.
    let mut matches: Vec<bool> = (0..=path.len()).map(|at| at == path.len()).collect();
    for (number, part) in pattern.iter().enumerate().rev() {
        let is_last = number + 1 == pattern.len();
        let mut before = vec![false; path.len() + 1];
        for at in (0..=path.len()).rev() {
            let name = path.get(at);
            before[at] = match (*part, name) {
                (b"**", _) if is_last => true,
                (b"**", None) => matches[at],
                (b"**", Some(_)) => matches[at] || before[at + 1],
                (part, Some(name)) => matches[at + 1] && part_matches(part, name),
                (_, None) => false,
            };
        }
        matches = before;
    }
    matches[0]
}

/// As [`folders_match`], for the letters of one part.
fn part_matches(pattern: &[u8], name: &[u8]) -> bool {
    let mut matches: Vec<bool> = (0..=name.len()).map(|at| at == name.len()).collect();
    for letter in pattern.iter().rev() {
        let mut before = vec![false; name.len() + 1];
        for at in (0..=name.len()).rev() {
            before[at] = match (letter, name.get(at)) {
                (b'*', None) => matches[at],
                (b'*', Some(_)) => matches[at] || before[at + 1],
                (b'?', Some(_)) => matches[at + 1],
                (letter, Some(other)) => matches[at + 1] && letter == other,
                (_, None) => false,
            };
        }
        matches = before;
    }
    matches[0]
}
