//! A real registry on loopback: Debian's `docker-registry` with a store of its own.

#![expect(clippy::expect_used, reason = "a test kit fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;
use vk_oci::{Credential, Credentials, RegistryClient, RegistryOptions, RetryPolicy};

/// The user of a registry that wants a login.
pub const USER: &str = "builder";

/// This user's password.
pub const PASSWORD: &str = "hush-hush";

/// [`PASSWORD`] as `htpasswd -B -C 4` writes it.
const PASSWORD_HASH: &str = "$2b$04$abcdefghijklmnopqrstuu9AsmTW0GVvQkIMJII9dLx.Ve/x6XdxC";

/// Patience for tests: enough for some attempts, soon over.
#[must_use]
pub fn short_retries() -> RetryPolicy {
    RetryPolicy {
        lost: Duration::from_millis(400),
        busy: Duration::from_secs(3),
        unknown_host: Duration::from_millis(100),
        first_pause: Duration::from_millis(10),
        longest_pause: Duration::from_millis(50),
        // Pauses are a two-hundredth of those of the default, so bytes come so much faster.
        least_rate: 200 * RetryPolicy::default().least_rate,
    }
}

/// What a registry demands of its clients.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demands {
    /// TLS, with a certificate that is in [`Registry::ca_pem`].
    pub tls: bool,
    /// A login: [`USER`] and [`PASSWORD`].
    pub login: bool,
}

/// A running registry; stopped, and its store removed, when dropped.
#[derive(Debug)]
pub struct Registry {
    demands: Demands,
    host: String,
    ca_pem: String,
    folder: TempDir,
    process: Child,
    /// Reads what the registry says, so that it never waits for a reader.
    log: Option<JoinHandle<()>>,
}

impl Registry {
    /// An open registry that speaks plain HTTP.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn start() -> Self {
        Self::with(Demands::default())
    }

    /// A registry with `demands`.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    #[must_use]
    pub fn with(demands: Demands) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the registry");
        let (process, host, log, ca_pem) = launch(folder.path(), demands, "127.0.0.1:0");
        Self {
            demands,
            host,
            ca_pem,
            folder,
            process,
            log: Some(log),
        }
    }

    /// `127.0.0.1:PORT`: what its references begin with.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// `team/build:1` of this registry, in full.
    #[must_use]
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.host)
    }

    /// The certificate to trust; empty without TLS.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// A client that it lets in.
    #[must_use]
    pub fn client(&self) -> RegistryClient {
        RegistryClient::new(self.options())
    }

    /// Options of a client that it lets in.
    #[must_use]
    pub fn options(&self) -> RegistryOptions {
        let mut credentials = Credentials::default();
        if self.demands.login {
            let (username, password) = (USER.to_owned(), PASSWORD.to_owned());
            credentials.insert(&self.host, Credential::Basic { username, password });
        }
        RegistryOptions {
            credentials,
            ca_pem: Some(self.ca_pem.clone())
                .filter(|pem| !pem.is_empty())
                .into_iter()
                .collect(),
            ..RegistryOptions::default()
        }
    }

    /// The folder of its store: what is below it are its blobs and links.
    #[must_use]
    pub fn store(&self) -> std::path::PathBuf {
        self.folder.path().join("store")
    }

    /// Stops it; its port refuses connections until [`Registry::resume`].
    pub fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(log) = self.log.take() {
            let _ = log.join();
        }
    }

    /// Starts it again, at the same port and with the same store.
    ///
    /// # Panics
    ///
    /// If it cannot be started.
    pub fn resume(&mut self) {
        self.stop();
        let (process, _, log, ca_pem) = launch(self.folder.path(), self.demands, &self.host);
        self.process = process;
        self.log = Some(log);
        self.ca_pem = ca_pem;
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
    }
}

fn launch(
    folder: &Path,
    demands: Demands,
    address: &str,
) -> (Child, String, JoinHandle<()>, String) {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut config = format!(
        "version: 0.1\nlog:\n  accesslog:\n    disabled: true\nstorage:\n  delete:\n    enabled: true\n  \
         filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {address}\n  secret: for-tests\n",
        path("store")
    );
    let mut ca_pem = String::new();
    if demands.tls {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])
            .expect("a certificate of our own");
        ca_pem = made.cert.pem();
        fs::write(path("cert.pem"), &ca_pem).expect("the certificate is written");
        fs::write(path("key.pem"), made.signing_key.serialize_pem()).expect("the key is written");
        config += &format!(
            "  tls:\n    certificate: {}\n    key: {}\n",
            path("cert.pem"),
            path("key.pem")
        );
    }
    if demands.login {
        fs::write(path("htpasswd"), format!("{USER}:{PASSWORD_HASH}\n"))
            .expect("the password file is written");
        config += &format!(
            "auth:\n  htpasswd:\n    realm: tests\n    path: {}\n",
            path("htpasswd")
        );
    }
    fs::write(path("config.yml"), config).expect("the configuration is written");
    let mut process = Command::new("docker-registry")
        .args(["serve", &path("config.yml")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .env("OTEL_TRACES_EXPORTER", "none")
        .spawn()
        .expect("docker-registry is installed (setup lists it) and starts");
    let mut log = BufReader::new(process.stderr.take().expect("its standard error"));
    let host = listening(&mut log);
    let log = std::thread::spawn(move || {
        let _ = std::io::copy(&mut log, &mut std::io::sink());
    });
    (process, host, log, ca_pem)
}

/// Reads the log until the registry listens, and answers where.
fn listening(log: &mut BufReader<ChildStderr>) -> String {
    let mut said = String::new();
    loop {
        let mut line = String::new();
        let size = log.read_line(&mut line).expect("the registry's log");
        if let Some((_, address)) = line.split_once("listening on ") {
            return address
                .split([',', '"', ' '])
                .next()
                .unwrap_or(address)
                .to_owned();
        }
        said += &line;
        if size == 0 {
            let _ = log.read_to_string(&mut said);
        }
        assert!(size > 0, "docker-registry ended: {said}");
    }
}
