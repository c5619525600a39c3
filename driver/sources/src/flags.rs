//! Flags that a job may give git on the host.
//!
//! In GitLab Runner a job's git runs inside the job; ours runs on the host. A flag such as `--upload-pack` names
//! a program to run, `--reference` a folder of the host to read. Lists of what is allowed keep out what we do
//! not know; names must be whole, since git takes abbreviations.

use super::error::CheckoutError;

/// Whether an option has a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// Behind `=` or as the next word.
    Value,
}

/// The flags of one command.
pub(super) struct Allowed {
    variable: &'static str,
    long: &'static [&'static str],
    long_with_value: &'static [&'static str],
    short: &'static str,
    short_with_value: &'static str,
    /// Whether words that are no options are allowed (refspecs, pathspecs).
    words: bool,
}

/// `GIT_FETCH_EXTRA_FLAGS`, for `git fetch`. Not: `--upload-pack` (a program), `--multiple`, `--all` and
/// `--stdin` (other remotes and refs than the job's).
pub(super) const FETCH: Allowed = Allowed {
    variable: "GIT_FETCH_EXTRA_FLAGS",
    long: &[
        "append",
        "atomic",
        "dry-run",
        "force",
        "ipv4",
        "ipv6",
        "keep",
        "no-auto-gc",
        "no-auto-maintenance",
        "no-force",
        "no-progress",
        "no-prune",
        "no-prune-tags",
        "no-recurse-submodules",
        "no-show-forced-updates",
        "no-tags",
        "no-write-commit-graph",
        "no-write-fetch-head",
        "progress",
        "prune",
        "prune-tags",
        "quiet",
        "refetch",
        "show-forced-updates",
        "tags",
        "unshallow",
        "update-shallow",
        "verbose",
    ],
    long_with_value: &[
        "deepen",
        "depth",
        "filter",
        "jobs",
        "server-option",
        "shallow-exclude",
        "shallow-since",
    ],
    short: "Pafknpqtv46",
    short_with_value: "jo",
    words: true,
};

/// `GIT_CLEAN_FLAGS`, for `git clean`. Not: `-i` (there is nobody to ask).
pub(super) const CLEAN: Allowed = Allowed {
    variable: "GIT_CLEAN_FLAGS",
    long: &["dry-run", "force", "quiet"],
    long_with_value: &["exclude"],
    short: "Xdfnqx",
    short_with_value: "e",
    words: true,
};

/// `GIT_SUBMODULE_UPDATE_FLAGS`, for `git submodule update`. Not: `--reference` (a folder of the host).
pub(super) const SUBMODULE_UPDATE: Allowed = Allowed {
    variable: "GIT_SUBMODULE_UPDATE_FLAGS",
    long: &[
        "checkout",
        "force",
        "init",
        "merge",
        "no-fetch",
        "no-recommend-shallow",
        "no-single-branch",
        "progress",
        "quiet",
        "rebase",
        "recommend-shallow",
        "recursive",
        "remote",
        "single-branch",
    ],
    long_with_value: &["depth", "filter", "jobs"],
    short: "Nfq",
    short_with_value: "j",
    words: false,
};

impl Allowed {
    /// Checks the words of the variable.
    ///
    /// A value in a word of its own must not look like an option: should git ever see the option before it
    /// as one without a value, it takes that word for an option.
    pub(super) fn check(&self, words: &[String]) -> Result<(), CheckoutError> {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let takes = self.option(word).ok_or_else(|| self.refuse(word))?;
            if takes == Takes::Value {
                let value = words.next().ok_or_else(|| self.refuse(word))?;
                if value.starts_with('-') {
                    return Err(self.refuse(value));
                }
            }
        }
        Ok(())
    }

    /// What the next word has to be, or `None` when this one is not allowed.
    fn option(&self, word: &str) -> Option<Takes> {
        if word == "--" {
            return self.words.then_some(Takes::Nothing);
        }
        if let Some(name) = word.strip_prefix("--") {
            return match name.split_once('=') {
                Some((name, _)) => self
                    .long_with_value
                    .contains(&name)
                    .then_some(Takes::Nothing),
                None if self.long.contains(&name) => Some(Takes::Nothing),
                None => self.long_with_value.contains(&name).then_some(Takes::Value),
            };
        }
        match word.strip_prefix('-') {
            Some("") => None,
            Some(letters) => self.letters(letters),
            None => self.words.then_some(Takes::Nothing),
        }
    }

    fn letters(&self, letters: &str) -> Option<Takes> {
        for (at, letter) in letters.char_indices() {
            if self.short_with_value.contains(letter) {
                let is_last = at + letter.len_utf8() == letters.len();
                return Some(if is_last {
                    Takes::Value
                } else {
                    Takes::Nothing
                });
            }
            if !self.short.contains(letter) {
                return None;
            }
        }
        Some(Takes::Nothing)
    }

    fn refuse(&self, word: &str) -> CheckoutError {
        CheckoutError::RefusedFlag {
            variable: self.variable,
            flag: word.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allowed: &Allowed, flags: &str) -> bool {
        let words: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
        allowed.check(&words).is_ok()
    }

    #[test]
    fn flags_that_jobs_use_pass() {
        for flags in [
            "--prune --quiet",
            "--prune --no-tags",
            "--depth 5 --filter=blob:none",
            "-pq -j 4 -j4",
            "+refs/heads/*:refs/remotes/origin/*",
        ] {
            assert!(check(&FETCH, flags), "{flags}");
        }
        for flags in [
            "-ffdx",
            "-ffdx -e keep/",
            "-ffdxe keep/ -- src",
            "--exclude=a",
        ] {
            assert!(check(&CLEAN, flags), "{flags}");
        }
        for flags in ["--remote --jobs 4", "--force --recursive"] {
            assert!(check(&SUBMODULE_UPDATE, flags), "{flags}");
        }
    }

    #[test]
    fn flags_that_reach_beyond_the_repository_are_refused() {
        for flags in [
            "--upload-pack=touch",
            "--upload-pack touch",
            "--upload",
            "--depth --upload-pack=touch",
            "--depth",
            "--multiple",
            "--all",
            "--stdin",
            "-u",
            "-pu",
            "-",
        ] {
            assert!(!check(&FETCH, flags), "{flags}");
        }
        for flags in ["-i", "-ffdxi", "--interactive"] {
            assert!(!check(&CLEAN, flags), "{flags}");
        }
        for flags in [
            "--reference /home",
            "--reference=/home",
            "word",
            "--",
            "--remote=x",
        ] {
            assert!(!check(&SUBMODULE_UPDATE, flags), "{flags}");
        }
    }

    #[test]
    fn a_refusal_names_the_variable_and_the_word() {
        let error = FETCH.check(&["--upload-pack=x".to_owned()]).unwrap_err();

        assert!(
            error
                .to_string()
                .starts_with("GIT_FETCH_EXTRA_FLAGS has `--upload-pack=x`"),
            "{error}"
        );
    }
}
