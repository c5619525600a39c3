//! What a checkout prints.
//!
//! The texts are GitLab Runner's (gitlab-runner, build §3); the paths are the guest's.

use std::path::Path;

/// Which of the stage's two streams a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output: notices, and what git prints there.
    Out,
    /// Standard error: git's errors.
    Err,
}

/// One line of the stage's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The stream.
    pub stream: Stream,
    /// The line without its line break: any bytes.
    pub text: Vec<u8>,
    /// Whether the line ends here. One of more than 8 KiB comes in pieces, of which only the last does.
    pub ends: bool,
}

impl SourceLine {
    /// A line of standard output in plain text.
    pub(super) fn plain(text: impl AsRef<str>) -> Self {
        Self {
            stream: Stream::Out,
            text: text.as_ref().as_bytes().to_vec(),
            ends: true,
        }
    }

    /// A notice: bold green (gitlab-runner, build §0.3).
    pub(super) fn notice(text: impl AsRef<str>) -> Self {
        Self::plain(format!("\x1b[32;1m{}\x1b[0;m", text.as_ref()))
    }

    /// A warning of the script: yellow (gitlab-runner, build §0.3).
    pub(super) fn warning(text: impl AsRef<str>) -> Self {
        Self::plain(format!("\x1b[0;33m{}\x1b[0;m", text.as_ref()))
    }
}

pub(super) const SKIPPING_REPOSITORY: &str = "Skipping Git repository setup";
pub(super) const EMPTY_DIRECTORY: &str =
    "Skipping Git repository setup and creating an empty build directory";
pub(super) const CREATED_REPOSITORY: &str = "Created fresh repository.";
pub(super) const SKIPPING_CHECKOUT: &str = "Skipping Git checkout";
pub(super) const SKIPPING_SUBMODULES: &str = "Skipping Git submodules setup";
pub(super) const UPDATED_SUBMODULES: &str = "Updated submodules";
pub(super) const RETRYING_SUBMODULES: &str = "Updating submodules failed. Retrying...";
/// Ours: GitLab Runner keeps a working copy instead, and says what git says of it.
pub(super) const DISCARDING_KEPT_SOURCES: &str =
    "The sources kept from earlier jobs cannot be updated: throwing them away, fetching anew...";
pub(super) const CONFIGURING_SUBMODULES: &str =
    "Configuring submodules to use parent git credentials...";

pub(super) const PULLING_LFS_FILES: &str = "Pulling LFS files...";

/// What `git submodule foreach` prints.
pub(super) fn entering(submodule: &str) -> String {
    format!("Entering '{submodule}'")
}

pub(super) fn correlation_id(id: &str) -> String {
    format!("Gitaly correlation ID: {id}")
}

pub(super) fn fetching(depth: u32) -> String {
    format!("Fetching changes{}...", with_depth(depth.into()))
}

/// What `git init` prints.
pub(super) fn initialized(retry: bool, guest_project_dir: &str) -> String {
    let what = if retry {
        "Reinitialized existing"
    } else {
        "Initialized empty"
    };
    format!("{what} Git repository in {guest_project_dir}/.git/")
}

/// Shows eight digits of `sha`.
pub(super) fn checking_out(sha: &str, git_ref: &str) -> String {
    let short = sha.get(..8).unwrap_or(sha);
    format!("Checking out {short} as detached HEAD (ref is {git_ref})...")
}

/// Of a depth below 0, GitLab Runner says neither (golden job 228).
pub(super) fn updating_submodules(recursive: bool, depth: i64) -> String {
    let how = if recursive && depth >= 0 {
        " recursively"
    } else {
        ""
    };
    format!(
        "Updating/initializing submodules{how}{}...",
        with_depth(depth)
    )
}

fn with_depth(depth: i64) -> String {
    if depth > 0 {
        format!(" with git depth set to {depth}")
    } else {
        String::new()
    }
}

/// Longest line kept whole, in bytes; a longer one goes on in the next. Bounds what a server that never
/// breaks its line can make us hold.
const MAX_LINE: usize = 8192;

