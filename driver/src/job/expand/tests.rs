//! Texts beside what GitLab Runner's helper makes of them, and the bounds.

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

/// Expands a text for which there is a budget of its own.
fn expand(text: &str, lookup: &Lookup<'_>) -> Result<String, ExpandError> {
    super::expand(text, lookup, &Budget::default())
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
    assert!(recording.expansions.len() > 300);
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
    let nested = format!("{}x{}", "${none:-".repeat(65), "}".repeat(65));
    assert_eq!(expand(&nested, &lookup), Err(ExpandError::TooDeep));
    let nested = format!("{}x{}", "${none:-".repeat(64), "}".repeat(64));
    assert_eq!(expand(&nested, &lookup).unwrap(), "x");
    let long = |name: &str| (name == "A").then(|| "a".repeat(500));
    let text = "${A//a/$A}".repeat(5);
    assert!(expand(&text, &long) == Err(ExpandError::TooLong));
    let text = "a".repeat(MAX_EXPANDED + 1);
    assert!(expand(&text, &lookup) == Err(ExpandError::LongText));
}

#[test]
fn no_text_asks_for_more_work_than_its_share() {
    for text in ["$none", "$((1))", "${none:-}", "$((1+1+1+1+1+1+1+1+1+1))"] {
        let text = text.repeat(MAX_PARTS + 1);
        assert!(
            expand(&text, &lookup) == Err(ExpandError::TooManyParts),
            "{text:.20}"
        );
    }
    // Nothing comes out of this.
    let large = |_: &str| Some("a".repeat(MAX_EXPANDED));
    let text = "${A:+${A:0:0}}".repeat(1000);
    assert!(expand(&text, &large) == Err(ExpandError::TooMuchWork));
}

#[test]
fn patterns_are_looked_for_in_long_values() {
    let value = format!("{}b{}", "a".repeat(20_000), "c".repeat(20_000));
    let lookup = |_: &str| Some(value.clone());
    for (text, len) in [
        ("${A%%b*}", 20_000),
        ("${A%c*}", 40_000),
        ("${A#*a*a*b}", 20_000),
        ("${A##*[!c]}", 20_000),
        ("${A//[a-b]/}", 20_000),
        ("${A//a*c/}", 0),
        ("${A/b*b/}", 40_001),
        ("${A^^[b]}", 40_001),
    ] {
        assert_eq!(expand(text, &lookup).unwrap().len(), len, "{text}");
    }
}

#[test]
fn patterns_ask_for_no_more_work_than_their_share() {
    let operations = ["${A%%*[$B]}", "${A#*[!$B]}", "${A^^[$B]}", "${A//[$B]/x}"];
    // Every second letter, so that the class has as many ranges.
    let odd = |count| (0_u32..count).filter_map(|at| char::from_u32(0x1_0000 + 2 * at));
    let class = |len: usize| {
        move |name: &str| match name {
            "A" => Some("a".repeat(MAX_EXPANDED)),
            _ => Some(odd(u32::MAX).take(len).collect()),
        }
    };
    for text in operations {
        let result = expand(text, &class(MAX_EXPANDED / 4 - 8));
        assert!(
            result == Err(ExpandError::LongPattern(MAX_PATTERN)),
            "{text}"
        );
        let budget = Budget::default();
        let long = class(MAX_PATTERN / 2 - 8);
        while super::expand(text, &long, &budget).is_ok() {}
        let result = super::expand("$none", &long, &budget);
        assert!(result == Err(ExpandError::TooMuchWork), "{text}");
    }
    let stars = |_: &str| Some("*a".repeat(MAX_PATTERN / 2));
    for text in ["${A##${A}b}", "${A%%b${A}}", "${A//${A}b/}", "${A//$A$A/}"] {
        let result = expand(&text.repeat(1000), &stars);
        assert!(
            matches!(
                result,
                Err(ExpandError::TooMuchWork | ExpandError::LongPattern(_))
            ),
            "{text}"
        );
    }
}

/// Half of what tokio gives its threads.
#[test]
fn the_deepest_texts_fit_on_the_stack() {
    let sums = |opened: &str, closed: &str, count| {
        format!("{}1{}", opened.repeat(count), closed.repeat(count))
    };
    let references = |inner: &str| {
        let opened = "${none:-\"".repeat(63);
        format!("{opened}{inner}{}", "\"}".repeat(63))
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
        let large = |name: &str| (name == "A").then(|| "a".repeat(512));
        if let Ok(out) = expand(&text, &large) {
            prop_assert!(out.len() <= MAX_EXPANDED);
        }
    }

    #[test]
    fn a_text_without_references_is_itself(text in "[^$\\\\`\0\r]{0,40}") {
        prop_assert_eq!(expanded(&text), text);
    }
}
