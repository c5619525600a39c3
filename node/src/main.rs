//! The vk command.

fn main() {}
