//! What translation makes of short, odd and refused responses.

#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;
use vk_gitlab::response::{self, JobResponse};
use vk_gitlab::translate::{Options, Refusal, TranslateError, Translated, translate};
use vk_hub_proto::job::{Failure, HookName, Variable};

fn parsed(json: &str) -> JobResponse {
    response::parse(json.as_bytes()).unwrap()
}

fn translated(json: &str, options: &Options) -> Translated {
    translate(parsed(json), options).unwrap()
}

fn error(json: &str) -> TranslateError {
    translate(parsed(json), &Options::default()).unwrap_err()
}

#[track_caller]
fn assert_refused(json: &str, message: &str) {
    match error(json) {
        TranslateError::Refused { refusal, .. } => {
            assert_eq!(refusal.failure(), Failure::Configuration);
            assert_eq!(refusal.to_string(), message);
        }
        missing => panic!("{missing:?}"),
    }
}

/// A job of one step without sources, with `fields` beside.
fn with(fields: &str) -> String {
    format!(
        r#"{{"steps":[{{"script":["true"]}}],"git_info":{{"repo_url":"https://h/p.git","sha":"abc"}},{fields}}}"#
    )
}

/// A job of one step with these variables.
fn with_variables(variables: &str) -> String {
    with(&format!(r#""variables":[{variables}]"#))
}

#[test]
fn a_file_of_a_few_lines_is_a_job() {
    let json = r#"{
        "variables": [{"key": "GIT_STRATEGY", "value": "none"}],
        "steps": [{"name": "script", "script": ["echo hello"]}]
    }"#;

    let Translated { job, warnings, .. } = translated(json, &Options::default());

    assert!(warnings.is_empty());
    assert_eq!(job.steps[0].script, ["echo hello"]);
    assert_eq!(job.timeout_secs, 7200);
    assert_eq!(job.trace.limit_bytes, 4 * 1024 * 1024);
    assert_eq!(job.sources.object_format, "sha1");
    assert_eq!(job.image, None);
    assert_eq!(job.server_url, "");
}

#[test]
fn a_step_that_names_no_name_is_the_script_and_one_with_an_empty_name_is_not() {
    let json = with(r#""id":1"#);
    let unnamed = translated(&json, &Options::default());
    assert_eq!(unnamed.job.steps[0].name, "script");

    let steps = r#"{"steps":[{"script":["a"]},{"name":"","script":["b"]}],
        "variables":[{"key":"GIT_STRATEGY","value":"none"}]}"#;
    let Translated { job, warnings, .. } = translated(steps, &Options::default());
    let names: Vec<&str> = job.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["script", ""]);
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn a_step_that_runs_another_ones_commands_is_told() {
    let steps = r#"{"steps":[{"name":"build","script":["a"]},{"name":"Build","script":["b"]},
        {"name":"after_script","script":["c"]},{"name":"after_script","script":["d"]}],
        "variables":[{"key":"GIT_STRATEGY","value":"none"}]}"#;
    let warnings = translated(steps, &Options::default()).warnings;
    assert_eq!(
        warnings,
        [
            "step \"Build\" runs the commands of the earlier step \"build\" again, as with GitLab Runner: \
             give it another name"
        ]
    );
}

#[test]
fn steps_are_required() {
    let error = error("{}");
    assert_eq!(
        error.to_string(),
        "has no field `steps`, the commands to run"
    );
}

