//! One job: its stages, its scripts, its variables.

pub mod feature_flags;
pub mod script;
pub mod settings;
pub mod stage;
pub mod variables;

#[cfg(test)]
pub(crate) mod testing;
