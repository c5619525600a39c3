//! What the tests of all crates share.

pub mod folder;
pub mod places;
