//! Each section of GitLab Runner's facts that the job side follows is named in the code and in a test.
//!
//! Comments cite the two documents: build (stages, scripts, sources, variables, logger) and wire (network, archives,
//! caches), each section as `facts,`, its document's name, `§` and its number. So whoever reads a fact finds its code,
//! and by the same citation its tests.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use vk_tests::vk::workspace;

/// Sections whose rules are built.
const BUILT: [(&str, &[&str]); 2] = [
    (
        "build",
        &[
            "0.2", "0.3", "1.1", "1.2", "1.2.1", "1.2.2", "1.3", "1.5.1", "1.5.2", "1.5.3", "1.6",
            "1.7", "1.8", "1.9.1", "1.9.2", "1.9.3", "1.9.4", "1.10", "2.1", "2.2", "2.3.1",
            "2.3.2", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9", "2.10", "3.1", "3.2", "3.3",
            "3.4.1", "3.4.2", "3.5", "3.6", "3.7", "3.8", "4.1", "4.2", "4.3", "4.4", "4.5", "4.6",
            "5", "6.1", "6.2", "6.3", "6.4", "6.5", "6.6", "6.7",
        ],
    ),
    (
        "wire",
        &[
            "1.1", "1.2", "1.3", "1.4", "1.8.1", "1.8.2", "1.8.3", "1.8.4", "1.8.5", "1.8.6",
            "1.8.7", "1.12", "1.13", "1.14", "1.15", "3.1", "3.2", "3.3", "3.4", "3.4.1", "3.4.2",
            "3.4.3", "3.4.4", "3.4.5", "3.5", "3.6", "4.1", "4.3", "4.4", "4.5", "4.6", "4.7",
            "5.1", "5.2", "5.3", "5.7",
        ],
    ),
];

/// Sections of nothing but examples: only tests have a use for them.
const EXAMPLES: [(&str, &[&str]); 2] = [
    ("build", &["0.4", "1.11", "2.11"]),
    (
        "wire",
        &["8.1", "8.4", "8.5", "8.6", "8.7", "8.8", "8.9", "8.10"],
    ),
];

/// Sections that are not built, and why.
const LEFT_OUT: [(&str, &[&str], &str); 17] = [
    ("build", &["0.1", "8"], "about the document"),
    ("build", &["7"], "repeats what the other sections say"),
    (
        "build",
        &["1.4"],
        "a VM that does not start ends the job as `system`: GitLab's `retry` starts another",
    ),
    (
        "build",
        &["2.3.3"],
        "a cache's metadata go to the agent in a message, not in a dot-env file",
    ),
    (
        "build",
        &["3.4.3", "3.9"],
        "git runs on the host: there is no script of it, and no `git clone`",
    ),
    ("wire", &["1.5"], "1.14 and 1.15 are the two calls of a job"),
    (
        "wire",
        &["1.6", "1.7", "1.9", "1.10", "1.11"],
        "asking GitLab for jobs and reporting them belongs to a daemon",
    ),
    (
        "wire",
        &[
            "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9",
        ],
        "so do poll loop, configuration, signals and metrics",
    ),
    (
        "wire",
        &["3.7"],
        "vk makes no statements of provenance; a warning says so",
    ),
    ("wire", &["4.2"], "about GitLab's server alone"),
    (
        "wire",
        &["4.8", "4.9", "4.10"],
        "caches are in an OCI registry or on the host, not in object storage",
    ),
    ("wire", &["5.4", "5.5", "5.6"], "services do not run"),
    ("wire", &["6"], "jobs of the Job Router belong to a daemon"),
    (
        "wire",
        &["7.1", "7.2", "7.3", "7.4", "7.5"],
        "repeats chapter 6 of build",
    ),
    ("wire", &["7.6"], "there is no step-runner"),
    (
        "wire",
        &["8.2", "8.3", "8.11", "8.12"],
        "checklists of what a daemon does",
    ),
    ("wire", &["9"], "repeats what the other sections say"),
];

/// A source file.
struct Source {
    /// Where, below the workspace.
    path: PathBuf,
    text: String,
}

