//! From bytes to a response, with errors that name the place.

use std::borrow::Cow;

use serde_json::error::Category;

use super::lenient::Object;
use super::types::JobResponse;

/// Bytes that are no job response.
///
/// Messages name places and kinds, never values, since a response is full of secrets.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Not JSON.
    #[error("is no JSON: {reason} at line {line}, column {column}")]
    Syntax {
        /// What is wrong.
        reason: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// JSON that ends too early.
    #[error("is cut short: it ends at line {line}, column {column}, in the middle of the JSON")]
    Truncated {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// JSON that is no object.
    #[error("is no job response: that is a JSON object")]
    NotAnObject,
    /// A field of the wrong type.
    #[error("has a bad field `{path}`: {reason} (line {line}, column {column})")]
    Field {
        /// Where in the JSON, such as `steps[0].script`.
        path: String,
        /// What is wrong.
        reason: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
}

/// Reads a job response. Bytes that are not UTF-8, and halves of surrogate pairs, read as U+FFFD, as in Go.
///
/// # Errors
///
/// When the bytes are no JSON, or a field has the wrong type.
pub fn parse(bytes: &[u8]) -> Result<JobResponse, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let text = without_lone_surrogates(&text);
    let mut deserializer = serde_json::Deserializer::from_str(&text);
    let Object(response) =
        serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            let path = error.path().to_string();
            parse_error(&error.into_inner(), path, &text)
        })?;
    deserializer
        .end()
        .map_err(|error| parse_error(&error, String::new(), &text))?;
    Ok(response)
}

fn parse_error(error: &serde_json::Error, path: String, text: &str) -> ParseError {
    let (line, column) = (error.line(), error.column());
    // serde_json calls half a number, such as `8.`, bad syntax.
    let is_at_end = || {
        let mut lines = text.lines().skip(line.saturating_sub(1));
        lines.next().is_none_or(|last| column >= last.len()) && lines.next().is_none()
    };
    match error.classify() {
        Category::Syntax if text.ends_with(['-', '+', '.', 'e', 'E']) && is_at_end() => {
            ParseError::Truncated { line, column }
        }
        Category::Eof => ParseError::Truncated { line, column },
        Category::Data if path == "." => ParseError::NotAnObject,
        Category::Data => ParseError::Field {
            path,
            reason: without_values(&without_place(error)),
            line,
            column,
        },
        Category::Syntax | Category::Io => ParseError::Syntax {
            reason: without_place(error),
            line,
            column,
        },
    }
}

/// The error's message without the line and column at its end.
fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    match message.rsplit_once(" at line ") {
        Some((reason, _)) => reason.to_owned(),
        None => message,
    }
}

/// The message of a type error without the value that was found: it may be a secret.
fn without_values(message: &str) -> String {
    let found_and_expected = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))
        .and_then(|rest| rest.rsplit_once(", expected "));
    match found_and_expected {
        Some((found, expected)) => {
            let kind = found
                .split(['"', '`'])
                .next()
                .unwrap_or_default()
                .trim_end();
            format!("expected {expected}, found {kind}")
        }
        None => message.to_owned(),
    }
}

/// Replaces escapes of single surrogates by that of U+FFFD, which is as long.
fn without_lone_surrogates(text: &str) -> Cow<'_, str> {
    let mut repaired = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at_checked(at).unwrap_or((rest, ""));
        let (len, is_lone) = match surrogate(escape) {
            None => (2, false),
            Some(Surrogate::High) => match escape.get(6..).and_then(surrogate) {
                Some(Surrogate::Low) => (12, false),
                _ => (6, true),
            },
            Some(Surrogate::Low) => (6, true),
        };
        let Some((escape, behind)) = escape.split_at_checked(len) else {
            break;
        };
        repaired.push_str(before);
        repaired.push_str(if is_lone { "\\ufffd" } else { escape });
        rest = behind;
    }
    if repaired.is_empty() {
        return Cow::Borrowed(text);
    }
    repaired.push_str(rest);
    Cow::Owned(repaired)
}

enum Surrogate {
    High,
    Low,
}

