//! JSON that strangers wrote.

use serde::de::DeserializeOwned;

/// Longest text of the reader that is told, in characters: it may repeat what it does not like.
const MAX_PROBLEM: usize = 300;

/// Reads `bytes`; what is wrong is told in one short line with the path of the field, as in `` `config.Env`: … ``.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        match error.path().to_string().as_str() {
            "." => short(&error.inner().to_string()),
            path => short(&format!("`{path}`: {}", error.inner())),
        }
    })?;
    reader.end().map_err(|error| short(&error.to_string()))?;
    Ok(value)
}

fn short(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    plain.take(MAX_PROBLEM).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_is_wrong_is_told_with_its_place_in_a_short_line() {
        let read = |text: &str| read::<BTreeMap<String, Vec<u8>>>(text.as_bytes());

        assert!(read(r#"{"a": [1, 2]}"#).is_ok());
        let error = read(r#"{"a": [1, "x"]}"#).unwrap_err();
        assert!(error.starts_with("`a[1]`: invalid type: string"), "{error}");
        let error = read(&format!(r#"{{"a": "{}"}}"#, "\\u001b".repeat(9999))).unwrap_err();
        assert_eq!(error.chars().count(), MAX_PROBLEM);
        assert!(!error.contains('\u{1b}'), "{error}");
        for broken in ["", "{", "[]", "{} {}"] {
            assert!(read(broken).is_err(), "{broken}");
        }
    }
}
