//! Which keys a cache has, and what is said about them (gitlab-runner, wire §4.1 and wire §4.3).

use vk_hub_proto::job::Cache;
use vk_hub_proto::job::cache_key::sanitized;
use vk_hub_proto::job::variables::Variables;

use vk_text::quoted;

/// What keys of protected refs end in. GitLab adds it; a job must not (gitlab-runner, wire §4.3).
const PROTECTED: &str = "-protected";

/// The variable with the last key to try.
const FALLBACK_KEY: &str = "CACHE_FALLBACK_KEY";

/// A key, as people see it and as caches are found by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// As it stands in the trace.
    pub human: String,
    /// As it is stored.
    pub stored: String,
}

impl Key {
    fn new(human: &str, hash: bool) -> Self {
        let stored = if hash {
            vk_oci::Digest::of(human.as_bytes()).hex()
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
pub struct OwnKey {
    /// The key; `None` when nothing is left of it.
    pub key: Option<Key>,
    /// That it is not what the job wrote.
    pub warning: Option<String>,
}

/// The key of `cache`; `hash` is `FF_HASH_CACHE_KEYS`, under which it counts as it was written.
pub fn own(cache: &Cache, hash: bool) -> OwnKey {
    named(&cache.raw_key, &cache.key, hash)
}

/// The key that was written as `raw` and reads `clean` as a path.
fn named(raw: &str, clean: &str, hash: bool) -> OwnKey {
    if hash {
        let key = key_of(raw, true);
        return OwnKey { key, warning: None };
    }
    let warning = if raw == clean {
        None
    } else if clean.is_empty() {
        Some(format!("cache key {} could not be sanitized", quoted(raw)))
    } else {
        Some(format!(
            "cache key {} sanitized to {}",
            quoted(raw),
            quoted(clean)
        ))
    };
    let key = key_of(clean, false);
    OwnKey { key, warning }
}

/// What comes of the keys that are tried after a cache's own. All of it is told before the first key is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// A key is not what the job wrote, or not allowed.
    Warning(String),
    /// Nothing is left of a key.
    Empty,
    /// A key to try.
    Key(Key),
}

/// What comes of `cache`'s fallback keys and, after them, of the variable's, in the order in which it is told and tried.
pub fn fallbacks(cache: &Cache, variables: &Variables, hash: bool) -> Vec<Fallback> {
    let mut all = Vec::new();
    // One whose raw form was not sent is as it was written.
    let raw_keys = cache.raw_fallback_keys.iter().map(Some);
    let raw_keys = raw_keys.chain(std::iter::repeat(None));
    for (clean, raw) in cache.fallback_keys.iter().zip(raw_keys) {
        let raw = raw.unwrap_or(clean);
        let OwnKey { key, warning } = named(raw, clean, hash);
        all.extend(warning.map(Fallback::Warning));
        all.push(key.map_or(Fallback::Empty, Fallback::Key));
    }
    let last = variables.expand(variables.value(FALLBACK_KEY));
    if !last.is_empty() {
        let OwnKey { key, warning } = named(&last, &sanitized(&last), hash);
        all.extend(warning.map(Fallback::Warning));
        all.push(match key {
            None => Fallback::Empty,
            Some(key) if is_protected(&key) => Fallback::Warning(format!(
                "{FALLBACK_KEY} {} not allowed to end in {}",
                quoted(&key.human),
                quoted(PROTECTED)
            )),
            Some(key) => Fallback::Key(key),
        });
    }
    all
}

/// Whether it may be a protected ref's. What counts is the key that is looked for, not its spelling (gitlab-runner,
/// wire §4.3).
fn is_protected(key: &Key) -> bool {
    key.human.trim_end_matches(['.', ' ']).ends_with(PROTECTED)
}

fn key_of(human: &str, hash: bool) -> Option<Key> {
    (!human.is_empty()).then(|| Key::new(human, hash))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt;
    use vk_hub_proto::job::Variable;

    use super::*;
    use crate::caches::{ProgressReporting, ProjectCaches};
    use crate::spool::Spool;
    use vk_trace::output_channel;

    fn cache(raw_key: &str, key: &str) -> Cache {
        Cache {
            raw_key: raw_key.into(),
            key: key.into(),
            fallback_keys: vec!["fb".into(), String::new()],
            raw_fallback_keys: vec!["fb//".into(), "..".into()],
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

    /// Golden job 51; gitlab-runner, wire §4.1.
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

    /// gitlab-runner, wire §4.1.
    #[test]
    fn hashed_keys_count_as_they_were_written() {
        let key = own(&cache("some-job/some-ref", "x"), true).key.unwrap();
        assert_eq!(key.human, "some-job/some-ref");
        assert_eq!(
            key.stored,
            "d03a852ba491ba611e907b1ef60ad5c4516a05b8f3aae6abb77f42bc60325aed"
        );
    }

    /// Golden jobs 201 to 203.
    #[test]
    fn each_fallback_that_is_cleaned_or_empty_is_told_where_its_turn_is() {
        let told = |fallback: &str| -> Vec<String> {
            fallbacks(&cache("k", "k"), &variables(fallback), false)
                .into_iter()
                .map(|it| match it {
                    Fallback::Warning(text) => text,
                    Fallback::Empty => "empty".to_owned(),
                    Fallback::Key(key) => key.human,
                })
                .collect()
        };
        let own = [
            r#"cache key "fb//" sanitized to "fb""#,
            "fb",
            r#"cache key ".." could not be sanitized"#,
            "empty",
        ];
        assert_eq!(told(""), own);
        let after = told("x/../y ");
        assert_eq!(after[..4], own);
        assert_eq!(after[4..], [r#"cache key "x/../y " sanitized to "y""#, "y"]);
        let after = told("../.");
        assert_eq!(
            after[4..],
            [r#"cache key "../." could not be sanitized"#, "empty"]
        );
    }

    /// gitlab-runner, wire §4.3, and build §2.11, example 14.
    #[test]
    fn the_variables_key_comes_last_and_must_not_name_a_protected_ref() {
        for (written, refused) in [
            ("main-protected", "main-protected"),
            ("main-protected. .", "main-protected. ."),
            ("main-protected/", "main-protected"),
            ("main-protected%2f", "main-protected"),
            ("main-protected\\", "main-protected"),
            ("main-protected\t", "main-protected"),
            ("main-protected/x/..", "main-protected"),
            ("main-protected%2E/ /", "main-protected."),
        ] {
            let told = fallbacks(&Cache::default(), &variables(written), false);
            let refusal =
                format!("CACHE_FALLBACK_KEY \"{refused}\" not allowed to end in \"-protected\"");
            assert_eq!(
                told.last(),
                Some(&Fallback::Warning(refusal)),
                "{written:?}"
            );
            let is_cleaned = written != refused;
            assert_eq!(told.len(), 1 + usize::from(is_cleaned), "{told:?}");
        }
    }

    /// A hashed key counts as it was written: such a spelling names no protected ref's cache.
    #[test]
    fn a_hashed_key_must_not_name_a_protected_ref_either() {
        let of = |fallback: &str| {
            let mut all = fallbacks(&cache("k", "k"), &variables(fallback), true);
            assert_eq!(all.len(), 3, "nothing is told of a hashed key: {all:?}");
            all.remove(2)
        };
        assert!(matches!(of("main-protected"), Fallback::Warning(_)));
        let Fallback::Key(key) = of("main-protected/") else {
            panic!("no key")
        };
        assert_eq!(key.human, "main-protected/");
    }

    proptest! {
        /// No spelling of a protected ref's key gets past the check.
        #[test]
        fn no_fallback_of_the_variable_ends_as_protected_keys_do(
            end in r"([./\\ \t\n]|%2[fFeE]|x/\.\.){0,6}"
        ) {
            let all = fallbacks(&Cache::default(), &variables(&format!("main-protected{end}")), false);
            for it in all {
                if let Fallback::Key(key) = it {
                    prop_assert!(!key.stored.trim_end_matches(['.', ' ']).ends_with(PROTECTED), "{:?}", key);
                }
            }
        }
    }

    /// After a change of `FF_HASH_CACHE_KEYS` a key finds nothing that was stored under the other scheme, neither as
    /// its own nor as a fallback.
    #[tokio::test]
    async fn the_schemes_of_keys_never_mix() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("cache");
        let store = ProjectCaches::folder(root, 1 << 20, "ci-cache/h/7".to_owned(), false);
        let (output, _) = output_channel();
        let reporting = ProgressReporting {
            output: &output,
            every: None,
        };
        let key = |hash| {
            own(&cache("some-job/some-ref", "some-job/some-ref"), hash)
                .key
                .unwrap()
        };
        for (content, hash) in [(b"plain", false), (b"other", true)] {
            let found = store.fetch(&key(hash).stored, dir.path(), reporting).await;
            assert!(found.unwrap().is_none());
            let mut spool = Spool::create(dir.path()).unwrap();
            spool.write(content).await.unwrap();
            let archive = spool.finish().await.unwrap();
            store
                .store(&key(hash).stored, archive, reporting)
                .await
                .unwrap();
        }
        for (content, hash) in [(b"plain", false), (b"other", true)] {
            let found = store.fetch(&key(hash).stored, dir.path(), reporting).await;
            let mut read = Vec::new();
            found
                .unwrap()
                .unwrap()
                .read_to_end(&mut read)
                .await
                .unwrap();
            assert_eq!(read, content);
        }
        let fallback = |hash| {
            let all = fallbacks(&cache("k", "k"), &variables(""), hash);
            all.into_iter()
                .find_map(|it| match it {
                    Fallback::Key(key) => Some(key),
                    _ => None,
                })
                .unwrap()
        };
        assert_eq!(fallback(false).human, "fb");
        assert_eq!(fallback(true).human, "fb//");
        assert_eq!(
            fallback(true),
            own(&cache("fb//", "fb"), true).key.unwrap(),
            "a fallback finds what was stored as a key of its own"
        );
    }
}
