//! Images that other tools made.

use super::*;

#[tokio::test]
async fn an_image_copied_by_skopeo_is_an_image() {
    let registry = Registry::start();
    Image::busybox().push(&registry, "made:1");
    let folder = tempfile::tempdir().unwrap();
    let layout = format!("oci:{}:latest", folder.path().join("layout").display());
    let copy = |from: &str, to: &str, more: &[&str]| {
        let output = Command::new("skopeo")
            .args([
                "copy",
                "--quiet",
                "--src-tls-verify=false",
                "--dest-tls-verify=false",
            ])
            .args(more)
            .args([from, to])
            .env("TMPDIR", folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    copy(
        &format!("docker://{}", registry.image("made:1")),
        &layout,
        &[],
    );
    copy(
        &layout,
        &format!("docker://{}", registry.image("oci:1")),
        &["--dest-compress-format=zstd", "--dest-compress"],
    );
    copy(
        &layout,
        &format!("docker://{}", registry.image("v2:1")),
        &["--format=v2s2"],
    );
    let host = Host::new();

    for name in ["oci:1", "v2:1"] {
        let image = host.pull(&registry.image(name)).await.unwrap();

        assert_sound(&image.rootfs());
        assert!(listing(&image.rootfs(), "/bin").contains("busybox"));
    }
}

#[tokio::test]
async fn an_image_changed_by_umoci_is_an_image() {
    let registry = Registry::start();
    Image::busybox().push(&registry, "made:1");
    let folder = tempfile::tempdir().unwrap();
    let layout = folder.path().join("layout").display().to_string();
    let tagged = format!("{layout}:latest");
    let bundle = folder.path().join("bundle").display().to_string();
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .env("TMPDIR", folder.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {output:?}"
        );
    };
    let from = format!("docker://{}", registry.image("made:1"));
    let to = format!("docker://{}", registry.image("changed:1"));
    run(
        "skopeo",
        &[
            "copy",
            "--quiet",
            "--src-tls-verify=false",
            &from,
            &format!("oci:{tagged}"),
        ],
    );
    run(
        "umoci",
        &["unpack", "--rootless", "--image", &tagged, &bundle],
    );
    let added = format!("{bundle}/rootfs/srv/inserted");
    std::fs::create_dir(format!("{bundle}/rootfs/srv")).unwrap();
    std::fs::write(added, "content").unwrap();
    std::fs::remove_file(format!("{bundle}/rootfs/bin/wget")).unwrap();
    run("umoci", &["repack", "--image", &tagged, &bundle]);
    run(
        "umoci",
        &[
            "config",
            "--image",
            &tagged,
            "--config.env",
            "MADE_BY=umoci",
        ],
    );
    run(
        "skopeo",
        &[
            "copy",
            "--quiet",
            "--dest-tls-verify=false",
            &format!("oci:{tagged}"),
            &to,
        ],
    );

    let host = Host::new();
    let image = host.pull(&registry.image("changed:1")).await.unwrap();

    assert_sound(&image.rootfs());
    assert!(listing(&image.rootfs(), "/srv").contains("inserted"));
    assert!(!listing(&image.rootfs(), "/bin").contains("wget"));
    assert!(
        image
            .config()
            .env
            .contains(&("MADE_BY".to_owned(), "umoci".to_owned()))
    );
}