/// Cuts a byte stream into lines.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    held: Vec<u8>,
    /// Whether a piece of the line was given already.
    is_begun: bool,
}

/// A line, or a piece of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a [u8],
    /// Whether the line begins here.
    pub(super) begins: bool,
    /// Whether the line ends here.
    pub(super) ends: bool,
}

impl LineSplitter {
    /// Takes bytes in and gives the lines that they end. Of a piece of a long line, the last `tail(piece)` bytes go
    /// to the next.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        tail: impl Fn(&[u8]) -> usize,
        mut line: impl FnMut(Piece<'_>),
    ) {
        while !bytes.is_empty() {
            let room = MAX_LINE.saturating_sub(self.held.len()).max(1);
            let window = bytes.get(..room.min(bytes.len())).unwrap_or(bytes);
            let (taken, ended) = match window.iter().position(|&byte| byte == b'\n') {
                Some(at) => (at, true),
                None => (window.len(), false),
            };
            let (head, rest) = bytes.split_at(taken);
            self.held.extend_from_slice(head);
            bytes = if ended {
                rest.get(1..).unwrap_or_default()
            } else {
                rest
            };
            if ended {
                self.give(self.held.len(), true, &mut line);
            } else if self.held.len() >= MAX_LINE {
                let length = self.held.len();
                let given = length.saturating_sub(tail(&self.held));
                // What is longer than a piece cannot be kept whole.
                self.give(if given == 0 { length } else { given }, false, &mut line);
            }
        }
    }

