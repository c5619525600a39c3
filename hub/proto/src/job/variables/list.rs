//! The list of a job's variables, with GitLab Runner's idea of lookup and expansion.

use std::borrow::Cow;
use std::collections::HashMap;

use super::super::Variable;
use super::expand::expand;

/// Names the folder that file variables lie in (gitlab-runner, build §4.2).
const TEMP_DIR: &str = "RUNNER_TEMP_PROJECT_DIR";

/// Variables in their order; of several with one key the last one counts.
///
/// Its [`Debug`] output shows values of public variables only, without the others' values in them.
#[derive(Clone, Default)]
pub struct Variables {
    list: Vec<Variable>,
    last: HashMap<String, usize>,
}

impl Variables {
    /// The list in the order given, values as they are.
    #[must_use]
    pub fn new(list: Vec<Variable>) -> Self {
        let last = list
            .iter()
            .enumerate()
            .map(|(position, variable)| (variable.key.clone(), position))
            .collect();
        Self { list, last }
    }

    /// All entries in order, duplicates included.
    pub fn iter(&self) -> impl Iterator<Item = &Variable> {
        self.list.iter()
    }

    /// The entry that counts for `key`.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<&Variable> {
        self.last
            .get(key)
            .and_then(|position| self.list.get(*position))
    }

    /// The value of `key`: of a file variable its content; empty when there is none.
    #[must_use]
    pub fn value(&self, key: &str) -> &str {
        self.find(key).map_or("", |variable| &variable.value)
    }

    /// What a reference to `name` gives: `$` for itself, nothing for the shell's own names, the path of a file
    /// variable, else the value (gitlab-runner, build §4.3).
    #[must_use]
    pub fn referenced(&self, name: &str) -> Cow<'_, str> {
        match name {
            "$" => return Cow::Borrowed("$"),
            "*" | "#" | "@" | "!" | "?" => return Cow::Borrowed(""),
            digit
                if digit.len() == 1 && digit.starts_with(|first: char| first.is_ascii_digit()) =>
            {
                return Cow::Borrowed("");
            }
            _ => {}
        }
        match self.find(name) {
            Some(variable) if variable.file => Cow::Owned(self.file_path(&variable.key)),
            Some(variable) => Cow::Borrowed(&variable.value),
            None => Cow::Borrowed(""),
        }
    }

    /// Where the file variable `key` lies.
    #[must_use]
    pub fn file_path(&self, key: &str) -> String {
        match self.value(TEMP_DIR) {
            "" => key.to_owned(),
            folder => format!("{}/{key}", folder.trim_end_matches('/')),
        }
    }

    /// `text` with its references replaced by this list's values.
    #[must_use]
    pub fn expand(&self, text: &str) -> String {
        expand(text, |name| self.referenced(name))
    }

    /// The list with every value that is not raw expanded once, against the values as they are now: a value that
    /// is inserted keeps its own references (gitlab-runner, build §4.3).
    #[must_use]
    pub fn expanded(&self) -> Self {
        let list = self
            .list
            .iter()
            .map(|variable| {
                let mut expanded = variable.clone();
                if !variable.raw {
                    expanded.value = self.expand(&variable.value);
                }
                expanded
            })
            .collect();
        Self {
            list,
            last: self.last.clone(),
        }
    }

    /// Whether `key` reads as true: a boolean in any case, or the number 1 (gitlab-runner, build §4.3).
    #[must_use]
    pub fn is_true(&self, key: &str) -> bool {
        let value = self.value(key).to_lowercase();
        parse_bool(&value).unwrap_or_else(|| value.parse::<i64>().is_ok_and(|number| number == 1))
    }
}

impl FromIterator<Variable> for Variables {
    fn from_iter<I: IntoIterator<Item = Variable>>(variables: I) -> Self {
        Self::new(variables.into_iter().collect())
    }
}

