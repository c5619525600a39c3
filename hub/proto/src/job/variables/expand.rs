//! `$NAME` and `${NAME}` in a text, by the rules of Go's `os.Expand` (gitlab-runner, build §4.3).

use std::borrow::Cow;

/// Replaces the references in `text` by what `lookup` answers for their names.
///
/// One pass: what `lookup` answers is not looked at again. The rules:
///
/// * `$name` takes letters, digits and `_`, as many as there are; `${anything}` all up to the next `}`.
/// * `$` before one of `* # $ @ ! ? -` or a digit takes that one character as the name.
/// * `$` before anything else, or at the end, stays.
/// * `${}` goes; of a `${` without `}` only these two characters go.
pub fn expand<'v>(text: &str, lookup: impl Fn(&str) -> Cow<'v, str>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        match reference(after) {
            Reference::Name { name, len } => {
                expanded.push_str(&lookup(name));
                rest = after.get(len..).unwrap_or_default();
            }
            Reference::Malformed { len } => rest = after.get(len..).unwrap_or_default(),
            Reference::None => {
                expanded.push('$');
                rest = after;
            }
        }
    }
    expanded.push_str(rest);
    expanded
}

/// What follows a `$`; lengths are in bytes after it, always at a character border.
enum Reference<'t> {
    Name { name: &'t str, len: usize },
    Malformed { len: usize },
    None,
}

fn reference(after: &str) -> Reference<'_> {
    if let Some(braced) = after.strip_prefix('{') {
        return braced_reference(braced);
    }
    if after.starts_with(is_special) {
        // Every special name is one ASCII character.
        return match after.split_at_checked(1) {
            Some((name, _)) => Reference::Name { name, len: 1 },
            None => Reference::None,
        };
    }
    let len = after
        .find(|character: char| !character.is_ascii_alphanumeric() && character != '_')
        .unwrap_or(after.len());
    match after.get(..len) {
        Some(name) if !name.is_empty() => Reference::Name { name, len },
        _ => Reference::None,
    }
}

fn braced_reference(braced: &str) -> Reference<'_> {
    match braced.split_once('}') {
        Some(("", _)) => Reference::Malformed { len: 2 },
        Some((name, _)) => Reference::Name {
            name,
            len: name.len() + 2,
        },
        None => Reference::Malformed { len: 1 },
    }
}

/// Names of one character that need no braces.
fn is_special(character: char) -> bool {
    matches!(
        character,
        '*' | '#' | '$' | '@' | '!' | '?' | '-' | '0'..='9'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn references_follow_the_rules_of_os_expand() {
        let cases = [
            ("", ""),
            ("plain", "plain"),
            ("$A", "<A>"),
            ("${A}_B", "<A>_B"),
            ("$A_B", "<A_B>"),
            ("$A$B", "<A><B>"),
            ("x$A-y", "x<A>-y"),
            ("$$A", "<$>A"),
            ("${$}", "<$>"),
            ("$12", "<1>2"),
            ("${12}", "<12>"),
            ("$?x", "<?>x"),
            ("$-x", "<->x"),
            ("$*$#$@$!", "<*><#><@><!>"),
            ("${A:-d}", "<A:-d>"),
            ("${a b}", "<a b>"),
            ("${A", "A"),
            ("${", ""),
            ("${}", ""),
            ("${}x", "x"),
            ("$", "$"),
            ("$ A", "$ A"),
            ("$\"", "$\""),
            ("5$", "5$"),
            ("$é", "$é"),
            ("$Aé", "<A>é"),
            ("${é}", "<é>"),
            ("\\$A", "\\<A>"),
            ("%A%", "%A%"),
            ("$(A)", "$(A)"),
        ];
        for (text, expected) in cases {
            let expanded = expand(text, |name| format!("<{name}>").into());
            assert_eq!(expanded, expected, "{text:?}");
        }
    }

    #[test]
    fn an_answer_is_not_expanded_again() {
        assert_eq!(expand("$A", |_| "$A".into()), "$A");
    }

    proptest! {
        #[test]
        fn text_without_references_stays(text in "[^$]*") {
            prop_assert_eq!(expand(&text, |_| "x".into()), text);
        }

        #[test]
        fn doubled_dollars_give_the_text_back(text in any::<String>()) {
            let escaped = text.replace('$', "$$");
            prop_assert_eq!(expand(&escaped, |name| name.to_owned().into()), text);
        }

        #[test]
        fn any_text_is_expanded_without_panic(text in "[${}a-b_0-1é*-]{0,30}") {
            expand(&text, |name| name.to_owned().into());
        }
    }
}
