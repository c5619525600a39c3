//! What of a masked value is looked for.

/// Shortest line, in bytes, that is looked for by itself. Shorter ones, the brackets of a JSON
/// value say, would hide innocent text all over the trace.
const SHORTEST_LINE: usize = 8;

/// The byte strings that `values` make secret.
///
/// As GitLab Runner has it (gitlab-runner, build §6.2): a value without the white space around it, of any
/// length. Stricter than it: also each line of a value of several, if it has 8 bytes or more, so
/// that `head -1 key.pem` is masked as `cat key.pem` is.
pub(super) fn patterns<'a>(values: impl IntoIterator<Item = &'a str>) -> Vec<Vec<u8>> {
    let mut patterns = Vec::new();
    for value in values {
        let value = value.trim();
        let lines = value
            .lines()
            .map(str::trim)
            .filter(|line| line.len() >= SHORTEST_LINE);
        patterns.extend(
            [value]
                .into_iter()
                .chain(lines)
                .map(|text| text.as_bytes().to_vec()),
        );
    }
    patterns.sort();
    patterns.dedup();
    patterns.retain(|pattern| !pattern.is_empty());
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(value: &str) -> Vec<String> {
        let patterns = patterns([value]).into_iter();
        patterns.map(|p| String::from_utf8(p).unwrap()).collect()
    }

    #[test]
    fn white_space_around_a_value_does_not_count() {
        assert_eq!(texts("  pad \n"), ["pad"]);
    }

    #[test]
    fn a_blank_value_is_no_secret() {
        assert!(texts(" \n\t ").is_empty());
    }

    #[test]
    fn lines_of_eight_bytes_count_and_shorter_ones_do_not() {
        assert_eq!(
            texts("{\r\n  \"a\": 1234\r\n  1234567\n}"),
            ["\"a\": 1234", "{\r\n  \"a\": 1234\r\n  1234567\n}"]
        );
    }
}
