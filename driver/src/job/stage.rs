//! The stages of a job, their names and titles (gitlab-runner, build §1.2).

use std::borrow::Cow;

use vk_hub_proto::job::Step;
use vk_text::quoted;

/// One stage. Their order is the job's, save that [`Stage::ClearWorktree`] runs between two attempts at
/// [`Stage::GetSources`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// The VM is made and booted.
    PrepareExecutor,
    /// The guest's shell runs for the first time.
    PrepareScript,
    /// The sources are checked out on the host and put into the guest.
    GetSources,
    /// What a failed attempt at the sources left is removed.
    ClearWorktree,
    /// Caches are unpacked.
    RestoreCache,
    /// Artifacts of earlier jobs are unpacked.
    DownloadArtifacts,
    /// A step of the job; its name as the job has it, not lowercased.
    Step(String),
    /// The step `after_script`.
    AfterScript,
    /// Caches are kept after success.
    ArchiveCache,
    /// Caches are kept after failure.
    ArchiveCacheOnFailure,
    /// Artifacts are uploaded after success.
    UploadArtifactsOnSuccess,
    /// Artifacts are uploaded after failure.
    UploadArtifactsOnFailure,
    /// File variables and what belongs to the checkout's credentials are removed.
    CleanupFileVariables,
}

/// The step that is not run as a [`Stage::Step`].
const AFTER_SCRIPT: &str = "after_script";

impl Stage {
    /// The stages of the job's steps in order, `after_script` left out.
    pub(crate) fn of_steps(steps: &[Step]) -> impl Iterator<Item = Self> {
        steps
            .iter()
            .filter(|step| step.name != AFTER_SCRIPT)
            .map(|step| Self::Step(step.name.clone()))
    }

    /// The name in section markers and messages.
    #[must_use]
    pub fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::PrepareExecutor => "prepare_executor",
            Self::PrepareScript => "prepare_script",
            Self::GetSources => "get_sources",
            Self::ClearWorktree => "clear_worktree",
            Self::RestoreCache => "restore_cache",
            Self::DownloadArtifacts => "download_artifacts",
            Self::Step(step) => return Cow::Owned(format!("step_{}", step.to_lowercase())),
            Self::AfterScript => AFTER_SCRIPT,
            Self::ArchiveCache => "archive_cache",
            Self::ArchiveCacheOnFailure => "archive_cache_on_failure",
            Self::UploadArtifactsOnSuccess => "upload_artifacts_on_success",
            Self::UploadArtifactsOnFailure => "upload_artifacts_on_failure",
            Self::CleanupFileVariables => "cleanup_file_variables",
        })
    }

    /// The title printed at the stage's start by the executor of that name.
    #[must_use]
    pub(crate) fn title(&self, executor: &str) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::PrepareExecutor => {
                return Cow::Owned(format!("Preparing the \"{executor}\" executor"));
            }
            Self::PrepareScript => "Preparing environment",
            Self::GetSources => "Getting source from Git repository",
            Self::ClearWorktree => {
                "Deleting all tracked and untracked files due to source fetch failure"
            }
            Self::RestoreCache => "Restoring cache",
            Self::DownloadArtifacts => "Downloading artifacts",
            Self::Step(_) => {
                return Cow::Owned(format!(
                    "Executing {} stage of the job script",
                    quoted(&self.name())
                ));
            }
            Self::AfterScript => "Running after_script",
            Self::ArchiveCache => "Saving cache for successful job",
            Self::ArchiveCacheOnFailure => "Saving cache for failed job",
            Self::UploadArtifactsOnSuccess => "Uploading artifacts for successful job",
            Self::UploadArtifactsOnFailure => "Uploading artifacts for failed job",
            Self::CleanupFileVariables => "Cleaning up project directory and file based variables",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str) -> Step {
        Step {
            name: name.into(),
            ..Step::default()
        }
    }

    /// gitlab-runner, build §1.2.
    #[test]
    fn stages_have_gitlab_runners_names_and_titles() {
        for (stage, name, title) in [
            (
                Stage::PrepareExecutor,
                "prepare_executor",
                "Preparing the \"vk\" executor",
            ),
            (
                Stage::PrepareScript,
                "prepare_script",
                "Preparing environment",
            ),
            (
                Stage::GetSources,
                "get_sources",
                "Getting source from Git repository",
            ),
            (
                Stage::ClearWorktree,
                "clear_worktree",
                "Deleting all tracked and untracked files due to source fetch failure",
            ),
            (Stage::RestoreCache, "restore_cache", "Restoring cache"),
            (
                Stage::DownloadArtifacts,
                "download_artifacts",
                "Downloading artifacts",
            ),
            (
                Stage::Step("script".into()),
                "step_script",
                "Executing \"step_script\" stage of the job script",
            ),
            (Stage::AfterScript, "after_script", "Running after_script"),
            (
                Stage::ArchiveCache,
                "archive_cache",
                "Saving cache for successful job",
            ),
            (
                Stage::ArchiveCacheOnFailure,
                "archive_cache_on_failure",
                "Saving cache for failed job",
            ),
            (
                Stage::UploadArtifactsOnSuccess,
                "upload_artifacts_on_success",
                "Uploading artifacts for successful job",
            ),
            (
                Stage::UploadArtifactsOnFailure,
                "upload_artifacts_on_failure",
                "Uploading artifacts for failed job",
            ),
            (
                Stage::CleanupFileVariables,
                "cleanup_file_variables",
                "Cleaning up project directory and file based variables",
            ),
        ] {
            assert_eq!((&*stage.name(), &*stage.title("vk")), (name, title));
        }
    }

    /// gitlab-runner, build §1.2.
    #[test]
    fn a_step_gives_its_stage_a_lowercased_name() {
        let stage = Stage::Step("Release".into());
        assert_eq!(stage.name(), "step_release");
        assert_eq!(
            stage.title("vk"),
            "Executing \"step_release\" stage of the job script"
        );
    }

    /// Golden job 220.
    #[test]
    fn a_steps_name_is_quoted_in_its_title_and_as_it_is_in_its_markers() {
        for (step, name, title) in [
            ("x\\y", "step_x\\y", r#""step_x\\y""#),
            ("X\ty\"", "step_x\ty\"", r#""step_x\ty\"""#),
            ("\u{e9}", "step_\u{e9}", "\"step_\u{e9}\""),
            ("", "step_", "\"step_\""),
        ] {
            let stage = Stage::Step(step.into());
            assert_eq!(stage.name(), name);
            let title = format!("Executing {title} stage of the job script");
            assert_eq!(stage.title("vk"), title);
        }
    }

    #[test]
    fn after_script_is_no_step_stage() {
        let steps = [step("script"), step("after_script"), step("release")];
        assert_eq!(
            Stage::of_steps(&steps).collect::<Vec<_>>(),
            [Stage::Step("script".into()), Stage::Step("release".into())]
        );
    }
}
