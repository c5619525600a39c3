//! `$NAME` in any text, with any variables.

use vk_hub_proto::job::Variable;
use vk_hub_proto::job::variables::{Variables, expand};

use super::input::Input;

/// Expands a text and a list of variables, made from `bytes`, and compares with the rules of gitlab-runner, build §4.3.
pub fn expansion(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let list: Vec<Variable> = (0..input.below(8))
        .map(|_| {
            let flags = input.byte();
            Variable {
                key: input.text(8),
                value: input.text(24),
                file: flags & 1 != 0,
                raw: flags & 2 != 0,
                ..Variable::default()
            }
        })
        .collect();
    let text = String::from_utf8_lossy(input.rest()).into_owned();

    let named = expand(&text, |name| format!("<{name}>").into());
    assert_eq!(named, by_the_rules(&text, |name| format!("<{name}>")));

    let variables = Variables::new(list.clone());
    assert_eq!(
        variables.expand(&text),
        by_the_rules(&text, |name| referenced(&list, name))
    );
    let expanded = variables.expanded();
    assert_eq!(expanded.iter().count(), list.len());
    for (before, after) in list.iter().zip(expanded.iter()) {
        let expected = match before.raw {
            true => before.value.clone(),
            false => by_the_rules(&before.value, |name| referenced(&list, name)),
        };
        assert_eq!(after.value, expected, "{:?}", before.key);
        assert_eq!((&after.key, after.file), (&before.key, before.file));
    }
}

/// What `name` stands for: the table in gitlab-runner, build §4.3, row by row.
fn referenced(list: &[Variable], name: &str) -> String {
    if name == "$" {
        return "$".to_owned();
    }
    if name.len() == 1 && "*#@!?0123456789".contains(name) {
        return String::new();
    }
    let last = |key: &str| list.iter().rfind(|variable| variable.key == key);
    match last(name) {
        Some(variable) if variable.file => match last("RUNNER_TEMP_PROJECT_DIR") {
            Some(folder) if !folder.value.is_empty() => {
                format!("{}/{name}", folder.value.trim_end_matches('/'))
            }
            _ => name.to_owned(),
        },
        Some(variable) => variable.value.clone(),
        None => String::new(),
    }
}

/// One pass over the letters, by the rules alone.
fn by_the_rules(text: &str, lookup: impl Fn(&str) -> String) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut out = String::new();
    let mut at = 0;
    while let Some(&letter) = letters.get(at) {
        at += 1;
        if letter != '$' {
            out.push(letter);
            continue;
        }
        let rest = letters.get(at..).unwrap_or_default();
        match rest.first() {
            Some('{') => match rest.iter().position(|&letter| letter == '}') {
                None => at += 1,
                Some(1) => at += 2,
                Some(end) => {
                    out.push_str(&lookup(&rest[1..end].iter().collect::<String>()));
                    at += end + 1;
                }
            },
            Some(&special) if "*#$@!?-0123456789".contains(special) => {
                out.push_str(&lookup(&special.to_string()));
                at += 1;
            }
            _ => {
                let name: String = rest
                    .iter()
                    .take_while(|letter| letter.is_ascii_alphanumeric() || **letter == '_')
                    .collect();
                match name.is_empty() {
                    true => out.push('$'),
                    false => out.push_str(&lookup(&name)),
                }
                at += name.len();
            }
        }
    }
    out
}
