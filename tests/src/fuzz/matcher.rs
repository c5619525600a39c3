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
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((&b"**", [])), _) => true,
        (Some((&b"**", rest)), _) => {
            folders_match(rest, path)
                || path
                    .split_first()
                    .is_some_and(|(_, below)| folders_match(pattern, below))
        }
        (Some((part, rest)), Some((name, below))) => {
            part_matches(part, name) && folders_match(rest, below)
        }
        _ => false,
    }
}

fn part_matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            part_matches(rest, name)
                || name
                    .split_first()
                    .is_some_and(|(_, more)| part_matches(pattern, more))
        }
        (Some((b'?', rest)), Some((_, more))) => part_matches(rest, more),
        (Some((letter, rest)), Some((other, more))) => letter == other && part_matches(rest, more),
        _ => false,
    }
}
