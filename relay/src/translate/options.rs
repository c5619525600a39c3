//! What a translation is told beside the response.

use vk_hub_proto::job::TraceOptions;

/// The version of GitLab Runner that vk behaves as (dispatch protocol), for scripts that ask for it.
const COMPATIBLE_VERSION: &str = "19.5.0";

/// What a response does not say.
#[derive(Clone, Debug)]
pub struct Options {
    /// URL of the GitLab server; else what the job's `CI_SERVER_URL` says.
    pub server_url: Option<String>,
    /// PEM certificates to check the server's TLS chain with.
    pub server_ca_pem: Option<String>,
    /// Bytes after which the trace is cut.
    pub output_limit: u64,
    /// Who takes the job.
    pub runner: Runner,
    /// Variables that win over the job's own of the same name; each takes over what that one is (masked, a file, raw).
    pub variables: Vec<(String, String)>,
    /// Whether the caller puts the job's sources in itself, so that the response need not have any.
    pub own_sources: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            server_url: None,
            server_ca_pem: None,
            output_limit: TraceOptions::default().limit_bytes,
            runner: Runner::default(),
            variables: Vec::new(),
            own_sources: false,
        }
    }
}

/// The runner, as the job's variables tell of it.
#[derive(Clone, Debug)]
pub struct Runner {
    /// ID that GitLab's verify call answered; 0 when unknown.
    pub id: u64,
    /// Shortened authentication token (`CI_RUNNER_SHORT_TOKEN`), when there is one.
    pub short_token: Option<String>,
    /// `CI_RUNNER_VERSION`.
    pub version: String,
    /// `CI_RUNNER_REVISION`.
    pub revision: String,
    /// `CI_RUNNER_EXECUTABLE_ARCH`, such as `linux/amd64`.
    pub executable_arch: String,
}

impl Default for Runner {
    /// A runner that GitLab does not know, of the GitLab Runner version that vk behaves as.
    fn default() -> Self {
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            arch => arch,
        };
        Self {
            id: 0,
            short_token: None,
            version: COMPATIBLE_VERSION.to_owned(),
            revision: concat!("vk-", env!("CARGO_PKG_VERSION")).to_owned(),
            executable_arch: format!("{}/{arch}", std::env::consts::OS),
        }
    }
}
