//! Threads that help.

use std::thread::{Builder, Scope};

/// Starts so many threads that do `work`, or fewer where the kernel gives no more; says how many.
pub(crate) fn spawn<'scope>(
    scope: &'scope Scope<'scope, '_>,
    count: usize,
    work: impl Fn() + Copy + Send + 'scope,
) -> usize {
    let start = |_| Builder::new().spawn_scoped(scope, work).ok();
    (0..count).map_while(start).count()
}
