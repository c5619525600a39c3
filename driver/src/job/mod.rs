//! One job: its stages, its scripts, its variables.
