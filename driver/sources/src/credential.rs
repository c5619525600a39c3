//! How git gets the token.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::error::CheckoutError;

/// User that GitLab expects beside a job token.
const USER: &str = "gitlab-ci-token";

/// What a credential helper answers; `None` without a token.
///
/// # Errors
///
/// When the token has control characters: the credential protocol is made of lines.
pub(super) fn answer(token: &str) -> Result<Option<String>, CheckoutError> {
    if token.contains(|c: char| c.is_control()) {
        return Err(CheckoutError::BadToken);
    }
    let answer = || format!("username={USER}\npassword={token}\n");
    Ok((!token.is_empty()).then(answer))
}

/// Value of git's `credential.<scope>.helper` that gives the answer in `file`. Ignores `store` and `erase`.
pub(super) fn helper(file: &str) -> String {
    let file = file.replace('\'', r"'\''");
    format!("!f() {{ test \"$1\" != get || cat '{file}'; }}; f")
}

/// The token, where only a process of this user can read it, and only while this value lives.
///
/// It is in a memory file, never on a disk (a killed vk leaves nothing behind), never in an argument, in an
/// environment or in a config file. git's credential helper is a line of shell that opens that file through
/// our `/proc` entry; the descriptor itself is not inherited by any child.
pub(super) struct Credential {
    answer: File,
}

impl Credential {
    /// `None` without a token.
    pub(super) fn new(token: &str) -> Result<Option<Self>, CheckoutError> {
        answer(token)?
            .map(|answer| Self::keep(&answer))
            .transpose()
            .map_err(CheckoutError::io("keep", Path::new("the job's token")))
    }

    fn keep(answer: &str) -> io::Result<Self> {
        let mut file = File::from(memfd_create("vk-credential", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(answer.as_bytes())?;
        Ok(Self { answer: file })
    }

    /// Value of git's `credential.<scope>.helper`.
    pub(super) fn helper(&self) -> String {
        let process = std::process::id();
        let descriptor = self.answer.as_raw_fd();
        helper(&format!("/proc/{process}/fd/{descriptor}"))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn ask(credential: &Credential, operation: &str) -> String {
        let helper = credential.helper();
        let snippet = helper.strip_prefix('!').unwrap();
        let output = Command::new("/bin/sh")
            .args(["-c", &format!("{snippet} {operation}")])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn the_helper_answers_every_get_and_nothing_else() {
        let credential = Credential::new("tok-1").unwrap().unwrap();

        let expected = "username=gitlab-ci-token\npassword=tok-1\n";
        assert_eq!(ask(&credential, "get"), expected);
        assert_eq!(ask(&credential, "get"), expected);
        assert_eq!(ask(&credential, "erase"), "");
    }

    #[test]
    fn the_helper_does_not_hold_the_token() {
        let credential = Credential::new("tok-1").unwrap().unwrap();

        assert!(!credential.helper().contains("tok-1"));
    }
}
