//! An image's configuration blob (OCI image spec 1.1, config.md; Docker's is the same where it matters).

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::json;
use super::platform::Platform;
use crate::registry::{Digest, DigestError};

/// Most variables or words that are read; more are an error, since no guest could take them.
const MAX_ITEMS: usize = 10_000;

/// How an image wants its processes run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// Variables, in order.
    pub env: Vec<(String, String)>,
    /// `user[:group]` by name or number; empty for root.
    pub user: String,
    /// Working folder; empty for `/`.
    pub working_dir: String,
    /// Entry point.
    pub entrypoint: Vec<String>,
    /// Arguments to it, or the command.
    pub cmd: Vec<String>,
    /// Folders that are there, whatever its layers hold.
    pub volumes: Vec<String>,
}

/// What a configuration blob says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigBlob {
    pub(crate) config: ImageConfig,
    pub(crate) platform: Option<Platform>,
    /// Of the uncompressed layers, the lowest first.
    pub(crate) diff_ids: Vec<Digest>,
}

/// Why a configuration blob is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigBlobError {
    /// Not JSON, or a field is of another type than in the specification; the text names it.
    #[error("its configuration cannot be read: {0}")]
    Json(String),
    /// A field holds what no process can be given, or nothing is known of.
    #[error("its configuration's field `{field}` {problem}")]
    Field {
        /// Its name, as in `config.Env`.
        field: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

fn wrong(field: &'static str, problem: impl Into<String>) -> ConfigBlobError {
    ConfigBlobError::Field {
        field,
        problem: problem.into(),
    }
}

#[derive(Deserialize)]
struct RawBlob {
    os: Option<String>,
    architecture: Option<String>,
    variant: Option<String>,
    config: Option<RawConfig>,
    rootfs: RawRootfs,
}

#[derive(Deserialize)]
struct RawRootfs {
    #[serde(rename = "type")]
    kind: Option<String>,
    diff_ids: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct RawConfig {
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    volumes: Option<BTreeMap<String, IgnoredAny>>,
}

/// Reads a configuration blob. `null` is the same as nothing, as where Go reads it. The page docs/image-configuration.md
/// says what becomes of each field.
pub(crate) fn parse(bytes: &[u8]) -> Result<ConfigBlob, ConfigBlobError> {
    let raw: RawBlob = json::read(bytes).map_err(ConfigBlobError::Json)?;
    // "Implementations MUST generate an error if they encounter a unknown value" (config.md, `rootfs.type`).
    let kind = raw.rootfs.kind.unwrap_or_default();
    if !matches!(kind.as_str(), "layers" | "") {
        return Err(wrong(
            "rootfs.type",
            "is not `layers`, the only kind there is",
        ));
    }
    let diff_ids = raw
        .rootfs
        .diff_ids
        .unwrap_or_default()
        .iter()
        .map(|digest| digest.parse())
        .collect::<Result<_, DigestError>>()
        .map_err(|error| wrong("rootfs.diff_ids", format!("cannot be checked: {error}")))?;
    let platform = match (raw.os, raw.architecture) {
        (Some(os), Some(architecture)) if !os.is_empty() && !architecture.is_empty() => {
            Some(Platform::new(&os, &architecture, raw.variant.as_deref()))
        }
        _ => None,
    };
    Ok(ConfigBlob {
        config: config(raw.config.unwrap_or_default())?,
        platform,
        diff_ids,
    })
}

fn config(raw: RawConfig) -> Result<ImageConfig, ConfigBlobError> {
    let config = ImageConfig {
        env: Vec::new(),
        user: raw.user.unwrap_or_default(),
        working_dir: raw.working_dir.unwrap_or_default(),
        entrypoint: raw.entrypoint.unwrap_or_default(),
        cmd: raw.cmd.unwrap_or_default(),
        volumes: raw.volumes.unwrap_or_default().into_keys().collect(),
    };
    let env = raw.env.unwrap_or_default();
    let one = std::slice::from_ref;
    for (field, texts) in [
        ("config.Env", env.as_slice()),
        ("config.User", one(&config.user)),
        ("config.WorkingDir", one(&config.working_dir)),
        ("config.Entrypoint", &config.entrypoint),
        ("config.Cmd", &config.cmd),
        ("config.Volumes", &config.volumes),
    ] {
        if texts.len() > MAX_ITEMS {
            let count = texts.len();
            return Err(wrong(
                field,
                format!("has {count} entries; at most {MAX_ITEMS} are accepted"),
            ));
        }
        if texts.iter().any(|text| text.contains('\0')) {
            return Err(wrong(
                field,
                "has a NUL character, which no process can be given",
            ));
        }
    }
    let env = env
        .iter()
        .map(|variable| variable.split_once('=').unwrap_or((variable, "")))
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    Ok(ImageConfig { env, ..config })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_configuration_is_read_as_docker_writes_it() {
        let diff_id = Digest::of(b"layer");
        let blob = json!({
            "os": "linux", "architecture": "amd64",
            "config": {
                "Env": ["PATH=/bin:/usr/bin", "EMPTY=", "EQUALS=a=b", "BARE", "=x"],
                "User": "1000:1000", "WorkingDir": "/srv",
                "Entrypoint": ["/entry", "-v"], "Cmd": null,
                "Labels": {"a": "b"}, "Volumes": {"/data/db": {}, "/cache": null},
            },
            "rootfs": {"type": "layers", "diff_ids": [diff_id.to_string()]},
        });

        let blob = parse(blob.to_string().as_bytes()).unwrap();

        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            blob.config,
            ImageConfig {
                env: vec![
                    pair("PATH", "/bin:/usr/bin"),
                    pair("EMPTY", ""),
                    pair("EQUALS", "a=b"),
                    pair("BARE", ""),
                ],
                user: "1000:1000".to_owned(),
                working_dir: "/srv".to_owned(),
                entrypoint: vec!["/entry".to_owned(), "-v".to_owned()],
                cmd: Vec::new(),
                volumes: vec!["/cache".to_owned(), "/data/db".to_owned()],
            }
        );
        assert_eq!(blob.platform, Some(Platform::of_guest()));
        assert_eq!(blob.diff_ids, [diff_id]);
    }

    #[test]
    fn an_image_without_a_config_has_an_empty_one() {
        let blob = parse(br#"{"rootfs": {"diff_ids": null}, "config": null}"#).unwrap();

        assert_eq!(blob.config, ImageConfig::default());
        assert_eq!(blob.platform, None);
    }

    #[test]
    fn nothing_and_null_are_the_same() {
        let blob = json!({
            "os": null, "architecture": null, "variant": null, "rootfs": {"type": null, "diff_ids": null},
            "config": {"Env": null, "User": null, "WorkingDir": null, "Entrypoint": null, "Cmd": null, "Volumes": null},
        });

        let blob = parse(blob.to_string().as_bytes()).unwrap();

        assert_eq!(blob.config, ImageConfig::default());
    }

    #[test]
    fn what_no_process_could_be_given_is_refused_and_the_field_named() {
        let of = |config: serde_json::Value| {
            let blob = json!({"config": config, "rootfs": {}});
            parse(blob.to_string().as_bytes()).unwrap_err().to_string()
        };
        for (config, named) in [
            (json!({"Env": ["A=\u{0}"]}), "`config.Env` has a NUL"),
            (json!({"User": "a\u{0}"}), "`config.User` has a NUL"),
            (
                json!({"Volumes": {"/\u{0}": {}}}),
                "`config.Volumes` has a NUL",
            ),
            (
                json!({"Cmd": vec!["x"; MAX_ITEMS + 1]}),
                "`config.Cmd` has 10001 entries",
            ),
            (
                json!({"Entrypoint": "/entry"}),
                "`config.Entrypoint`: invalid type: string",
            ),
            (
                json!({"Cmd": ["a", 1]}),
                "`config.Cmd[1]`: invalid type: integer",
            ),
            (
                json!({"Env": {"A": "b"}}),
                "`config.Env`: invalid type: map",
            ),
            (
                json!({"Volumes": ["/a"]}),
                "`config.Volumes`: invalid type: sequence",
            ),
            (
                json!({"User": 1000}),
                "`config.User`: invalid type: integer",
            ),
            (
                json!({"WorkingDir": true}),
                "`config.WorkingDir`: invalid type: boolean",
            ),
            (json!("x"), "`config`: invalid type: string"),
        ] {
            let error = of(config);
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn layers_that_cannot_be_checked_are_refused() {
        for (blob, named) in [
            (
                json!({"rootfs": {"type": "snapshots"}}),
                "`rootfs.type` is not `layers`",
            ),
            (
                json!({"rootfs": {"diff_ids": ["md5:1"]}}),
                "`rootfs.diff_ids` cannot be checked",
            ),
            (
                json!({"rootfs": {"diff_ids": "x"}}),
                "`rootfs.diff_ids`: invalid type",
            ),
            (json!({"rootfs": null}), "rootfs"),
            (json!({}), "rootfs"),
            (json!([]), "configuration cannot be read"),
        ] {
            let error = parse(blob.to_string().as_bytes()).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