/// Go's `strconv.ParseBool`; `None` for any other text (so for `yes`).
#[must_use]
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(key: &str, value: &str) -> Variable {
        Variable {
            key: key.into(),
            value: value.into(),
            ..Variable::default()
        }
    }

    fn file(key: &str, value: &str) -> Variable {
        Variable {
            file: true,
            ..variable(key, value)
        }
    }

    fn raw(key: &str, value: &str) -> Variable {
        Variable {
            raw: true,
            ..variable(key, value)
        }
    }

    /// The context of the table in gitlab-runner, build §4.3.
    fn table() -> Variables {
        Variables::new(vec![
            variable("A", "$B"),
            file("F", "content"),
            variable("RUNNER_TEMP_PROJECT_DIR", "/t.tmp"),
        ])
    }

    #[test]
    fn references_read_as_in_the_facts_table() {
        let cases = [
            ("$A", "$B"),
            ("${A}_B", "$B_B"),
            ("$A_B", ""),
            ("$$A", "$A"),
            ("$12", "2"),
            ("${12}", ""),
            ("$?x", "x"),
            ("$F", "/t.tmp/F"),
            ("${A", "A"),
            ("${", ""),
            ("${}", ""),
            ("${A:-d}", ""),
            ("$-", ""),
            ("${$}", "$"),
        ];
        for (text, expected) in cases {
            assert_eq!(table().expand(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_shells_own_names_are_empty_even_when_a_variable_has_them() {
        let variables = Variables::new(vec![variable("1", "one"), variable("?", "q")]);
        assert_eq!(variables.expand("[$1$?${1}]"), "[]");
    }

    /// gitlab-runner, wire §1.8.7.
    #[test]
    fn the_last_of_several_with_one_key_counts() {
        let variables = Variables::new(vec![variable("DUP", "1"), variable("DUP", "2")]);
        assert_eq!(variables.value("DUP"), "2");
        assert_eq!(variables.expand("$DUP"), "2");
        assert_eq!(variables.iter().count(), 2);
    }

    #[test]
    fn expansion_goes_one_level_deep() {
        let expanded = Variables::new(vec![
            variable("A", "$B"),
            variable("B", "$C"),
            variable("C", "x"),
            variable("X", "$X:y"),
        ])
        .expanded();
        assert_eq!(expanded.value("A"), "$C");
        assert_eq!(expanded.value("B"), "x");
        assert_eq!(expanded.value("X"), "$X:y:y");
    }

    /// gitlab-runner, wire §1.8.7.
    #[test]
    fn file_variables_give_their_path_and_raw_stops_all_expansion() {
        let value = "a$b${c}$$";
        let expanded = Variables::new(vec![
            variable("b", "B"),
            file("c", "content"),
            variable("RUNNER_TEMP_PROJECT_DIR", "/p.tmp"),
            variable("PLAIN", value),
            raw("RAW", value),
            file("FILE", value),
            Variable {
                raw: true,
                ..file("RAW_FILE", value)
            },
            variable("REF_RAW", "$RAW"),
            variable("REF_FILE", "$FILE"),
        ])
        .expanded();
        assert_eq!(expanded.value("PLAIN"), "aB/p.tmp/c$");
        assert_eq!(expanded.value("RAW"), value);
        assert_eq!(expanded.value("FILE"), "aB/p.tmp/c$");
        assert_eq!(expanded.value("RAW_FILE"), value);
        assert_eq!(expanded.value("REF_RAW"), value);
        assert_eq!(expanded.value("REF_FILE"), "/p.tmp/FILE");
    }

    /// gitlab-runner, wire §1.8.7.
    #[test]
    fn booleans_are_read_in_any_case_and_as_the_number_one() {
        let cases = [
            ("1", true),
            ("TrUe", true),
            ("T", true),
            ("+1", true),
            ("01", true),
            ("0", false),
            ("yes", false),
            ("2", false),
            ("", false),
        ];
        for (value, expected) in cases {
            let variables = Variables::new(vec![variable("K", value)]);
            assert_eq!(variables.is_true("K"), expected, "{value:?}");
        }
        assert!(!Variables::default().is_true("K"));
    }
}
