//! The lines of a repository's configuration (git-config(1)), read as git reads them, mistakes included.

use std::path::Path;

use super::error::GitError;
use super::file::c_text;

/// Takes a variable: its full name, section and key in lower case, and its value, which may be missing. It says whether
/// the line is a good one.
pub(super) type Set<'a> = dyn FnMut(&[u8], Option<&[u8]>) -> Result<bool, GitError> + 'a;

/// Hands every variable of a configuration to `set`.
///
/// # Errors
///
/// [`GitError::ConfigLine`], with the file's name `path`, and those of `set`.
pub(super) fn parse(text: &[u8], path: &Path, set: &mut Set<'_>) -> Result<(), GitError> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut lines = Lines {
        rest: text,
        line: 1,
        ended: false,
    };
    if lines.all(set)?.is_some() {
        return Ok(());
    }
    Err(GitError::ConfigLine {
        line: lines.line,
        path: path.to_owned(),
    })
}

/// What is yet to be read. Where a function has nothing to return, the line is a bad one.
struct Lines<'a> {
    rest: &'a [u8],
    /// Number of the line.
    line: usize,
    /// Whether the end was read.
    ended: bool,
}

impl Lines<'_> {
    /// The next byte; at the end, the end of a line again and again.
    fn next(&mut self) -> u8 {
        if self.rest.starts_with(b"\r\n") {
            self.rest = self.rest.get(1..).unwrap_or_default();
        }
        let Some((byte, behind)) = self.rest.split_first() else {
            self.ended = true;
            self.line += 1;
            return b'\n';
        };
        self.rest = behind;
        if *byte == b'\n' {
            self.line += 1;
        }
        *byte
    }

    fn all(&mut self, set: &mut Set<'_>) -> Result<Option<()>, GitError> {
        let (mut name, mut section) = (Vec::new(), 0);
        let mut comment = false;
        loop {
            match self.next() {
                b'\n' if self.ended => return Ok(Some(())),
                b'\n' => comment = false,
                _ if comment => {}
                byte if is_space(byte) => {}
                b'#' | b';' => comment = true,
                b'[' => {
                    match self.section() {
                        Some(read) if !read.is_empty() => name = read,
                        _ => return Ok(None),
                    }
                    name.push(b'.');
                    section = name.len();
                }
                byte if byte.is_ascii_alphabetic() => {
                    name.truncate(section);
                    name.push(byte.to_ascii_lowercase());
                    let Some(value) = self.variable(&mut name) else {
                        return Ok(None);
                    };
                    // The end of its line was read.
                    self.line -= 1;
                    if !set(&name, value.as_deref().map(c_text))? {
                        return Ok(None);
                    }
                    self.line += 1;
                }
                _ => return Ok(None),
            }
        }
    }

    /// A section's name, behind `[`.
    fn section(&mut self) -> Option<Vec<u8>> {
        let mut name = Vec::new();
        loop {
            let byte = self.next();
            match byte {
                _ if self.ended => return None,
                b']' => return Some(name),
                _ if is_space(byte) => return self.subsection(name, byte),
                _ if is_key(byte) || byte == b'.' => name.push(byte.to_ascii_lowercase()),
                _ => return None,
            }
        }
    }

    /// The rest of a section's name, behind the blank `byte`.
    fn subsection(&mut self, mut name: Vec<u8>, mut byte: u8) -> Option<Vec<u8>> {
        while is_space(byte) {
            if byte == b'\n' {
                return self.cut_off();
            }
            byte = self.next();
        }
        if byte != b'"' {
            return None;
        }
        name.push(b'.');
        loop {
            let mut byte = self.next();
            if byte == b'"' {
                break;
            }
            if byte == b'\\' {
                byte = self.next();
            }
            if byte == b'\n' {
                return self.cut_off();
            }
            name.push(byte);
        }
        (self.next() == b']').then_some(name)
    }

    /// The rest of a variable's name, and its value.
    fn variable(&mut self, name: &mut Vec<u8>) -> Option<Option<Vec<u8>>> {
        let mut byte = self.next();
        while is_key(byte) {
            name.push(byte.to_ascii_lowercase());
            byte = self.next();
        }
        while matches!(byte, b' ' | b'\t') {
            byte = self.next();
        }
        match byte {
            b'\n' => Some(None),
            b'=' => self.value().map(Some),
            _ => None,
        }
    }

    /// A value, behind `=`.
    fn value(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        let (mut quoted, mut comment, mut blanks) = (false, false, 0);
        loop {
            let byte = self.next();
            match byte {
                b'\n' if quoted => return self.cut_off(),
                b'\n' => return Some(value),
                _ if comment => continue,
                _ if is_space(byte) && !quoted => {
                    blanks += usize::from(!value.is_empty());
                    continue;
                }
                b'#' | b';' if !quoted => {
                    comment = true;
                    continue;
                }
                _ => {}
            }
            value.resize(value.len() + std::mem::take(&mut blanks), b' ');
            match byte {
                b'\\' => match self.next() {
                    b'\n' => {}
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return None,
                },
                b'"' => quoted = !quoted,
                _ => value.push(byte),
            }
        }
    }

    /// A line that ends too early is the bad one, not the next.
    fn cut_off<T>(&mut self) -> Option<T> {
        self.line -= 1;
        None
    }
}

/// What git takes for a blank.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}
