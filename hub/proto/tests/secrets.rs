//! A job whose every text is a marker: what is secret must not be seen again, and all else must.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};
use vk_hub_proto::job::variables::Variables;
use vk_hub_proto::job::{CiJob, Secret, hidden};

/// Begins what must not be shown.
const SECRET: &str = "hush/";

/// Begins what may be shown.
const SHOWN: &str = "shown-";

/// Fields that are no text of the job's but words of the protocol.
const WORDS: [&str; 5] = [
    "ref_type",
    "when",
    "policy",
    "artifact_format",
    "object_format",
];

/// The fixture with each text of it replaced by a marker, and variables of every kind.
fn marked() -> CiJob {
    let mut job: Value = serde_json::from_str(include_str!("fixtures/ci-job.json")).unwrap();
    mark(&mut job, "job");
    job["hooks"][0]["name"] = json!("pre_get_sources_script");
    let variable = |key: &str, public: bool, file: bool, masked: bool| {
        json!({"key": format!("{SHOWN}{key}"), "value": format!("{SECRET}{key}"), "public": public, "file": file,
            "masked": masked, "raw": false})
    };
    let kinds = |place: &str| {
        json!([
            variable(&format!("{place}-private"), false, false, false),
            variable(&format!("{place}-file"), true, true, false),
            variable(&format!("{place}-masked"), true, false, true),
            variable(&format!("{place}-masked-file"), true, true, true),
            {"key": "PLAIN", "value": format!("{SHOWN}{place}"), "public": true},
        ])
    };
    job["variables"] = kinds("job");
    job["image"]["variables"] = kinds("image");
    job["services"][0]["variables"] = kinds("service");
    job["token"] = json!(format!("{SECRET}token"));
    job["registry_credentials"][0]["password"] = json!(format!("{SECRET}password"));
    job["dependencies"][0]["token"] = json!(format!("{SECRET}dependency"));
    let with_secret = json!(format!("{SHOWN}url-{SECRET}token-end"));
    for path in [
        "/server_url",
        "/sources/repo_url",
        "/registry_credentials/0/url",
        "/artifacts/0/name",
    ] {
        *job.pointer_mut(path).unwrap() = with_secret.clone();
    }
    for list in [
        "/artifacts/0/paths",
        "/artifacts/0/exclude",
        "/image/command",
    ] {
        *job.pointer_mut(list).unwrap() = json!([with_secret]);
    }
    job["variables"]
        .as_array_mut()
        .unwrap()
        .push(json!({"key": "URL", "value": with_secret, "public": true}));
    job["caches"][0] = json!({
        "key": "shown-key/hush/job-masked", "raw_key": "shown-key//hush/job-masked",
        "fallback_keys": ["hush/job-private"], "raw_fallback_keys": ["./hush/job-private", "hush/token"],
        "paths": [with_secret],
    });
    serde_json::from_value(job).unwrap()
}

fn mark(value: &mut Value, path: &str) {
    match value {
        Value::String(text) => {
            let field = path.rsplit('.').next().unwrap_or_default();
            if !WORDS.contains(&field) {
                *text = format!("{SHOWN}{path}");
            }
        }
        Value::Array(list) => {
            for (position, value) in list.iter_mut().enumerate() {
                mark(value, &format!("{path}.{position}"));
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                mark(value, &format!("{path}.{name}"));
            }
        }
        _ => {}
    }
}

/// The texts that begin as `marker` does, up to the quotation mark behind them.
fn found(marker: &str, text: &str) -> Vec<String> {
    text.match_indices(marker)
        .map(|(at, _)| text[at..].split(['"', '\\']).next().unwrap().to_owned())
        .collect()
}

