//! Gathers what is chosen, in memory as long as it is little.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use super::list::List;
use super::runs::Run;
use super::selection::{Kept, Selection};
use crate::gopath::as_path;
use crate::spill::{Spill, SpillError};

/// Runs that are merged when there are more, so that what is chosen again and again takes no more room than that, and
/// few files are open.
const MOST_RUNS: usize = 16;

/// A selection in the making.
#[derive(Debug)]
pub(super) struct Collector {
    root: PathBuf,
    spill: Option<Spill>,
    /// In the order in which they were chosen.
    runs: Vec<Run>,
    /// Chosen after all of them.
    list: List,
    /// Why nothing is taken any more.
    failed: Option<SpillError>,
}

impl Collector {
    /// Nothing yet, of the project at `root`.
    pub(super) fn new(root: &Path, spill: Option<&Spill>) -> Self {
        Self {
            root: root.to_owned(),
            spill: spill.cloned(),
            runs: Vec::new(),
            list: List::default(),
            failed: None,
        }
    }

    /// The project's folder.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where an entry lies.
    pub(super) fn place(&self, path: &[u8]) -> PathBuf {
        self.root.join(as_path(path))
    }

    /// Takes one more. [`Collector::tidy`] says if that failed.
    pub(super) fn push(&mut self, path: &[u8], meta: &Metadata) {
        if self.failed.is_some() {
            return;
        }
        self.list.push(path, meta);
        if let Some(spill) = &self.spill
            && self.list.memory() > spill.memory
        {
            self.list.tidy();
            // Sorting again and again for little would take long.
            if self.list.memory() > spill.memory / 2 {
                self.failed = write_out(spill, &mut self.list, &mut self.runs).err();
            }
        }
    }

    /// Leaves one of each path in memory.
    ///
    /// # Errors
    ///
    /// [`SpillError`], of this or an earlier call.
    pub(super) fn tidy(&mut self) -> Result<(), SpillError> {
        self.list.tidy();
        self.failed.take().map_or(Ok(()), Err)
    }

    /// All that was taken.
    ///
    /// # Errors
    ///
    /// [`SpillError`].
    pub(super) fn finish(mut self) -> Result<Selection, SpillError> {
        self.tidy()?;
        let kept = match &self.spill {
            Some(spill) if !self.runs.is_empty() => {
                write_out(spill, &mut self.list, &mut self.runs)?;
                Kept::Spilled(Run::merge(spill, &self.runs)?)
            }
            _ => Kept::Memory(self.list),
        };
        Ok(Selection::new(self.root, self.spill, kept))
    }
}

/// Makes a run of the list, which is in order.
fn write_out(spill: &Spill, list: &mut List, runs: &mut Vec<Run>) -> Result<(), SpillError> {
    let list = std::mem::take(list);
    runs.push(Run::write(spill, list.iter())?);
    if runs.len() > MOST_RUNS {
        let merged = Run::merge(spill, runs)?;
        *runs = vec![merged];
    }
    Ok(())
}
