//! From what the host asks for to what the kernel takes.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use vk_agent_proto::{Exec, FailureKind};

use crate::failure::Failure;
use crate::users::{self, User};

/// PATH where nobody sets one: Docker's.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a terminal is taken for where nobody says: Docker's word.
const TERM: &str = "xterm";

/// A request that was checked and is complete.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) programs: Vec<CString>,
    pub(super) argv: Vec<CString>,
    pub(super) envp: Vec<CString>,
    pub(super) cwd: CString,
    pub(super) user: User,
}

impl Command {
    /// Checks `exec` and resolves its user from the files under `etc`.
    ///
    /// # Errors
    ///
    /// [`Failure`] that names what is wrong.
    pub(super) fn new(exec: &Exec, etc: &Path) -> Result<Self, Failure> {
        let user = users::resolve(etc, exec.user.as_deref())
            .map_err(|error| Failure::new(FailureKind::UnknownUser, error.to_string()))?;
        let hostname = nix::unistd::gethostname().unwrap_or_default();
        let environment = environment(&user, &hostname, exec)?;
        let path = environment
            .iter()
            .find_map(|(name, value)| (*name == "PATH").then_some(*value))
            .unwrap_or(PATH.as_ref());
        let Some(program) = exec.argv.first() else {
            return Err(bad("the command is empty"));
        };
        let programs = candidates(program, path)
            .into_iter()
            .map(|program| c_string("the command", program))
            .collect::<Result<_, _>>()?;
        let argv = exec
            .argv
            .iter()
            .map(|argument| c_string("an argument", argument.as_bytes()))
            .collect::<Result<_, _>>()?;
        let envp = environment
            .iter()
            .map(|(name, value)| {
                let both = [name.as_bytes(), b"=", value.as_bytes()].concat();
                c_string(&format!("variable `{}`", name.display()), both)
            })
            .collect::<Result<_, _>>()?;
        let cwd = exec.cwd.as_deref().unwrap_or("/".as_ref());
        if !Path::new(cwd).is_absolute() {
            let cwd = cwd.display();
            return Err(bad(format!("the working folder `{cwd}` is not absolute")));
        }
        Ok(Self {
            programs,
            argv,
            envp,
            cwd: c_string("the working folder", cwd.as_bytes())?,
            user,
        })
    }
}

fn bad(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::BadRequest, message)
}

fn c_string(what: &str, text: impl Into<Vec<u8>>) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| bad(format!("{what} holds a NUL byte")))
}

/// PATH, HOSTNAME, HOME, and TERM on a terminal, as Docker gives them to a container, with the request's set over them, each name
/// once, in order of first appearance.
fn environment<'a>(
    user: &'a User,
    hostname: &'a OsStr,
    exec: &'a Exec,
) -> Result<Vec<(&'a OsStr, &'a OsStr)>, Failure> {
    let mut all: Vec<(&OsStr, &OsStr)> = vec![
        ("PATH".as_ref(), PATH.as_ref()),
        ("HOSTNAME".as_ref(), hostname),
        ("HOME".as_ref(), user.home.as_ref()),
    ];
    if exec.terminal.is_some() {
        all.push(("TERM".as_ref(), TERM.as_ref()));
    }
    let mut places: std::collections::HashMap<&OsStr, usize> = all
        .iter()
        .enumerate()
        .map(|(place, (name, _))| (*name, place))
        .collect();
    for (name, value) in &exec.env {
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            let name = name.display();
            return Err(bad(format!("`{name}` is no name for a variable")));
        }
        match places
            .get(name.as_os_str())
            .and_then(|place| all.get_mut(*place))
        {
            Some(slot) => slot.1 = value,
            None => {
                places.insert(name, all.len());
                all.push((name, value));
            }
        }
    }
    Ok(all)
}

