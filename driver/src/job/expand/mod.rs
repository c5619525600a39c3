//! References in artifact names and paths, as a shell expands them in a here-document (gitlab-runner, wire §3.2).
//!
//! GitLab Runner's helper expands these texts with `mvdan.cc/sh`, so more than `$NAME` works: defaults, parts, patterns,
//! replacements, changes of case and sums. Quotes are plain letters; a backslash hides `$`, a backtick and itself.
//! Command substitution is an error.

mod arithmetic;
mod glob;
mod parameter;

use arithmetic::evaluate;
use parameter::Parameter;

/// Longest text that comes out, in bytes: replacements multiply.
const MAX_EXPANDED: usize = 1 << 20;

/// How deep references may be in one another.
const MAX_DEPTH: u32 = 16;

/// A text that cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ExpandError {
    /// It asks to run a command.
    #[error("unexpected command substitution")]
    Command,
    /// What begins in it does not end.
    #[error("reached EOF without matching {0}")]
    Open(&'static str),
    /// There is no such thing in a reference.
    #[error("not a valid parameter expansion: ${{{0}}}")]
    Operator(String),
    /// No sum.
    #[error("not a valid arithmetic expression: {0}")]
    Arithmetic(String),
    /// The text says that a variable must be set.
    #[error("{0}: {1}")]
    Unset(String, String),
    /// More than anyone wants.
    #[error("the expanded text is too long")]
    TooLong,
    /// Deeper than anyone wants.
    #[error("the references are too deep")]
    TooDeep,
}

/// What gives variables' values; `None` for one that is not set.
pub(super) type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// `text` with its references replaced.
pub(super) fn expand(text: &str, lookup: &Lookup<'_>) -> Result<String, ExpandError> {
    expand_at(text, lookup, MAX_DEPTH)
}

fn expand_at(text: &str, lookup: &Lookup<'_>, depth: u32) -> Result<String, ExpandError> {
    let depth = depth.checked_sub(1).ok_or(ExpandError::TooDeep)?;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['$', '\\', '`']) {
        let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(before);
        rest = if let Some(after) = from.strip_prefix('\\') {
            hidden(after, &mut out)
        } else if from.starts_with('`') {
            return Err(ExpandError::Command);
        } else {
            reference(from, lookup, depth, &mut out)?
        };
        if out.len() > MAX_EXPANDED {
            return Err(ExpandError::TooLong);
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// What a backslash hides, or else the backslash; answers what follows.
fn hidden<'t>(after: &'t str, out: &mut String) -> &'t str {
    match after.chars().next() {
        Some(letter @ ('$' | '\\' | '`')) => {
            out.push(letter);
            after.get(1..).unwrap_or_default()
        }
        // A line that goes on.
        Some('\n') => after.get(1..).unwrap_or_default(),
        _ => {
            out.push('\\');
            after
        }
    }
}

/// Expands the reference that `from` begins with; answers what follows.
fn reference<'t>(
    from: &'t str,
    lookup: &Lookup<'_>,
    depth: u32,
    out: &mut String,
) -> Result<&'t str, ExpandError> {
    let after = from.get(1..).unwrap_or_default();
    if let Some(inner) = after.strip_prefix("((") {
        let (sum, rest) = inner.split_once("))").ok_or(ExpandError::Open("(("))?;
        let sum = expand_at(sum, lookup, depth)?;
        out.push_str(&evaluate(&sum, lookup)?.to_string());
        return Ok(rest);
    }
    if after.starts_with('(') {
        return Err(ExpandError::Command);
    }
    if let Some(inner) = after.strip_prefix('{') {
        let end = closing(inner).ok_or(ExpandError::Open("${"))?;
        let (inside, rest) = inner.split_at_checked(end).unwrap_or((inner, ""));
        let parameter = Parameter::parse(inside)?;
        out.push_str(&parameter.value(lookup, &|word| expand_at(word, lookup, depth))?);
        return Ok(rest.get(1..).unwrap_or_default());
    }
    let len = name_len(after);
    let name = after.get(..len).unwrap_or_default();
    if name.is_empty() {
        out.push('$');
        return Ok(after);
    }
    out.push_str(&lookup(name).unwrap_or_default());
    Ok(after.get(len..).unwrap_or_default())
}