#[test]
fn records_and_debug_output_show_no_secret_and_all_else() {
    let job = marked();
    let json = serde_json::to_string(&job).unwrap();
    assert_eq!(found(SECRET, &json).len(), 3 * 4 + 3 + 9 + 5, "{json}");
    let shown: Vec<String> = found(SHOWN, &json)
        .into_iter()
        .filter(|text| !text.contains(SECRET))
        .collect();
    assert!(shown.len() > 40, "{shown:#?}");

    let redacted = job.redacted();
    for text in [
        format!("{job:?}"),
        format!("{job:#?}"),
        format!("{redacted:?}"),
        serde_json::to_string(&redacted).unwrap(),
    ] {
        // As cleaned keys have it, too.
        assert!(!text.contains("hush"), "{text}");
        for marker in &shown {
            assert!(text.contains(marker), "{marker} is missing in {text}");
        }
    }
    assert_eq!(redacted.caches[0].key, "shown-key/[REDACTED]");
    assert_eq!(redacted.caches[0].raw_key, "shown-key//[REDACTED]");
    assert_eq!(redacted.caches[0].fallback_keys, ["[REDACTED]"]);
    assert_eq!(
        redacted.caches[0].raw_fallback_keys,
        ["./[REDACTED]", "[REDACTED]"]
    );
    assert_eq!(redacted.server_url, "shown-url-[REDACTED]-end");
}

#[test]
fn parts_of_a_job_show_no_secret_by_themselves() {
    let job = marked();
    let variables = Variables::new(job.variables.clone());
    let text = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {variables:?} {:?}",
        job.token,
        job.registry_credentials,
        job.dependencies,
        job.image.as_ref().unwrap().variables,
        job.services[0].variables,
        job.variables[..5].to_vec(),
        variables.expanded(),
    );

    let visible = text.replace(&format!("{SHOWN}url-{SECRET}token-end"), "");
    assert!(!visible.contains(SECRET), "{visible}");
    assert!(text.contains("shown-job"), "{text}");
}

#[test]
fn a_public_variable_that_takes_over_a_private_value_does_not_show_it() {
    let list = serde_json::from_value(json!([
        {"key": "PASSWORD", "value": "pa55word", "masked": true},
        {"key": "URL", "value": "https://me:$PASSWORD@h", "public": true},
    ]));
    let variables = Variables::new(list.unwrap()).expanded();
    assert_eq!(variables.value("URL"), "https://me:pa55word@h");

    let text = format!("{variables:?}");

    assert!(!text.contains("pa55word"), "{text}");
    assert!(text.contains("https://me:[REDACTED]@h"), "{text}");
}

#[test]
fn masks_and_records_go_by_one_list() {
    let secrets: Vec<String> = marked()
        .secrets()
        .iter()
        .map(|secret| secret.expose().to_owned())
        .collect();

    assert_eq!(
        secrets,
        [
            "hush/dependency",
            "hush/image-masked",
            "hush/image-masked-file",
            "hush/job-masked",
            "hush/job-masked-file",
            "hush/password",
            "hush/service-masked",
            "hush/service-masked-file",
            "hush/token",
        ]
    );
}

#[test]
fn occurrences_that_overlap_are_hidden_as_one() {
    let cases: [(&str, &[&str], &str); 6] = [
        ("aaa", &["aa"], "<>"),
        ("xabcdefx", &["abcd", "cdef"], "x<>x"),
        ("abab", &["ab"], "<><>"),
        ("secretlong", &["secret", "secretlong"], "<>"),
        ("é1", &["1", ""], "é<>"),
        ("nothing", &[], "nothing"),
    ];
    for (text, secrets, expected) in cases {
        let secrets: Vec<Secret> = secrets.iter().map(|text| Secret::from(*text)).collect();
        assert_eq!(hidden(text, &secrets, "<>"), expected, "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn no_secret_is_left_whatever_there_is(
        text in "[ab$é]{0,20}",
        secrets in proptest::collection::vec("[ab$é]{1,3}", 0..4),
    ) {
        let secrets: Vec<Secret> = secrets.into_iter().map(Secret::from).collect();
        let shown = hidden(&text, &secrets, "<>");
        for piece in shown.split("<>") {
            for secret in &secrets {
                proptest::prop_assert!(!piece.contains(secret.expose()), "{}", shown);
            }
        }
    }
}
