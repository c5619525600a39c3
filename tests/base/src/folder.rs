//! A folder for what a test program makes once for all its tests: the end of the program drops no `static`.

#![expect(clippy::expect_used, reason = "a test kit fails by panicking")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

/// Waits for the end of whoever has the other end of its standard input, and removes the folder.
const JANITOR: &str = "read -r line; rm -rf -- \"$1\"";

/// The program's folder. However the program ends, the folder is gone soon after.
///
/// # Panics
///
/// If it cannot be made.
pub fn of_the_program() -> &'static Path {
    static FOLDER: OnceLock<(TempDir, Child)> = OnceLock::new();
    let (folder, _) = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder for the test program");
        let janitor = janitor(folder.path());
        (folder, janitor)
    });
    folder.path()
}

fn janitor(folder: &Path) -> Child {
    Command::new("sh")
        .args(["-c", JANITOR, "sh"])
        .arg(folder)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_goes_with_whoever_made_it() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("file"), "x").expect("a file");
        let mut janitor = janitor(folder.path());
        assert!(folder.path().exists());

        // As the end of this program would.
        drop(janitor.stdin.take());
        janitor.wait().expect("its end");

        assert!(!folder.path().exists());
    }
}
