//! vk's own log, on standard error: standard output belongs to the trace.

use std::io::{IsTerminal, Write};

use tracing_subscriber::EnvFilter;

/// Sets the log up. `RUST_LOG` wins over `-v`.
pub(crate) fn init(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        // Targets that begin with it: the crates of the driver, too.
        1 => "vk=info,warn",
        _ => "vk=debug,info",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .without_time()
        .init();
}

/// Prints one line about what went wrong.
pub(crate) fn print_error(text: &str) {
    // Nothing can be reported when standard error is closed.
    let _ = writeln!(std::io::stderr(), "vk: {text}");
}