    /// Gives a last line that no line break ended.
    pub(super) fn finish(&mut self, mut line: impl FnMut(Piece<'_>)) {
        if !self.held.is_empty() || self.is_begun {
            self.give(self.held.len(), true, &mut line);
        }
    }

    fn give(&mut self, length: usize, ends: bool, line: &mut impl FnMut(Piece<'_>)) {
        line(Piece {
            text: self.held.get(..length).unwrap_or_default(),
            begins: !self.is_begun,
            ends,
        });
        self.held.drain(..length);
        self.is_begun = !ends;
    }
}

/// Replaces what only the host knows in git's output: its paths by the guest's, the token by a mask.
#[derive(Default)]
pub(super) struct Rewriter {
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Rewriter {
    /// Earlier rules win where two begin at the same byte.
    pub(super) fn replace(&mut self, from: &[u8], to: &[u8]) {
        if !from.is_empty() {
            self.pairs.push((from.to_vec(), to.to_vec()));
        }
    }

    pub(super) fn replace_path(&mut self, from: &Path, to: &str) {
        self.replace(from.as_os_str().as_encoded_bytes(), to.as_bytes());
    }

    /// How many bytes at the end of a piece may be the beginning of what is replaced.
    pub(super) fn tail(&self, piece: &[u8]) -> usize {
        let of_rule = |from: &[u8]| {
            let longest = from.len().saturating_sub(1).min(piece.len());
            (1..=longest)
                .rev()
                .find(|&length| piece.ends_with(from.get(..length).unwrap_or_default()))
        };
        let tails = self.pairs.iter().filter_map(|(from, _)| of_rule(from));
        tails.max().unwrap_or(0)
    }

    pub(super) fn rewrite(&self, line: &[u8]) -> Vec<u8> {
        let mut rewritten = Vec::with_capacity(line.len());
        let mut rest = line;
        while let Some((first, tail)) = rest.split_first() {
            let rule = self.pairs.iter().find_map(|(from, to)| {
                let after = rest.strip_prefix(from.as_slice())?;
                Some((to, after))
            });
            if let Some((to, after)) = rule {
                rewritten.extend_from_slice(to);
                rest = after;
            } else {
                rewritten.push(*first);
                rest = tail;
            }
        }
        rewritten
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut splitter = LineSplitter::default();
        let mut lines = Vec::new();
        for chunk in chunks {
            splitter.push(chunk, |_| 0, |piece| lines.push(piece.text.to_vec()));
        }
        splitter.finish(|piece| lines.push(piece.text.to_vec()));
        lines
    }

    #[test]
    fn lines_are_whole_however_they_arrive() {
        assert_eq!(
            split(&[b"a", b"b\n\nc\nd"]),
            [&b"ab"[..], b"", b"c", b"d"].map(<[u8]>::to_vec)
        );
    }

    #[test]
    fn a_line_without_end_goes_on_in_bounded_pieces() {
        let lines = split(&[&vec![b'x'; MAX_LINE * 2 + 5]]);

        let lengths: Vec<usize> = lines.iter().map(Vec::len).collect();
        assert_eq!(lengths, [MAX_LINE, MAX_LINE, 5]);
    }

    #[test]
    fn pieces_of_a_line_are_one_line_however_long_it_is() {
        for length in [0, 1, MAX_LINE - 1, MAX_LINE, MAX_LINE + 1, 2 * MAX_LINE] {
            let mut text = vec![b'x'; length];
            text.extend_from_slice(b"\nnext");
            let mut splitter = LineSplitter::default();
            let mut together = Vec::new();
            let mut add = |piece: Piece<'_>| {
                together.extend_from_slice(piece.text);
                together.extend(piece.ends.then_some(b'\n'));
            };
            splitter.push(&text, |_| 0, &mut add);
            splitter.finish(&mut add);

            text.push(b'\n');
            assert_eq!(together, text, "{length}");
        }
    }

    #[test]
    fn what_is_replaced_is_not_cut() {
        let mut rewriter = Rewriter::default();
        rewriter.replace(b"tok-4711", b"[MASKED]");
        for before in MAX_LINE - 10..MAX_LINE + 2 {
            let mut text = vec![b'x'; before];
            text.extend_from_slice(b"tok-4711 and so on\n");
            let mut splitter = LineSplitter::default();
            let mut together = Vec::new();
            splitter.push(
                &text,
                |piece| rewriter.tail(piece),
                |piece| together.extend(rewriter.rewrite(piece.text)),
            );

            let expected = format!("{}[MASKED] and so on", "x".repeat(before));
            assert_eq!(String::from_utf8_lossy(&together), expected, "{before}");
        }
    }

    proptest! {
        #[test]
        fn splitting_chunks_equals_splitting_the_whole(
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a')], 0..300),
            cut in 0usize..300,
        ) {
            let (head, tail) = text.split_at(cut.min(text.len()));
            prop_assert_eq!(split(&[head, tail]), split(&[&text]));
        }
    }

    #[test]
    fn host_paths_and_the_token_are_replaced() {
        let mut rewriter = Rewriter::default();
        rewriter.replace(b"tok-1", b"[MASKED]");
        rewriter.replace_path(Path::new("/run/x/project"), "/builds/g/p");
        rewriter.replace_path(Path::new("/run/x"), "/builds/g/p.tmp");

        let line = rewriter.rewrite(b"fatal: '/run/x/project/a' not in /run/x/home: tok-1");

        assert_eq!(
            String::from_utf8_lossy(&line),
            "fatal: '/builds/g/p/a' not in /builds/g/p.tmp/home: [MASKED]"
        );
    }

    #[test]
    fn a_retry_finds_a_repository_and_a_short_sha_is_shown_whole() {
        assert_eq!(
            initialized(true, "/builds/p"),
            "Reinitialized existing Git repository in /builds/p/.git/"
        );
        assert_eq!(
            checking_out("5fd", "main"),
            "Checking out 5fd as detached HEAD (ref is main)..."
        );
    }

    #[test]
    fn the_depth_is_named_when_there_is_one() {
        assert_eq!(fetching(0), "Fetching changes...");
        assert_eq!(fetching(20), "Fetching changes with git depth set to 20...");
        assert_eq!(
            updating_submodules(true, 0),
            "Updating/initializing submodules recursively..."
        );
        assert_eq!(
            updating_submodules(false, 3),
            "Updating/initializing submodules with git depth set to 3..."
        );
        assert_eq!(
            updating_submodules(true, 3),
            "Updating/initializing submodules recursively with git depth set to 3..."
        );
        for recursive in [true, false] {
            assert_eq!(
                updating_submodules(recursive, -3),
                "Updating/initializing submodules..."
            );
        }
    }
}
