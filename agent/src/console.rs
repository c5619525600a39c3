//! The console: the only way to say something that belongs to no operation, or before the host can be called.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::OnceLock;

static CONSOLE: OnceLock<File> = OnceLock::new();

/// Opens the console of the mounted `/dev`. A guest without one is silent.
pub(crate) fn open() {
    if let Ok(file) = OpenOptions::new().write(true).open("/dev/console") {
        // Set twice only by a mistake that does no harm.
        let _ = CONSOLE.set(file);
    }
}

/// Prints a line, whatever was printed before. Without a console it goes to standard error: a rehearsal has
/// none.
pub(crate) fn line(text: &str) {
    let line = format!("\n{text}\n");
    // If that fails too there is nowhere to say it.
    let _ = match CONSOLE.get() {
        Some(mut console) => console.write_all(line.as_bytes()),
        None => io::stderr().write_all(line.as_bytes()),
    };
}
