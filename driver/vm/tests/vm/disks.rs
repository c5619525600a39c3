//! Disks reach the guest in order, with the rights they were given.

use std::path::PathBuf;

use crate::support::{config, in_time};
use tempfile::TempDir;
use vk_vm::{Backend, Disk, DiskAccess, EndCause, MachineConfig, QemuError, StartError, start};

const MIB: usize = 1 << 20;

fn image(folder: &TempDir, name: &str, start: &[u8; 8], size: usize) -> PathBuf {
    let path = folder.path().join(name);
    let mut content = vec![0; size];
    content[..8].copy_from_slice(start);
    std::fs::write(&path, content).unwrap();
    path
}

fn with_disks(folder: &TempDir, disks: [(PathBuf, DiskAccess); 2]) -> MachineConfig {
    let disks = disks.map(|(path, access)| Disk { path, access });
    MachineConfig {
        disks: disks.into(),
        ..config("disks", folder.path())
    }
}

#[tokio::test]
async fn first_disk_is_vda_and_read_only_second_is_vdb_and_writable() {
    // Commas separate QEMU's options: a path may have them all the same.
    let folder = tempfile::Builder::new().prefix("a,b,,c").tempdir().unwrap();
    let root = image(&folder, "root,img", b"rootdisk", MIB);
    let scratch = image(&folder, "scratch.img", b"scratch!", 2 * MIB);
    let disks = [
        (root.clone(), DiskAccess::ReadOnly),
        (scratch.clone(), DiskAccess::Scratch),
    ];
    let config = with_disks(&folder, disks);

    let machine = start(Backend::Auto, &config).await.unwrap();
    let end = in_time("the end", machine.wait()).await;

    let console = machine.console_tail();
    assert_eq!(end.cause, EndCause::PoweredOff, "{console}");
    assert!(
        console.contains("vda: \"rootdisk\", 2048 sectors, writable: false"),
        "{console}"
    );
    assert!(
        console.contains("vdb: \"scratch!\", 4096 sectors, writable: true"),
        "{console}"
    );
    assert_eq!(&std::fs::read(scratch).unwrap()[..8], b"written!");
    assert_eq!(&std::fs::read(root).unwrap()[..8], b"rootdisk");
}

#[tokio::test]
async fn machines_share_a_read_only_disk() {
    vk_test_base::places::both();
    let folder = tempfile::tempdir().unwrap();
    let root = image(&folder, "root.img", b"rootdisk", MIB);
    let mut machines = Vec::new();
    for name in ["one", "two"] {
        let scratch = image(&folder, name, b"scratch!", MIB);
        let disks = [
            (root.clone(), DiskAccess::ReadOnly),
            (scratch, DiskAccess::Scratch),
        ];
        let mut config = with_disks(&folder, disks);
        config.name = format!("vm-{name}");
        machines.push(start(Backend::Auto, &config).await.unwrap());
    }

    for machine in machines {
        let end = in_time("the end", machine.wait()).await;
        assert_eq!(end.cause, EndCause::PoweredOff, "{}", end.console_tail);
    }
}

#[tokio::test]
async fn missing_disk_and_missing_kernel_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config("disks", folder.path());
    config.disks = vec![Disk {
        path: folder.path().join("none.img"),
        access: DiskAccess::ReadOnly,
    }];
    let error = start(Backend::Auto, &config).await.unwrap_err();
    assert!(error.to_string().ends_with("none.img"), "{error}");

    config.kernel = folder.path().join("no-kernel");
    let error = start(Backend::Auto, &config).await.unwrap_err();
    assert!(
        error.to_string().starts_with("cannot read the VM's kernel"),
        "{error}"
    );
}

#[tokio::test]
async fn kernel_that_is_none_is_refused_with_qemus_reason() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config("disks", folder.path());
    config.kernel = image(&folder, "kernel", b"garbage!", 8);

    let error = start(Backend::Auto, &config).await.unwrap_err();

    let StartError::Qemu(QemuError::Refused { message }) = &error else {
        panic!("{error:?}");
    };
    assert!(message.contains("kernel"), "{message}");
}
