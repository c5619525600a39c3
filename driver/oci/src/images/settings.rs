//! An image's configuration blob (OCI image spec 1.1, config.md; Docker's is the same where it matters).

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::platform::Platform;
use crate::registry::Digest;

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
#[error("its configuration cannot be read: {0}")]
pub struct ConfigBlobError(String);

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

/// Reads a configuration blob.
pub(crate) fn parse(bytes: &[u8]) -> Result<ConfigBlob, ConfigBlobError> {
    let raw: RawBlob =
        serde_json::from_slice(bytes).map_err(|error| ConfigBlobError(error.to_string()))?;
    let diff_ids = raw
        .rootfs
        .diff_ids
        .unwrap_or_default()
        .iter()
        .map(|digest| digest.parse())
        .collect::<Result<_, _>>()
        .map_err(|error| ConfigBlobError(format!("rootfs.diff_ids: {error}")))?;
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
    let env = raw.env.unwrap_or_default();
    let (entrypoint, cmd) = (
        raw.entrypoint.unwrap_or_default(),
        raw.cmd.unwrap_or_default(),
    );
    let volumes: Vec<String> = raw.volumes.unwrap_or_default().into_keys().collect();
    if [env.len(), entrypoint.len(), cmd.len(), volumes.len()]
        .into_iter()
        .any(|count| count > MAX_ITEMS)
    {
        return Err(ConfigBlobError(format!(
            "it has more than {MAX_ITEMS} of something"
        )));
    }
    let strings = env.iter().chain(&entrypoint).chain(&cmd).chain(&volumes);
    let strings = strings.chain(&raw.user).chain(&raw.working_dir);
    if strings.into_iter().any(|string| string.contains('\0')) {
        return Err(ConfigBlobError("it has a NUL character".to_owned()));
    }
    let env = env
        .iter()
        .map(|variable| variable.split_once('=').unwrap_or((variable, "")))
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    Ok(ImageConfig {
        env,
        user: raw.user.unwrap_or_default(),
        working_dir: raw.working_dir.unwrap_or_default(),
        entrypoint,
        cmd,
        volumes,
    })
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
    fn what_no_process_could_be_given_is_refused() {
        for config in [
            json!({"Env": ["A=\u{0}"]}),
            json!({"Cmd": vec!["x"; MAX_ITEMS + 1]}),
            json!({"Entrypoint": "/entry"}),
        ] {
            let blob = json!({"config": config, "rootfs": {}});
            assert!(parse(blob.to_string().as_bytes()).is_err());
        }
        assert!(parse(b"[]").is_err());
        assert!(parse(br#"{"rootfs": {"diff_ids": ["md5:1"]}}"#).is_err());
    }
}
