//! `download_artifacts` and `upload_artifacts_on_success` or `…_on_failure` (gitlab-runner, wire §3.1, wire §3.2 and
//! wire §3.5).

use std::path::Path;

use tokio::sync::OnceCell;
use vk_hub_proto::job::{ArchiveFormat, Artifact, ArtifactOutcome, Dependency};

use super::Moment;
use super::io::{StageIo, StageOutput};
use super::transfer::{PackError, Transfer, failure, fatal, notice, transferring};
use crate::job::context::{JobContext, has_artifacts, system};
use crate::job::feature_flags::FeatureFlag;
use crate::job::order::StageFailure;
use vk_agent_client::ArchiveRequest;
use vk_trace::helper::Level;
use vk_transfer::Spooled;
use vk_transfer::{
    ClientError, Download, DownloadError, GitLab, Upload, UploadError, file_name, format_name,
};

/// Downloads and unpacks what earlier jobs left for this one.
pub(super) async fn download(
    context: &JobContext,
    moment: Moment,
    mut io: StageIo,
) -> Result<(), StageFailure> {
    transferring(context, moment, &mut io, |transfer| async move {
        let gitlab = OnceCell::new();
        for dependency in &context.job.dependencies {
            if dependency.filename.is_empty() {
                continue;
            }
            let (name, id) = (&dependency.name, dependency.id);
            let text = format!("Downloading artifacts for {name} ({id})...");
            notice(&transfer.notes, &text).await;
            one_download(&transfer, &gitlab, dependency).await?;
        }
        Ok(())
    })
    .await
}

async fn one_download(
    transfer: &Transfer<'_>,
    gitlab: &OnceCell<GitLab>,
    dependency: &Dependency,
) -> Result<(), StageFailure> {
    let (environment, notes) = (&transfer.environment, &transfer.notes);
    let download = Download {
        job_id: dependency.id,
        token: dependency.token.expose(),
        direct: environment.job().is_on(FeatureFlag::DirectDownload),
        folder: transfer.guest.work_dir(),
        meter: environment.meter(),
    };
    let got = match client(transfer.context, gitlab).await {
        Ok(gitlab) => gitlab.download(&download, notes).await,
        Err(error) => Err(error.into()),
    };
    let archive = match got {
        Ok(archive) => archive,
        Err(DownloadError::Spool(error)) => return Err(failure(notes, &error.into()).await),
        Err(error) => return Err(fatal(notes, &error.to_string()).await),
    };
    let file = match archive.open().await {
        Ok(file) => file,
        Err(error) => return Err(system(format!("cannot read the archive again: {error}"))),
    };
    match transfer.unpack(file, None).await {
        Ok(()) => Ok(()),
        Err(error) => Err(failure(notes, &error).await),
    }
}

/// Packs and uploads the job's artifacts for the case that the steps ended in `success`.
pub(super) async fn upload(
    context: &JobContext,
    success: bool,
    moment: Moment,
    mut io: StageIo,
) -> Result<(), StageFailure> {
    let keep = context.options.artifacts_dir.as_deref();
    if keep.is_none() && context.job.server_url.is_empty() {
        let text = "artifacts are not uploaded: the job names no GitLab server; \
                    give --server-url, or keep them with --artifacts-dir";
        io.out.send(StageOutput::Warning(text.to_owned())).await;
        return Ok(());
    }
    transferring(context, moment, &mut io, |transfer| async move {
        let mut work = Uploads {
            transfer: &transfer,
            gitlab: OnceCell::new(),
            kept: Vec::new(),
        };
        for (position, artifact) in context.job.artifacts.iter().enumerate() {
            if artifact.when.applies(success) && has_artifacts(artifact) {
                notice(&transfer.notes, "Uploading artifacts...").await;
                work.one(position, artifact).await?;
            }
        }
        Ok(())
    })
    .await
}

/// The uploads of one stage.
struct Uploads<'a> {
    transfer: &'a Transfer<'a>,
    gitlab: OnceCell<GitLab>,
    /// Names of the files that were kept on this host.
    kept: Vec<String>,
}

