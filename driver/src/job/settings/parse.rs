//! Reading of single settings, with the warning that GitLab Runner prints for a bad one (gitlab-runner, build §1.5.2).

use vk_hub_proto::job::variables::{Variables, parse_bool};

use vk_text::quoted;

/// Reads settings from (expanded) variables and collects the warnings.
pub(super) struct Reader<'v> {
    variables: &'v Variables,
    pub(super) warnings: Vec<String>,
}

impl<'v> Reader<'v> {
    pub(super) fn new(variables: &'v Variables) -> Self {
        Self {
            variables,
            warnings: Vec::new(),
        }
    }

    pub(super) fn text(&self, name: &str) -> &'v str {
        self.variables.value(name)
    }

    pub(super) fn boolean(&mut self, name: &str, default: bool) -> bool {
        let text = self.text(name);
        if text.is_empty() {
            return default;
        }
        parse_bool(text).unwrap_or_else(|| {
            self.malformed("bool", name, text, &default.to_string());
            default
        })
    }

    pub(super) fn integer(&mut self, name: &str, default: i64) -> i64 {
        let text = self.text(name);
        if text.is_empty() {
            return default;
        }
        text.parse().unwrap_or_else(|_| {
            self.malformed("int", name, text, &default.to_string());
            default
        })
    }

    /// Words between white space; there is no quoting.
    pub(super) fn words(&self, name: &str) -> Vec<String> {
        self.text(name)
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    }

    /// Flags for git: the default when there are none, and none for the one word `none`.
    pub(super) fn flags(&self, name: &str, default: &[&str]) -> Vec<String> {
        let words = self.words(name);
        match words.as_slice() {
            [] => default.iter().map(|flag| (*flag).to_owned()).collect(),
            [none] if none == "none" => Vec::new(),
            _ => words,
        }
    }

    /// A number of attempts as it was read, put into its range.
    pub(super) fn clamped_attempts(&mut self, name: &str, attempts: i64) -> u32 {
        let clamped = u32::try_from(attempts.clamp(1, MAX_ATTEMPTS)).unwrap_or(1);
        if i64::from(clamped) != attempts {
            self.warnings.push(format!(
                "{name}: number of attempts out of the range [1, {MAX_ATTEMPTS}], clamping to: {clamped}"
            ));
        }
        clamped
    }

    fn malformed(&mut self, kind: &str, name: &str, text: &str, default: &str) {
        self.warnings.push(format!(
            "{name}: expected {kind} got {}, using default value: {default}",
            quoted(text)
        ));
    }
}

/// Most attempts at one stage (gitlab-runner, build §1.5.1).
const MAX_ATTEMPTS: i64 = 10;
