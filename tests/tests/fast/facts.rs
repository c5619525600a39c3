//! The sections of `docs/gitlab-runner`, and who cites them.
//!
//! Comments cite a section as `gitlab-runner,`, its document's name, `§` and its number; further ones behind it in the
//! same comment leave the first word out. So whoever reads a section finds its code, and its tests.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use vk_tests::vk::workspace;

/// The documents; each is a row of files by chapter.
const DOCUMENTS: [&str; 2] = ["build", "wire"];

/// A section of a document.
#[derive(Debug)]
struct Section {
    document: &'static str,
    number: String,
    /// Whether it holds nothing but examples: only tests have a use for those.
    is_example: bool,
}

impl Section {
    fn is_cited_as(&self, citation: &Citation) -> bool {
        citation.document == self.document && is_part(&citation.section, &self.number)
    }
}

/// The pages of `document` below `docs/gitlab-runner`.
fn pages(document: &str) -> Vec<PathBuf> {
    let folder = workspace().join("docs/gitlab-runner");
    let mut pages: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap();
            name.strip_prefix(document)
                .is_some_and(|rest| rest.starts_with(['-', '.']))
        })
        .collect();
    pages.sort();
    pages
}

/// The sections of a page, in its order.
fn page_sections(document: &'static str, text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        // The page's title has one `#`, a chapter two.
        let Some(heading) = line.strip_prefix("##").filter(|_| !is_code) else {
            continue;
        };
        let depth = heading.chars().take_while(|letter| *letter == '#').count();
        let (number, title) = heading[depth..].trim().split_once(' ').unwrap_or_default();
        let parts: Vec<_> = number.split('.').map(str::parse::<u8>).collect();
        assert!(
            parts.len() == depth + 1 && parts.iter().all(Result::is_ok) && !title.is_empty(),
            "{document}: a heading is its number, as deep as its `#`, and words: {line}"
        );
        let is_example = title.contains("(examples)")
            || sections
                .iter()
                .any(|section| section.is_example && is_part(number, &section.number));
        sections.push(Section {
            document,
            number: number.to_owned(),
            is_example,
        });
    }
    sections
}

fn all_sections() -> Vec<Section> {
    let of = |document| {
        pages(document)
            .into_iter()
            .flat_map(move |page| page_sections(document, &fs::read_to_string(page).unwrap()))
    };
    DOCUMENTS.into_iter().flat_map(of).collect()
}

