//! A Debian with a C compiler: a job image as people build them.

#![expect(
    clippy::expect_used,
    reason = "a kit for tests: what it cannot do fails the test"
)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::image_maker::{Compression, Image};

/// What is in it besides Debian's minimal base.
const PACKAGES: &str = "gcc,libc6-dev,make,iputils-ping";

/// Where Debian comes from.
const MIRROR: &str = "http://deb.debian.org/debian";

/// The image, of one layer of some 350 MB. The first call on a machine takes a minute or two.
///
/// # Panics
///
/// If debootstrap cannot make it: it needs root and Debian's mirror.
#[must_use]
pub fn with_gcc() -> Image {
    Image::new()
        .layer(
            fs::read(layer()).expect("the layer that was just made"),
            Compression::Zstd,
        )
        .config(json!({
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Cmd": ["bash"],
        }))
}

/// The layer as a tar archive, kept between runs beside the tests' programs.
///
/// # Panics
///
/// As [`with_gcc`].
#[must_use]
pub fn layer() -> PathBuf {
    let program = std::env::current_exe().expect("this program");
    let folder = program
        .ancestors()
        .nth(2)
        .expect("target/debug/deps")
        .join("kit");
    fs::create_dir_all(&folder).expect("a folder beside the tests");
    let lock = File::create(folder.join("debian.lock")).expect("a lock");
    lock.lock().expect("the lock");
    let made = folder.join("debian-gcc.tar");
    if !made.exists() {
        make(&folder, &made);
    }
    made
}

fn make(folder: &Path, made: &Path) {
    let work = tempfile::tempdir_in(folder).expect("a folder to work in");
    let root = work.path().join("root");
    run(Command::new("debootstrap")
        .args(["--variant=minbase", "--include", PACKAGES, "bookworm"])
        .arg(&root)
        .arg(MIRROR));
    let archive = work.path().join("layer.tar");
    run(Command::new("tar")
        .args([
            "--create",
            "--numeric-owner",
            "--xattrs",
            "--xattrs-include=*",
        ])
        .args([
            "--exclude=./var/cache/apt/archives/*.deb",
            "--exclude=./var/lib/apt/lists/*",
        ])
        .arg("--file")
        .arg(&archive)
        .arg("--directory")
        .arg(&root)
        .arg("."));
    fs::rename(archive, made).expect("a file of the same disk");
}

fn run(command: &mut Command) {
    let output = command.output().expect("a tool that setup installs");
    assert!(
        output.status.success(),
        "{command:?} failed (debootstrap needs root and Debian's mirror):\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
