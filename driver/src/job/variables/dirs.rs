//! Where a job lives in the guest (gitlab-runner, build §4.4).

use percent_encoding::percent_decode_str;
use url::Url;
use vk_hub_proto::job::{CiJob, Failure};

use crate::job::settings::{Settings, Strategy};

/// The job's folders in the guest; absolute paths without a slash at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobDirs {
    /// Folder that holds all projects.
    pub builds: String,
    /// The project's own folder, where scripts start.
    pub project: String,
    /// Folder beside it for file variables and the like.
    pub tmp: String,
}

/// The job asks for a folder that it may not have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the GIT_CLONE_PATH={clone_path:?} has to be within {builds:?}")]
pub(crate) struct DirsError {
    clone_path: String,
    builds: String,
}

impl DirsError {
    /// The class that the job fails with.
    #[must_use]
    pub(crate) fn failure(&self) -> Failure {
        Failure::Configuration
    }
}

impl JobDirs {
    /// The folders of `job` below `builds`, an absolute path.
    ///
    /// # Errors
    ///
    /// When `GIT_CLONE_PATH` lies outside `builds`.
    pub(crate) fn new(job: &CiJob, settings: &Settings, builds: &str) -> Result<Self, DirsError> {
        let builds = clean(builds);
        let mut project = if settings.clone_path.is_empty() {
            join(&builds, &slug(job).replace('\\', "/"))
        } else {
            clone_path(&settings.clone_path.replace('\\', "/"), &builds)?
        };
        if settings.strategy == Strategy::Empty {
            project.push_str("-empty");
        }
        let tmp = format!("{project}.tmp");
        Ok(Self {
            builds,
            project,
            tmp,
        })
    }
}

/// The path of the repository's URL, or the project's number where that says nothing.
fn slug(job: &CiJob) -> String {
    url_path(&job.sources.repo_url).unwrap_or_else(|| format!("project-{}", job.job.project_id))
}

fn url_path(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    url.host_str().filter(|host| !host.is_empty())?;
    let path = percent_decoded(url.path())?;
    let path = clean(path.strip_suffix(".git").unwrap_or(&path));
    let unusable = path == "." || path == "/" || path.contains("..") || path.contains('\0');
    (!unusable).then_some(path)
}

/// `path` as it lies within `builds`; a name there that begins with `..` counts as outside, as in GitLab Runner.
fn clone_path(path: &str, builds: &str) -> Result<String, DirsError> {
    let cleaned = clean(path);
    let within = match cleaned.strip_prefix(builds) {
        Some("") => true,
        Some(rest) => rest.starts_with('/') && !rest.starts_with("/.."),
        None => false,
    };
    if within {
        Ok(cleaned)
    } else {
        Err(DirsError {
            clone_path: path.to_owned(),
            builds: builds.to_owned(),
        })
    }
}

/// `base` and `path` as one cleaned path.
fn join(base: &str, path: &str) -> String {
    clean(&format!("{base}/{path}"))
}

/// The path without empty and `.` segments, `..` resolved (Go's `path.Clean`).
fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => match segments.last() {
                Some(&last) if last != ".." => {
                    segments.pop();
                }
                _ if rooted => {}
                _ => segments.push(".."),
            },
            _ => segments.push(segment),
        }
    }
    let joined = segments.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// `%41` and the like decoded; `None` where that gives no text, or a `%` stands alone (Go's `url.Parse`).
