//! Where a job's artifacts go to and come from: GitLab, a folder of this host, or whatever implements [`ArtifactStore`].

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use tokio::sync::OnceCell;
use vk_http::Proxies;
use vk_trace::OutputSender;

use super::client::{ClientError, GitLab};
use super::download::{Download, DownloadError};
use super::upload::{Unmade, Upload, UploadError};
use crate::spool::Spooled;

/// A future behind a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where a job's artifacts go to, and where those of earlier jobs come from. Dropping a future ends its work.
pub trait ArtifactStore: fmt::Debug + Send + Sync {
    /// Stores an archive. What is worth telling goes to `output`.
    ///
    /// # Errors
    ///
    /// [`UploadError`]: the job fails.
    fn upload<'a>(
        &'a self,
        upload: Upload<'a>,
        output: &'a OutputSender,
    ) -> BoxFuture<'a, Result<(), UploadError>>;

    /// Tells of an archive that cannot be made, for which the job fails, and answers how: with the reason, unless a store
    /// has more to say.
    fn unmade<'a>(
        &'a self,
        unmade: Unmade<'a>,
        _output: &'a OutputSender,
    ) -> BoxFuture<'a, UploadError> {
        Box::pin(async move { UploadError::Other(unmade.reason.to_owned()) })
    }

    /// Brings an earlier job's archive.
    ///
    /// # Errors
    ///
    /// [`DownloadError`]: the job fails.
    fn download<'a>(
        &'a self,
        download: Download<'a>,
        output: &'a OutputSender,
    ) -> BoxFuture<'a, Result<Spooled, DownloadError>>;
}

/// A GitLab server, connected to when it is first needed.
#[derive(Debug)]
pub struct GitLabArtifacts {
    server_url: String,
    ca_pem: Option<String>,
    proxies: Proxies,
    user_agent: String,
    client: OnceCell<GitLab>,
}

impl GitLabArtifacts {
    /// The server at `server_url`; `ca_pem` are certificates to trust beside the host's own.
    #[must_use]
    pub fn new(
        server_url: String,
        ca_pem: Option<String>,
        proxies: Proxies,
        user_agent: String,
    ) -> Self {
        Self {
            server_url,
            ca_pem,
            proxies,
            user_agent,
            client: OnceCell::new(),
        }
    }

    async fn client(&self) -> Result<&GitLab, ClientError> {
        let ca_pem = self.ca_pem.as_deref();
        self.client
            .get_or_try_init(async || {
                GitLab::new(&self.server_url, ca_pem, &self.proxies, &self.user_agent)
            })
            .await
    }
}

impl ArtifactStore for GitLabArtifacts {
    fn upload<'a>(
        &'a self,
        upload: Upload<'a>,
        output: &'a OutputSender,
    ) -> BoxFuture<'a, Result<(), UploadError>> {
        Box::pin(async move { self.client().await?.upload(&upload, output).await })
    }

    fn unmade<'a>(
        &'a self,
        unmade: Unmade<'a>,
        output: &'a OutputSender,
    ) -> BoxFuture<'a, UploadError> {
        Box::pin(async move {
            match self.client().await {
                Ok(client) => client.unmade(&unmade, output).await,
                Err(error) => error.into(),
            }
        })
    }

    fn download<'a>(
        &'a self,
        download: Download<'a>,
        output: &'a OutputSender,
    ) -> BoxFuture<'a, Result<Spooled, DownloadError>> {
        Box::pin(async move { self.client().await?.download(&download, output).await })
    }
}

/// A folder of this host that keeps one job's artifacts, instead of their upload. Those of earlier jobs come from
/// GitLab.
#[derive(Debug)]
pub struct KeptArtifacts {
    folder: PathBuf,
    earlier: GitLabArtifacts,
    /// Names that are taken by artifacts of this job.
    taken: Mutex<Vec<String>>,
}

impl KeptArtifacts {
    /// Keeps artifacts in `folder`, which is made when it is needed.
    #[must_use]
    pub fn new(folder: PathBuf, earlier: GitLabArtifacts) -> Self {
        Self {
            folder,
            earlier,
            taken: Mutex::default(),
        }
    }

    fn free_name(&self, upload: &Upload<'_>) -> String {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let name = free_name(&taken, upload.artifact_type, upload.file_name);
        taken.push(name.clone());
        name
    }
}

impl ArtifactStore for KeptArtifacts {
    fn upload<'a>(
        &'a self,
        upload: Upload<'a>,
        output: &'a OutputSender,
    ) -> BoxFuture<'a, Result<(), UploadError>> {
        Box::pin(async move {
            let path = self.folder.join(self.free_name(&upload));
            let (from, to) = (upload.file.path().to_owned(), path.clone());
            let kept = tokio::task::spawn_blocking(move || keep_file(&from, &to)).await;
            let problem = match kept {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(problem) = problem {
                let text = format!("cannot keep artifacts in {}: {problem}", path.display());
                return Err(UploadError::Host(text));
            }
            let text = format!("Kept artifacts as {}", path.display());
            output.info(&text).await;
            Ok(())
        })
    }

    fn download<'a>(
        &'a self,
        download: Download<'a>,
        output: &'a OutputSender,
    ) -> BoxFuture<'a, Result<Spooled, DownloadError>> {
        self.earlier.download(download, output)
    }
}

/// Copies an archive to `path`, where it is whole or not at all, readable as other files of this user.
fn keep_file(archive: &Path, path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let draft = tempfile::Builder::new()
        .prefix(".vk-artifact-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    // The contents alone: `fs::copy` would take the archive's mode along.
    io::copy(&mut File::open(archive)?, &mut draft.as_file())?;
    draft.persist(path)?;
    Ok(())
}

/// A name for a file of artifacts that is not in `taken`: its own, else with its type or a number before it.
fn free_name(taken: &[String], artifact_type: &str, file_name: &str) -> String {
    // GitLab Runner's rules give a name with a slash for the artifact name `/`.
    let plain = |text: &str| text.replace('/', "_");
    let name = plain(file_name);
    let with_type = [format!("{}-{name}", plain(artifact_type))];
    std::iter::once(name.clone())
        .chain(with_type)
        .chain((2..).map(|number| format!("{number}-{name}")))
        .find(|name| !taken.contains(name))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_files_do_not_overwrite_one_another_or_leave_their_folder() {
        let mut taken = Vec::new();
        for expected in ["a.zip", "junit-a.zip", "2-a.zip", "3-a.zip"] {
            let name = free_name(&taken, "junit", "a.zip");
            assert_eq!(name, expected);
            taken.push(name);
        }
        assert_eq!(free_name(&[], "x", "/.zip"), "_.zip");
        assert_eq!(free_name(&["_.zip".into()], "../x", "/.zip"), ".._x-_.zip");
    }
}
