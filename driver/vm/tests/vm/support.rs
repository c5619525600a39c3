//! What the tests that boot VMs share: Debian's kernel with `init.rs` as PID 1.
#![allow(unreachable_pub, missing_docs, reason = "tests")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use vk_test_base::places;
use vk_vm::{Backend, Disk, Machine, MachineConfig, boot_limit, start};

/// The guest images: `VK_IMAGES_DIR`, or where `images/build` leaves them.
pub fn images() -> PathBuf {
    let folder = std::env::var_os("VK_IMAGES_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../images/out"),
        PathBuf::from,
    );
    let kernel = folder.join("vmlinux");
    assert!(
        kernel.exists(),
        "{} is missing: run images/build, or set VK_IMAGES_DIR",
        kernel.display()
    );
    folder
}

/// The images' initramfs, its modules included, with our PID 1 over its own.
fn initramfs() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let folder = vk_test_base::folder::of_the_program();
        let init = folder.join("init");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vm/init.rs");
        let built = Command::new("rustc")
            .args(["--edition", "2024", "-O", "-C", "panic=abort"])
            .args(["-C", "target-feature=+crt-static", "-C", "strip=symbols"])
            .args(["--target", "x86_64-unknown-linux-gnu", "-o"])
            .args([&init, &source])
            .status()
            .unwrap();
        assert!(built.success(), "cannot build the guest's PID 1");

        let images = images();
        let mut archive = ["initramfs.cpio.zst", "initramfs.cpio"]
            .iter()
            .find_map(|name| std::fs::read(images.join(name)).ok())
            .expect("an initramfs among the images");
        archive.resize(archive.len().next_multiple_of(4), 0);
        append_file(&mut archive, "init", &std::fs::read(&init).unwrap());
        append_file(&mut archive, "TRAILER!!!", &[]);
        let path = folder.join("initramfs");
        std::fs::write(&path, archive).unwrap();
        path
    })
}

/// An executable file in cpio's "newc" format.
fn append_file(archive: &mut Vec<u8>, name: &str, content: &[u8]) {
    let (size, name_size) = (content.len(), name.len() + 1);
    write!(
        archive,
        "070701{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{size:08x}{:08x}{:08x}{:08x}{:08x}{name_size:08x}{:08x}{name}\0",
        1, 0o100755, 0, 0, 1, 0, 0, 0, 0, 0, 0
    )
    .unwrap();
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend(content);
    archive.resize(archive.len().next_multiple_of(4), 0);
}

/// A VM that does what `test` of `tests/vm/init.rs` says, with its sockets in `run_dir`. Waits for a place for it.
pub fn config(test: &str, run_dir: &Path) -> MachineConfig {
    places::one();
    MachineConfig {
        name: test.to_owned(),
        cpus: 1,
        memory_mib: 256,
        kernel: images().join("vmlinux"),
        initramfs: initramfs().to_owned(),
        cmdline: vec![format!("test={test}")],
        disks: Vec::new(),
        run_dir: run_dir.to_owned(),
        search_path: vk_process::SEARCH_PATH.into(),
    }
}

pub struct Vm {
    pub machine: Box<dyn Machine>,
    pub folder: TempDir,
}

/// Boots the VM of [`config`].
pub async fn boot(test: &str) -> Vm {
    let folder = tempfile::tempdir().unwrap();
    let machine = start(Backend::Auto, &config(test, folder.path()))
        .await
        .unwrap();
    Vm { machine, folder }
}

/// Fails rather than hang.
pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    let limit = boot_limit(Backend::Auto).await;
    match tokio::time::timeout(limit, future).await {
        Ok(result) => result,
        Err(_) => panic!("{what}: not within {limit:?}"),
    }
}

/// Boots a VM that serves, and waits until it does. The stream is the guest's call.
pub async fn serving_vm() -> (Vm, UnixStream) {
    serving_vm_with(|_| Vec::new()).await
}

/// As [`serving_vm`], with disks that `disks` makes in the VM's folder.
pub async fn serving_vm_with(disks: impl FnOnce(&Path) -> Vec<Disk>) -> (Vm, UnixStream) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config("serve", folder.path());
    config.disks = disks(folder.path());
    let ready = UnixListener::bind(folder.path().join("serve.vsock_1024")).unwrap();
    let machine = start(Backend::Auto, &config).await.unwrap();
    let called = async {
        tokio::select! {
            call = ready.accept() => call.unwrap().0,
            end = machine.wait() => panic!("{end}: {}", end.console_tail),
        }
    };
    let mut call = BufReader::new(in_time("the guest's call", called).await);
    let mut line = String::new();
    call.read_line(&mut line).await.unwrap();
    assert_eq!(line, "ready\n");
    (Vm { machine, folder }, call.into_inner())
}

/// Connects to a port of the guest; none without a listener there.
pub async fn dial(vsock: &Path, port: u32) -> Option<BufReader<UnixStream>> {
    let mut stream = BufReader::new(UnixStream::connect(vsock).await.unwrap());
    let line = format!("CONNECT {port}\n");
    stream.write_all(line.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_line(&mut answer).await.unwrap();
    if answer.is_empty() {
        return None;
    }
    assert!(answer.starts_with("OK "), "{answer}");
    Some(stream)
}

/// Whether a process with this id runs; a zombie does not.
pub fn is_running(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// The processes whose command line names `folder`.
pub fn processes_of(folder: &Path) -> Vec<u32> {
    let folder = folder.to_str().unwrap();
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(folder))
        })
        .collect()
}

pub const SECOND: Duration = Duration::from_secs(1);

/// How long the end of a VM that was killed may take on a busy host: less than anything that would end it otherwise (a
/// silent VMM is given up after 30 s).
pub const WAIT_LIMIT: Duration = Duration::from_secs(10);