#[test]
fn sources_are_required_unless_the_strategy_needs_none() {
    let steps = r#""steps":[]"#;
    let cases = [
        (format!("{{{steps}}}"), "git_info"),
        (
            format!(r#"{{{steps},"git_info":{{"sha":"a"}}}}"#),
            "git_info.repo_url",
        ),
        (
            format!(r#"{{{steps},"git_info":{{"repo_url":"https://h/p"}}}}"#),
            "git_info.sha",
        ),
    ];
    for (json, missing) in cases {
        match error(&json) {
            TranslateError::Missing { path, .. } => assert_eq!(path, missing),
            other => panic!("{other:?}"),
        }
        let options = Options {
            own_sources: true,
            ..Options::default()
        };
        translated(&json, &options);
        let options = Options {
            variables: vec![("GIT_STRATEGY".into(), "empty".into())],
            ..Options::default()
        };
        translated(&json, &options);
    }
}

/// gitlab-runner, wire §1.8.4 and wire §1.8.6.
#[test]
fn secrets_and_run_are_refused() {
    assert_refused(
        &with(r#""secrets":{"K":{"vault":{}}}"#),
        "the job uses `secrets`, which vk does not support: use masked CI/CD variables",
    );
    // GitLab sends no steps with `run`.
    for run in [r#""[{\"name\":\"a\"}]""#, r#"[{"name":"a"}]"#] {
        assert_refused(
            &format!(r#"{{"run":{run},"steps":null}}"#),
            "the job uses `run`, which vk does not support: use `script`",
        );
    }
}

#[test]
fn empty_secrets_and_run_are_none() {
    for fields in [
        r#""secrets":{},"run":"""#,
        r#""secrets":null,"run":null"#,
        r#""secrets":[],"run":"[]""#,
    ] {
        translated(&with(fields), &Options::default());
    }
}

/// gitlab-runner, wire §1.8.2 and wire §5.7.
#[test]
fn executor_options_that_are_not_known_are_refused_in_the_runners_words() {
    assert_refused(
        &with(
            r#""image":{"name":"a","executor_opts":{"docker":{"blammo":1,"aha":2},"podman":{}}},
               "services":[{"name":"s","executor_opts":{"kubernetes":{"powpow":{}}}}]"#,
        ),
        "Unsupported \"image\" options [podman] for \"executor_opts\"; supported options are [docker kubernetes]\n\
         Unsupported \"image\" options [aha blammo] for \"docker executor\"; supported options are [platform user]\n\
         Unsupported \"image\" options [powpow] for \"kubernetes executor\"; supported options are [user]",
    );
}

#[test]
fn nul_is_refused_in_scripts_and_variables() {
    let cases = [
        (
            r#"{"steps":[{"name":"script","script":["ok","a\u0000b"]}]}"#.to_owned(),
            "the script of step \"script\"",
        ),
        (
            with(r#""hooks":[{"name":"pre_get_sources_script","script":["\u0000"]}]"#),
            "the script of hook \"pre_get_sources_script\"",
        ),
        (
            with_variables(r#"{"key":"A","value":"\u0000"}"#),
            "variable \"A\"",
        ),
        (
            with_variables(r#"{"key":"A\u0000","value":""}"#),
            "variable \"A\\0\"",
        ),
    ];
    for (json, place) in cases {
        assert_refused(
            &json,
            &format!("{place} contains a NUL character, which no shell can hold: remove it"),
        );
    }
}

#[test]
fn file_variables_stay_in_their_folder() {
    for key in ["../../x", "/", "", ".", "..", "a/b"] {
        assert_refused(
            &with_variables(&format!(r#"{{"key":"{key}","file":true}}"#)),
            &format!(
                "file variable {key:?} cannot be a file: \
                 its name must not be empty, `.`, `..` or contain `/`"
            ),
        );
    }
    translated(
        &with_variables(r#"{"key":"..a","file":true},{"key":"../../x"}"#),
        &Options::default(),
    );
}

#[test]
fn words_without_a_meaning_are_refused() {
    let cases = [
        (
            with(r#""artifacts":[{"when":"never"}]"#),
            "`artifacts[0].when` is \"never\": it must be one of on_success, on_failure, always",
        ),
        (
            with(r#""artifacts":[{},{"artifact_format":"rar"}]"#),
            "`artifacts[1].artifact_format` is \"rar\": \
             it must be one of zip, gzip, raw, zipzstd, tarzstd",
        ),
        (
            with(r#""cache":[{"key":"k","when":"x"}]"#),
            "`cache[0].when` is \"x\": it must be one of on_success, on_failure, always",
        ),
        (
            with(r#""cache":[{"key":"k","policy":"both"}]"#),
            "unknown cache policy both for k",
        ),
        (
            with(r#""services":[{"name":"s","ports":[{"number":70000}]}]"#),
            "`services[0].ports[0].number` is 70000: a port is a number from 1 to 65535",
        ),
    ];
    for (json, message) in cases {
        assert_refused(&json, message);
    }
}

#[test]
fn a_cache_policy_may_be_a_variable() {
    let json =
        with(r#""variables":[{"key":"P","value":"pull"}],"cache":[{"key":"k","policy":"$P"}]"#);
    let job = translated(&json, &Options::default()).job;
    assert_eq!(job.caches[0].policy, vk_hub_proto::job::CachePolicy::Pull);
}

#[test]
fn a_cache_key_of_which_nothing_is_left_is_empty_beside_its_raw_key() {
    let json = with(r#""cache":[{"key":"../.."},{"key":"$UNSET"}]"#);
    let job = translated(&json, &Options::default()).job;
    let keys: Vec<(&str, &str)> = job
        .caches
        .iter()
        .map(|cache| (cache.key.as_str(), cache.raw_key.as_str()))
        .collect();
    assert_eq!(keys, [("", "../.."), ("", "")]);
}

#[test]
fn a_fallback_key_is_kept_as_it_was_written_beside_what_is_left_of_it() {
    let json = with(r#""cache":[{"key":"k","fallback_keys":["a//b ","../..","$UNSET","c"]}]"#);
    let job = translated(&json, &Options::default()).job;
    assert_eq!(job.caches[0].fallback_keys, ["a/b", "", "c"]);
    assert_eq!(job.caches[0].raw_fallback_keys, ["a//b ", "../..", "c"]);
}

#[test]
fn given_variables_win_and_take_over_what_the_jobs_are() {
    let json = with_variables(
        r#"{"key":"A","value":"1"},{"key":"M","value":"secret","masked":true,"raw":true}"#,
    );
    let options = Options {
        variables: vec![
            ("A".into(), "2".into()),
            ("M".into(), "other".into()),
            ("NEW".into(), "$A".into()),
        ],
        ..Options::default()
    };

    let job = translated(&json, &options).job;

    let given = &job.variables[2..5];
    assert_eq!((given[0].key.as_str(), given[0].value.as_str()), ("A", "2"));
    assert_eq!(
        given[1],
        Variable {
            key: "M".into(),
            value: "other".into(),
            masked: true,
            raw: true,
            ..Variable::default()
        }
    );
    assert_eq!(given[2].value, "$A");
    assert!(given[2].public && !given[2].raw);
}

#[test]
fn the_servers_url_is_given_or_the_jobs_or_the_repositorys() {
    let json =
        with_variables(r#"{"key":"CI_SERVER_URL","value":"https://u:p@gitlab.example.com"}"#);
    let given = Options {
        server_url: Some("http://u:p@other:1".into()),
        ..Options::default()
    };
    assert_eq!(translated(&json, &given).job.server_url, "http://other:1");
    let default = Options::default();
    assert_eq!(
        translated(&json, &default).job.server_url,
        "https://gitlab.example.com"
    );
    assert_eq!(
        translated(&with(r#""id":1"#), &default).job.server_url,
        "https://h"
    );
}

#[test]
fn git_depth_counts_where_gitlabs_server_had_no_say() {
    let git = |depth: &str| {
        format!(
            r#"{{"steps":[],"git_info":{{"repo_url":"https://h/p","sha":"a"{depth}}},
                "variables":[{{"key":"GIT_DEPTH","value":"7"}}]}}"#
        )
    };
    let given = Options {
        variables: vec![("GIT_DEPTH".into(), "3".into())],
        ..Options::default()
    };
    let cases = [
        (git(r#","depth":20"#), Options::default(), 20),
        (git(""), Options::default(), 7),
        (git(r#","depth":20"#), given, 3),
    ];
    for (json, options, depth) in cases {
        assert_eq!(translated(&json, &options).job.sources.depth, depth);
    }
}

/// gitlab-runner, wire §1.8.1.
#[test]
fn a_timeout_of_zero_or_less_is_the_default() {
    for timeout in ["0", "-5", "null"] {
        let json = with(&format!(r#""runner_info":{{"timeout":{timeout}}}"#));
        let job = translated(&json, &Options::default()).job;
        assert_eq!(job.timeout_secs, 7200, "{timeout}");
    }
}

#[test]
fn an_image_without_a_name_is_none() {
    for image in ["null", r#"{"name":""}"#, "{}"] {
        let json = with(&format!(r#""image":{image}"#));
        assert_eq!(translated(&json, &Options::default()).job.image, None);
    }
}

#[test]
fn a_pull_policy_may_stand_by_itself() {
    for (policy, expected) in [
        (r#""always""#, &["always"][..]),
        (r#"["never"]"#, &["never"]),
        (
            r#"["if-not-present","always"]"#,
            &["if-not-present", "always"],
        ),
        ("[]", &[]),
        ("null", &[]),
    ] {
        let json = with(&format!(
            r#""image":{{"name":"a","pull_policy":{policy}}},
               "services":[{{"name":"s","pull_policy":{policy}}}]"#
        ));
        let job = translated(&json, &Options::default()).job;
        assert_eq!(job.image.unwrap().pull_policy, expected, "{policy}");
        assert_eq!(job.services[0].pull_policy, expected, "{policy}");
    }
}

#[test]
fn a_pull_policy_of_another_type_is_named_by_its_place() {
    for (policy, place) in [
        ("7", "image.pull_policy"),
        ("{}", "image.pull_policy"),
        (r#"["always",7]"#, "image.pull_policy[1]"),
    ] {
        let json = with(&format!(r#""image":{{"name":"a","pull_policy":{policy}}}"#));
        let error = response::parse(json.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(&format!("`{place}`")), "{policy}: {error}");
    }
}

/// gitlab-runner, wire §1.8.5.
#[test]
fn inputs_are_told_to_be_ignored() {
    let json = with(r#""inputs":[{"key":"a","value":{"type":"string","content":"x"}}]"#);
    let warnings = translated(&json, &Options::default()).warnings;
    assert_eq!(
        warnings,
        ["the job has `inputs`, which vk ignores: `${{ job.inputs.… }}` stays as it is"]
    );
}

#[test]
fn short_masked_values_are_warned_of() {
    let json = with_variables(
        r#"{"key":"A","value":"$B","masked":true},{"key":"B","value":" dev\n"},
           {"key":"C","value":"four","masked":true},{"key":"D","value":" ","masked":true}"#,
    );
    let warnings = translated(&json, &Options::default()).warnings;
    assert_eq!(
        warnings,
        ["the masked variable \"A\" is only 3 bytes long: \
             [MASKED] will also stand for other text that contains them"]
    );
}

#[test]
fn two_keys_that_differ_only_in_escapes_keep_their_raw_keys_apart() {
    let json = with(r#""cache":[{"key":"a/b"},{"key":"a%2fb"}]"#);
    let job = translated(&json, &Options::default()).job;
    assert_eq!(job.caches[0].key, job.caches[1].key);
    assert_ne!(job.caches[0].raw_key, job.caches[1].raw_key);
}

/// Responses that a stand-in GitLab gave a real gitlab-runner.
fn golden(json: &str) -> vk_hub_proto::job::CiJob {
    let json = json.replace("@HOST@", "127.0.0.1:8080");
    translated(&json, &Options::default()).job
}

#[test]
fn golden_job_38_translates() {
    let job = golden(include_str!("fixtures/golden-hooks.json"));
    assert_eq!(job.job.id, 1038);
    assert_eq!(job.server_url, "http://127.0.0.1:8080");
    assert_eq!(job.sources.repo_url, "http://127.0.0.1:8080/repos/web.git");
    assert_eq!(
        job.hook(HookName::PostGetSourcesScript),
        ["echo post-hook", "ls README.md"]
    );
}

#[test]
fn golden_job_48_translates() {
    let job = golden(include_str!("fixtures/golden-cache.json"));
    assert_eq!(job.caches[0].key, "deps-main");
    assert_eq!(job.caches[0].fallback_keys, ["deps-default", "deps-old"]);
}

#[test]
fn refusals_tell_nothing_secret() {
    let json = with_variables(r#"{"key":"K","value":"s3cr3t\u0000","masked":true}"#);
    let error = error(&json);
    assert!(!format!("{error} {error:?}").contains("s3cr3t"));
    assert!(matches!(
        error,
        TranslateError::Refused {
            refusal: Refusal::Nul { .. },
            ..
        }
    ));
}

/// Whatever refuses it, the job that comes along is told of with the masks that it would have run with.
#[test]
fn a_refused_job_brings_what_its_trace_needs() {
    let whole = r#"
        "id": 7, "token": "job-token", "runner_info": {"timeout": 60},
        "variables": [{"key": "BASE", "value": "b4se"}, {"key": "S", "value": "$BASE-xyz", "masked": true}],
        "image": {"name": "a", "variables": [{"key": "I", "value": "im4ge", "masked": true}]},
        "services": [{"name": "b", "variables": [{"key": "I", "value": "serv1ce", "masked": true}]}],
        "dependencies": [{"id": 1, "token": "dep-token"}],
        "credentials": [{"type": "registry", "password": "pass"}],
        "features": {"token_mask_prefixes": ["corp-"]}"#;
    let runs = translated(&with(whole), &Options::default()).job;
    let wanted = [
        "$BASE-xyz",
        "b4se-xyz",
        "dep-token",
        "im4ge",
        "job-token",
        "pass",
        "serv1ce",
    ];
    assert_eq!(runs.secrets(), wanted.map(vk_hub_proto::job::Secret::from));
    for refused in [
        r#""secrets": {"x": {}}"#,
        r#""run": "x""#,
        r#""hooks": [{"name": "pre_get_sources_script", "script": ["\u0000"]}]"#,
        r#""artifacts": [{"when": "x"}]"#,
        r#""cache": [{"policy": "x"}]"#,
    ] {
        match error(&with(&format!("{whole}, {refused}"))) {
            TranslateError::Refused { job, .. } => {
                assert_eq!(job.secrets(), runs.secrets(), "{refused}");
                assert_eq!(job.variables, runs.variables, "{refused}");
                assert_eq!(job.trace, runs.trace, "{refused}");
                assert_eq!((job.job.id, job.timeout_secs), (7, 60), "{refused}");
            }
            missing => panic!("{refused}: {missing:?}"),
        }
    }
}

#[test]
fn a_bad_port_does_not_hide_what_is_secret() {
    let json = with(
        r#""services": [{"name": "b", "ports": [{"number": 0}],
            "variables": [{"key": "I", "value": "serv1ce", "masked": true}]}]"#,
    );
    match error(&json) {
        TranslateError::Refused {
            refusal: Refusal::Port { path, .. },
            job,
        } => {
            assert_eq!(path, "services[0].ports[0].number");
            assert_eq!(job.secrets(), [vk_hub_proto::job::Secret::from("serv1ce")]);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refusal_masks_what_was_expanded_into_it() {
    let json = with(
        r#""variables": [{"key": "K", "value": "hush-hush", "masked": true}],
            "cache": [{"key": "k-$K", "policy": "p-$K"}]"#,
    );
    let error = error(&json);
    assert!(!format!("{error:?}").contains("hush-hush"), "{error:?}");
    assert_eq!(
        error.to_string(),
        "unknown cache policy p-[MASKED] for k-[MASKED]"
    );
}

#[test]
fn a_response_shows_no_secret_in_debug_output() {
    let response = parsed(
        r#"{"token": "hush-1", "git_info": {"repo_url": "https://u:hush-2@h/p.git", "ref": "shown-1"},
            "variables": [{"key": "shown-2", "value": "hush-3"},
                {"key": "A", "value": "hush-4", "public": true, "masked": true},
                {"key": "B", "value": "hush-5", "public": true, "file": true},
                {"key": "C", "value": "shown-3", "public": true}],
            "image": {"variables": [{"key": "D", "value": "hush-6"}]},
            "services": [{"variables": [{"key": "D", "value": "hush-7"}]}],
            "dependencies": [{"token": "hush-8"}],
            "credentials": [{"password": "hush-9", "username": "shown-4"}]}"#,
    );
    let text = format!("{response:?}");
    assert!(!text.contains("hush"), "{text}");
    for shown in 1..5 {
        assert!(text.contains(&format!("shown-{shown}")), "{text}");
    }
}

const FULL: &[u8] = include_bytes!("fixtures/full-response.json");

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in any::<Vec<u8>>()) {
        let _ = response::parse(&bytes);
    }

    #[test]
    fn a_response_cut_anywhere_is_told_to_be_cut(len in 0..FULL.trim_ascii_end().len()) {
        let cut = response::parse(&FULL[..len]);
        let is_truncated = matches!(cut, Err(response::ParseError::Truncated { .. }));
        prop_assert!(is_truncated, "{:?}", cut);
    }

    #[test]
    fn a_response_with_any_bytes_changed_is_read_without_panic(
        changes in proptest::collection::vec((0..FULL.len(), any::<u8>()), 1..4)
    ) {
        let mut bytes = FULL.to_vec();
        for (position, byte) in changes {
            bytes[position] = byte;
        }
        if let Ok(response) = response::parse(&bytes) {
            let _ = translate(response, &Options::default());
        }
    }
}

/// gitlab-runner, build §1.2: GitLab Runner never reads it.
#[test]
fn what_a_step_says_about_when_it_runs_does_not_count() {
    for when in ["", "always", "manual", "on_failure"] {
        let step = format!(r#"{{"name": "script", "script": ["true"], "when": "{when}"}}"#);
        let json = format!(
            r#"{{"steps": [{step}], "variables": [{{"key": "GIT_STRATEGY", "value": "none"}}]}}"#
        );

        let job = translated(&json, &Options::default()).job;

        assert_eq!(job.steps.len(), 1, "{when}");
    }
}

/// A real gitlab-runner leaves it out (gitlab-runner, wire §1.14); GitLab's server then takes it for an archive.
#[test]
fn an_artifact_without_a_type_is_an_archive() {
    for artifact in ["{}", r#"{"artifact_type":""}"#, r#"{"artifact_type":null}"#] {
        let json = with(&format!(r#""artifacts":[{artifact}]"#));
        let job = translated(&json, &Options::default()).job;
        assert_eq!(job.artifacts[0].artifact_type, "archive", "{artifact}");
    }
}
