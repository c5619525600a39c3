//! The real agent in a real VM.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use tokio::runtime::Runtime;
use vk_agent_client::{AgentClient, ExecRequest, GuestReady, ReadyListener, Stdin};
use vk_test_base::places;
use vk_vm::{
    Backend, Disk, DiskAccess, Machine, MachineConfig, MachineEnd, boot_limit, scratch, start,
};

use super::{Outcome, bash, outcome};

/// Hosts all guests: a machine ends with the runtime it was started in.
pub static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// One guest for all tests that leave it as it was.
pub static SHARED: LazyLock<Guest> = LazyLock::new(|| {
    places::one_for_the_program();
    RUNTIME.block_on(async {
        let folder = vk_test_base::folder::of_the_program();
        Guest::boot_in(folder, &Options::default()).await
    })
});

/// The images: `VK_IMAGES_DIR`, or where `images/build` leaves them.
pub fn images() -> PathBuf {
    let folder = std::env::var_os("VK_IMAGES_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../images/out"),
        PathBuf::from,
    );
    assert!(
        folder.join("vmlinuz").exists(),
        "{} holds no images: run images/build, or set VK_IMAGES_DIR",
        folder.display()
    );
    folder
}

pub struct Options {
    pub image: PathBuf,
    pub memory_mib: u32,
    /// Bytes; none leaves the guest without a scratch disk.
    pub scratch: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            image: images().join("default.erofs"),
            memory_mib: 512,
            scratch: Some(4 << 30),
        }
    }
}

pub struct Guest {
    pub machine: Box<dyn Machine>,
    pub client: AgentClient,
    pub ready: GuestReady,
    _folder: tempfile::TempDir,
}

impl Guest {
    /// Boots one for this test, as soon as there is a place for it.
    pub async fn boot(options: &Options) -> Self {
        places::one();
        Self::boot_in(&std::env::temp_dir(), options).await
    }

    async fn boot_in(parent: &Path, options: &Options) -> Self {
        let (machine, listener, folder) = launch(parent, options).await;
        let limit = boot_limit(Backend::Auto).await;
        let ready = tokio::select! {
            ready = listener.ready(limit) => match ready {
                Ok(ready) => ready,
                Err(error) => panic!("{error}: {}", machine.console_tail()),
            },
            end = machine.wait() => panic!("{end}: {}", end.console_tail),
        };
        Self {
            client: AgentClient::new(machine.vsock_path()),
            machine,
            ready,
            _folder: folder,
        }
    }

    pub async fn bash(&self, script: &str) -> Outcome {
        self.run(bash(script)).await
    }

    pub async fn run(&self, request: ExecRequest) -> Outcome {
        let mut handle = self.client.exec(request, Stdin::None).await.unwrap();
        outcome(&mut handle).await.unwrap()
    }
}

/// How a guest ends that cannot start.
pub async fn failed_boot(options: &Options) -> MachineEnd {
    places::one();
    let (machine, _listener, _folder) = launch(&std::env::temp_dir(), options).await;
    let limit = boot_limit(Backend::Auto).await + Duration::from_secs(20);
    tokio::time::timeout(limit, machine.wait()).await.unwrap()
}

async fn launch(
    parent: &Path,
    options: &Options,
) -> (Box<dyn Machine>, ReadyListener, tempfile::TempDir) {
    let folder = tempfile::tempdir_in(parent).unwrap();
    let mut disks = vec![Disk {
        path: options.image.clone(),
        access: DiskAccess::ReadOnly,
    }];
    if let Some(size) = options.scratch {
        let path = folder.path().join("scratch.img");
        scratch::create(&path, size, vk_process::SEARCH_PATH.as_ref())
            .await
            .unwrap();
        disks.push(Disk {
            path,
            access: DiskAccess::Scratch,
        });
    }
    let config = MachineConfig {
        name: "agent".into(),
        cpus: 2,
        memory_mib: options.memory_mib,
        kernel: images().join("vmlinuz"),
        initramfs: images().join("initramfs.cpio"),
        cmdline: vec!["vk.hostname=test-guest".into(), "vk.builds=1".into()],
        disks,
        run_dir: folder.path().to_owned(),
        search_path: vk_process::SEARCH_PATH.into(),
    };
    let listener = ReadyListener::bind(&folder.path().join("agent.vsock")).unwrap();
    let machine = start(Backend::Auto, &config).await.unwrap();
    assert_eq!(machine.vsock_path(), folder.path().join("agent.vsock"));
    (machine, listener, folder)
}
