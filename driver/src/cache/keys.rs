//! Which keys a cache has, and what is said about them (facts, wire §4.1 and §4.3).

use vk_hub_proto::job::Cache;
use vk_hub_proto::job::cache_key::sanitized;
use vk_hub_proto::job::variables::Variables;

use crate::job::script::quoted;

/// What keys of protected refs end in. GitLab adds it; a job must not (facts, wire §4.3).
const PROTECTED: &str = "-protected";

/// The variable with the last key to try.
const FALLBACK_KEY: &str = "CACHE_FALLBACK_KEY";

/// A key, as people see it and as caches are found by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// As it stands in the trace.
    pub(crate) human: String,
    /// As it is stored.
    pub(crate) stored: String,
}

impl Key {
    fn new(human: &str, hash: bool) -> Self {
        let stored = if hash {
            crate::registry::Digest::of(human.as_bytes()).hex()
        } else {
            human.to_owned()
        };
        Self {
            human: human.to_owned(),
            stored,
        }
    }
}

/// A cache's own key, and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnKey {
    /// The key; `None` when nothing is left of it.
    pub(crate) key: Option<Key>,
    /// That it is not what the job wrote.
    pub(crate) warning: Option<String>,
}

/// The key of `cache`; `hash` is `FF_HASH_CACHE_KEYS`, under which it counts as it was written.
pub(crate) fn own(cache: &Cache, hash: bool) -> OwnKey {
    if hash {
        let key = (!cache.raw_key.is_empty()).then(|| Key::new(&cache.raw_key, true));
        return OwnKey { key, warning: None };
    }
    let warning = if cache.raw_key == cache.key {
        None
    } else if cache.key.is_empty() {
        Some(format!(
            "cache key {} could not be sanitized",
            quoted(&cache.raw_key)
        ))
    } else {
        Some(format!(
            "cache key {} sanitized to {}",
            quoted(&cache.raw_key),
            quoted(&cache.key)
        ))
    };
    let key = (!cache.key.is_empty()).then(|| Key::new(&cache.key, false));
    OwnKey { key, warning }
}

/// The keys to try after the cache's own, in order, and the warning about one that is not allowed.
pub(crate) fn fallbacks(
    cache: &Cache,
    variables: &Variables,
    hash: bool,
) -> (Vec<Key>, Option<String>) {
    let mut keys: Vec<Key> = cache
        .fallback_keys
        .iter()
        .filter(|key| !key.is_empty())
        .map(|key| Key::new(key, hash))
        .collect();
    let last = variables.expand(variables.value(FALLBACK_KEY));
    let mut warning = None;
    if last.trim_end_matches(['.', ' ']).ends_with(PROTECTED) {
        warning = Some(format!(
            "{FALLBACK_KEY} {} not allowed to end in {}",
            quoted(&last),
            quoted(PROTECTED)
        ));
    } else {
        let human = if hash { last } else { sanitized(&last) };
        if !human.is_empty() {
            keys.push(Key::new(&human, hash));
        }
    }
    (keys, warning)
}

#[cfg(test)]
mod tests {
    use vk_hub_proto::job::Variable;

    use super::*;

    fn cache(raw_key: &str, key: &str) -> Cache {
        Cache {
            raw_key: raw_key.into(),
            key: key.into(),
            fallback_keys: vec!["fb".into()],
            ..Cache::default()
        }
    }

    fn variables(fallback: &str) -> Variables {
        Variables::new(vec![Variable {
            key: FALLBACK_KEY.into(),
            value: fallback.into(),
            ..Variable::default()
        }])
    }

    /// Golden job 51; facts, wire §4.1.
    #[test]
    fn a_key_that_was_changed_is_told_and_one_of_which_nothing_is_left_is_none() {
        let odd = own(&cache("a/../b\\c %2f x ", "b/c / x"), false);
        assert_eq!(odd.key.unwrap().human, "b/c / x");
        assert_eq!(
            odd.warning.unwrap(),
            r#"cache key "a/../b\\c %2f x " sanitized to "b/c / x""#
        );
        let gone = own(&cache("../.", ""), false);
        assert_eq!(gone.key, None);
        assert_eq!(
            gone.warning.unwrap(),
            r#"cache key "../." could not be sanitized"#
        );
        assert_eq!(
            own(&cache("", ""), false),
            OwnKey {
                key: None,
                warning: None
            }
        );
    }

    /// Facts, wire §4.1.
    #[test]
    fn hashed_keys_count_as_they_were_written() {
        let key = own(&cache("some-job/some-ref", "x"), true).key.unwrap();
        assert_eq!(key.human, "some-job/some-ref");
        assert_eq!(
            key.stored,
            "d03a852ba491ba611e907b1ef60ad5c4516a05b8f3aae6abb77f42bc60325aed"
        );
    }

    /// Facts, wire §4.3, and build, example 14.
    #[test]
    fn the_variables_key_comes_last_and_must_not_name_a_protected_ref() {
        let human = |fallback: &str| {
            let (keys, warning) = fallbacks(&cache("k", "k"), &variables(fallback), false);
            let keys: Vec<String> = keys.into_iter().map(|key| key.human).collect();
            (keys, warning)
        };
        assert_eq!(human(""), (vec!["fb".to_owned()], None));
        assert_eq!(
            human("x/../y "),
            (vec!["fb".to_owned(), "y".to_owned()], None)
        );
        for refused in ["main-protected", "main-protected. ."] {
            let (keys, warning) = human(refused);
            assert_eq!(keys, ["fb"]);
            assert_eq!(
                warning.unwrap(),
                format!("CACHE_FALLBACK_KEY \"{refused}\" not allowed to end in \"-protected\"")
            );
        }
    }
}
