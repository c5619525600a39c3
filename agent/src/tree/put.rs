//! Taking a tree in.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::Mode;
use vk_agent_proto::{FailureKind, PutTree, TreeSummary};
use vk_archive::{ExtractError, ExtractOptions, Extracted, Limits, Owner, extract_tar};

use super::stream::{FrameReader, TREE};
use super::wipe::wipe;
use crate::agent::Agent;
use crate::archive::threads;
use crate::failure::Failure;
use crate::server::error_line;
use crate::users;

/// What is read from the host at once.
const READ: usize = 256 << 10;

/// Unpacks the tree that the host sends.
///
/// # Errors
///
/// [`Failure`] that names the entry, at once: the host is still sending then.
pub(crate) fn put(agent: &Agent, host: &File, request: &PutTree) -> Result<TreeSummary, Failure> {
    let owner = prepare(agent, request)?;
    let dest = Path::new(&request.dest);
    let options = ExtractOptions {
        // The host sends no more than it has.
        limits: Limits {
            entries: u64::MAX,
            bytes: u64::MAX,
        },
        owner,
        threads: threads(),
    };
    let mut tree = FrameReader::new(BufReader::with_capacity(READ, host), TREE);
    let Extracted { entries, bytes, .. } =
        extract_tar(&mut tree, dest, &options).map_err(|error| failure(dest, &error))?;
    tree.drain()
        .map_err(|error| broken(dest, &error.to_string()))?;
    Ok(TreeSummary { entries, bytes })
}

fn failure(path: &Path, error: &ExtractError) -> Failure {
    let dest = path.display();
    match error {
        ExtractError::Broken(what) => broken(path, what),
        ExtractError::Entry { entry, source } => Failure::io(
            format_args!("cannot unpack `{entry}` into `{dest}`"),
            source,
        ),
        ExtractError::Destination { source, .. } => {
            Failure::io(format_args!("cannot open `{dest}`"), source)
        }
        error => Failure::new(
            FailureKind::BadTree,
            format!("cannot unpack into `{dest}`: {}", error_line(error)),
        ),
    }
}

fn broken(dest: &Path, what: &str) -> Failure {
    let dest = dest.display();
    Failure::new(
        FailureKind::BadTree,
        format!("the tar stream for `{dest}` is broken: {what}"),
    )
}

/// Makes the destination as it is asked for; says whose its content will be.
fn prepare(agent: &Agent, request: &PutTree) -> Result<Owner, Failure> {
    let dest = Path::new(&request.dest);
    if !dest.is_absolute() {
        return Err(Failure::new(
            FailureKind::BadRequest,
            format!("the destination `{}` is not absolute", dest.display()),
        ));
    }
    let owner = match &request.owner {
        None => None,
        Some(owner) => {
            let user = users::resolve(Path::new("/etc"), Some(owner))
                .map_err(|error| Failure::new(FailureKind::UnknownUser, error.to_string()))?;
            agent.ids_to_become(user.ids).map(|ids| (ids.uid, ids.gid))
        }
    };
    let trouble = |what: &str, error: &io::Error| {
        Failure::io(format_args!("cannot {what} `{}`", dest.display()), error)
    };
    if request.mkdir {
        make_folders(dest, owner).map_err(|error| {
            match error.raw_os_error().map(Errno::from_raw) {
                Some(errno) if is_places_fault(errno) => {
                    let text = format!("cannot make `{}`: {error}", dest.display());
                    Failure::new(FailureKind::BadRequest, text)
                }
                _ => trouble("make", &error),
            }
        })?;
    }
    if request.wipe {
        wipe(dest).map_err(|error| trouble("empty", &error))?;
    }
    Ok(owner.map_or(Owner::Unpacking, |(uid, gid)| Owner::Fixed(uid, gid)))
}

/// Whether no folder can ever be made at such a place: something else stands there, links form a loop, or it lies in a file system
/// of the kernel.
fn is_places_fault(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::EEXIST
            | Errno::ENOTDIR
            | Errno::ELOOP
            | Errno::ENAMETOOLONG
            | Errno::ENOENT
            | Errno::EPERM
            | Errno::EACCES
            | Errno::EROFS
    )
}

/// Links that one folder's path may lead through, as for the kernel (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// Makes `path` and what is missing above it, each for `owner`; where a link leads to nothing, what it leads to.
fn make_folders(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    make_through(path, owner, &mut 0)
}

fn make_through(path: &Path, owner: Option<(u32, u32)>, links: &mut usize) -> io::Result<()> {
    let mut folder = PathBuf::new();
    for part in path.components() {
        folder.push(part);
        if folder.is_dir() {
            continue;
        }
        match nix::unistd::mkdir(&folder, Mode::from_bits_truncate(0o755)) {
            Ok(()) => {
                if let Some((uid, gid)) = owner {
                    std::os::unix::fs::lchown(&folder, Some(uid), Some(gid))?;
                }
            }
            Err(Errno::EEXIST) if folder.is_dir() => {}
            Err(Errno::EEXIST) if folder.is_symlink() => {
                *links += 1;
                if *links > MOST_LINKS {
                    return Err(Errno::ELOOP.into());
                }
                let target = std::fs::read_link(&folder)?;
                let parent = folder.parent().unwrap_or(Path::new("/"));
                make_through(&parent.join(target), owner, links)?;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
