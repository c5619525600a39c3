//! KVM on this host: whether it is good for running guests.

mod probe;

pub use probe::{KvmProbe, probe_kvm};
