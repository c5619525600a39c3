//! The images of the golden set's `docker/` jobs, by the recipes of its README.

#![expect(
    clippy::expect_used,
    reason = "a kit for tests: what it cannot do fails the test"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::image_maker::{Compression, Image, Tar};
use crate::registry::Registry;
use crate::vk;

/// PATH of Debian's images.
const DEBIAN_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The entry point of `entry:1`.
const ENTRY_POINT: &str =
    "#!/bin/sh\necho entrypoint runs\nexport FROM_ENTRYPOINT=yes\nexec \"$@\"\n";

/// Pushes `build:1`, `busy:1`, `entry:1`, `badentry:1` and `noshell:1`.
///
/// # Panics
///
/// If one cannot be made, or the registry does not take it.
pub fn push_all(registry: &Registry) {
    let build = build();
    build.push(registry, "build:1");
    build
        .clone()
        .layer(
            Tar::new()
                .file("ep.sh", 0o755, ENTRY_POINT.as_bytes())
                .finish(),
            Compression::Gzip,
        )
        .config(json!({
            "Env": [DEBIAN_PATH, "FROM_IMAGE=env-of-image", "OVERRIDE=image"],
            "WorkingDir": "/srv",
            "User": "nobody",
            "Entrypoint": ["/ep.sh"],
            "Cmd": ["bash"],
        }))
        .push(registry, "entry:1");
    build
        .config(json!({"Env": [DEBIAN_PATH], "Entrypoint": ["git"], "Cmd": ["bash"]}))
        .push(registry, "badentry:1");
    Image::busybox()
        .config(json!({"Env": ["FROM_IMAGE=busy", "PATH=/bin"], "Cmd": ["sh"]}))
        .push(registry, "busy:1");
    let program = fs::read("/bin/busybox").expect("Debian's busybox-static");
    Image::new()
        .layer(
            Tar::new().file("onlybinary", 0o755, &program).finish(),
            Compression::Gzip,
        )
        .config(json!({"Entrypoint": ["/onlybinary"]}))
        .push(registry, "noshell:1");
}

/// Debian with bash and git: what is in the default guest image.
fn build() -> Image {
    let folder = tempfile::tempdir().expect("a folder for the image's files");
    let root = folder.path().join("root");
    run(Command::new("fsck.erofs")
        .arg(format!("--extract={}", root.display()))
        .arg(vk::images().join("default.erofs")));
    let tar = folder.path().join("layer.tar");
    pack(&root, &tar);
    Image::new()
        .layer(fs::read(&tar).expect("the layer"), Compression::Zstd)
        .config(json!({"Env": [DEBIAN_PATH], "Cmd": ["bash"]}))
}

/// Packs all that is in `root`, as root's.
fn pack(root: &Path, tar: &Path) {
    run(Command::new("tar")
        .args(["--create", "--owner=0", "--group=0", "--numeric-owner"])
        .arg("--file")
        .arg(tar)
        .arg("--directory")
        .arg(root)
        .arg("."));
}

fn run(command: &mut Command) {
    let output = command.output().expect("a tool that setup installs");
    assert!(output.status.success(), "{command:?}: {output:?}");
}
