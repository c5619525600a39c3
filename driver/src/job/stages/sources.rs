//! `get_sources`: hooks in the guest around the checkout on the host, whose tree is streamed in.

use vk_hub_proto::job::{Failure, HookName};

use super::Moment;
use super::io::StageIo;
use super::script;
use vk_agent_proto::FailureKind;

use crate::job::context::{JobContext, configuration, system};
use crate::job::feature_flags::FeatureFlag;
use crate::job::order::StageFailure;
use crate::job::script::hook_script;
use crate::job::session::Session;
use crate::job::settings::{Settings, SubmoduleStrategy};
use crate::job::variables::JobEnvironment;
use vk_agent_client::{AgentError, PutTreeRequest};
use vk_sources::{
    Checkout, CheckoutError, CheckoutRequest, GUEST_CONFIG, SourceCache, SourceLine, SshServer,
    Strategy, Stream, Submodules, checkout, guest_files, tar_stream,
};
use vk_text::chain;
use vk_trace::Output;

/// Runs the stage.
pub(super) async fn run(
    context: &JobContext,
    session: &Session,
    moment: Moment,
    mut io: StageIo,
) -> Result<(), StageFailure> {
    let environment = context.environment_at(moment.status);
    hook(
        context,
        session,
        &environment,
        HookName::PreGetSourcesScript,
        &mut io,
    )
    .await?;
    go_on(&io)?;
    let (tree, files) = check_out(context, session, &environment, moment, &mut io).await?;
    go_on(&io)?;
    put(session, &environment, &tree, files, &mut io).await?;
    if let Err(error) = tree.remove().await {
        tracing::warn!(
            error = chain(&error),
            "files of the checkout stay until the job ends"
        );
    }
    go_on(&io)?;
    hook(
        context,
        session,
        &environment,
        HookName::PostGetSourcesScript,
        &mut io,
    )
    .await
}

/// A stop that came during one part is not one part's business alone.
fn go_on(io: &StageIo) -> Result<(), StageFailure> {
    if io.stop.is_set() {
        return Err(system("the sources were stopped".to_owned()));
    }
    Ok(())
}

async fn hook(
    context: &JobContext,
    session: &Session,
    environment: &JobEnvironment,
    name: HookName,
    io: &mut StageIo,
) -> Result<(), StageFailure> {
    let script = hook_script(name, &context.script(environment, session.tools))
        .map_err(|error| StageFailure::new(error.failure(), error.to_string()))?;
    match script {
        Some(script) => script::run(session, script, io).await,
        None => Ok(()),
    }
}

async fn check_out(
    context: &JobContext,
    session: &Session,
    environment: &JobEnvironment,
    moment: Moment,
    io: &mut StageIo,
) -> Result<(Checkout, Vec<u8>), StageFailure> {
    let settings = environment.settings();
    let correlation_id = environment
        .is_on(FeatureFlag::GitalyCorrelationId)
        .then_some(context.correlation_id.as_str());
    let job = &context.job;
    let dirs = environment.dirs();
    let guest_config = format!("{}/{GUEST_CONFIG}", dirs.tmp);
    let cache = SourceCache::new(
        context.host.state_dir().join("sources"),
        SourceCache::MAX_BYTES,
    );
    let environment_of_host = context.host.program_environment();
    let request = CheckoutRequest {
        sources: &job.sources,
        local_repo: context.options.local_repo.as_deref(),
        server_url: &job.server_url,
        token: job.token.expose(),
        ca_pem: job.server_ca_pem.as_deref(),
        strategy: settings.strategy,
        retry: moment.attempt > 1,
        checkout: settings.checkout,
        lfs: !settings.lfs_skip_smudge,
        clean_flags: (!settings.clean_flags.is_empty()).then_some(settings.clean_flags.as_slice()),
        fetch_flags: &settings.fetch_extra_flags,
        submodules: submodules(settings, environment),
        correlation_id,
        environment: &environment_of_host,
        user_agent: &context.host.texts().user_agent,
        work_dir: session.guest.work_dir(),
        guest_project_dir: &dirs.project,
        guest_config: Some(&guest_config),
        cache: Some(&cache),
        max_tree_bytes: session.guest.size().scratch_bytes,
        max_alloc_bytes: CheckoutRequest::MAX_ALLOC_BYTES,
        stall_after: CheckoutRequest::STALL_AFTER,
    };

    let StageIo { output, stop } = io;
    let mut lines = |line: SourceLine| output.send_now(output_of(line));
    let stopped = async {
        stop.stopped().await;
    };
    let result = checkout(&request, &mut lines, stopped).await;
    let tree = result.map_err(|error| failure(&error))?;
    let ca_file = format!("{}/CI_SERVER_TLS_CA_FILE", dirs.tmp);
    let ca_file = job.server_ca_pem.is_some().then_some(ca_file.as_str());
    let files = guest_files(&request, &dirs.tmp, ca_file).map_err(|error| failure(&error))?;
    Ok((tree, files))
}

fn failure(error: &CheckoutError) -> StageFailure {
    let class = match error.failure() {
        // What the stage machine makes of it depends on why it was stopped.
        Failure::Canceled => Failure::System,
        class => class,
    };
    match error.exit_code() {
        // git has said what is wrong; the last line is that of a script which ran it.
        Some(code) => StageFailure {
            class,
            exit_code: None,
            message: format!("exit code {code}"),
            detail: Some(chain(error)),
        },
        None => StageFailure::new(class, chain(error)),
    }
}