fn percent_decoded(path: &str) -> Option<String> {
    let is_encoded = |rest: &str| {
        let digits = rest.as_bytes().first_chunk::<2>();
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !path.split('%').skip(1).all(is_encoded) {
        return None;
    }
    let text = percent_decode_str(path).decode_utf8().ok()?;
    Some(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::testing;
    use vk_hub_proto::job::variables::Variables;

    fn dirs(repo_url: &str, settings: &[(&str, &str)]) -> Result<JobDirs, DirsError> {
        let mut job = testing::job();
        job.sources.repo_url = repo_url.into();
        let variables: Variables = testing::variables(settings).into_iter().collect();
        let (settings, _) = Settings::resolve(&variables, true, 0);
        JobDirs::new(&job, &settings, "/builds")
    }

    /// gitlab-runner, build §4.4.
    #[test]
    fn the_project_folder_is_the_path_of_the_repositorys_url() {
        let cases = [
            (
                "https://gitlab.example.com/grp/demo.git",
                "/builds/grp/demo",
            ),
            ("http://127.0.0.1:8080/repos/web.git", "/builds/repos/web"),
            ("https://h/a/b/c", "/builds/a/b/c"),
            ("https://h/a//b.git/", "/builds/a/b.git"),
            ("https://h/a%20b/%C3%A9.git", "/builds/a b/é"),
            ("https://h/sub/url/grp/p.git?x=1#y", "/builds/sub/url/grp/p"),
            ("ssh://git@h:2222/grp/demo.git", "/builds/grp/demo"),
            ("https://h/x.git.git", "/builds/x.git"),
            ("https://h/a\\b.git", "/builds/a/b"),
            ("https://h/%2e%2e%2f%2e%2e%2fetc", "/builds/etc"),
        ];
        for (url, project) in cases {
            let dirs = dirs(url, &[]).unwrap();
            assert_eq!(dirs.project, project, "{url}");
            assert_eq!(dirs.tmp, format!("{project}.tmp"));
        }
    }

    /// gitlab-runner, build §4.4.
    #[test]
    fn a_url_that_names_no_path_gives_the_projects_number() {
        let urls = [
            "",
            "/srv/git/demo.git",
            "file:///srv/git/demo.git",
            "git@h:grp/demo.git",
            "https://h",
            "https://h/",
            "https://h/.git",
            "https://h/a..b.git",
            "https://h/%00",
            "https://h/%ff",
            "https://h/%zz",
        ];
        for url in urls {
            assert_eq!(
                dirs(url, &[]).unwrap().project,
                "/builds/project-7",
                "{url}"
            );
        }
    }

    /// gitlab-runner, build §4.4.
    #[test]
    fn strategy_empty_names_its_folder_apart() {
        let dirs = dirs("https://h/a.git", &[("GIT_STRATEGY", "empty")]).unwrap();
        assert_eq!(dirs.project, "/builds/a-empty");
        assert_eq!(dirs.tmp, "/builds/a-empty.tmp");
    }

    /// gitlab-runner, build §4.4.
    #[test]
    fn a_clone_path_within_the_builds_folder_is_taken() {
        let cases = [
            ("/builds/x/y", "/builds/x/y"),
            ("/builds/x/./z/../y/", "/builds/x/y"),
            ("/builds/", "/builds"),
        ];
        for (path, project) in cases {
            let dirs = dirs("https://h/a.git", &[("GIT_CLONE_PATH", path)]).unwrap();
            assert_eq!(dirs.project, project, "{path}");
        }
    }

    /// gitlab-runner, build §4.4.
    #[test]
    fn backslashes_do_not_lead_a_clone_path_out_of_the_builds_folder() {
        let path = r"/builds/a\..\..\etc";

        assert!(dirs("https://h/a.git", &[("GIT_CLONE_PATH", path)]).is_err());
    }

    #[test]
    fn a_clone_path_elsewhere_is_refused() {
        let paths = [
            "/etc",
            "x",
            "../x",
            "/builds/..",
            "/builds/..x",
            "/builds2/x",
            "/builds/../etc",
        ];
        for path in paths {
            let error = dirs("https://h/a.git", &[("GIT_CLONE_PATH", path)]).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("the GIT_CLONE_PATH={path:?} has to be within \"/builds\"")
            );
            assert_eq!(error.failure(), Failure::Configuration);
        }
    }
}
