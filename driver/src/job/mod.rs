//! One job: its stages, its scripts, its variables.
//!
//! [`run`] is the way in. `request` is what is asked, `context` what follows from it and never changes, `session` what the
//! preparing stages make for the others. `order` decides, `runner` does, `stages` are the work.

mod cancel;
mod context;
mod event;
mod expand;
mod feature_flags;
mod image_process;
mod order;
mod plan;
mod printer;
mod request;
mod runner;
mod script;
mod session;
mod settings;
mod stage;
mod stages;
mod trace_writer;
mod usage;
mod variables;

pub(crate) use cancel::CancelRequests;
pub use cancel::{Cancel, CancelMode};
pub use event::{JobEvent, JobObserver};
pub use request::Job;
pub use runner::{refuse, run};
pub use stage::Stage;
pub use variables::Slot;

#[cfg(test)]
mod testing;
