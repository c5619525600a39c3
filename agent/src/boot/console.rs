//! The console: the only way to say something before the host can be called.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;

static CONSOLE: OnceLock<File> = OnceLock::new();

/// Opens the console of the mounted `/dev`. A guest without one is silent.
pub(super) fn open() {
    if let Ok(file) = OpenOptions::new().write(true).open("/dev/console") {
        // Set twice only by a mistake that does no harm.
        let _ = CONSOLE.set(file);
    }
}

/// Prints a line, whatever was printed before.
pub(super) fn line(text: &str) {
    if let Some(mut console) = CONSOLE.get() {
        let _ = console.write_all(format!("\n{text}\n").as_bytes());
    }
}
