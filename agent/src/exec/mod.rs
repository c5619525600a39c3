//! Running a command: request, process, its streams, its end.

mod containment;
mod input;
mod lifecycle;
mod outbox;
mod pump;
mod request;
mod run;

pub(crate) use run::run;
