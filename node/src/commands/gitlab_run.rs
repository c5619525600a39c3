//! `vk gitlab run`: one GitLab job, from its job response to its trace.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use tempfile::NamedTempFile;
use tokio::io::AsyncWrite;
use vk_driver::{Host, Job, JobEvent, Stage};
use vk_gitlab::response;
use vk_gitlab::translate::{Options, TranslateError, Translated, translate};
use vk_hub_proto::job::{CiJob, Failure, JobResult};

use crate::cli::HostArgs;
use crate::exit::{self, Status};
use crate::log::print_error;
use crate::progress::Progress;
use crate::signals;

#[derive(Debug, Args)]
#[command(after_help = "Example:
  vk gitlab run examples/hello.json --repo . --result result.json

Exit status: 0 the job succeeded, 1 its script failed (the script's own code is in the result), 2 bad usage or
unreadable input, 4 timed out, 5 cancelled, 3 any other failure. The first SIGINT or SIGTERM cancels gracefully
(after_script still runs), the second at once.")]
pub(crate) struct GitlabRunArgs {
    /// Job response as GitLab's `POST /api/v4/jobs/request` answers it, or written by hand (docs/job-json.md);
    /// `-` reads standard input
    #[arg(value_name = "JOB.json")]
    job: PathBuf,
    /// Write the trace there instead of standard output
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write the result there, as JSON
    #[arg(long, value_name = "FILE")]
    result: Option<PathBuf>,
    /// Take the sources from this local repository; an empty sha means its HEAD
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// Keep artifacts in this folder instead of uploading them
    #[arg(long, value_name = "DIR")]
    artifacts_dir: Option<PathBuf>,
    /// URL of the GitLab server [default: the job's CI_SERVER_URL, else the origin of its repo_url]
    #[arg(long, value_name = "URL")]
    server_url: Option<String>,
    /// PEM certificates to trust for the GitLab server, beside the host's own
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Set a variable over the job's own; may be given several times
    #[arg(long = "var", value_name = "K=V", value_parser = super::parse_variable)]
    variables: Vec<(String, String)>,
    /// Stamp every line of the trace [default: the job's FF_TIMESTAMPS]
    #[arg(long, value_enum, value_name = "on|off")]
    timestamps: Option<Switch>,
    /// Bytes after which the trace is cut [default: 4194304]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    output_limit: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// Runs the command.
pub(crate) async fn run(host: &HostArgs, args: GitlabRunArgs) -> Status {
    let host = match host.open() {
        Ok(host) => host,
        Err(status) => return status,
    };
    let loaded = match load(&args) {
        Ok(loaded) => loaded,
        Err(text) => {
            print_error(&text);
            return exit::USAGE;
        }
    };
    let mut trace = match open_trace(args.trace.as_deref()).await {
        Ok(trace) => trace,
        Err(text) => {
            print_error(&text);
            return exit::USAGE;
        }
    };
    let result_file = match args.result.as_deref().map(ResultFile::open).transpose() {
        Ok(file) => file,
        Err(error) => {
            let path = args.result.as_deref().unwrap_or(Path::new("")).display();
            print_error(&format!("cannot write the result to {path}: {error}"));
            return exit::USAGE;
        }
    };
    let result = match run_loaded(host, &args, loaded, trace.as_mut()).await {
        Ok(result) => result,
        Err(error) => {
            print_error(&format!("cannot catch signals: {error}"));
            return exit::SYSTEM;
        }
    };
    if let Some(message) = &result.message {
        print_error(message);
    }
    if let Some(file) = result_file
        && let Err(error) = file.write(&result)
    {
        print_error(&format!("cannot write the result: {error}"));
        return exit::SYSTEM;
    }
    Status::of_job(result.failure)
}

/// What a job file became.
enum Loaded {
    /// A job, and lines for its trace.
    Job(Box<CiJob>, Vec<String>),
    /// It was read well and must not run; what is known of it.
    Refused(Box<Job>, Failure, String),
}

/// Reads and translates the job file; the error is bad usage, in words.
fn load(args: &GitlabRunArgs) -> Result<Loaded, String> {
    let name = args.job.display();
    let bytes = read_job(&args.job).map_err(|error| format!("cannot read {name}: {error}"))?;
    let response = response::parse(&bytes).map_err(|error| format!("{name} {error}"))?;
    let options = translate_options(args)?;
    match translate(response, &options) {
        Ok(Translated {
            job,
            warnings,
            notices,
        }) => {
            for warning in &warnings {
                print_error(warning);
            }
            Ok(Loaded::Job(Box::new(job), notices))
        }
        Err(TranslateError::Refused { refusal, job }) => {
            let (class, message) = (refusal.failure(), refusal.to_string());
            Ok(Loaded::Refused(Box::new(Job::new(*job)), class, message))
        }
        Err(error) => Err(format!("{name} {error}")),
    }
}

fn read_job(path: &Path) -> io::Result<Vec<u8>> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    fs::read(path)
}

fn translate_options(args: &GitlabRunArgs) -> Result<Options, String> {
    let server_ca_pem = match &args.ca_file {
        Some(path) => Some(
            fs::read_to_string(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?,
        ),
        None => None,
    };
    let mut options = Options {
        server_url: args.server_url.clone(),
        server_ca_pem,
        variables: args.variables.clone(),
        own_sources: args.repo.is_some(),
        ..Options::default()
    };
    if let Some(limit) = args.output_limit {
        options.output_limit = limit;
    }
    Ok(options)
}

async fn open_trace(path: Option<&Path>) -> Result<Box<dyn AsyncWrite + Send + Unpin>, String> {
    match path {
        None => Ok(Box::new(tokio::io::stdout())),
        Some(path) => match tokio::fs::File::create(path).await {
            Ok(file) => Ok(Box::new(file)),
            Err(error) => Err(format!(
                "cannot write the trace to {}: {error}",
                path.display()
            )),
        },
    }
}

async fn run_loaded(
    host: Host,
    args: &GitlabRunArgs,
    loaded: Loaded,
    trace: &mut (dyn AsyncWrite + Send + Unpin),
) -> io::Result<JobResult> {
    let cancel = signals::cancel()?;
    // The trace may go to the same terminal: it has nothing to say while the VM boots.
    let mut progress = None;
    let mut observer = |event| {
        progress = match event {
            JobEvent::StageStarted(Stage::PrepareExecutor) => {
                Some(Progress::start("booting the VM"))
            }
            _ => None,
        };
    };
    let with_options = |mut job: Job| {
        if let Some(switch) = args.timestamps {
            job = job.timestamps(switch == Switch::On);
        }
        if let Some(repo) = &args.repo {
            job = job.local_repo(repo);
        }
        match &args.artifacts_dir {
            Some(folder) => job.keep_artifacts(folder),
            None => job,
        }
    };
    Ok(match loaded {
        Loaded::Refused(job, class, message) => {
            let job = with_options(*job);
            vk_driver::refuse(&host, job, class, &message, trace, &cancel).await
        }
        Loaded::Job(spec, notices) => {
            let job = with_options(Job::new(*spec).notices(notices));
            vk_driver::run(&host, job, trace, &cancel, &mut observer).await
        }
    })
}

/// Where the result goes; opened before the job runs, so that no job runs whose result cannot be written.
enum ResultFile {
    /// A file: written whole or not at all.
    Draft(NamedTempFile, PathBuf),
    /// What is no file (a pipe, a terminal): written to as it is.
    Stream(fs::File),
}

impl ResultFile {
    fn open(path: &Path) -> io::Result<Self> {
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Ok(Self::Stream(fs::OpenOptions::new().write(true).open(path)?));
        }
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let draft = tempfile::Builder::new()
            .prefix(".vk-result-")
            // As any other file that a command writes: the umask decides.
            .permissions(fs::Permissions::from_mode(0o666))
            .tempfile_in(parent.unwrap_or(Path::new(".")))?;
        Ok(Self::Draft(draft, path.to_owned()))
    }

    fn write(self, result: &JobResult) -> io::Result<()> {
        let mut json = serde_json::to_vec_pretty(result)?;
        json.push(b'\n');
        match self {
            Self::Stream(mut file) => file.write_all(&json),
            Self::Draft(mut draft, path) => {
                draft.write_all(&json)?;
                draft.persist(path)?;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_result(path: &Path) {
        ResultFile::open(path)
            .unwrap()
            .write(&JobResult::default())
            .unwrap();
    }

    #[test]
    fn a_result_replaces_a_file_and_leaves_no_draft() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        fs::write(&path, "old").unwrap();

        write_result(&path);

        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().collect();
        assert_eq!(names.len(), 1);
        assert!(fs::read_to_string(&path).unwrap().contains("output_len"));
    }

    #[test]
    fn what_is_no_file_is_written_to_and_stays_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("sink");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();

        write_result(&link);

        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_folder_that_is_not_there_is_found_out_before_the_job_runs() {
        let dir = tempfile::tempdir().unwrap();

        assert!(ResultFile::open(&dir.path().join("missing/result.json")).is_err());
    }
}
