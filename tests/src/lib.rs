//! The kit that the end-to-end tests are made with.

pub mod git_http;