/// The surrogate whose escape `text` begins with.
fn surrogate(text: &str) -> Option<Surrogate> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Surrogate::High),
        0xdc00..=0xdfff => Some(Surrogate::Low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_error(json: &str) -> (String, String) {
        match parse(json.as_bytes()) {
            Err(ParseError::Field { path, reason, .. }) => (path, reason),
            other => panic!("{json}: {other:?}"),
        }
    }

    #[test]
    fn an_empty_object_is_a_response_of_defaults() {
        assert_eq!(parse(b"{}").unwrap(), JobResponse::default());
    }

    #[test]
    fn null_reads_as_absent_everywhere() {
        let json = r#"{"id":null,"token":null,"allow_git_fetch":null,"job_info":null,"git_info":null,
            "runner_info":null,"inputs":null,"variables":null,"steps":null,"image":null,"services":null,
            "artifacts":null,"cache":null,"credentials":null,"dependencies":null,"features":null,
            "secrets":null,"hooks":null,"run":null}"#;
        assert_eq!(parse(json.as_bytes()).unwrap(), JobResponse::default());
    }

    #[test]
    fn null_reads_as_absent_within_objects() {
        let json = r#"{"steps":[{"name":null,"script":null,"timeout":null,"when":null,"allow_failure":null}],
            "git_info":{"sha":null,"depth":null,"protected":null},"runner_info":{"timeout":null},
            "image":{"name":null,"alias":null,"ports":null,"executor_opts":null},
            "dependencies":[{"id":null,"artifacts_file":null}]}"#;
        let response = parse(json.as_bytes()).unwrap();
        assert_eq!(response.steps, Some(vec![super::super::Step::default()]));
        assert_eq!(response.git_info, Some(super::super::GitInfo::default()));
    }

    #[test]
    fn numbers_may_come_as_strings() {
        let json = r#"{"id":"42","job_info":{"project_id":"7"},"runner_info":{"timeout":"60"},
            "git_info":{"depth":"20"},"dependencies":[{"artifacts_file":{"size":""}}]}"#;
        let response = parse(json.as_bytes()).unwrap();
        assert_eq!(response.id, 42);
        assert_eq!(response.job_info.project_id, 7);
        assert_eq!(response.runner_info.timeout, 60);
        assert_eq!(response.git_info.and_then(|git| git.depth), Some(20));
    }

    #[test]
    fn fields_that_are_not_known_are_ignored() {
        let json = r#"{"invented":{"deep":[1]},"id":1,"job_info":{"queue_size":"x"}}"#;
        assert_eq!(parse(json.as_bytes()).unwrap().id, 1);
    }

    #[test]
    fn text_that_is_no_json_is_told_with_its_place() {
        assert_eq!(
            parse(b"{\n  \"id\": 1,,\n}").unwrap_err(),
            ParseError::Syntax {
                reason: "key must be a string".into(),
                line: 2,
                column: 11
            }
        );
        assert_eq!(
            parse(b"{} x").unwrap_err(),
            ParseError::Syntax {
                reason: "trailing characters".into(),
                line: 1,
                column: 4
            }
        );
    }

    #[test]
    fn json_that_is_cut_short_is_told_with_its_place() {
        for (json, column) in [("{\"id\": 1", 8), ("{\"id\": \"1", 9), ("{\"a\":[1,", 8)] {
            assert_eq!(
                parse(json.as_bytes()).unwrap_err(),
                ParseError::Truncated { line: 1, column },
                "{json}"
            );
        }
        assert!(matches!(parse(b""), Err(ParseError::Truncated { .. })));
        for number in ["-", "8.", "8e", "8E+"] {
            let cut = parse(format!("{{\"a\":\n{number}").as_bytes());
            assert!(matches!(cut, Err(ParseError::Truncated { .. })), "{number}");
        }
        let odd = parse(b"{\"a\": nonsense");
        assert!(matches!(odd, Err(ParseError::Syntax { .. })), "{odd:?}");
    }

    #[test]
    fn json_that_is_no_object_is_no_response() {
        for json in ["[]", "null", "1", "\"x\""] {
            assert_eq!(
                parse(json.as_bytes()).unwrap_err(),
                ParseError::NotAnObject,
                "{json}"
            );
        }
    }

    #[test]
    fn a_mistyped_field_is_told_with_its_path() {
        let cases = [
            (
                r#"{"steps":[{"script":"make"}]}"#,
                "steps[0].script",
                "expected a sequence, found string",
            ),
            (
                r#"{"steps":[{"script":["a", 5]}]}"#,
                "steps[0].script[1]",
                "expected a string, found integer",
            ),
            (
                r#"{"steps":[["x"]]}"#,
                "steps[0]",
                "expected an object, found sequence",
            ),
            (
                r#"{"git_info":[]}"#,
                "git_info",
                "expected an object, found sequence",
            ),
            (
                r#"{"image":"ruby:3"}"#,
                "image",
                "expected an object, found string",
            ),
            (
                r#"{"variables":[{"key":"A"},{"masked":"yes"}]}"#,
                "variables[1].masked",
                "expected a boolean, found string",
            ),
            (
                r#"{"id":-1}"#,
                "id",
                "expected a whole number in its range, found integer",
            ),
            (
                r#"{"id":1.5}"#,
                "id",
                "expected a whole number in its range, found floating point",
            ),
            (
                r#"{"image":{"executor_opts":{"docker":{"user":[]}}}}"#,
                "image.executor_opts.docker.user",
                "expected a string or a whole number, found sequence",
            ),
        ];
        for (json, path, reason) in cases {
            assert_eq!(field_error(json), (path.into(), reason.into()), "{json}");
        }
    }

    #[test]
    fn a_mistyped_secret_is_not_repeated() {
        let jsons = [
            r#"{"token":4711}"#,
            r#"{"id":"4711 x"}"#,
            r#"{"runner_info":{"timeout":"4711, expected x"}}"#,
            r#"{"variables":[{"key":"K","value":4711}]}"#,
        ];
        for json in jsons {
            let error = parse(json.as_bytes()).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("4711"), "{error:?}");
        }
    }

    #[test]
    fn invalid_utf_8_reads_as_the_replacement_character() {
        let response = parse(b"{\"token\":\"a\xffb\"}").unwrap();
        assert_eq!(response.token, "a\u{fffd}b");
    }

    #[test]
    fn lone_surrogates_read_as_the_replacement_character() {
        let cases = [
            (r"\ud83d", "\u{fffd}"),
            (r"\ude00x", "\u{fffd}x"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
            (r"\uD83D\uDE00", "😀"),
            (r"\ud83dx\n", "\u{fffd}x\n"),
            (r"\\ud83d", r"\ud83d"),
        ];
        for (escaped, expected) in cases {
            let json = format!(r#"{{"token":"{escaped}","id":7}}"#);
            let response = parse(json.as_bytes()).unwrap();
            assert_eq!(response.token, expected, "{escaped}");
            assert_eq!(response.id, 7);
        }
    }

    #[test]
    fn deep_nesting_is_refused_without_overflow() {
        for field in ["invented", "inputs", "steps"] {
            let json = format!("{{\"{field}\":{}", "[".repeat(1_000_000));
            assert!(parse(json.as_bytes()).is_err(), "{field}");
        }
    }
}
