//! Paths as Go's `path/filepath` and its errors treat them, on bytes: names in a project need not be UTF-8.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path of bytes as the kernel's interfaces take it.
pub(crate) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// A path for people.
pub(crate) fn show(path: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(path)
}

/// `filepath.Clean`: no empty and `.` parts, `..` resolved by the text alone; `.` if nothing is left.
pub(crate) fn clean(path: &[u8]) -> Vec<u8> {
    let rooted = path.first() == Some(&b'/');
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match parts.last() {
                Some(&last) if last != b".." => {
                    parts.pop();
                }
                _ if rooted => {}
                _ => parts.push(part),
            },
            _ => parts.push(part),
        }
    }
    let mut clean = if rooted { vec![b'/'] } else { Vec::new() };
    clean.extend_from_slice(&parts.join(&b'/'));
    if clean.is_empty() {
        clean.push(b'.');
    }
    clean
}

/// `filepath.Join` of two parts.
pub(crate) fn join(base: &[u8], path: &[u8]) -> Vec<u8> {
    match (base, path) {
        (b"", path) => clean(path),
        (base, b"") => clean(base),
        (base, path) => clean(&[base, b"/", path].concat()),
    }
}

/// A name below a folder that is clean already, of which `.` is the project itself.
pub(crate) fn below(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder == b"." {
        name.to_vec()
    } else {
        [folder, b"/", name].concat()
    }
}

/// `filepath.Rel` of two clean absolute paths.
fn relative(base: &[u8], target: &[u8]) -> Vec<u8> {
    let parts = |path| {
        let parts = <[u8]>::split(path, |byte| *byte == b'/');
        parts.filter(|part| !part.is_empty())
    };
    let (mut base, mut target) = (parts(base).peekable(), parts(target).peekable());
    while let (Some(one), Some(other)) = (base.peek(), target.peek()) {
        if one != other {
            break;
        }
        base.next();
        target.next();
    }
    let up = base.map(|_| &b".."[..]);
    let parts: Vec<&[u8]> = up.chain(target).collect();
    if parts.is_empty() {
        return b".".to_vec();
    }
    parts.join(&b'/')
}

/// Whether `path`, as given in a job, has a character that makes it a pattern.
pub(crate) fn has_meta(path: &[u8]) -> bool {
    path.iter().any(|byte| b"*?[{".contains(byte))
}

/// `path` relative to the project at `root`, which is absolute and clean; none if it lies outside
/// (gitlab-runner, wire §3.3, step 2).
pub(crate) fn in_project(root: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let meta = path.iter().position(|byte| b"*?[{".contains(byte));
    let (base, pattern) = match meta {
        None => (path, &b""[..]),
        Some(meta) => {
            let literal = path.get(..meta).unwrap_or_default();
            match literal.iter().rposition(|byte| *byte == b'/') {
                None => (&b"."[..], path),
                Some(slash) => {
                    let (base, pattern) = path.split_at(slash);
                    let base = if base.is_empty() { b"/" } else { base };
                    (base, pattern.get(1..).unwrap_or_default())
                }
            }
        }
    };
    let absolute = match base.first() {
        Some(b'/') => clean(base),
        _ => join(root, base),
    };
    let path = join(&relative(root, &absolute), pattern);
    let outside = path == b".." || path.starts_with(b"../") || path.starts_with(b"/");
    (!outside).then_some(path)
}

/// A failed operation on a path as Go writes it: `lstat a/b: no such file or directory`.
pub(crate) fn path_error(operation: &str, path: &[u8], error: &io::Error) -> String {
    format!("{operation} {}: {}", show(path), error_text(error))
}

/// An error of the kernel in Go's words, which are the C library's in lower case.
pub(crate) fn error_text(error: &io::Error) -> String {
    let text = error.to_string();
    let Some(number) = error.raw_os_error() else {
        return text;
    };
    let text = text.replace(&format!(" (os error {number})"), "");
    let mut letters = text.chars();
    let first: String = letters
        .next()
        .map(|first| first.to_lowercase().collect())
        .unwrap_or_default();
    first + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_as_go_does() {
        for (path, wanted) in [
            ("", "."),
            ("a//b/./c/", "a/b/c"),
            ("a/../..", ".."),
            ("/../a", "/a"),
            ("../../a/..", "../.."),
            ("a/..", "."),
            ("./.git/", ".git"),
        ] {
            assert_eq!(show(&clean(path.as_bytes())), wanted, "{path}");
        }
    }

    /// gitlab-runner, wire §8.9: "In the project".
    #[test]
    fn paths_are_told_from_those_outside() {
        let wd = b"/builds/g/p";
        for (path, wanted) in [
            ("in/the/project", Some("in/the/project")),
            ("/builds/g/p/x", Some("x")),
            ("/builds/g/p", Some(".")),
            ("/builds/g/p/", Some(".")),
            ("../p", Some(".")),
            ("../p/", Some(".")),
            ("../../g/p/a", Some("a")),
            ("../nope", None),
            ("../*.*", None),
            ("/totally/not", None),
            ("/absolute.txt", None),
            ("/**/absolute.txt", None),
            ("../../../relative.txt", None),
            ("a/*/../../../b", None),
            ("../p/foo/*.txt", Some("foo/*.txt")),
            ("/builds/g/p/*.thing", Some("*.thing")),
            ("foo//*.txt", Some("foo/*.txt")),
            ("./foo/**//*/*.*", Some("foo/**/*/*.*")),
            ("..name", Some("..name")),
        ] {
            let got = in_project(wd, path.as_bytes());
            assert_eq!(got.as_deref().map(show).as_deref(), wanted, "{path}");
        }
    }

    #[test]
    fn errors_read_as_in_go() {
        let error = io::Error::from_raw_os_error(2);

        assert_eq!(
            path_error("lstat", b"a/b", &error),
            "lstat a/b: no such file or directory"
        );
    }
}