impl Uploads<'_> {
    async fn one(&mut self, position: usize, artifact: &Artifact) -> Result<(), StageFailure> {
        // A stage that is told to stop ends here, anywhere below.
        let context = self.transfer.context;
        context.artifact_ended(position, ArtifactOutcome::Failed);
        let result = self.pack_and_send(artifact).await;
        let (outcome, result) = match result {
            Ok(true) => (ArtifactOutcome::Uploaded, Ok(())),
            Ok(false) => (ArtifactOutcome::Skipped, Ok(())),
            Err((outcome, failure)) => (outcome, Err(failure)),
        };
        context.artifact_ended(position, outcome);
        result
    }

    /// Answers whether there was anything to upload.
    async fn pack_and_send(
        &mut self,
        artifact: &Artifact,
    ) -> Result<bool, (ArtifactOutcome, StageFailure)> {
        let Transfer {
            context,
            environment,
            notes,
            ..
        } = self.transfer;
        let format = artifact.artifact_format.known().map_err(|unknown| {
            (
                ArtifactOutcome::Failed,
                crate::job::context::configuration(unknown.to_string()),
            )
        })?;
        if environment
            .job()
            .variables()
            .is_true("RUNNER_GENERATE_ARTIFACTS_METADATA")
            && format == ArchiveFormat::Zip
        {
            notes.warning("vk does not make artifacts statements").await;
        }
        let what = "invalid artifact name";
        let name = environment.expanded(&artifact.name, what, notes).await;
        let request = ArchiveRequest {
            root: environment.job().dirs().project.clone(),
            paths: environment.expanded_paths(&artifact.paths, notes).await,
            exclude: environment.expanded_paths(&artifact.exclude, notes).await,
            untracked: artifact.untracked,
            format,
            level: environment
                .compression("ARTIFACT_COMPRESSION_LEVEL", notes)
                .await,
        };
        let archive = match self.transfer.pack(request).await {
            Ok(Some(archive)) => archive,
            Ok(None) => {
                notes.log(Level::Error, "No files to upload", &[]).await;
                return Ok(false);
            }
            Err(error) => {
                let outcome = match error {
                    PackError::TooLarge(_) => ArtifactOutcome::TooLarge,
                    _ => ArtifactOutcome::Failed,
                };
                return Err((outcome, failure(notes, &error).await));
            }
        };
        // As `--name`, which the helper gets where the job has a name (gitlab-runner, wire §3.1).
        let name = (!artifact.name.is_empty()).then_some(name.as_str());
        let file_name = file_name(name, format);
        let failed = |failure| (ArtifactOutcome::Failed, failure);
        match context.options.artifacts_dir.clone() {
            Some(folder) => self
                .keep(&folder, artifact, &file_name, archive)
                .await
                .map_err(failed)?,
            None => self.send(artifact, format, &file_name, &archive).await?,
        }
        Ok(true)
    }

    async fn send(
        &self,
        artifact: &Artifact,
        format: ArchiveFormat,
        file_name: &str,
        archive: &Spooled,
    ) -> Result<(), (ArtifactOutcome, StageFailure)> {
        let (context, notes) = (self.transfer.context, &self.transfer.notes);
        let job = &context.job;
        let upload = Upload {
            job_id: job.job.id,
            token: job.token.expose(),
            file: archive,
            file_name,
            format: format_name(format),
            artifact_type: &artifact.artifact_type,
            expire_in: &artifact.expire_in,
            meter: self.transfer.environment.meter(),
        };
        let result = match client(context, &self.gitlab).await {
            Ok(gitlab) => gitlab.upload(&upload, notes).await,
            Err(error) => Err(error.into()),
        };
        match result {
            Ok(()) => Ok(()),
            Err(error) => {
                let outcome = match error {
                    UploadError::TooLarge => ArtifactOutcome::TooLarge,
                    _ => ArtifactOutcome::Failed,
                };
                Err((outcome, fatal(notes, &error.to_string()).await))
            }
        }
    }

    /// Keeps an archive on this host instead.
    async fn keep(
        &mut self,
        folder: &Path,
        artifact: &Artifact,
        file_name: &str,
        archive: Spooled,
    ) -> Result<(), StageFailure> {
        let name = free_name(&self.kept, &artifact.artifact_type, file_name);
        let path = folder.join(&name);
        let kept = {
            let path = path.clone();
            tokio::task::spawn_blocking(move || keep_file(&path, &archive)).await
        };
        let problem = match kept {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(problem) = problem {
            let text = format!("cannot keep artifacts in {}: {problem}", path.display());
            return Err(system(text));
        }
        let text = format!("Kept artifacts as {}", path.display());
        self.transfer.notes.info(&text).await;
        self.kept.push(name);
        Ok(())
    }
}

/// Copies an archive to `path`, where it is whole or not at all, readable as other files of this user.
fn keep_file(path: &Path, archive: &Spooled) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let draft = tempfile::Builder::new()
        .prefix(".vk-artifact-")
        .permissions(std::fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    // The contents alone: `fs::copy` would take the spool's mode along.
    std::io::copy(
        &mut std::fs::File::open(archive.path())?,
        &mut draft.as_file(),
    )?;
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

/// The GitLab server's client, made when it is first needed.
async fn client<'c>(
    context: &JobContext,
    cell: &'c OnceCell<GitLab>,
) -> Result<&'c GitLab, ClientError> {
    let (job, host) = (&context.job, &context.host);
    let ca_pem = job.server_ca_pem.as_deref();
    let agent = &host.texts().user_agent;
    cell.get_or_try_init(async || GitLab::through(&job.server_url, ca_pem, host.proxies(), agent))
        .await
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
