//! The golden jobs in VMs: what a real gitlab-runner printed and reported, byte for byte by the rules of the golden
//! set's README.

#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use vk_hub_proto::job::{Failure, gitlab_failure_reason};
use vk_tests::git_http::Repos;
use vk_tests::gitlab::GitLab;
use vk_tests::golden::{End, Job, corner_names, names, uploads};
use vk_tests::vk::{JobRun, Vk};

/// Runs jobs one after the other at one server, on one host.
fn check_all(names: &[&str]) {
    check_jobs(names.iter().map(|name| Job::load(name).unwrap()).collect());
}

fn check_jobs(jobs: Vec<Job>) {
    let token: Value = serde_json::from_str(&jobs[0].render("host")).unwrap();
    let server = GitLab::with_repos(Repos::golden(), token["token"].as_str().unwrap());
    let vk = Vk::new();
    for job in jobs {
        check_at(&job, &server, &vk);
    }
}

/// gitlab-runner, build §1.1: each trace is the whole of it, from the first line to the last.
fn check_at(job: &Job, server: &GitLab, vk: &Vk) {
    let name = &job.name;
    let response = job.response(&server.host()).unwrap();
    let (id, token) = (
        response["id"].as_u64().unwrap(),
        response["token"].as_str().unwrap(),
    );
    server.add_job(id, token);
    server.open_repos(token);

    let run = vk.run_job(&response, &[]);

    if let Err(diff) = job.compare(&run.trace, &server.host()) {
        panic!(
            "{name}: the trace differs\n{diff}\n{}\n{}",
            run.text(),
            run.stderr
        );
    }
    check_result(job, &response, &run);
    assert_eq!(
        uploads::recorded(&server.uploads(id)).unwrap(),
        job.expected.uploads,
        "{name}: {run:?}"
    );
}

fn check_result(job: &Job, response: &Value, run: &JobRun) {
    let known: Vec<String> =
        serde_json::from_value(response["features"]["failure_reasons"].clone()).unwrap_or_default();
    let failure: Option<Failure> =
        serde_json::from_value(run.result["failure"].clone()).unwrap_or_default();
    let state = if failure.is_none() {
        "success"
    } else {
        "failed"
    };
    let reason = failure.map(|failure| gitlab_failure_reason(failure, &known).to_owned());

    assert_eq!(state, job.expected.state, "{}: {run:?}", job.name);
    let end = End {
        failure_reason: reason,
        exit_code: run.result["exit_code"].as_i64(),
    };
    assert_eq!(end, job.end(), "{}: {run:?}", job.name);
}

/// 46 downloads what 39 uploaded (gitlab-runner, wire §3.1, wire §3.2 and wire §3.5).
#[test]
fn artifacts_of_an_earlier_job() {
    check_all(&ARTIFACTS);
}

/// 49 and 52 find the cache that 48 saved (gitlab-runner, wire §4.3, wire §4.4, wire §4.6 and wire §4.7).
#[test]
fn caches_of_earlier_jobs() {
    check_all(&CACHES);
}

const ARTIFACTS: [&str; 2] = ["39-artifacts-zip", "46-dependencies"];

const CACHES: [&str; 3] = ["48-cache-miss", "49-cache-hit", "52-cache-pull-only"];

/// 223 finds the cache that 222 saved.
#[test]
fn a_cache_through_a_link_to_a_folder() {
    let job = |name| Job::load_corner(name).unwrap();
    check_jobs(CORNER_CACHES.map(job).to_vec());
}

const CORNER_CACHES: [&str; 2] = ["222-cache-through-link-save", "223-cache-through-link-hit"];

#[test]
fn each_recorded_corner_is_run() {
    let mut run = [CORNERS_ALONE, &CORNER_CACHES].concat();
    run.sort_unstable();
    assert_eq!(run, corner_names().unwrap());
}

#[test]
fn each_recorded_job_is_run_or_says_why_not() {
    let mut run = [ALONE, &ARTIFACTS, &CACHES].concat();
    run.sort_unstable();
    let mut recorded = names().unwrap();
    recorded.retain(|name| !Job::load(name).unwrap().differs.not_run);

    assert_eq!(run, recorded);
}

