//! Goes through paths, rules and untracked files in the helper's order, and says what it says.

use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::collector::Collector;
use super::pattern::Pattern;
use super::selection::Selection;
use super::{untracked, walk};
use crate::event::Event;
use crate::gopath::{clean, has_meta, in_project, path_error};
use crate::spill::{Spill, SpillError};

/// What to choose; variables are expanded already.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// Files, folders and patterns, relative to the project or absolute inside it.
    pub paths: &'a [String],
    /// Rules for what stays out: patterns for whole paths.
    pub exclude: &'a [String],
    /// Whether files that git does not track are chosen, too.
    pub untracked: bool,
    /// Where what is chosen goes on when it outgrows memory, and a zip's directory does; none: it stays there.
    pub spill: Option<&'a Spill>,
}

/// Chooses files of the project at `root`, an absolute path, and says to `say` what the helper would log.
///
/// Symbolic links are followed where a path names them or folders of a pattern's literal beginning are ones; what
/// is found below is never entered through a link. What cannot be looked at is warned of. Of a path that is chosen twice, it
/// counts what was seen the first time.
///
/// # Errors
///
/// [`SpillError`], never without [`Request::spill`].
pub fn select(
    root: &Path,
    request: &Request<'_>,
    say: &mut dyn FnMut(Event),
) -> Result<Selection, SpillError> {
    let root_bytes = clean(root.as_os_str().as_bytes());
    let mut chooser = Chooser {
        rules: Rules::new(&root_bytes, request.exclude),
        collector: Collector::new(root, request.spill),
        say,
    };
    for path in request.paths {
        chooser.path(&root_bytes, path);
        chooser.collector.tidy()?;
    }
    if request.untracked {
        chooser.untracked();
        chooser.collector.tidy()?;
    }
    let Chooser {
        rules,
        collector,
        say,
    } = chooser;
    for (rule, count) in rules.hits() {
        say(Event::Excluded {
            rule: rule.to_owned(),
            count,
        });
    }
    collector.finish()
}

/// The state of one choice.
pub(super) struct Chooser<'a> {
    rules: Rules<'a>,
    pub(super) collector: Collector,
    say: &'a mut dyn FnMut(Event),
}

impl Chooser<'_> {
    fn path(&mut self, root: &[u8], path: &str) {
        if path.is_empty() {
            (self.say)(Event::EmptyPath);
            return;
        }
        let Some(relative) = in_project(root, path.as_bytes()) else {
            (self.say)(Event::PathOutside(path.to_owned()));
            return;
        };
        let count = if has_meta(&relative) {
            match walk::pattern(self, &relative) {
                Ok(count) => count,
                Err(_) => return (self.say)(Event::BadPattern(path.to_owned())),
            }
        } else {
            walk::literal(self, &relative)
        };
        (self.say)(if count > 0 {
            Event::Found {
                path: path.to_owned(),
                count,
            }
        } else {
            Event::NoMatch {
                path: path.to_owned(),
                root: String::from_utf8_lossy(root).into_owned(),
            }
        });
    }

    fn untracked(&mut self) {
        let mut count = 0;
        let result = untracked::untracked(self, &mut count);
        let event = match result {
            Err(error) => {
                for line in error.lines() {
                    (self.say)(Event::Git(line));
                }
                Event::UntrackedFailed
            }
            Ok(()) if count == 0 => Event::NoUntracked,
            Ok(()) => Event::Untracked(count),
        };
        (self.say)(event);
    }

    /// Takes `path`, which matched so many times, unless a rule keeps it out; how often it was taken.
    pub(super) fn take(&mut self, path: &[u8], times: u64, meta: io::Result<Metadata>) -> u64 {
        match self.rules.check(path, times) {
            Verdict::Kept => {}
            Verdict::Excluded => return 0,
            Verdict::RuleOutside(rule) => (self.say)(Event::RuleOutside(rule)),
        }
        match meta {
            Ok(meta) => {
                self.collector.push(path, &meta);
                times
            }
            Err(error) => {
                self.unreadable("lstat", path, &error);
                0
            }
        }
    }

    /// Warns of what is there and cannot be looked at; what is not there is no matter.
    pub(super) fn unreadable(&mut self, operation: &str, path: &[u8], error: &io::Error) {
        if error.kind() != io::ErrorKind::NotFound {
            (self.say)(Event::Unreadable {
                path: path.to_vec(),
                error: path_error(operation, path, error),
            });
        }
    }
}

/// Rules that keep files out, in order.
struct Rules<'a> {
    rules: Vec<Rule<'a>>,
    /// The rule that ends the list because it lies outside the project, until it was told. The helper tells it for
    /// every file again.
    outside: Option<&'a str>,
}

struct Rule<'a> {
    text: &'a str,
    /// None if it is no pattern: it keeps nothing out.
    pattern: Option<Pattern>,
    hits: u64,
}

enum Verdict {
    Kept,
    Excluded,
    RuleOutside(String),
}

impl<'a> Rules<'a> {
    fn new(root: &[u8], texts: &'a [String]) -> Self {
        let mut rules = Vec::new();
        let mut outside = None;
        for text in texts {
            let Some(relative) = in_project(root, text.as_bytes()) else {
                outside = Some(text.as_str());
                break;
            };
            rules.push(Rule {
                text,
                pattern: Pattern::new(&relative).ok(),
                hits: 0,
            });
        }
        Self { rules, outside }
    }

    fn check(&mut self, path: &[u8], times: u64) -> Verdict {
        for rule in &mut self.rules {
            if rule.pattern.as_ref().is_some_and(|it| it.matches(path)) {
                rule.hits += times;
                return Verdict::Excluded;
            }
        }
        match self.outside.take() {
            Some(rule) => Verdict::RuleOutside(rule.to_owned()),
            None => Verdict::Kept,
        }
    }

    fn hits(&self) -> impl Iterator<Item = (&str, u64)> {
        let hits = self.rules.iter().map(|rule| (rule.text, rule.hits));
        hits.filter(|(_, hits)| *hits > 0)
    }
}
