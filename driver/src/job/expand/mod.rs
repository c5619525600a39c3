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
//! - Texts are bounded: their length, depth and parts, the work that they ask for, and the values that patterns are
//!   looked for in.

mod arithmetic;
mod brackets;
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

pub(crate) use error::ExpandError;

use evaluate::Evaluator;
use words::Parser;

/// Longest text that comes out, in bytes: replacements multiply.
const MAX_EXPANDED: usize = 1 << 20;

/// How deep references may be in one another.
const MAX_DEPTH: u32 = 16;

/// How deep the parts of sums may be in one another.
const MAX_SUM_DEPTH: u32 = 64;

/// Longest value that patterns are looked for in, and longest pattern, in letters: the time grows with its cube.
const MAX_SEARCHED: usize = 512;

/// How many references, quotes, and numbers in sums a text may have: each takes far more memory than its letters.
const MAX_PARTS: usize = 1 << 14;

/// What one text may ask for, in bytes that are copied and in letters that are compared.
const MAX_WORK: usize = 1 << 26;

/// What gives variables' values; `None` for one that is not set.
pub(super) type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// `text` with its references replaced.
pub(super) fn expand(text: &str, lookup: &Lookup<'_>) -> Result<String, ExpandError> {
    if text.len() > MAX_EXPANDED {
        return Err(ExpandError::TooLong);
    }
    let word = Parser::new(text).text()?;
    Evaluator::new(lookup).word(&word)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    /// What GitLab Runner's helper makes of texts.
    ///
    /// Recorded by a program that calls `shell.Expand` of Go's `mvdan.cc/sh` v3.13.1 with each text and a function that
    /// gives the variables' values, and the empty text for others. Bytes that are no UTF-8 were written as U+FFFD.
    #[derive(Deserialize)]
    struct Recording {
        variables: HashMap<String, String>,
        expansions: Vec<Expansion>,
    }

    #[derive(Deserialize)]
    struct Expansion {
        text: String,
        result: Option<String>,
        error: Option<String>,
    }

    fn recording() -> Recording {
        serde_json::from_str(include_str!("expansions.json")).unwrap()
    }

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

    fn refused(text: &str) -> String {
        expand(text, &lookup).unwrap_err().to_string()
    }

    #[test]
    fn all_recorded_texts_expand_as_in_gitlab_runners_helper() {
        let recording = recording();
        assert!(recording.expansions.len() > 250);
        for Expansion {
            text,
            result,
            error,
        } in recording.expansions
        {
            let ours = expand(&text, &|name| recording.variables.get(name).cloned());
            let theirs = result.ok_or_else(|| error.unwrap());
            assert_eq!(ours.map_err(|error| error.to_string()), theirs, "{text}");
        }
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
            ("${V^^}", "VALUE"),
            ("${V^}", "Value"),
            ("${UNI^^}", "ÄÖÜ"),
            ("${UNI:2:2}", "ö"),
            ("${#UNI}", "3"),
            ("${PATHY##*/}", "c.tar.gz"),
            ("${PATHY#*/}", "b/c.tar.gz"),
            ("${PATHY%.*}", "a/b/c.tar"),
            ("${PATHY%%.*}", "a/b/c"),
            ("${EMPTY:-x}${EMPTY-y}", "xy"),
            ("${V:+set}${EMPTY:+no}${EMPTY+no}", "set"),
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
    fn what_the_helper_crashes_on_or_nobody_writes_is_refused_by_name_and_place() {
        assert_eq!(
            refused("a${V@Q}"),
            "the transformation `@Q` at 1:5 is not supported"
        );
        assert_eq!(refused("$((++N++))"), "environment is read-only");
    }

    #[test]
    fn commands_are_skipped_by_their_quotes_and_parentheses() {
        for text in [
            r#"$(a ')' ")" \) `)` (b))"#,
            r"`a \` b`",
            "${ a } b; }",
            "${|}",
            "${V:-$(case x in (x) ;; esac)}",
        ] {
            assert!(
                refused(text).starts_with("unexpected command substitution at 1:"),
                "{text}"
            );
        }
        for text in [
            "$(a ')'", "$(a \")", "$(a `)", "$((a)", "`a \\`", "${ a}", "${ a; }b",
        ] {
            assert!(refused(text).contains("reached "), "{text}");
        }
    }

    #[test]
    fn no_text_grows_without_bound() {
        let nested = format!("{}x{}", "${none:-".repeat(40), "}".repeat(40));
        assert_eq!(expand(&nested, &lookup), Err(ExpandError::TooDeep));
        let long = |name: &str| (name == "A").then(|| "a".repeat(500));
        let text = "${A//a/$A}".repeat(5);
        assert!(expand(&text, &long) == Err(ExpandError::TooLong));
        let text = "a".repeat(MAX_EXPANDED + 1);
        assert!(expand(&text, &lookup) == Err(ExpandError::TooLong));
    }

    #[test]
    fn no_text_asks_for_more_work_than_its_share() {
        for text in ["$none", "$((1))", "${none:-}", "$((1+1+1+1+1+1+1+1+1+1))"] {
            let text = text.repeat(MAX_PARTS + 1);
            assert!(
                expand(&text, &lookup) == Err(ExpandError::TooLong),
                "{text:.20}"
            );
        }
        // Nothing comes out of these.
        let large = |_: &str| Some("a".repeat(MAX_EXPANDED));
        let text = "${A:+${A:0:0}}".repeat(1000);
        assert!(expand(&text, &large) == Err(ExpandError::TooLong));
        let searched = |_: &str| Some("a".repeat(MAX_SEARCHED));
        let text = "${A//*a*a*a*a*a*a*b/x}".repeat(1000);
        assert!(expand(&text, &searched) == Err(ExpandError::TooLong));
        let text = "${A%%*a*a*a*a*a*a*b}".repeat(1000);
        assert!(expand(&text, &searched) == Err(ExpandError::TooLong));
    }

    /// Half of what tokio gives its threads.
    #[test]
    fn the_deepest_texts_fit_on_the_stack() {
        let sums = |opened: &str, closed: &str, count| {
            format!("{}1{}", opened.repeat(count), closed.repeat(count))
        };
        let references = |inner: &str| {
            let opened = "${none:-\"".repeat(15);
            format!("{opened}{inner}{}", "\"}".repeat(15))
        };
        for count in [10, 20, 30, 60, 70, 10_000] {
            for sum in [
                sums("(", ")", count),
                sums("-", "", count),
                sums("- ", "", count),
                sums("1?(", "):2", count),
                sums("N[", "]", count),
                sums("N[@[", "]]", count),
                sums("++N[", "]", count),
                sums("1**", "", count),
                sums("x=", "", count),
                sums("$((", "))", count),
                sums("${V:", "}", count),
                sums("1+", "", count),
            ] {
                let text = references(&format!("$(({sum}))"));
                let run = move || {
                    let _ = expand(&text, &lookup);
                };
                let thread = std::thread::Builder::new().stack_size(1 << 20);
                thread.spawn(run).unwrap().join().unwrap();
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in "[$\\\\`{}()\\[\\]:/#%^,+*?!@='\" a-cVN0-9é\n-]{0,40}") {
            let _ = expand(&text, &lookup);
        }

        #[test]
        fn no_reference_does_harm(
            text in "(\\$\\{[#!]?[VNn]([:/#%^,?+=@-]|\\[)|\\$\\(\\(|[VN0-9+*(?:)é'\"\\\\ \\]-]|\\}|\\)\\)){0,20}"
        ) {
            let _ = expand(&text, &lookup);
        }

        #[test]
        fn what_comes_out_is_bounded(
            text in "(\\$\\{A//a/|\\$A|\\$\\{A:\\+|\\}){0,40}"
        ) {
            let large = |name: &str| (name == "A").then(|| "a".repeat(MAX_SEARCHED));
            if let Ok(out) = expand(&text, &large) {
                prop_assert!(out.len() <= MAX_EXPANDED);
            }
        }

        #[test]
        fn a_text_without_references_is_itself(text in "[^$\\\\`\0\r]{0,40}") {
            prop_assert_eq!(expanded(&text), text);
        }
    }
}
