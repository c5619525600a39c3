//! Wire types that relay, hub and node share.
//!
//! The contract is the project's dispatch protocol. So far this crate holds its [`job`] part: what a job
//! is ([`job::CiJob`]), what its variables mean ([`job::variables`]), how it ended ([`job::JobResult`]) and
//! how an ending is told to GitLab ([`job::gitlab_failure_reason`]). Types and pure functions only: no I/O, no
//! clock, no async.

pub mod job;