macro_rules! golden {
    ($alone:ident $load:path: $($test:ident $name:literal,)*) => {
        /// Those that need no other before them.
        const $alone: &[&str] = &[$($name),*];

        $(
            #[test]
            fn $test() {
                check_jobs(vec![$load($name).unwrap()]);
            }
        )*
    };
}

golden! {
    CORNERS_ALONE Job::load_corner:
    fallback_key_sanitized "201-fallback-key-sanitized",
    fallback_key_empty "202-fallback-key-empty",
    fallback_variable_sanitized "203-fallback-variable-sanitized",
    untracked_fifo "206-untracked-fifo",
    untracked_no_git "207-untracked-no-git",
    level_bogus "209-level-bogus",
    level_bogus_no_files "210-level-bogus-no-files",
    cache_level_bogus "212-cache-level-bogus",
    name_command_substitution "214-name-command-substitution",
    name_unclosed "215-name-unclosed",
    name_nested_substitution "218-name-nested-substitution",
    step_name_quoted "220-step-name-quoted",
    submodule_negative_depth "228-submodule-negative-depth",
}

golden! {
    ALONE Job::load:
    hello "01-hello",
    multi_line "02-multi-line",
    exit_42 "03-exit-42",
    inner_code "04-inner-code",
    after_on_success "06-after-on-success",
    after_on_failure "07-after-on-failure",
    masked "08-masked",
    masked_multiline "09-masked-multiline",
    url_params "11-url-params",
    file_variable "12-file-variable",
    expansion "13-expansion",
    quoting_values "14-quoting-values",
    no_sections "17-no-sections",
    script_sections "18-script-sections",
    timestamps "19-timestamps",
    carriage_returns "21-carriage-returns",
    long_line "22-long-line",
    invalid_utf8 "23-invalid-utf8",
    stdout_stderr "24-stdout-stderr",
    job_timeout "26-job-timeout",
    script_timeout "27-script-timeout",
    after_timeout "28-after-timeout",
    clone "29-clone",
    submodules_recursive "31-submodules-recursive",
    submodules_normal "32-submodules-normal",
    strategy_empty "33-strategy-empty",
    checkout_false "34-checkout-false",
    missing_sha "36-missing-sha",
    clean_flags "37-clean-flags",
    hooks "38-hooks",
    artifacts_missing "41-artifacts-missing",
    artifacts_report "42-artifacts-report",
    artifacts_raw "43-artifacts-raw",
    artifacts_outside "44-artifacts-outside",
    dependency_missing "47-dependency-missing",
    cache_odd_key "51-cache-odd-key",
    cache_no_files "53-cache-no-files",
    steps_two "54-steps-two",
    background "56-background",
    stdin "57-stdin",
    odd_lines "58-odd-lines",
    exit_0_early "59-exit-0-early",
    trap "61-trap",
    gitlab_env "62-gitlab-env",
    tag_ref "66-tag-ref",
    feature_branch "67-feature-branch",
    masked_after_script "68-masked-after-script",
    masked_short "69-masked-short",
    masked_with_newline_in_output "71-masked-with-newline-in-output",
    masked_nested "72-masked-nested",
    masked_base64 "73-masked-base64",
    user_sections "74-user-sections",
    colour_split "76-colour-split",
    exit_137 "77-exit-137",
    exit_large "78-exit-large",
    function_failure "79-function-failure",
    command_not_found "81-command-not-found",
    unset_variable "82-unset-variable",
    subshell_cd "83-subshell-cd",
    variables_lists "84-variables-lists",
    variable_self "86-variable-self",
    artifact_name_slash "87-artifact-name-slash",
    artifact_no_name "88-artifact-no-name",
    artifact_glob "89-artifact-glob",
    artifact_on_timeout "91-artifact-on-timeout",
    cache_on_failure "92-cache-on-failure",
    cache_two "93-cache-two",
    restore_attempts "94-restore-attempts",
    after_ignore_errors_off "96-after-ignore-errors-off",
    only_after_script "97-only-after-script",
    git_clean_none "98-git-clean-none",
    fetch_extra_flags "99-fetch-extra-flags",
    predefined_dirs "101-predefined-dirs",
    env_print "102-env-print",
}
