//! A host, as jobs and commands find it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use vk_http::Proxies;
use vk_oci::{ImageSettings, ImageStore, StoreError};
use vk_state::{StateDir, StateError};
use vk_transfer::CacheSettings;
use vk_vm::Backend;

use super::{BootFiles, BootFilesError, Config, HostLimits};

/// A host that runs jobs and commands.
///
/// Folders are opened when a VM is made: what is wrong with them is one job's failure, with its trace and result. A clone
/// is the same host.
///
/// ```no_run
/// use vk_driver::{Backend, Host};
///
/// let host = Host::builder("/var/lib/vk", "/usr/lib/vk/images")
///     .backend(Backend::Qemu)
///     .name("runner-1")
///     .build();
/// assert_eq!(host.name(), Some("runner-1"));
/// ```
#[derive(Clone, Debug)]
pub struct Host {
    state_dir: PathBuf,
    images_dir: PathBuf,
    backend: Backend,
    config: Config,
    limits: HostLimits,
    name: Option<String>,
    search_path: OsString,
    proxies: Proxies,
    texts: Texts,
}

/// Makes a [`Host`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct HostBuilder(Host);

/// What a host calls itself in traces and requests.
#[derive(Clone, Debug)]
pub(crate) struct Texts {
    /// The trace's first line, `Running with vk 0.1.0`.
    pub(crate) greeting: String,
    /// The executor's name in the trace.
    pub(crate) executor: String,
    /// `User-Agent` of requests for sources and artifacts.
    pub(crate) user_agent: String,
}

impl Default for Texts {
    fn default() -> Self {
        let version = env!("CARGO_PKG_VERSION");
        Self {
            greeting: format!("Running with vk {version}"),
            executor: "vk".to_owned(),
            user_agent: format!("vk {version} linux/amd64"),
        }
    }
}

impl Host {
    /// A host whose state (run files, images, caches, kept sources) is in `state_dir`, made if it is missing, and whose
    /// guest images are in `images_dir`, as `images/build` leaves them.
    pub fn builder(state_dir: impl Into<PathBuf>, images_dir: impl Into<PathBuf>) -> HostBuilder {
        HostBuilder(Self {
            state_dir: state_dir.into(),
            images_dir: images_dir.into(),
            backend: Backend::default(),
            config: Config::default(),
            limits: HostLimits::of_this_host(),
            name: kernel_name(),
            search_path: vk_process::SEARCH_PATH.into(),
            proxies: Proxies::default(),
            texts: Texts::default(),
        })
    }

    /// The largest VM this host gives.
    #[must_use]
    pub fn limits(&self) -> HostLimits {
        self.limits
    }

    /// The host's name, for the line that tells where a job runs; `None` if it has none.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What runs VMs.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Where the state folder is.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// How images of registries are pulled and kept.
    pub(crate) fn image_settings(&self) -> ImageSettings {
        let mut settings = self.config.images.clone();
        settings.registries.proxies = self.proxies.clone();
        settings
    }

    /// The images of registries that this host keeps. Blocks while it looks after them.
    ///
    /// # Errors
    ///
    /// If the store cannot be made or written.
    pub fn image_store(&self) -> Result<ImageStore, StoreError> {
        ImageStore::open(&self.state_dir, self.image_settings())
    }

    /// Where caches are kept.
    pub(crate) fn cache_settings(&self) -> CacheSettings {
        CacheSettings {
            registry: self.config.cache.clone(),
            folder: self.state_dir.join("cache"),
        }
    }

    /// The state folder; what dead processes left in it is removed. Blocks while it does so.
    pub(crate) fn state(&self) -> Result<StateDir, StateError> {
        StateDir::open(&self.state_dir)
    }

    /// What VMs boot.
    pub(crate) fn boot_files(&self) -> Result<BootFiles, BootFilesError> {
        BootFiles::open(&self.images_dir)
    }

    /// Where programs are, in the form of `PATH`.
    pub(crate) fn search_path(&self) -> &OsStr {
        &self.search_path
    }

    pub(crate) fn proxies(&self) -> &Proxies {
        &self.proxies
    }

    pub(crate) fn texts(&self) -> &Texts {
        &self.texts
    }

    /// The variables that programs of the host are started with.
    pub(crate) fn program_environment(&self) -> Vec<(OsString, OsString)> {
        let path = ("PATH".into(), self.search_path.clone());
        let proxies = self.proxies.variables();
        std::iter::once(path)
            .chain(proxies.map(|(name, url)| (name.into(), url.into())))
            .collect()
    }
}

impl HostBuilder {
    /// What runs VMs; [`Backend::Auto`] if it is not told.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.0.backend = backend;
        self
    }

    /// What the operator's configuration says; defaults if it is not told.
    pub fn config(mut self, config: Config) -> Self {
        self.0.config = config;
        self
    }

    /// The host's name in traces; the kernel's if it is not told.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.0.name = Some(name.into());
        self
    }

    /// Where QEMU, git and the like are, in the form of `PATH`; Debian's usual folders if it is not told.
    pub fn search_path(mut self, path: impl Into<OsString>) -> Self {
        self.0.search_path = path.into();
        self
    }

    /// What GitLab, repositories and registries are reached through; none if it is not told.
    pub fn proxies(mut self, proxies: Proxies) -> Self {
        self.0.proxies = proxies;
        self
    }

    /// The first line of traces, as in `Running with vk 0.1.0`, and the name in `Preparing the "vk" executor`.
    pub fn greeting(mut self, line: impl Into<String>, executor: impl Into<String>) -> Self {
        self.0.texts.greeting = line.into();
        self.0.texts.executor = executor.into();
        self
    }

    /// `User-Agent` of requests for sources and artifacts, as in `vk 0.1.0 linux/amd64`.
    pub fn user_agent(mut self, text: impl Into<String>) -> Self {
        self.0.texts.user_agent = text.into();
        self
    }

    /// The host.
    #[must_use]
    pub fn build(self) -> Host {
        self.0
    }
}

fn kernel_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}
