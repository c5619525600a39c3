//! Cache keys as safe relative paths (gitlab-runner, wire §4.1: GitLab Runner's `cachekey.Sanitize`).

/// The key that a job means when it names none: its name and ref as one path.
#[must_use]
pub fn default_key(job: &str, git_ref: &str) -> String {
    let parts: Vec<&str> = [job, git_ref]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect();
    clean(&parts.join("/")).join("/")
}

/// `key` as a path that stays below its root; empty when nothing is left of it.
#[must_use]
pub fn sanitized(key: &str) -> String {
    let decoded = decoded(key);
    let mut segments = clean(&decoded);
    while let Some(last) = segments.pop() {
        match last.trim_end() {
            "" | "." => {}
            // Only the blanks behind it kept it from being one (gitlab-runner, wire §8.7).
            ".." => {
                segments.pop();
            }
            trimmed => {
                segments.push(trimmed);
                break;
            }
        }
    }
    segments.join("/")
}

/// Slashes and dots in their other spellings.
fn decoded(key: &str) -> String {
    let mut decoded = String::with_capacity(key.len());
    let mut rest = key;
    while let Some(at) = rest.find(['%', '\\']) {
        let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        decoded.push_str(before);
        let (replacement, len) = match from.as_bytes() {
            [b'\\', ..] => ("/", 1),
            [b'%', b'2', b'f' | b'F', ..] => ("/", 3),
            [b'%', b'2', b'e' | b'E', ..] => (".", 3),
            _ => ("%", 1),
        };
        decoded.push_str(replacement);
        rest = from.get(len..).unwrap_or_default();
    }
    decoded.push_str(rest);
    decoded
}

/// The path's segments below a root that `..` does not leave.
fn clean(path: &str) -> Vec<&str> {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The invariants of gitlab-runner, wire §8.7.
        #[test]
        fn a_sanitised_key_is_a_path_below_its_root(
            key in r"([ab.%/\\ \t]|%2[efEF]|\.\.|\u{2003}|é){0,12}"
        ) {
            let clean = sanitized(&key);
            prop_assert!(!clean.contains('\\'));
            prop_assert_eq!(clean.trim_end(), clean.as_str());
            if !clean.is_empty() {
                for segment in clean.split('/') {
                    prop_assert!(!matches!(segment, "" | "." | ".."), "{:?}", clean);
                }
            }
            prop_assert_eq!(sanitized(&clean), clean);
        }

        /// As above, of whatever there is.
        #[test]
        fn no_key_leaves_its_root(key in any::<String>()) {
            let clean = sanitized(&key);
            prop_assert!(clean.is_empty() || clean.split('/').all(|segment| !matches!(segment, "" | "." | "..")));
        }
    }

    /// The table of gitlab-runner, wire §4.1 (upstream: `cachekey_test.go`).
    #[test]
    fn keys_are_sanitised_as_by_gitlab_runner() {
        let cases = [
            ("", ""),
            ("fallback_key", "fallback_key"),
            ("some-job/some-ref", "some-job/some-ref"),
            ("...", "..."),
            (".../....", ".../...."),
            ("fallback_key/", "fallback_key"),
            ("fallback_key ", "fallback_key"),
            ("fallback_key\\", "fallback_key"),
            ("fallback_key/ \\", "fallback_key"),
            ("fallback_key/ / \\  \\", "fallback_key"),
            ("fallback_key / \\o", "fallback_key / /o"),
            ("\t foo bar \t\r", "\t foo bar"),
            (" foo / bar ", " foo / bar"),
            ("foo \t \r ", "foo"),
            ("something %2F something", "something / something"),
            ("some%2f../job/some/ref/.", "job/some/ref"),
            ("%2E%2e%2E", "..."),
            ("%5C", "%5C"),
            ("%5c", "%5c"),
            ("foo/./bar", "foo/bar"),
            ("foo/blipp/../bar", "foo/bar"),
            ("/foo/bar", "foo/bar"),
            ("//foo/bar", "foo/bar"),
            ("./foo/bar", "foo/bar"),
            ("../foo/bar", "foo/bar"),
            ("foo/bar/..", "foo"),
            ("foo/bar/../../../.././blerp", "blerp"),
            ("a/b/c/../../d", "a/d"),
            ("job\\name/git\\ref", "job/name/git/ref"),
            ("...\\foo\\bar", ".../foo/bar"),
            ("foo/ /bar", "foo/ /bar"),
            ("foo/ / /", "foo"),
            ("../../etc/passwd", "etc/passwd"),
            ("foo/../../bar", "bar"),
            ("%2e%2e%2fx", "x"),
            ("a%2Fb%2fc", "a/b/c"),
            ("a%252fb", "a%252fb"),
            ("a%2e.%2fb", "a../b"),
            ("foo//bar", "foo/bar"),
            ("foo\u{2003}", "foo"),
            ("\u{a0}x\u{a0}", "\u{a0}x"),
            ("....//", "...."),
            ("a/./b/..", "a"),
            ("C:\\temp\\k", "C:/temp/k"),
            ("main-protected/", "main-protected"),
            ("a/%20/b", "a/%20/b"),
            ("~/.ssh", "~/.ssh"),
            ("foo bar/ baz", "foo bar/ baz"),
            ("x/\t", "x"),
            ("main-x/..//y ", "y"),
            ("%", "%"),
            ("%2", "%2"),
            ("é%2fé", "é/é"),
            ("a/b/.. ", "a"),
            ("a/. ", "a"),
            ("a/b/ / .. / ", "a/b/ / .."),
            ("a/b/.. /.. ", "a/b"),
            ("a/.. /b", "a/.. /b"),
        ];
        for (key, expected) in cases {
            assert_eq!(sanitized(key), expected, "{key:?}");
        }
    }

    #[test]
    fn nothing_is_left_of_keys_that_name_no_path() {
        let keys = [
            "\\",
            "\\.",
            "/",
            " ",
            ".",
            "..",
            " / ",
            "//",
            "//\\",
            "../.",
            "foo\\bar\\..\\..",
            "foo/bar/../..",
            " \t\r\n",
            "%2E",
            "%2E%2E",
            "%2e%2E",
            ".%2E",
            "%2e.",
            "..%2f..",
            "foo/..",
            ".. ",
            ". ",
            "a/.. ",
            "%2e%2e%2f.\t",
        ];
        for key in keys {
            assert_eq!(sanitized(key), "", "{key:?}");
        }
    }

    #[test]
    fn without_a_key_job_and_ref_name_the_cache() {
        let cases = [
            ("build", "main", "build/main"),
            ("build", "", "build"),
            ("", "main", "main"),
            ("a/../b", "/x", "b/x"),
        ];
        for (job, git_ref, expected) in cases {
            assert_eq!(default_key(job, git_ref), expected);
        }
    }
}
