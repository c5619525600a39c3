//! Finding the folder of an entry.

use super::{Attributes, InodeId, ROOT, Refused, Tree};
use crate::EntryProblem;
use crate::path::{MAX_NAME, MAX_PATH};

/// Symbolic links followed on one path: as many as Linux does (path_resolution(7)).
const MAX_SYMLINKS: u32 = 40;
/// Parts of one path, those of links on it among them. Linux has no such bound, but then its paths are not a hundred
/// thousand to a megabyte.
const MAX_STEPS: usize = 2 * MAX_PATH;

/// Makes the folders that are missing, or not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Report,
}

impl Tree {
    /// The folder that `parts` lead to from the root, which the current layer then has, too: what is missing is made,
    /// what is in the way is replaced.
    pub(crate) fn make_folders(&mut self, parts: &[&[u8]]) -> Result<InodeId, Refused> {
        let found = self.walk(parts, Missing::Make)?;
        // Made, if it was not there.
        found.ok_or(EntryProblem::SymlinkLoop.into())
    }

    /// The file that goes by a name whose folder is found the same way; the last part is not followed.
    pub(crate) fn find(&mut self, parts: &[&[u8]]) -> Result<Option<InodeId>, Refused> {
        let Some((last, folders)) = parts.split_last() else {
            return Ok(Some(ROOT));
        };
        let folder = self.walk(folders, Missing::Report)?;
        let name = folder.and_then(|folder| self.find_name(folder, last));
        Ok(name.map(|name| self.inode_of(name)))
    }

    fn walk(&mut self, parts: &[&[u8]], missing: Missing) -> Result<Option<InodeId>, Refused> {
        // The folders from the root to where we are, for `..` in links.
        let mut here: Vec<InodeId> = Vec::new();
        // What is left to walk, the next part last.
        let mut rest: Vec<Step<'_>> = parts.iter().rev().map(|part| Step::Given(part)).collect();
        let mut steps = 0;
        let mut symlinks = 0;
        while let Some(step) = rest.pop() {
            steps += 1;
            if steps > MAX_STEPS {
                return Err(EntryProblem::SymlinkLoop.into());
            }
            self.count_step()?;
            let folder = here.last().copied().unwrap_or(ROOT);
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
            let inode = name.map(|name| self.inode_of(name));
            match inode.map(|id| (id, self.inode(id))) {
                Some((id, inode)) if inode.is_symlink() => {
                    symlinks += 1;
                    if symlinks > MAX_SYMLINKS {
                        return Err(EntryProblem::SymlinkLoop.into());
                    }
                    if self.target_of(id).first() == Some(&b'/') {
                        here.clear();
                    }
                    self.push_target(id, &mut rest);
                }
                Some((id, inode)) if inode.is_folder() => {
                    if missing == Missing::Make
                        && let Some(name) = name
                    {
                        self.touch(name);
                    }
                    here.push(id);
                }
                _ if missing == Missing::Report => return Ok(None),
                _ => here.push(self.imply_folder(folder, part)?),
            }
        }
        Ok(Some(here.last().copied().unwrap_or(ROOT)))
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

    fn imply_folder(&mut self, folder: InodeId, text: &[u8]) -> Result<InodeId, Refused> {
        self.count_entry()?;
        self.new_folder(folder, text, &Attributes::IMPLIED, false)
    }
}

/// A part of a path: of the one given, or of a link's target among the texts.
enum Step<'a> {
    Given(&'a [u8]),
    Target { start: usize, end: usize },
}
