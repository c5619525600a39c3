//! Machines: a microVM and its vsock.