/// Length of the variable's name, or of the shell's own one, that `text` begins with.
fn name_len(text: &str) -> usize {
    if text.starts_with(|letter: char| letter.is_ascii_digit() || "@*#?-$!".contains(letter)) {
        return 1;
    }
    text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .unwrap_or(text.len())
}

/// Where the brace is that closes one which was opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    let mut is_hidden = false;
    let mut last = ' ';
    for (at, letter) in text.char_indices() {
        match letter {
            _ if is_hidden => is_hidden = false,
            '\\' => is_hidden = true,
            '{' if last == '$' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
        last = letter;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lookup(name: &str) -> Option<String> {
        let value = match name {
            "expand" => "expanded",
            "V" => "value",
            "REF" => "V",
            "PATHY" => "a/b/c.tar.gz",
            "N" => "7",
            "EMPTY" => "",
            "UNI" => "äöü",
            _ => return None,
        };
        Some(value.to_owned())
    }

    fn expanded(text: &str) -> String {
        expand(text, &lookup).unwrap()
    }

    /// gitlab-runner, wire §3.2 and wire §8.10.
    #[test]
    fn texts_expand_as_in_gitlab_runners_helper() {
        for (text, expected) in [
            ("path/${expand}/${expand:1:3}", "path/expanded/xpa"),
            ("path/$expand/${foo:-bar}", "path/expanded/bar"),
            ("$V", "value"),
            ("${V}x", "valuex"),
            ("$Vx", ""),
            ("a$$b", "ab"),
            (r"\$V", "$V"),
            (r"a\\b\c", r"a\b\c"),
            (r#"'$V' "$V""#, r#"'value' "value""#),
            ("~/x", "~/x"),
            ("a*[b]?{c,d}", "a*[b]?{c,d}"),
            ("100$", "100$"),
            ("$/", "$/"),
            ("$((1+2))", "3"),
            ("$((N * (2 + 1) - -1))", "22"),
            ("$(($N % 4))", "3"),
            ("${V/a/b}", "vblue"),
            ("${V//[aeu]/}", "vl"),
            ("${V/#v/w}", "walue"),
            ("${V/%e/}", "valu"),
            ("${V^^}", "VALUE"),
            ("${V^}", "Value"),
            ("${UNI^^}", "ÄÖÜ"),
            ("${UNI:1:1}", "ö"),
            ("${#UNI}", "3"),
            ("${PATHY##*/}", "c.tar.gz"),
            ("${PATHY#*/}", "b/c.tar.gz"),
            ("${PATHY%.*}", "a/b/c.tar"),
            ("${PATHY%%.*}", "a/b/c"),
            ("${EMPTY:-x}${EMPTY-y}", "x"),
            ("${V:+set}${EMPTY:+no}${EMPTY+yes}", "setyes"),
            ("${none:-${V:-x}}", "value"),
            ("${!REF}", "value"),
            ("${V: -2}", "ue"),
            ("${V:1:-1}", "alu"),
            ("${V:9}", ""),
        ] {
            assert_eq!(expanded(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_reference_is_an_error() {
        for text in [
            "$(id)",
            "`id`",
            "${none:-$(id)}",
            "${V",
            "$((1",
            "${V@Q}",
            "${}",
            "${a b}",
            "$((1/0))",
            "$((x y))",
        ] {
            assert!(expand(text, &lookup).is_err(), "{text}");
        }
        let unset = expand("${none:?must be set}", &lookup).unwrap_err();
        assert_eq!(unset.to_string(), "none: must be set");
    }

    #[test]
    fn no_text_grows_without_bound() {
        let nested = format!("{}x{}", "${none:-".repeat(40), "}".repeat(40));
        assert_eq!(expand(&nested, &lookup), Err(ExpandError::TooDeep));
        let long = |name: &str| (name == "A").then(|| "a".repeat(500));
        let text = "${A//a/$A}".repeat(5);
        assert!(expand(&text, &long) == Err(ExpandError::TooLong));
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in "[$\\\\`{}():/#%^,+*? a-cVN0-9-]{0,40}") {
            let _ = expand(&text, &lookup);
        }

        #[test]
        fn a_text_without_references_is_itself(text in "[^$\\\\`]{0,40}") {
            prop_assert_eq!(expanded(&text), text);
        }
    }
}
