//! Why a request failed, in words that hold no secret.

use std::error::Error;

/// The innermost cause: the outer ones name URLs, which may hold signatures.
#[must_use]
pub fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    if cause.is::<reqwest::Error>() {
        return "the request failed".to_owned();
    }
    cause.to_string()
}
