//! `docs/differences.md`: each difference is held by a test that exists.

use std::fs;

use regex::Regex;
use vk_tests::vk::workspace;

/// The entries of the page: list items and rows of tables, each in one line.
fn entries(page: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        let is_item = ["- ", "* "].iter().any(|mark| line.starts_with(mark));
        // The rest of an item is indented.
        if is_open && line.starts_with("  ") {
            let entry = entries.last_mut().unwrap();
            entry.push(' ');
            entry.push_str(line.trim());
            continue;
        }
        is_open = is_item;
        if is_item || line.starts_with('|') {
            entries.push(line.to_owned());
        }
    }
    entries
}

/// The tests that `text` names: file and function.
fn named(text: &str) -> Vec<(String, String)> {
    let test = Regex::new(r"`([\w/.-]+\.rs): (\w+)`").unwrap();
    test.captures_iter(text)
        .map(|found| (found[1].to_owned(), found[2].to_owned()))
        .collect()
}

/// Whether `code` has a test of that name.
fn has_test(code: &str, name: &str) -> bool {
    let attributes = r"^\s*#\[(?:tokio::)?test[^\]]*\]\s*((?:#\[[^\]]*\]\s*)*)";
    let test = Regex::new(&format!(r"(?m){attributes}(?:async )?fn {name}\(")).unwrap();
    let ignored = |found: regex::Captures<'_>| found[1].contains("ignore");
    test.captures(code).is_some_and(|found| !ignored(found))
}

#[test]
fn every_difference_names_a_test_that_holds_it() {
    let page = fs::read_to_string(workspace().join("docs/differences.md")).unwrap();
    let entries = entries(&page);
    assert!(!entries.is_empty());

    for entry in &entries {
        let tests = named(entry);
        assert!(!tests.is_empty(), "no test holds this: {entry}");
    }
    for (file, name) in named(&page) {
        let code = fs::read_to_string(workspace().join(&file));
        let code = code.unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(has_test(&code, &name), "{file} has no test {name}");
    }
}

#[test]
fn entries_and_tests_are_found() {
    let page = "# A page\n\n- one\n  `a/b-c.rs: x`\n\n  `a/d.rs: y`\n- two\ntext `a/e.rs: z`\n  no entry\n| row |\n";

    let found = entries(page);

    assert_eq!(
        found,
        ["- one `a/b-c.rs: x`", "- two", "| row |"],
        "what an empty line cuts off is no part"
    );
    assert_eq!(named(&found[0]), [("a/b-c.rs".into(), "x".into())]);
    let code = "    #[tokio::test]\n    #[expect(lint)]\n    async fn there() {}\n\nfn helper() {}\n\
                #[test]\n#[ignore = \"x\"]\nfn ignored() {}\n//#[test]\n//fn gone() {}\n";
    assert!(has_test(code, "there"));
    assert!(!has_test(code, "ignored"));
    assert!(!has_test(code, "gone"));
    assert!(!has_test(code, "helper"));
    assert!(!has_test(code, "the"));
}
