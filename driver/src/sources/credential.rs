//! How git gets the token.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use nix::sys::memfd::{MFdFlags, memfd_create};

/// User that GitLab expects beside a job token.
const USER: &str = "gitlab-ci-token";

/// The token, where only a process of this user can read it, and only while this value lives.
///
/// It is in a memory file, never on a disk (a killed vk leaves nothing behind), never in an argument, in an
/// environment or in a config file. git's credential helper is a line of shell that opens that file through
/// our `/proc` entry; the descriptor itself is not inherited by any child.
pub(super) struct Credential {
    answer: File,
}

impl Credential {
    /// `token` has no line break and no NUL: the credential protocol is made of lines.
    pub(super) fn new(token: &str) -> io::Result<Self> {
        let mut answer = File::from(memfd_create("vk-credential", MFdFlags::MFD_CLOEXEC)?);
        write!(answer, "username={USER}\npassword={token}\n")?;
        Ok(Self { answer })
    }

    /// Value of git's `credential.<scope>.helper`. Answers `get` and ignores `store` and `erase`.
    pub(super) fn helper(&self) -> String {
        let process = std::process::id();
        let descriptor = self.answer.as_raw_fd();
        format!("!f() {{ test \"$1\" != get || cat /proc/{process}/fd/{descriptor}; }}; f")
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
        let credential = Credential::new("tok-1").unwrap();

        let expected = "username=gitlab-ci-token\npassword=tok-1\n";
        assert_eq!(ask(&credential, "get"), expected);
        assert_eq!(ask(&credential, "get"), expected);
        assert_eq!(ask(&credential, "erase"), "");
    }

    #[test]
    fn the_helper_does_not_hold_the_token() {
        let credential = Credential::new("tok-1").unwrap();

        assert!(!credential.helper().contains("tok-1"));
    }
}
