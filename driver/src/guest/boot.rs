//! A guest: a VM with its disks, its agent and its folder on the host, from boot to end.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::Mutex;
use vk_agent_proto::boot;

use crate::guest::RootImage;
use crate::guest::VmSize;
use crate::host::BootFilesError;
use crate::host::Host;
use vk_agent_client::{AgentClient, AgentError, PutTreeRequest, ReadyListener};
use vk_state::{RunDir, StateDir, StateError};
use vk_text::chain;
use vk_vm::scratch::{self, ScratchError};
use vk_vm::{
    Disk, DiskAccess, Machine, MachineConfig, MachineEnd, MachineStats, StartError, boot_limit,
    is_emulated, start,
};

/// How long an operation that failed waits for the news that its VM ended: the VM's end and the closing of its
/// connections reach vk in either order, moments apart.
const NEWS: Duration = Duration::from_secs(1);

/// A tar stream without entries: two blocks of zeros.
const EMPTY_TAR: [u8; 1024] = [0; 1024];

/// What a guest is made of.
#[derive(Clone, Debug)]
pub(crate) struct GuestSpec {
    /// What it boots.
    pub image: RootImage,
    /// Size of the VM.
    pub size: VmSize,
    /// Host name inside.
    pub hostname: String,
    /// Whether it has a folder for builds.
    pub builds: bool,
}

/// A running guest whose agent answers. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Guest {
    machine: Box<dyn Machine>,
    agent: AgentClient,
    size: VmSize,
    run_dir: Mutex<Option<RunDir>>,
    work_dir: PathBuf,
    /// Kept from removal as long as it is booted.
    _image: RootImage,
}

