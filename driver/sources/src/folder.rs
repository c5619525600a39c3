//! The private folder of a checkout, and what is in it before git runs.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::credential::Credential;
use super::error::CheckoutError;
use super::plan::Plan;
use super::request::CheckoutRequest;
use super::settings::{Scoped, Settings, TEMPLATE, scopes};

/// The private folder of one checkout.
pub(super) struct Folder {
    /// Without links in it, as git prints it.
    pub(super) path: PathBuf,
    /// Removes it.
    owner: TempDir,
}

impl Folder {
    pub(super) fn new(work_dir: &Path) -> Result<Self, CheckoutError> {
        let owner = tempfile::Builder::new()
            .prefix("sources-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(work_dir)
            .map_err(CheckoutError::io("make a folder in", work_dir))?;
        let path = owner
            .path()
            .canonicalize()
            .map_err(CheckoutError::io("resolve", owner.path()))?;
        let folder = Self { path, owner };
        for path in [folder.project(), folder.home(), folder.template()] {
            DirBuilder::new()
                .mode(0o700)
                .create(&path)
                .map_err(CheckoutError::io("make the folder", &path))?;
        }
        Ok(folder)
    }

    pub(super) fn project(&self) -> PathBuf {
        self.path.join("project")
    }

    pub(super) fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    pub(super) fn template(&self) -> PathBuf {
        self.path.join("template")
    }

    pub(super) fn write_settings(
        &self,
        request: &CheckoutRequest<'_>,
        plan: &Plan,
        credential: Option<&Credential>,
    ) -> Result<(), CheckoutError> {
        let origin = plan.origin.as_ref().map_or("", |origin| &origin.text);
        let ca_file = match request.ca_pem {
            Some(pem) => Some(self.write("ca.pem", &with_host_certificates(pem))?),
            None => None,
        };
        let ca_file = ca_file.as_deref().map(Path::to_string_lossy);
        let ssh = request.submodules.and_then(|wanted| wanted.force_https);
        let settings = Settings {
            scoped: Scoped {
                scopes: scopes(&[origin, request.server_url]),
                helper: credential.map(Credential::helper),
                correlation_id: request.correlation_id,
                ca_file: ca_file.as_deref(),
                force_https: ssh.map(|ssh| (ssh, request.server_url)),
            },
            user_agent: request.user_agent,
            stall_after: request.stall_after,
            local: request.local_repo.is_some(),
        };
        self.write("home/.gitconfig", settings.render().as_bytes())?;
        self.write("template/config", TEMPLATE.as_bytes())?;
        Ok(())
    }

    /// Leaves the folder to the caller, to remove by dropping it.
    pub(super) fn into_owner(self) -> TempDir {
        self.owner
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, CheckoutError> {
        let path = self.path.join(name);
        write_private(&path, content).map_err(CheckoutError::io("write", &path))?;
        Ok(path)
    }
}

/// Writes a new file that its owner alone can read, whatever this process' umask.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::options()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)?;
    // A umask may have taken the owner's own rights.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(content)
}

/// Where distributions keep the host's certificates: Debian and Alpine, Fedora, openSUSE.
const HOST_CERTIFICATES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// `http.sslCAInfo` takes the place of the host's certificates, so they go into the file too.
fn with_host_certificates(pem: &str) -> Vec<u8> {
    let mut bundle = HOST_CERTIFICATES
        .iter()
        .find_map(|path| fs::read(path).ok())
        .unwrap_or_default();
    bundle.push(b'\n');
    bundle.extend_from_slice(pem.as_bytes());
    bundle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_for_the_owner_alone() {
        let work = tempfile::tempdir().unwrap();
        let folder = Folder::new(work.path()).unwrap();

        for name in ["ca.pem", "home/.gitconfig", "template/config"] {
            let path = folder.write(name, b"x").unwrap();

            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for path in [
            &folder.path,
            &folder.home(),
            &folder.template(),
            &folder.project(),
        ] {
            assert_eq!(mode(path), 0o700);
        }
    }
}
