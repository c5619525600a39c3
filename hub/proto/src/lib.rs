//! Wire types that relay, hub and node share.
//!
//! The contract is the project's dispatch protocol. So far this crate holds its [`job`] part: what a job
//! is ([`job::CiJob`]), what its variables mean ([`job::variables`]), how it ended ([`job::JobResult`]) and
//! how an ending is told to GitLab ([`job::gitlab_failure_reason`]). Types and pure functions only: no I/O, no
//! clock, no async.

#![cfg_attr(
    not(test),
    warn(
        clippy::cast_lossless,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        clippy::indexing_slicing
    )
)]

pub mod job;
