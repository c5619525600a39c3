//! The context of GitLab Runner's examples (gitlab-runner, build §0.4).

use vk_hub_proto::job::{CiJob, JobInfo, RefType, Sources, Step, TraceOptions, Variable};

/// Short for [`Variable::public`].
pub(crate) fn variable(key: &str, value: &str) -> Variable {
    Variable::public(key, value)
}

pub(crate) fn variables(pairs: &[(&str, &str)]) -> Vec<Variable> {
    pairs
        .iter()
        .map(|(key, value)| variable(key, value))
        .collect()
}

pub(crate) fn step(name: &str, script: &[&str]) -> Step {
    Step {
        name: name.into(),
        script: script.iter().map(|line| (*line).to_owned()).collect(),
        ..Step::default()
    }
}

/// The job of the examples, with no step yet.
pub(crate) fn job() -> CiJob {
    with_variables(Vec::new())
}

/// The job of the examples with `own` variables behind its first.
pub(crate) fn with_variables(own: Vec<Variable>) -> CiJob {
    let mut list = variables(&[
        ("CI_RUNNER_SHORT_TOKEN", "abcdefghi"),
        ("CI_PROJECT_PATH", "grp/demo"),
    ]);
    list.extend(own);
    list.extend(variables(&[
        ("CI_RUNNER_VERSION", "19.4.0"),
        ("CI_RUNNER_REVISION", "d79f3e7b"),
        ("CI_RUNNER_EXECUTABLE_ARCH", "linux/amd64"),
    ]));
    CiJob {
        job: JobInfo {
            id: 42,
            name: "build".into(),
            project_id: 7,
            ..JobInfo::default()
        },
        token: "glcbt-tok".into(),
        server_url: "https://gitlab.example.com/".into(),
        server_ca_pem: None,
        sources: Sources {
            allow_fetch: true,
            repo_url: "https://gitlab.example.com/grp/demo.git".into(),
            git_ref: "main".into(),
            sha: "69b18e5ed3610cf646119c3e38f462c64ec462b7".into(),
            ref_type: RefType::Branch,
            refspecs: vec!["+refs/heads/main:refs/remotes/origin/main".into()],
            depth: 20,
            ..Sources::default()
        },
        timeout_secs: 3600,
        variables: list,
        steps: Vec::new(),
        image: None,
        services: Vec::new(),
        artifacts: Vec::new(),
        caches: Vec::new(),
        registry_credentials: Vec::new(),
        dependencies: Vec::new(),
        trace: TraceOptions {
            sections: true,
            ..TraceOptions::default()
        },
        hooks: Vec::new(),
    }
}