/// A citation of a section.
struct Citation {
    document: String,
    section: String,
    /// Whether a test cites it.
    in_test: bool,
    path: PathBuf,
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

/// The citations of `source`, and the sections that it cites without a document.
fn citations(source: &Source, all_is_test: bool) -> (Vec<Citation>, Vec<String>) {
    let (test_lines, _) = test_parts(&source.text);
    let (mut found, mut bare) = (Vec::new(), Vec::new());
    for (number, line) in source.text.lines().enumerate() {
        for (at, _) in line.match_indices('§') {
            let section: String = line[at + '§'.len_utf8()..]
                .chars()
                .take_while(|letter| letter.is_ascii_digit() || *letter == '.')
                .collect();
            let section = section.trim_end_matches('.');
            if section.is_empty() {
                continue;
            }
            let before = line[..at].trim_end_matches(' ');
            match ["build", "wire", "fleet"]
                .iter()
                .find(|name| before.ends_with(**name))
            {
                None => bare.push(format!("{}:{}", source.path.display(), number + 1)),
                Some(document) => found.push(Citation {
                    document: (*document).to_owned(),
                    section: section.to_owned(),
                    in_test: all_is_test || test_lines.contains(&number),
                    path: source.path.clone(),
                }),
            }
        }
    }
    (found, bare)
}

fn all_citations() -> (Vec<Citation>, Vec<String>) {
    let mut all = Vec::new();
    for part in [
        "agent", "archive", "driver", "hub", "node", "relay", "tests",
    ] {
        sources(&workspace().join(part), &mut all);
    }
    let modules = test_modules(&all);
    let (mut found, mut bare) = (Vec::new(), Vec::new());
    for source in &all {
        let stem = source.path.with_extension("");
        let is_test = source.path.iter().any(|part| part == "tests")
            || modules.iter().any(|module| stem.starts_with(module));
        let (more, more_bare) = citations(source, is_test);
        found.extend(more);
        bare.extend(more_bare);
    }
    (found, bare)
}

/// Every section that is listed here, with its document.
fn listed() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lists = BUILT.into_iter().chain(EXAMPLES);
    let left_out = LEFT_OUT.into_iter().map(|(name, list, _)| (name, list));
    lists
        .chain(left_out)
        .flat_map(|(name, list)| list.iter().map(move |section| (name, *section)))
}

fn is_part(section: &str, whole: &str) -> bool {
    section
        .strip_prefix(whole)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The listed section that a citation is of: itself or the closest one around it.
fn closest(citation: &Citation) -> Option<&'static str> {
    listed()
        .filter(|(document, section)| {
            *document == citation.document && is_part(&citation.section, section)
        })
        .map(|(_, section)| section)
        .max_by_key(|section| section.len())
}

/// Whether anything cites `section`: code, and tests.
fn cited(citations: &[Citation], document: &str, section: &str) -> (bool, bool) {
    let by = |test: bool| {
        citations.iter().any(|citation| {
            citation.in_test == test
                && citation.document == document
                && closest(citation) == Some(section)
        })
    };
    (by(false), by(true))
}

#[test]
fn each_section_that_is_built_is_cited_by_code_and_by_a_test() {
    let (citations, _) = all_citations();
    let mut missing = Vec::new();
    for (document, sections) in BUILT {
        for section in sections {
            let (code, test) = cited(&citations, document, section);
            for (is_cited, what) in [(code, "code"), (test, "test")] {
                if !is_cited {
                    missing.push(format!("no {what} cites {document} §{section}"));
                }
            }
        }
    }
    for (document, sections) in EXAMPLES {
        for section in sections {
            if !cited(&citations, document, section).1 {
                missing.push(format!("no test cites {document} §{section}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn what_is_left_out_is_not_built() {
    let (citations, _) = all_citations();
    for (document, sections, reason) in LEFT_OUT {
        for section in sections {
            let (code, test) = cited(&citations, document, section);
            assert!(
                !(code && test),
                "{document} §{section} has code and a test, though: {reason}"
            );
        }
    }
}

#[test]
fn citations_name_their_document_and_a_section_that_there_is() {
    let (citations, bare) = all_citations();
    assert!(
        bare.is_empty(),
        "`§` without a document before it: {bare:#?}"
    );
    for citation in citations {
        let is_chapter = || {
            listed().any(|(document, section)| {
                document == citation.document && is_part(section, &citation.section)
            })
        };
        assert!(
            citation.document == "fleet" || closest(&citation).is_some() || is_chapter(),
            "{}: there is no {} §{}",
            citation.path.display(),
            citation.document,
            citation.section
        );
    }
}

#[test]
fn no_section_is_listed_twice() {
    let mut seen = BTreeSet::new();
    for section in listed() {
        assert!(seen.insert(section), "{section:?}");
    }
}

/// The check itself: what is code, what is a test, and which section is meant.
#[test]
fn citations_of_code_and_of_tests_are_told_apart() {
    let section = '§';
    let source = Source {
        path: "driver/src/a.rs".into(),
        text: format!(
            "//! Facts, build {section}1.2.1, and wire {section}1.8.\n\
             #[cfg(test)]\nmod other;\n\
             #[cfg(test)]\nmod tests {{\n    // Facts, build {section}2.9.7.\n    fn f() {{\n    }}\n}}\n\
             // {section}3.1\n// build {section}1.20-3\n"
        ),
    };

    let (found, bare) = citations(&source, false);

    let found: Vec<_> = found
        .iter()
        .map(|found| (&*found.section, found.in_test, closest(found)))
        .collect();
    assert_eq!(
        found,
        [
            ("1.2.1", false, Some("1.2.1")),
            ("1.8", false, None),
            ("2.9.7", true, Some("2.9")),
            ("1.20", false, None),
        ]
    );
    assert_eq!(bare, ["driver/src/a.rs:10"]);
    assert_eq!(
        test_modules(&[source]),
        [PathBuf::from("driver/src/a/other")]
    );
}
