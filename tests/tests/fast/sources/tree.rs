//! The tree on its way to the guest.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use tokio::io::AsyncReadExt;
use vk_sources::tar_stream;
use vk_tests::git_http::write;

use super::kit::unpack;

#[tokio::test]
async fn kinds_modes_times_and_empty_folders_survive() {
    let tree = tempfile::tempdir().unwrap();
    let path = |name: &str| tree.path().join(name);
    write(&path("run.sh"), b"#!/bin/sh\n");
    write(&path("private"), b"x");
    write(&path("pack"), &vec![7; 300_000]);
    std::fs::create_dir_all(path("empty/inner")).unwrap();
    std::os::unix::fs::symlink("nowhere", path("link")).unwrap();
    for (name, mode) in [("run.sh", 0o700), ("private", 0o600), ("pack", 0o444)] {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path(name), permissions).unwrap();
    }

    let guest = unpack(tree.path()).await;

    for (name, mode) in [
        ("run.sh", 0o755),
        ("private", 0o644),
        ("pack", 0o444),
        ("empty/inner", 0o755),
    ] {
        let before = std::fs::metadata(path(name)).unwrap();
        let after = std::fs::metadata(guest.path().join(name)).unwrap();
        assert_eq!(after.permissions().mode() & 0o777, mode, "{name}");
        assert_eq!(after.mtime(), before.mtime(), "{name}");
        if before.is_file() {
            assert_eq!(after.len(), before.len());
        }
    }
    let link = std::fs::read_link(guest.path().join("link")).unwrap();
    assert_eq!(link.as_os_str(), "nowhere");
}

#[tokio::test]
async fn the_same_tree_makes_the_same_stream() {
    let streams = [["b", "a/x", "c"], ["c", "b", "a/x"]].map(async |names| {
        let tree = tempfile::tempdir().unwrap();
        for name in names {
            write(&tree.path().join(name), name.as_bytes());
        }
        for name in ["a", "a/x", "b", "c"] {
            let file = std::fs::File::open(tree.path().join(name)).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        }
        let mut stream = Vec::new();
        tar_stream(tree.path())
            .read_to_end(&mut stream)
            .await
            .unwrap();
        stream
    });
    let [one, other] = streams;

    assert_eq!(one.await, other.await);
}

#[tokio::test]
async fn a_failure_shows_as_an_error_and_not_as_an_end() {
    let tree = tempfile::tempdir().unwrap();
    let socket = tree.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let mut stream = Vec::new();

    let error = tar_stream(tree.path())
        .read_to_end(&mut stream)
        .await
        .unwrap_err();

    assert!(error.to_string().contains("socket"), "{error}");
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_an_error() {
    let tree = tempfile::tempdir().unwrap();

    let error = tar_stream(&tree.path().join("none"))
        .read(&mut [0])
        .await
        .unwrap_err();

    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[tokio::test]
async fn a_stream_that_is_dropped_ends_its_thread() {
    let tree = tempfile::tempdir().unwrap();
    write(&tree.path().join("big"), &vec![0; 8 << 20]);
    let mut stream = tar_stream(tree.path());
    stream.read_exact(&mut [0; 512]).await.unwrap();

    drop(stream);

    // The runtime waits for its threads at the end of this test.
}