/// Why there is no guest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum BootError {
    /// The state folder cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The guest images cannot be used.
    #[error(transparent)]
    BootFiles(#[from] BootFilesError),
    /// Work on the state folder was aborted: the runtime is shutting down.
    #[error("the work on the state folder was aborted")]
    Aborted(#[source] tokio::task::JoinError),
    /// The scratch disk cannot be made.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The VM cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The agent did not say that it is ready, or said nonsense.
    #[error("the guest did not become ready{}", quoted(console))]
    Agent {
        /// The console's last lines.
        console: String,
        /// What is wrong.
        #[source]
        source: AgentError,
    },
    /// The image lacks what a guest must have, and cannot be given it.
    #[error("image \"{image}\" cannot be booted: {fault}")]
    Image {
        /// The image.
        image: String,
        /// What is wrong with it.
        fault: String,
    },
    /// The VM ended before its agent was ready.
    #[error("the guest did not start: {end}{}", quoted(&end.console_tail))]
    Ended {
        /// How.
        end: MachineEnd,
    },
}

/// Why a VM ended before its agent was ready.
fn ended(end: MachineEnd, image: &str) -> BootError {
    // Nothing of the image has run: no one else has written there.
    let fault = end
        .console_tail
        .lines()
        .find_map(|line| line.strip_prefix(boot::IMAGE_FAULT));
    match fault {
        Some(fault) => BootError::Image {
            image: image.to_owned(),
            fault: fault.trim_end().to_owned(),
        },
        None => BootError::Ended { end },
    }
}

/// A console's last lines as the end of a message.
fn quoted(console: &str) -> String {
    if console.is_empty() {
        return String::new();
    }
    format!("; its console says:\n{console}")
}

/// What the agent is told on the kernel's command line.
fn kernel_words(spec: &GuestSpec) -> Vec<String> {
    let mut words = vec![format!("{}={}", boot::HOSTNAME, spec.hostname)];
    if spec.builds {
        words.push(format!("{}=1", boot::BUILDS));
    }
    words.extend(spec.size.pids.map(|pids| format!("{}={pids}", boot::PIDS)));
    if tracing::enabled!(tracing::Level::DEBUG) {
        words.push(format!("{}=1", boot::VERBOSE));
    }
    words
}

/// A new run folder. What dead runs left is removed on the way, which may take a while: not on a task that has to
/// hear of a cancel.
async fn create_run(host: &Host) -> Result<RunDir, BootError> {
    let path = host.state_dir().to_owned();
    let made = tokio::task::spawn_blocking(move || StateDir::open(&path)?.create_run()).await;
    Ok(made.map_err(BootError::Aborted)??)
}

impl Guest {
    /// Boots a guest and waits until its agent answers. Dropped before it resolves, it leaves nothing behind.
    ///
    /// QEMU's emulation of two processors hangs now and then (docs/decisions.md): an emulated guest that has not called
    /// after half its time makes way for another one.
    ///
    /// # Errors
    ///
    /// See [`BootError`].
    pub(crate) async fn boot(host: &Host, spec: GuestSpec) -> Result<Self, BootError> {
        let limit = boot_limit(host.backend()).await;
        if !is_emulated(host.backend()).await {
            return Self::boot_within(host, spec, limit).await;
        }
        match Self::boot_within(host, spec.clone(), limit / 2).await {
            Err(
                error @ BootError::Agent {
                    source: AgentError::Timeout { .. },
                    ..
                },
            ) => {
                tracing::warn!("another guest is started: {}", chain(&error));
                Self::boot_within(host, spec, limit).await
            }
            result => result,
        }
    }

    async fn boot_within(host: &Host, spec: GuestSpec, limit: Duration) -> Result<Self, BootError> {
        let images = host.boot_files()?;
        let run_dir = create_run(host).await?;
        let scratch = run_dir.path().join("scratch.ext4");
        scratch::create(&scratch, spec.size.scratch_bytes, host.search_path()).await?;
        let config = MachineConfig {
            name: "vm".to_owned(),
            cpus: u8::try_from(spec.size.cpus).unwrap_or(u8::MAX),
            memory_mib: spec.size.memory_mib,
            kernel: images.kernel(),
            initramfs: images.initramfs(),
            cmdline: kernel_words(&spec),
            disks: vec![
                Disk {
                    path: spec.image.rootfs().to_owned(),
                    access: DiskAccess::ReadOnly,
                },
                Disk {
                    path: scratch,
                    access: DiskAccess::Scratch,
                },
            ],
            run_dir: run_dir.socket_path(),
            search_path: host.search_path().to_owned(),
        };
        let backend = host.backend();
        let refused = |source, console| BootError::Agent { console, source };
        let ready = ReadyListener::bind(&config.vsock_path())
            .map_err(|source| refused(source, String::new()))?;
        let machine = start(backend, &config).await?;
        let agent = AgentClient::new(machine.vsock_path());
        tokio::select! {
            ready = ready.ready(limit) => {
                if let Err(source) = ready {
                    let console = machine.console_tail();
                    machine.kill().await;
                    return Err(refused(source, console));
                }
            }
            end = machine.wait() => return Err(ended(end, spec.image.name())),
        }
        tracing::debug!(
            "the guest is ready; its console says:\n{}",
            machine.console_tail()
        );
        let work_dir = run_dir.path().to_owned();
        let run_dir = Mutex::new(Some(run_dir));
        Ok(Self {
            machine,
            agent,
            size: spec.size,
            run_dir,
            work_dir,
            _image: spec.image,
        })
    }

    /// The agent.
    #[must_use]
    pub(crate) fn agent(&self) -> &AgentClient {
        &self.agent
    }

    /// Makes the folder `path` and what is missing above it, each for `owner` (the agent's notation; none is root).
    ///
    /// # Errors
    ///
    /// [`AgentError`]; of kind [`vk_agent_proto::FailureKind::UnknownUser`] if the image knows no such user.
    pub(crate) async fn make_folder(
        &self,
        path: impl Into<OsString>,
        owner: Option<&str>,
    ) -> Result<(), AgentError> {
        let request = PutTreeRequest {
            dest: path.into(),
            mkdir: true,
            wipe: false,
            owner: owner.map(str::to_owned),
        };
        self.agent
            .put_tree(request, EMPTY_TAR.as_slice())
            .await
            .map(|_| ())
    }

    /// Size of the VM.
    #[must_use]
    pub(crate) fn size(&self) -> VmSize {
        self.size
    }

    /// A folder on the host that only this user can enter, gone with the guest.
    #[must_use]
    pub(crate) fn work_dir(&self) -> &Path {
        &self.work_dir
    }

    /// What the VM has used so far; `None` once it has ended.
    #[must_use]
    pub(crate) fn machine_stats(&self) -> Option<MachineStats> {
        self.machine.stats()
    }

    /// Waits until the VM ends by something else than [`Guest::end`], and says how.
    pub(crate) async fn lost(&self) -> String {
        self.machine.wait().await.to_string()
    }

    /// [`Guest::lost`] if that is so, or known within a moment: why an operation may have failed.
    pub(crate) async fn lost_within_moments(&self) -> Option<String> {
        tokio::time::timeout(NEWS, self.lost()).await.ok()
    }

    /// Ends the VM at once and removes its files.
    pub(crate) async fn end(&self) {
        self.machine.kill().await;
        let run_dir = self.run_dir.lock().await.take();
        // A scratch disk of many GiB takes its time.
        let removed = tokio::task::spawn_blocking(move || drop(run_dir)).await;
        if let Err(error) = removed {
            tracing::warn!(%error, "the removal of a run folder was aborted");
        }
    }
}
