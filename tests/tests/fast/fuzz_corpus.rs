//! The fuzz targets on stable: what the fuzzer found worth keeping (docs/testing.md), and some random bytes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;

use proptest::prelude::*;
use vk_tests::fuzz;

fn replay(target: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus")
        .join(target);
    let mut files: Vec<_> = std::fs::read_dir(&corpus)
        .unwrap_or_else(|error| panic!("{}: {error}", corpus.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no corpus in {}", corpus.display());
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        if let Err(failure) = std::panic::catch_unwind(|| run(&bytes)) {
            eprintln!("with {}", file.display());
            std::panic::resume_unwind(failure);
        }
    }
}

#[test]
fn job_responses_keep_their_promises() {
    replay("job_response", fuzz::job_response);
}

#[test]
fn expansions_keep_their_promises() {
    replay("expansion", fuzz::expansion);
}

#[test]
fn traces_keep_their_promises() {
    replay("trace", fuzz::trace);
}

#[test]
fn frames_keep_their_promises() {
    replay("frames", fuzz::frames);
}

#[test]
fn zips_keep_their_promises() {
    replay("zip", fuzz::zip);
}

#[test]
fn tars_keep_their_promises() {
    replay("tar", fuzz::tar);
}

#[test]
fn matchers_keep_their_promises() {
    replay("matcher", fuzz::matcher);
}

#[test]
fn layers_keep_their_promises() {
    replay("layers", fuzz::layers);
}

/// Bytes among which small numbers and the letters of secrets, references and stamps are likely.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        3 => 0u8..8,
        3 => proptest::sample::select(&b"ab$?&=-_{}\r\n \"\\"[..]),
        1 => any::<u8>(),
    ];
    proptest::collection::vec(byte, 0..300)
}

proptest! {
    #[test]
    fn any_bytes_keep_the_promises(bytes in bytes()) {
        fuzz::job_response(&bytes);
        fuzz::expansion(&bytes);
        fuzz::trace(&bytes);
        fuzz::frames(&bytes);
        fuzz::zip(&bytes);
        fuzz::tar(&bytes);
        fuzz::matcher(&bytes);
        fuzz::layers(&bytes);
    }
}
