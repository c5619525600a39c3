//! Users and groups of the image: passwd(5), group(5), read without the image's libc.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::sys::Ids;

/// Most bytes of a passwd or group file that are looked at. Bounds what a hostile image can make us hold.
const MAX_FILE: u64 = 4 << 20;

/// Someone a command can run as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    /// By number.
    pub(crate) ids: Ids,
    /// Login name; none for a number that the image's passwd does not know.
    pub(crate) name: Option<String>,
    /// Home folder.
    pub(crate) home: String,
}

/// Why there is no such user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UserError {
    #[error("no user `{0}` in the image's /etc/passwd")]
    NoUser(String),
    #[error("no group `{0}` in the image's /etc/group")]
    NoGroup(String),
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
}

/// The user that `wanted` names (`user`, `user:group` or `:group`; root if none), from the files under `etc`, as Docker takes it.
///
/// A number is never a name. An empty part counts as not there, and what follows a second colon does not count. With a group given the
/// user gets no other groups. The group is also one of the supplementary ones, so that it stays when a program changes it
/// (CVE-2022-36109). A number that passwd does not know is that user, with group 0 and home `/`.
///
/// # Errors
///
/// [`UserError`] for names that are not there.
pub(crate) fn resolve(etc: &Path, wanted: Option<&str>) -> Result<User, UserError> {
    let mut parts = wanted.unwrap_or_default().split(':');
    let mut part = || parts.next().filter(|part| !part.is_empty());
    let (user, group) = (part().unwrap_or("0"), part());
    let mut found = find_user(&read(&etc.join("passwd"))?, user)?;
    if let Some(group) = group {
        found.ids.gid = find_group(&read(&etc.join("group"))?, group)?;
    }
    found.ids.groups = match &found.name {
        Some(name) if group.is_none() => {
            memberships(&read(&etc.join("group"))?, name, found.ids.gid)
        }
        _ => vec![found.ids.gid],
    };
    Ok(found)
}

fn read(path: &Path) -> Result<String, UserError> {
    let unreadable = |source| UserError::Unreadable {
        path: path.to_owned(),
        source,
    };
    // A FIFO in its place must not hold us up.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn find_user(passwd: &str, wanted: &str) -> Result<User, UserError> {
    let number: Option<u32> = wanted.parse().ok();
    let mut entries = passwd.lines().filter_map(parse_user);
    let found = entries.find(|user| match number {
        Some(number) => user.ids.uid == number,
        None => user.name.as_deref() == Some(wanted),
    });
    match (found, number) {
        (Some(user), _) => Ok(user),
        (None, Some(uid)) => Ok(User {
            ids: Ids {
                uid,
                gid: 0,
                groups: Vec::new(),
            },
            name: None,
            home: "/".to_owned(),
        }),
        (None, None) => Err(UserError::NoUser(wanted.to_owned())),
    }
}

/// `name:password:uid:gid:comment:home:shell`
fn parse_user(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let home = fields.nth(1);
    Some(User {
        ids: Ids {
            uid,
            gid,
            groups: Vec::new(),
        },
        name: Some(name.to_owned()),
        home: home.unwrap_or_default().to_owned(),
    })
}

fn find_group(groups: &str, wanted: &str) -> Result<u32, UserError> {
    if let Ok(number) = wanted.parse() {
        return Ok(number);
    }
    let mut entries = groups.lines().filter_map(parse_group);
    let found = entries.find(|(name, ..)| *name == wanted);
    found
        .map(|(_, gid, _)| gid)
        .ok_or_else(|| UserError::NoGroup(wanted.to_owned()))
}

/// Linux takes no more groups than this (NGROUPS_MAX of credentials(7)).
const MAX_GROUPS: usize = 65_536;

fn memberships(groups: &str, user: &str, primary: u32) -> Vec<u32> {
    let mut ids: Vec<u32> = groups
        .lines()
        .filter_map(parse_group)
        .filter(|(_, gid, members)| *gid == primary || members.split(',').any(|name| name == user))
        .map(|(_, gid, _)| gid)
        .chain([primary])
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids.truncate(MAX_GROUPS);
    ids
}

