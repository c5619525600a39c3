//! vk-agent: PID 1 and command server inside a guest.

fn main() {}
