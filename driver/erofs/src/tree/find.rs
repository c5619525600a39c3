//! Finding the folder of an entry.

use super::{Attributes, InodeId, NONE, NameId, ROOT, Refused, Tree};
use crate::EntryProblem;
use crate::path::{MAX_NAME, MAX_PATH};

/// Symbolic links followed on one path: as many as Linux does (path_resolution(7)).
const MAX_SYMLINKS: usize = 40;
/// Parts of one path, those of links on it among them. Linux has no such bound, but then its paths are not a hundred
/// thousand to a megabyte.
const MAX_STEPS: usize = 2 * MAX_PATH;

/// Makes the folders that are missing, or not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Report,
}

/// A way to a folder.
pub(super) struct Way {
    pub(super) folder: InodeId,
    /// The names of that folder and of those above it, the root's, which has none, left out.
    pub(super) names: Vec<NameId>,
    /// The symbolic links that it leads through.
    pub(super) passed: Vec<NameId>,
    /// Of the given names that are links of lower layers the last one, or [`NONE`].
    pub(super) through: NameId,
}

/// Where a walk ended.
enum End {
    There(Way),
    Missing,
    /// At a file that has to stay; with the way's [`Way::through`].
    Blocked(NameId),
}

impl Tree {
    /// The folder that `parts` lead to from the root, which the current layer then has, too: what is missing is made;
    /// of what is in the way, files of lower layers are replaced, and links of lower layers that lead to files.
    pub(super) fn make_folders(&mut self, parts: &[&[u8]]) -> Result<Way, Refused> {
        loop {
            match self.walk(parts, Missing::Make)? {
                End::There(way) => return Ok(way),
                End::Blocked(link) if self.can_unfollow(link) => self.unfollow(link)?,
                End::Blocked(_) => return Err(EntryProblem::BelowFile.into()),
                // Made, if it was not there.
                End::Missing => return Err(EntryProblem::SymlinkLoop.into()),
            }
        }
    }

    /// The file that goes by a name whose folder is found the same way; the last part is not followed.
    pub(crate) fn find(&mut self, parts: &[&[u8]]) -> Result<Option<InodeId>, Refused> {
        let Some((last, folders)) = parts.split_last() else {
            return Ok(Some(ROOT));
        };
        let way = self.way(folders)?;
        let name = way.and_then(|way| self.find_name(way.folder, last));
        Ok(name.map(|name| self.inode_of(name)))
    }

    /// The way that `parts` lead, if there is one.
    pub(super) fn way(&mut self, parts: &[&[u8]]) -> Result<Option<Way>, Refused> {
        match self.walk(parts, Missing::Report)? {
            End::There(way) => Ok(Some(way)),
            End::Missing | End::Blocked(_) => Ok(None),
        }
    }

    fn walk(&mut self, parts: &[&[u8]], missing: Missing) -> Result<End, Refused> {
        // The folders from the root to where we are, for `..` in links.
        let mut here: Vec<NameId> = Vec::new();
        // What is left to walk, the next part last.
        let mut rest: Vec<Step<'_>> = parts.iter().rev().map(|part| Step::Given(part)).collect();
        let mut steps = 0;
        let mut passed: Vec<NameId> = Vec::new();
        let mut through = NONE;
        let mut replaces = false;
        while let Some(step) = rest.pop() {
            steps += 1;
            if steps > MAX_STEPS {
                return Err(EntryProblem::SymlinkLoop.into());
            }
            self.count_step()?;
            let folder = self.last_of(&here);
            let is_given = matches!(step, Step::Given(_));
            let link;
            let part = match step {
                Step::Given(part) => part,
                Step::Target { start, end } => {
                    // Copied, as a folder of that name may have to be made.
                    link = self.texts.get(start..end).unwrap_or_default().to_vec();
                    &link[..]
                }
            };
            match part {
                b"" | b"." => continue,
                b".." => {
                    here.pop();
                    continue;
                }
                _ if part.len() > MAX_NAME => return Err(EntryProblem::NameTooLong.into()),
                _ => {}
            }
            let name = self.find_name(folder, part);
            let is_own = name.is_some_and(|name| self.name(name).layer == self.layer);
            let inode = name.map(|name| (name, self.inode_of(name)));
            match inode.map(|(name, id)| (name, id, self.inode(id))) {
                Some((name, id, inode)) if inode.is_symlink() => {
                    passed.push(name);
                    if passed.len() > MAX_SYMLINKS {
                        return Err(EntryProblem::SymlinkLoop.into());
                    }
                    if is_given && !is_own {
                        through = name;
                    }
                    if self.target_of(id).first() == Some(&b'/') {
                        here.clear();
                    }
                    self.push_target(id, &mut rest);
                }
                Some((name, _, inode)) if inode.is_folder() => {
                    if missing == Missing::Make {
                        self.touch(name);
                    }
                    here.push(name);
                }
                _ if missing == Missing::Report => return Ok(End::Missing),
                Some(_) if is_own || !is_given && through != NONE => {
                    return Ok(End::Blocked(through));
                }
                file => {
                    replaces |= file.is_some();
                    here.push(self.imply_folder(folder, part)?);
                }
            }
        }
        let way = Way {
            folder: self.last_of(&here),
            names: here,
            passed,
            through,
        };
        if replaces {
            self.fix(&way);
        }
        Ok(End::There(way))
    }

    fn last_of(&self, names: &[NameId]) -> InodeId {
        names.last().map_or(ROOT, |name| self.inode_of(*name))
    }

    /// Puts the parts of a link's target before the rest of the way.
    fn push_target(&self, link: InodeId, rest: &mut Vec<Step<'_>>) {
        let start = self.inode(link).place as usize;
        let mut end = start + self.target_of(link).len();
        for part in self.target_of(link).rsplit(|byte| *byte == b'/') {
            rest.push(Step::Target {
                start: end - part.len(),
                end,
            });
            end = end.saturating_sub(part.len() + 1);
        }
    }

    fn imply_folder(&mut self, folder: InodeId, text: &[u8]) -> Result<NameId, Refused> {
        self.count_entry()?;
        self.new_folder(folder, text, &Attributes::IMPLIED, false)
    }
}

/// A part of a path: of the one given, or of a link's target among the texts.
enum Step<'a> {
    Given(&'a [u8]),
    Target { start: usize, end: usize },
}
