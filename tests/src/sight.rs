//! What a process saw: the lines of `tests/container/probe`, and how two sights are compared.

#![expect(clippy::panic, reason = "a test kit fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use regex::Regex;

/// What one run of the program printed, by key. A key may come several times, as a variable may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sight(BTreeMap<String, BTreeSet<String>>);

/// A difference that is meant.
#[derive(Clone, Copy, Debug)]
pub struct Meant {
    /// Which keys: a regular expression for the whole of it.
    pub key: &'static str,
    /// What Docker shows: a regular expression for the whole value, `` for nothing at all.
    pub there: &'static str,
    /// What vk shows, in the same way.
    pub here: &'static str,
    /// Why.
    pub why: &'static str,
}

/// A key with its values on both sides, where they are not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The key.
    pub key: String,
    /// Docker's values.
    pub there: String,
    /// vk's.
    pub here: String,
}

impl Sight {
    /// Reads what the program printed; other lines do not count.
    #[must_use]
    pub fn read(text: &[u8]) -> Self {
        let mut sight = Self::default();
        for line in String::from_utf8_lossy(text).lines() {
            if let Some((key, value)) = line.trim_end_matches('\r').split_once('\t') {
                let values = sight.0.entry(key.to_owned()).or_default();
                values.insert(value.to_owned());
            }
        }
        sight
    }

    /// Whether nothing was seen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Only what has a key that `pattern` finds.
    ///
    /// # Panics
    ///
    /// If it is no regular expression.
    #[must_use]
    pub fn only(&self, pattern: &str) -> Self {
        let pattern = whole(pattern);
        let kept = self.0.iter().filter(|(key, _)| pattern.is_match(key));
        Self(
            kept.map(|(key, values)| (key.clone(), values.clone()))
                .collect(),
        )
    }

    /// What is not the same in `here`.
    #[must_use]
    pub fn differences(&self, here: &Self) -> Vec<Difference> {
        let keys: BTreeSet<_> = self.0.keys().chain(here.0.keys()).collect();
        let shown = |sight: &Self, key: &String| {
            let values = sight.0.get(key).into_iter().flatten();
            values.map(String::as_str).collect::<Vec<_>>().join("\n")
        };
        keys.into_iter()
            .filter(|key| self.0.get(*key) != here.0.get(*key))
            .map(|key| Difference {
                key: key.clone(),
                there: shown(self, key),
                here: shown(here, key),
            })
            .collect()
    }
}

fn whole(pattern: &str) -> Regex {
    match Regex::new(&format!("^(?s:{pattern})$")) {
        Ok(regex) => regex,
        Err(error) => panic!("{pattern}: {error}"),
    }
}

impl Meant {
    /// Whether this is the difference that is meant.
    ///
    /// # Panics
    ///
    /// If it has something that is no regular expression.
    #[must_use]
    pub fn is(&self, difference: &Difference) -> bool {
        whole(self.key).is_match(&difference.key)
            && whole(self.there).is_match(&difference.there)
            && whole(self.here).is_match(&difference.here)
    }
}

/// The differences that none of `meant` explains, as text; those that one does are marked in `used`.
pub fn unexplained(
    differences: &[Difference],
    meant: &[&Meant],
    used: &mut BTreeSet<&'static str>,
) -> String {
    let mut text = String::new();
    for difference in differences {
        match meant.iter().find(|meant| meant.is(difference)) {
            Some(meant) => {
                used.insert(meant.key);
            }
            None => {
                let Difference { key, there, here } = difference;
                let _ = writeln!(text, "  {key}\n    Docker: {there:?}\n    vk:     {here:?}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCKER: &[u8] = b"env A\t1\nenv A\t2\nlimit files\t10 20\nonly there\tx\n";

    #[test]
    fn equal_sights_have_no_differences_whatever_their_order() {
        let other = b"limit files\t10 20\r\nenv A\t2\nonly there\tx\nenv A\t1\nno line of it\n";

        assert!(
            Sight::read(DOCKER)
                .differences(&Sight::read(other))
                .is_empty()
        );
    }

    #[test]
    fn what_is_changed_missing_or_new_is_a_difference() {
        let other = b"env A\t1\nlimit files\t10 20\nonly here\ty\n";

        let found = Sight::read(DOCKER).differences(&Sight::read(other));

        let found: Vec<_> = found
            .iter()
            .map(|found| (&*found.key, &*found.there, &*found.here))
            .collect();
        assert_eq!(
            found,
            [
                ("env A", "1\n2", "1"),
                ("only here", "", "y"),
                ("only there", "x", ""),
            ]
        );
    }

    #[test]
    fn only_what_is_listed_as_a_whole_is_explained() {
        let differences = Sight::read(b"a\t1\n").differences(&Sight::read(b"a\t22\n"));
        let meant = |here| Meant {
            key: "a",
            there: "1",
            here,
            why: "",
        };
        let mut used = BTreeSet::new();

        assert!(unexplained(&differences, &[&meant("2")], &mut used).contains("22"));
        assert!(used.is_empty());
        assert_eq!(unexplained(&differences, &[&meant("2+")], &mut used), "");
        assert!(used.contains("a"));
    }
}
