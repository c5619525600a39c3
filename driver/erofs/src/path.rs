//! Names as layers have them, taken apart.

use crate::EntryProblem;

/// Longest name of a file: Linux's NAME_MAX, and what a byte can count.
pub(crate) const MAX_NAME: usize = 255;
/// Longest path and longest target of a symbolic link: Linux's PATH_MAX without its NUL.
pub(crate) const MAX_PATH: usize = 4095;

/// The parts of an entry's name, from the image's root on: none for the root itself. `.` and `..` are worked out by
/// the letter, as Go's `path.Clean` does.
pub(crate) fn parts(path: &[u8]) -> Result<Vec<&[u8]>, EntryProblem> {
    if path.len() > MAX_PATH {
        return Err(EntryProblem::PathTooLong);
    }
    let mut parts = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop().ok_or(EntryProblem::OutsideRoot)?;
            }
            _ if part.len() > MAX_NAME => return Err(EntryProblem::NameTooLong),
            _ if part.contains(&0) => return Err(EntryProblem::Nul),
            _ => parts.push(part),
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(path: &[u8]) -> Result<String, EntryProblem> {
        let parts = parts(path)?;
        Ok(parts.join(&b'/').escape_ascii().to_string())
    }

    #[test]
    fn names_are_cleaned_by_the_letter() {
        for (path, clean) in [
            ("", ""),
            ("/", ""),
            ("./", ""),
            ("./a//b/", "a/b"),
            ("/a/b", "a/b"),
            ("a/../b/.", "b"),
            ("a/b/../../c", "c"),
            ("...", "..."),
        ] {
            assert_eq!(cleaned(path.as_bytes()).as_deref(), Ok(clean), "{path}");
        }
        assert_eq!(cleaned(b"a\xff\n").as_deref(), Ok("a\\xff\\n"));
    }

    #[test]
    fn names_that_no_file_can_have_are_refused() {
        let long = |len| "x".repeat(len);
        for (path, problem) in [
            ("..".to_owned(), EntryProblem::OutsideRoot),
            ("a/../../b".to_owned(), EntryProblem::OutsideRoot),
            ("/..".to_owned(), EntryProblem::OutsideRoot),
            ("a\0b".to_owned(), EntryProblem::Nul),
            (long(256), EntryProblem::NameTooLong),
            ("a/".repeat(2048), EntryProblem::PathTooLong),
        ] {
            assert_eq!(cleaned(path.as_bytes()), Err(problem), "{path}");
        }
        assert!(cleaned(long(255).as_bytes()).is_ok());
    }
}
