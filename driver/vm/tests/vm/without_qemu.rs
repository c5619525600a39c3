//! A host without QEMU is told which package to install.

use vk_vm::{Backend, MachineConfig, start};

#[tokio::test]
async fn missing_qemu_is_named_with_its_package() {
    let empty = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = MachineConfig {
        name: "vm".into(),
        cpus: 1,
        memory_mib: 64,
        kernel: "/dev/null".into(),
        initramfs: "/dev/null".into(),
        cmdline: Vec::new(),
        disks: Vec::new(),
        run_dir: folder.path().to_owned(),
        search_path: empty.path().into(),
    };

    let error = start(Backend::Qemu, &config).await.unwrap_err();

    assert_eq!(
        error.to_string(),
        "QEMU is not installed: install the package `qemu-system-x86`"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
