//! A response with every field, checked field by field against the dispatch protocol's table (upstream:
//! `getRequestJobResponse`; gitlab-runner, wire §8.1).

#![allow(clippy::unwrap_used)]

use vk_gitlab::response;
use vk_gitlab::translate::{Options, Runner, Translated, translate};
use vk_hub_proto::job::{
    ArchiveFormat, Artifact, Cache, CachePolicy, CiJob, Dependency, Hook, HookName, Image, JobInfo,
    RefType, RegistryCredential, Sources, Step, TraceOptions, Variable, When,
};

const FULL: &[u8] = include_bytes!("fixtures/full-response.json");

fn options() -> Options {
    Options {
        server_url: Some("https://gitlab.example.com/".into()),
        server_ca_pem: Some("-----BEGIN CERTIFICATE-----".into()),
        output_limit: 1_000,
        runner: Runner {
            id: 77,
            short_token: Some("abcdefghi".into()),
            version: "19.5.0".into(),
            revision: "abc".into(),
            executable_arch: "linux/amd64".into(),
        },
        variables: vec![],
        own_sources: false,
    }
}

fn translated() -> Translated {
    translate(response::parse(FULL).unwrap(), &options()).unwrap()
}

fn job() -> CiJob {
    translated().job
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// gitlab-runner, wire §1.8.1.
#[test]
fn identity() {
    let job = job();
    assert_eq!(
        job.job,
        JobInfo {
            id: 10,
            name: "rspec 1/2".into(),
            stage: "test".into(),
            pipeline_id: 20,
            project_id: 123_456,
            project_name: "test-project".into(),
            project_path: "group/test-project".into(),
            namespace_id: 30,
            root_namespace_id: 31,
            user_id: 40,
            runner_id: 77,
        }
    );
    assert_eq!(job.token, "glcbt-64_job-token");
    assert_eq!(job.timeout_secs, 3600);
}

#[test]
fn server() {
    let job = job();
    assert_eq!(job.server_url, "https://gitlab.example.com/");
    assert_eq!(
        job.server_ca_pem.as_deref(),
        Some("-----BEGIN CERTIFICATE-----")
    );
}

#[test]
fn sources() {
    assert_eq!(
        job().sources,
        Sources {
            allow_fetch: true,
            repo_url: "https://gitlab.example.com/group/test-project.git".into(),
            object_format: "sha256".into(),
            git_ref: "v1.0".into(),
            sha: "1f0a97e9be14c1ff6b4bbb4e4a4d6a2d3a3cf2d9".into(),
            before_sha: "0".repeat(40),
            ref_type: RefType::Tag,
            refspecs: strings(&["+refs/tags/v1.0:refs/tags/v1.0"]),
            depth: 50,
            protected: true,
        }
    );
}

#[test]
fn variables_with_the_runners_own_around_them() {
    assert_eq!(
        job().variables,
        [
            Variable::public("CI_RUNNER_SHORT_TOKEN", "abcdefghi"),
            Variable::public("CI_SERVER_URL", "https://gitlab.example.com"),
            Variable::public("CI_COMMIT_REF_SLUG", "v1-0"),
            Variable {
                file: true,
                raw: true,
                ..Variable::public("CI_REF_NAME", "main")
            },
            Variable {
                public: false,
                masked: true,
                ..Variable::public("SECRET", "masked-value")
            },
            Variable {
                public: false,
                ..Variable::public("PLAIN", "")
            },
            Variable::public("CI_RUNNER_VERSION", "19.5.0"),
            Variable::public("CI_RUNNER_REVISION", "abc"),
            Variable::public("CI_RUNNER_EXECUTABLE_ARCH", "linux/amd64"),
        ]
    );
}

#[test]
fn steps() {
    assert_eq!(
        job().steps,
        [
            Step {
                name: "script".into(),
                script: strings(&["date", "ls -ls"]),
                timeout_secs: 3600,
                when: When::OnSuccess,
                allow_failure: false,
            },
            Step {
                name: "release".into(),
                script: strings(&["release-cli"]),
                timeout_secs: 60,
                when: When::OnSuccess,
                allow_failure: false,
            },
            Step {
                name: "after_script".into(),
                script: strings(&["ls -ls"]),
                timeout_secs: 300,
                when: When::Always,
                allow_failure: true,
            },
        ]
    );
}

/// gitlab-runner, wire §1.8.2.
#[test]
fn image() {
    assert_eq!(
        job().image,
        Some(Image {
            name: "ruby:3.3".into(),
            aliases: vec![],
            command: strings(&["/bin/sh", "-c"]),
            entrypoint: strings(&["/bin/sh"]),
            ports: vec![80],
            variables: vec![],
            pull_policy: strings(&["always", "if-not-present"]),
            platform: Some("arm64/v8".into()),
            user: Some("1000".into()),
        })
    );
}

/// gitlab-runner, wire §1.8.2 and wire §5.3.
#[test]
fn services_with_split_aliases() {
    assert_eq!(
        job().services,
        [
            Image {
                name: "postgresql:9.5".into(),
                aliases: strings(&["db-pg", "pg", "db"]),
                command: strings(&["sleep", "30"]),
                entrypoint: strings(&["/bin/sh"]),
                ports: vec![5432],
                variables: vec![Variable::public("POSTGRES_DB", "$CI_COMMIT_REF_SLUG")],
                pull_policy: vec![],
                platform: Some("amd64/linux".into()),
                user: None,
            },
            Image {
                name: "mysql:5.6".into(),
                user: Some("33".into()),
                ..Image::default()
            },
        ]
    );
}

#[test]
fn artifacts() {
    let job = job();
    assert_eq!(
        job.artifacts[0],
        Artifact {
            name: "artifact.zip".into(),
            untracked: true,
            paths: strings(&["out/zip"]),
            exclude: strings(&["out/*.o"]),
            when: When::OnFailure,
            artifact_type: "archive".into(),
            artifact_format: ArchiveFormat::Zip.into(),
            expire_in: "1 week".into(),
        }
    );
    let kinds: Vec<(&str, ArchiveFormat)> = job
        .artifacts
        .iter()
        .map(|artifact| {
            (
                artifact.artifact_type.as_str(),
                artifact.artifact_format.known().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        kinds,
        [
            ("archive", ArchiveFormat::Zip),
            ("junit", ArchiveFormat::Gzip),
            ("archive", ArchiveFormat::Zip),
            ("archive", ArchiveFormat::Raw),
            ("archive", ArchiveFormat::ZipZstd),
            ("archive", ArchiveFormat::TarZstd),
        ]
    );
}

#[test]
fn caches_with_keys_expanded_and_sanitised() {
    assert_eq!(
        job().caches,
        [
            Cache {
                key: "gems--19.5.0".into(),
                raw_key: "v1-0/../gems--19.5.0 ".into(),
                fallback_keys: strings(&["gems/v1-0", ""]),
                raw_fallback_keys: strings(&["gems/v1-0", ".."]),
                untracked: false,
                policy: CachePolicy::Push,
                paths: strings(&["vendor/*"]),
                when: When::Always,
            },
            Cache {
                key: "rspec 1/2/v1.0".into(),
                raw_key: "rspec 1/2/v1.0".into(),
                fallback_keys: vec![],
                raw_fallback_keys: vec![],
                untracked: true,
                policy: CachePolicy::PullPush,
                paths: vec![],
                when: When::OnSuccess,
            },
        ]
    );
}

#[test]
fn credentials_of_registries_alone() {
    assert_eq!(
        job().registry_credentials,
        [RegistryCredential {
            url: "registry.example.com".into(),
            username: "gitlab-ci-token".into(),
            password: "pw".into(),
        }]
    );
}

#[test]
fn dependencies() {
    assert_eq!(
        job().dependencies,
        [
            Dependency {
                id: 9,
                name: "other-job".into(),
                token: "dep-token".into(),
                filename: "artifacts.zip".into(),
                size: 13_631_488,
            },
            Dependency {
                id: 8,
                name: "without".into(),
                token: "dep-token-2".into(),
                ..Dependency::default()
            },
        ]
    );
}

/// gitlab-runner, wire §1.8.3.
#[test]
fn trace_options() {
    assert_eq!(
        job().trace,
        TraceOptions {
            sections: true,
            mask_prefixes: strings(&["glpat-", "corp-"]),
            limit_bytes: 1_000,
        }
    );
}

#[test]
fn hooks_that_are_known() {
    let Translated { job, warnings, .. } = translated();
    assert_eq!(
        job.hooks,
        [
            Hook {
                name: HookName::PreGetSourcesScript,
                script: strings(&["echo pre"]),
            },
            Hook {
                name: HookName::PostGetSourcesScript,
                script: strings(&["echo post"]),
            },
        ]
    );
    assert_eq!(
        warnings,
        ["the job's hook \"later_script\" is not known and ignored"]
    );
}

#[test]
fn what_the_daemon_alone_needs_stays_in_the_response() {
    let response = response::parse(FULL).unwrap();
    assert_eq!(
        response.features.failure_reasons,
        ["script_failure", "unknown_failure"]
    );
}

/// gitlab-runner, build §1.5.3.
#[test]
fn a_policy_s_lines_go_into_the_trace() {
    assert_eq!(translated().notices[0], "Job triggered by policy \"p\".");
}
