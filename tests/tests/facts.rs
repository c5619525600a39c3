//! Each section of GitLab Runner's facts that the job side follows is named in the code.
//!
//! Comments cite the two documents as `facts, build §N` (the build side: stages, scripts, sources, variables,
//! logger) and `facts, wire §N` (network, archives, caches), each section with its document's name before it. So
//! whoever reads a fact finds its code, and by the same citation its tests.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::Path;

use vk_tests::vk::workspace;

/// Sections whose rules are built. A citation of a part (`build §2.3.1`) is one of the whole (`build §2.3`).
const BUILD: [&str; 55] = [
    "0.2", "0.3", "0.4", "1.1", "1.2", "1.2.1", "1.2.2", "1.3", "1.5.1", "1.5.2", "1.5.3", "1.6",
    "1.7", "1.8", "1.9.1", "1.9.2", "1.9.3", "1.9.4", "1.10", "1.11", "2.1", "2.2", "2.3.1",
    "2.3.2", "2.4", "2.5", "2.6", "2.7", "2.8", "2.9", "2.10", "2.11", "3.1", "3.2", "3.3", "3.4",
    "3.5", "3.6", "3.7", "3.8", "4.1", "4.2", "4.3", "4.4", "4.5", "4.6", "5", "6.1", "6.2", "6.3",
    "6.4", "6.5", "6.6", "6.7", "3.4.1",
];
const WIRE: [&str; 16] = [
    "1.8.1", "1.8.2", "1.8.3", "1.8.4", "1.8.5", "1.8.6", "1.8.7", "1.12", "1.13", "4.1", "4.3",
    "5.3", "8.1", "8.4", "8.6", "8.7",
];

/// The text of all sources below `folder`.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() && name != "target" && name != "out" && name != ".git" {
            sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn each_section_of_the_facts_that_is_built_is_cited() {
    let mut text = String::new();
    for part in ["agent", "driver", "hub", "node", "relay", "tests"] {
        sources(&workspace().join(part), &mut text);
    }
    let mut missing = Vec::new();
    for (document, sections) in [("build", BUILD.as_slice()), ("wire", WIRE.as_slice())] {
        for section in sections {
            let citation = format!("{document} §{section}");
            let cited = text.match_indices(&citation).any(|(at, found)| {
                let rest = text.get(at + found.len()..).unwrap_or_default();
                !rest.starts_with(|next: char| next.is_ascii_digit())
            });
            if !cited {
                missing.push(citation);
            }
        }
    }
    assert!(missing.is_empty(), "cited nowhere: {missing:?}");
}