fn submodules<'a>(
    settings: &'a Settings,
    environment: &'a JobEnvironment,
) -> Option<Submodules<'a>> {
    let recursive = match settings.submodule_strategy {
        // A job with an unknown one does not get here.
        SubmoduleStrategy::None | SubmoduleStrategy::Invalid => return None,
        SubmoduleStrategy::Normal => false,
        SubmoduleStrategy::Recursive => true,
    };
    Some(Submodules {
        recursive,
        depth: settings.submodule_depth,
        paths: &settings.submodule_paths,
        update_flags: &settings.submodule_update_flags,
        force_https: settings
            .submodule_force_https
            .then(|| ssh_server(environment)),
    })
}

/// Where the GitLab server answers over SSH (gitlab-runner, build §3.6).
fn ssh_server(environment: &JobEnvironment) -> SshServer<'_> {
    let variables = environment.variables();
    let host = match variables.value("CI_SERVER_SHELL_SSH_HOST") {
        "" => variables.value("CI_SERVER_HOST"),
        host => host,
    };
    SshServer {
        host,
        port: variables
            .value("CI_SERVER_SHELL_SSH_PORT")
            .parse()
            .unwrap_or(22),
    }
}

/// Puts the tree and, beside it, the files of the job's own git into the guest.
async fn put(
    session: &Session,
    environment: &JobEnvironment,
    tree: &Checkout,
    files: Vec<u8>,
    io: &mut StageIo,
) -> Result<(), StageFailure> {
    let Session { guest, process, .. } = session;
    let strategy = environment.settings().strategy;
    let put = async {
        let put_request = |dest, wipe| put_request(dest, wipe, process.user());
        let project = put_request(&environment.dirs().project, strategy != Strategy::None);
        let tree = guest
            .agent()
            .put_tree(project, tar_stream(tree.project_dir()));
        if !strategy.has_sources() {
            return tree.await.map(|_| ());
        }
        let beside = put_request(&environment.dirs().tmp, false);
        let files = guest.agent().put_tree(beside, files.as_slice());
        tokio::try_join!(tree, files).map(|_| ())
    };
    tokio::select! {
        put = put => put.map_err(|error| put_failure(&error, guest.size().scratch_bytes)),
        _ = io.stop.stopped() => Err(system("the sources were stopped on their way in".into())),
    }
}

/// A disk that the sources fill is the job's affair, not the system's.
fn put_failure(error: &AgentError, scratch_bytes: u64) -> StageFailure {
    if error.kind() == Some(FailureKind::DiskFull) {
        return configuration(format!(
            "the sources fill the job's scratch disk of {} GiB: fetch less of them (GIT_DEPTH, \
             GIT_LFS_SKIP_SMUDGE, GIT_SUBMODULE_STRATEGY): {}",
            scratch_bytes >> 30,
            chain(error)
        ));
    }
    system(chain(error))
}

fn put_request(dest: &str, wipe: bool, owner: Option<&str>) -> PutTreeRequest {
    PutTreeRequest {
        dest: dest.into(),
        mkdir: true,
        wipe,
        owner: owner.map(str::to_owned),
    }
}

/// A line of a checkout as output of the stage.
fn output_of(line: SourceLine) -> Output {
    let mut text = line.text;
    text.extend(line.ends.then_some(b'\n'));
    match line.stream {
        Stream::Out => Output::Stdout(text.into()),
        Stream::Err => Output::Stderr(text.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use vk_agent_client::Operation;
    use vk_trace::{StreamKind, Trace, TraceConfig};

    fn failed(kind: FailureKind) -> StageFailure {
        let error = AgentError::Failed {
            operation: Operation::PutTree("/builds/g/p".into()),
            kind,
            message: "no space left".into(),
        };
        put_failure(&error, 16 << 30)
    }

    #[test]
    fn a_scratch_disk_that_the_sources_fill_is_a_failure_of_the_configuration_with_its_size() {
        let failure = failed(FailureKind::DiskFull);

        assert_eq!(failure.class, Failure::Configuration);
        assert!(failure.message.contains("16 GiB"), "{}", failure.message);
        assert_eq!(failed(FailureKind::Guest).class, Failure::System);
    }

    /// A line of git's that comes in pieces is one line of the trace: what is masked is masked across them.
    #[test]
    fn a_secret_across_two_pieces_of_a_long_line_is_masked() {
        let secret = "s3cr3t-4711";
        for cut in 0..=secret.len() {
            let (head, tail) = secret.split_at(cut);
            let pieces = [
                (format!("{}{head}", "x".repeat(8000)), false),
                (tail.into(), true),
            ];
            let mut trace = Trace::new(TraceConfig {
                secrets: vec![secret.into()],
                token_prefixes: Vec::new(),
                mask_all_default_tokens: false,
                timestamps: false,
                limit_bytes: 1 << 20,
            });
            let now = SystemTime::UNIX_EPOCH;
            let stream = trace.open(1, StreamKind::Err);
            for (text, ends) in pieces {
                let Output::Stderr(text) = output_of(SourceLine {
                    stream: Stream::Err,
                    text: text.into(),
                    ends,
                }) else {
                    panic!("another stream")
                };
                trace.write(&stream, now, &text);
            }
            trace.close(stream, now);

            let shown = String::from_utf8_lossy(trace.output()).into_owned();
            assert_eq!(shown, format!("{}[MASKED]\n", "x".repeat(8000)), "{cut}");
        }
    }
}