/// `name:password:gid:member,member`
fn parse_group(line: &str) -> Option<(&str, u32, &str)> {
    let mut fields = line.split(':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    let gid = fields.nth(1)?.parse().ok()?;
    Some((name, gid, fields.next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
        broken line\n\
        ci:x:1000:1001:CI,,,:/home/ci:/bin/zsh\n\
        1002:x:1500:1500::/home/number:\n\
        bare:x:1600:1600::\n";
    const GROUP: &str = "root:x:0:\nci:x:1001:\ndocker:x:99:ci,other\nusers:x:100:other\n";

    fn etc() -> tempfile::TempDir {
        let etc = tempfile::tempdir().unwrap();
        std::fs::write(etc.path().join("passwd"), PASSWD).unwrap();
        std::fs::write(etc.path().join("group"), GROUP).unwrap();
        etc
    }

    fn resolved(wanted: &str) -> Result<User, UserError> {
        resolve(etc().path(), Some(wanted))
    }

    #[test]
    fn a_name_brings_home_and_groups() {
        let user = resolved("ci").unwrap();

        assert_eq!(
            user,
            User {
                ids: Ids {
                    uid: 1000,
                    gid: 1001,
                    groups: vec![99, 1001],
                },
                name: Some("ci".into()),
                home: "/home/ci".into(),
            }
        );
    }

    #[test]
    fn a_number_finds_its_passwd_entry() {
        assert_eq!(resolved("1000").unwrap(), resolved("ci").unwrap());
    }

    #[test]
    fn a_number_is_never_a_name() {
        assert_eq!(resolved("1002").unwrap().ids.uid, 1002);
        assert_eq!(resolved("1500").unwrap().home, "/home/number");
    }

    #[test]
    fn empty_parts_and_parts_too_many_do_not_count() {
        let root = resolved("0").unwrap();
        for wanted in ["", ":"] {
            assert_eq!(resolved(wanted).unwrap(), root, "{wanted:?}");
        }
        assert_eq!(resolved("ci:").unwrap(), resolved("ci").unwrap());
        assert_eq!(
            resolved("ci:users:more").unwrap(),
            resolved("ci:users").unwrap()
        );
        let ids = resolved(":users").unwrap().ids;
        assert_eq!((ids.uid, ids.gid), (0, 100));
    }

    #[test]
    fn a_given_group_stands_alone() {
        for wanted in ["ci:users", "ci:100", "1000:users"] {
            let ids = resolved(wanted).unwrap().ids;
            assert_eq!(
                (ids.uid, ids.gid, ids.groups),
                (1000, 100, vec![100]),
                "{wanted}"
            );
        }
    }

    #[test]
    fn an_unknown_number_is_that_user_without_a_name() {
        let user = resolved("4711").unwrap();

        assert_eq!((user.ids.uid, user.ids.gid), (4711, 0));
        assert_eq!(user.ids.groups, [0]);
        assert_eq!((user.name, user.home.as_str()), (None, "/"));
    }

    #[test]
    fn a_home_that_is_not_given_is_empty() {
        let user = resolved("bare").unwrap();

        assert_eq!(user.home, "");
    }

    #[test]
    fn root_exists_by_number_in_an_image_without_files() {
        let empty = tempfile::tempdir().unwrap();

        for wanted in [None, Some("0"), Some("0:0")] {
            let user = resolve(empty.path(), wanted).unwrap();
            assert_eq!((user.ids.uid, user.home.as_str()), (0, "/"), "{wanted:?}");
        }
        assert!(matches!(
            resolve(empty.path(), Some("root")),
            Err(UserError::NoUser(_))
        ));
    }

    #[test]
    fn unknown_names_are_refused() {
        assert!(matches!(resolved("nobody-here"), Err(UserError::NoUser(_))));
        assert!(matches!(resolved("ci:nope"), Err(UserError::NoGroup(_))));
        assert!(matches!(resolved("-1"), Err(UserError::NoUser(_))));
    }

    #[test]
    fn a_fifo_for_passwd_does_not_block() {
        let etc = tempfile::tempdir().unwrap();
        let fifo = etc.path().join("passwd");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();

        assert!(matches!(
            resolve(etc.path(), Some("ci")),
            Err(UserError::NoUser(_))
        ));
    }
}