/// Where `program` may be, as execvp(3) looks: along `path` unless its name has a slash. An empty part of the
/// path is the working folder.
fn candidates(program: &OsStr, path: &OsStr) -> Vec<Vec<u8>> {
    let program = program.as_bytes();
    if program.contains(&b'/') {
        return vec![program.to_owned()];
    }
    if program.is_empty() {
        return Vec::new();
    }
    path.as_bytes()
        .split(|byte| *byte == b':')
        .map(|folder| match folder {
            b"" => [b"./", program].concat(),
            folder => [folder, b"/", program].concat(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn command(exec: &Exec) -> Result<Command, Failure> {
        let etc = tempfile::tempdir().unwrap();
        std::fs::write(
            etc.path().join("passwd"),
            "ci:x:1000:1000::/home/ci:/bin/bash\n",
        )
        .unwrap();
        Command::new(exec, etc.path())
    }

    fn exec(argv: &[&str]) -> Exec {
        Exec {
            argv: argv.iter().map(Into::into).collect(),
            ..Exec::default()
        }
    }

    fn hostname() -> String {
        let name = nix::unistd::gethostname().unwrap();
        name.to_string_lossy().into_owned()
    }

    fn variable(name: &str, value: &str) -> (OsString, OsString) {
        (name.into(), value.into())
    }

    fn texts(strings: &[CString]) -> Vec<&str> {
        strings.iter().map(|text| text.to_str().unwrap()).collect()
    }

    #[test]
    fn environment_is_a_containers_with_the_requests_over_it() {
        let request = Exec {
            user: Some("ci".into()),
            env: vec![
                variable("A", "1"),
                variable("HOME", "/else"),
                variable("A", "2"),
            ],
            ..exec(&["true"])
        };

        let command = command(&request).unwrap();

        let hostname = format!("HOSTNAME={}", hostname());
        assert_eq!(
            texts(&command.envp),
            [
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                &hostname,
                "HOME=/else",
                "A=2"
            ]
        );
    }

    #[test]
    fn a_terminal_is_named_unless_the_request_does() {
        let on_terminal = |env| Exec {
            terminal: Some(vk_agent_proto::TerminalSize::default()),
            env,
            ..exec(&["true"])
        };
        let term = |exec: &Exec| {
            let command = command(exec).unwrap();
            texts(&command.envp)
                .into_iter()
                .find(|variable| variable.starts_with("TERM="))
                .map(str::to_owned)
        };

        assert_eq!(term(&on_terminal(vec![])).as_deref(), Some("TERM=xterm"));
        let own = on_terminal(vec![variable("TERM", "dumb")]);
        assert_eq!(term(&own).as_deref(), Some("TERM=dumb"));
        assert_eq!(term(&exec(&["true"])), None);
    }

    #[test]
    fn programs_are_looked_for_in_the_requests_path() {
        let request = Exec {
            env: vec![variable("PATH", "/opt/bin::/bin")],
            ..exec(&["tool"])
        };

        let command = command(&request).unwrap();

        assert_eq!(
            texts(&command.programs),
            ["/opt/bin/tool", "./tool", "/bin/tool"]
        );
    }

    #[test]
    fn bytes_that_are_no_utf8_stay_as_they_are() {
        let bytes = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let request = Exec {
            argv: vec![bytes(b"t\xff"), bytes(b"\xfe")],
            env: vec![
                (bytes(b"\xfd"), bytes(b"\xfc")),
                ("PATH".into(), bytes(b"/\xfb:")),
            ],
            cwd: Some(bytes(b"/\xfa")),
            ..Exec::default()
        };

        let command = command(&request).unwrap();

        assert_eq!(command.programs, [c"/\xfb/t\xff", c"./t\xff"]);
        assert_eq!(command.argv, [c"t\xff", c"\xfe"]);
        assert_eq!(command.envp.last().unwrap(), c"\xfd=\xfc");
        assert_eq!(command.envp.first().unwrap(), c"PATH=/\xfb:");
        assert_eq!(command.cwd, *c"/\xfa");
    }

    #[test]
    fn a_program_with_a_slash_is_taken_as_it_is() {
        assert_eq!(
            texts(&command(&exec(&["./run"])).unwrap().programs),
            ["./run"]
        );
    }

    #[test]
    fn senseless_requests_are_refused() {
        let with_env = |name: &str, value: &str| Exec {
            env: vec![variable(name, value)],
            ..exec(&["true"])
        };
        let relative = Exec {
            cwd: Some("builds".into()),
            ..exec(&["true"])
        };
        let requests = [
            exec(&[]),
            exec(&["a\0b"]),
            exec(&["true", "\0"]),
            with_env("", "1"),
            with_env("A=B", "1"),
            with_env("A", "\0"),
            relative,
        ];

        for request in requests {
            let failure = command(&request).unwrap_err();
            assert_eq!(failure.kind(), FailureKind::BadRequest, "{request:?}");
        }
    }

    #[test]
    fn a_bad_variable_is_named_without_its_value() {
        let request = Exec {
            env: vec![variable("TOKEN", "s3cret\0")],
            ..exec(&["true"])
        };

        let message = command(&request).unwrap_err().to_string();

        assert!(message.contains("TOKEN") && !message.contains("s3cret"));
    }
}