/// Whether `section` is `whole` or lies within it.
fn is_part(section: &str, whole: &str) -> bool {
    section
        .strip_prefix(whole)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A source file.
struct Source {
    /// Where, below the workspace.
    path: PathBuf,
    text: String,
}

/// A citation of a section.
#[derive(Debug)]
struct Citation {
    document: String,
    section: String,
    /// Whether a test cites it.
    in_test: bool,
    path: PathBuf,
    /// Whether its comment names GitLab Runner before it.
    is_named: bool,
}

/// All sources below `folder` but this one.
fn sources(folder: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() && name != "target" && name != "out" && name != ".git" {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with(file!())
        {
            found.push(Source {
                text: fs::read_to_string(&path).unwrap(),
                path: path.strip_prefix(workspace()).unwrap().to_owned(),
            });
        }
    }
}

/// The lines of `text` that only tests see, and the modules in other files that only tests see.
fn test_parts(text: &str) -> (BTreeSet<usize>, Vec<String>) {
    let lines: Vec<&str> = text.lines().collect();
    let (mut test_lines, mut modules) = (BTreeSet::new(), Vec::new());
    for (at, line) in lines.iter().enumerate() {
        if line.trim() != "#[cfg(test)]" {
            continue;
        }
        // rustfmt puts an item's end as far in as its beginning.
        let indent = &line[..line.len() - line.trim_start().len()];
        let head = (at..lines.len())
            .find(|&number| lines[number].ends_with(['{', ';']))
            .unwrap();
        let end = match lines[head].ends_with('{') {
            true => (head..lines.len())
                .find(|&number| lines[number].strip_prefix(indent) == Some("}"))
                .unwrap(),
            false => head,
        };
        test_lines.extend(at..=end);
        let module = lines[head].strip_suffix(';').and_then(|head| {
            let (_, name) = head.rsplit_once("mod ")?;
            Some(name.to_owned())
        });
        modules.extend(module);
    }
    (test_lines, modules)
}

/// The files and folders of modules that only tests see, by their paths without `.rs`.
fn test_modules(sources: &[Source]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for source in sources {
        let below = match source.path.file_name().and_then(|name| name.to_str()) {
            Some("lib.rs" | "main.rs" | "mod.rs") => source.path.parent().unwrap().to_owned(),
            _ => source.path.with_extension(""),
        };
        let (_, modules) = test_parts(&source.text);
        found.extend(modules.iter().map(|module| below.join(module)));
    }
    found
}

/// The comments of `text`, each as one line, with the number of its first line.
fn comments(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in text.lines().enumerate() {
        let (code, comment) = line.split_once("//").unwrap_or((line, ""));
        let words = comment.trim_start_matches(['/', '!']).trim();
        match found.last_mut() {
            Some((_, comment)) if goes_on && code.trim().is_empty() => {
                comment.push(' ');
                comment.push_str(words);
            }
            _ => found.push((number, words.to_owned())),
        }
        goes_on = code.trim().is_empty() && !comment.is_empty();
    }
    found
}

/// The document and the section of each `§` in `text`; an empty document where none is named.
fn references(text: &str) -> Vec<(usize, &str, &str)> {
    let mut found = Vec::new();
    for (at, sign) in text.match_indices('§') {
        let behind = &text[at + sign.len()..];
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let end = behind
            .find(|letter| !is_number(letter))
            .unwrap_or(behind.len());
        let section = behind[..end].trim_end_matches('.');
        if section.is_empty() {
            continue;
        }
        let document = text[..at].strip_suffix(' ').and_then(|before| {
            let name = before.rsplit([' ', '(']).next()?;
            DOCUMENTS.contains(&name).then_some(name)
        });
        found.push((at, document.unwrap_or_default(), section));
    }
    found
}

fn citations(source: &Source, all_is_test: bool) -> Vec<Citation> {
    let (test_lines, _) = test_parts(&source.text);
    let mut found = Vec::new();
    for (number, comment) in comments(&source.text) {
        for (at, document, section) in references(&comment) {
            found.push(Citation {
                document: document.to_owned(),
                section: section.to_owned(),
                in_test: all_is_test || test_lines.contains(&number),
                path: source.path.clone(),
                is_named: comment[..at].contains("gitlab-runner, "),
            });
        }
    }
    found
}

fn all_citations() -> Vec<Citation> {
    let mut all = Vec::new();
    for part in [
        "agent", "archive", "driver", "fuzz", "hub", "node", "relay", "tests",
    ] {
        sources(&workspace().join(part), &mut all);
    }
    let modules = test_modules(&all);
    all.iter()
        .flat_map(|source| {
            let stem = source.path.with_extension("");
            let is_test = source.path.iter().any(|part| part == "tests")
                || modules.iter().any(|module| stem.starts_with(module));
            citations(source, is_test)
        })
        .collect()
}

#[test]
fn each_section_is_cited_by_code_and_by_a_test() {
    let (sections, citations) = (all_sections(), all_citations());
    assert!(!sections.is_empty());
    let mut missing = Vec::new();
    for section in &sections {
        for (in_test, who) in [(false, "code"), (true, "test")] {
            let is_cited = citations
                .iter()
                .any(|citation| citation.in_test == in_test && section.is_cited_as(citation));
            if !is_cited && (in_test || !section.is_example) {
                missing.push(format!(
                    "no {who} cites {} §{}",
                    section.document, section.number
                ));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn each_citation_names_its_document_and_a_section_that_there_is() {
    let sections = all_sections();
    let is_section = |document: &str, number: &str| {
        sections
            .iter()
            .any(|section| section.document == document && section.number == number)
    };
    let wrong: Vec<_> = all_citations()
        .into_iter()
        .filter(|citation| !citation.is_named || !is_section(&citation.document, &citation.section))
        .map(|citation| {
            let Citation {
                path,
                document,
                section,
                ..
            } = citation;
            format!("{}: {document} §{section}", path.display())
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "not `gitlab-runner, build §…` of a section in docs/gitlab-runner: {wrong:#?}"
    );
}

#[test]
fn references_within_the_documents_lead_to_a_section() {
    let sections = all_sections();
    for own in DOCUMENTS {
        for page in pages(own) {
            let text = fs::read_to_string(&page).unwrap();
            for (_, document, number) in references(&text.replace('\n', " ")) {
                let document = if document.is_empty() { own } else { document };
                assert!(
                    sections
                        .iter()
                        .any(|section| section.document == document && section.number == number),
                    "{}: there is no {document} §{number}",
                    page.display()
                );
            }
        }
    }
}

#[test]
fn each_section_is_there_once_and_within_a_chapter() {
    let sections = all_sections();
    let mut seen = BTreeSet::new();
    for Section {
        document, number, ..
    } in &sections
    {
        assert!(
            seen.insert((document, number)),
            "{document} §{number} twice"
        );
        if let Some((chapter, _)) = number.rsplit_once('.') {
            assert!(
                seen.contains(&(document, &chapter.to_owned())),
                "{document} §{number} is not below §{chapter}"
            );
        }
    }
}

/// The check itself: what is code, what is a test, and which section is meant.
#[test]
fn citations_of_code_and_of_tests_are_told_apart() {
    let section = '§';
    let source = Source {
        path: "driver/src/a.rs".into(),
        text: format!(
            "//! By rules (gitlab-runner,\n//! build {section}1.2.1, and wire {section}1.8-3).\n\
             #[cfg(test)]\nmod other;\n\
             #[cfg(test)]\nmod tests {{\n    /// gitlab-runner, build {section}2.9.7.\n    fn f() {{\n    }}\n}}\n\
             // {section}3.1\n\nlet a; // build {section}1.20\n"
        ),
    };

    let found = citations(&source, false);

    let found: Vec<_> = found
        .iter()
        .map(|found| {
            (
                &*found.document,
                &*found.section,
                found.in_test,
                found.is_named,
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("build", "1.2.1", false, true),
            ("wire", "1.8", false, true),
            ("build", "2.9.7", true, true),
            ("", "3.1", false, false),
            ("build", "1.20", false, false),
        ]
    );
    assert_eq!(
        test_modules(&[source]),
        [PathBuf::from("driver/src/a/other")]
    );
}

#[test]
fn a_chapter_of_examples_has_examples_only() {
    let text = "# wire\n## 8 Tests (examples)\n```\n## none\n```\n### 8.1 Calls\n## 9 More\n";
    let sections: Vec<_> = page_sections("wire", text)
        .into_iter()
        .map(|section| (section.number, section.is_example))
        .collect();
    let expected = [("8", true), ("8.1", true), ("9", false)];
    assert_eq!(
        sections,
        expected.map(|(number, is_example)| (number.to_owned(), is_example))
    );
}
