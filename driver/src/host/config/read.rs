//! Reading the file, and what it means.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::file::{CacheSection, ConfigFile, ImagesSection, RegistriesSection};
use vk_oci::{Credential, RegistryOptions, Repository};
use vk_oci::{ImageSettings, PolicySettings, PullPolicy};
use vk_text::{duration, parse_size};
use vk_transfer::CacheRegistry;

/// Longest file in bytes.
const MAX_FILE: u64 = 1 << 20;

/// What the configuration says.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// How images are pulled and kept.
    pub(crate) images: ImageSettings,
    /// The registry that keeps caches; `None` for a folder of the host.
    pub(crate) cache: Option<CacheRegistry>,
}

/// Why the configuration is of no use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read {what} {}", path.display())]
    Read {
        /// What the file is.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no TOML, or has keys that do not exist.
    #[error("the configuration {} is wrong: {problem}", path.display())]
    Syntax {
        /// Where.
        path: PathBuf,
        /// What, and in which line.
        problem: String,
    },
    /// A key's value means nothing.
    #[error("the configuration {} is wrong: {key}: {problem}", path.display())]
    Value {
        /// Where.
        path: PathBuf,
        /// The key.
        key: String,
        /// What is wrong.
        problem: String,
    },
}

impl ConfigError {
    /// Whether there is no such file.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl Config {
    /// Reads the file `path`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or something in it is wrong.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&read_file("the configuration", path)?, path)
    }

    /// Logins of registries are taken from this file too, Docker's `config.json`, which need not be there.
    #[must_use]
    pub fn with_docker_config(mut self, path: impl Into<PathBuf>) -> Self {
        self.images.docker_config = Some(path.into());
        self
    }

    /// What `text` says, which stands in `path`.
    fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let file: ConfigFile = toml::from_str(text).map_err(|error| {
            let line = error
                .span()
                .and_then(|span| text.get(..span.start))
                .map_or(1, |before| before.matches('\n').count() + 1);
            ConfigError::Syntax {
                path: path.to_owned(),
                problem: format!("line {line}: {}", error.message()),
            }
        })?;
        let checker = Checker { path };
        Ok(Self {
            images: checker.images(&file.images, &file.registries)?,
            cache: file
                .cache
                .as_ref()
                .map(|cache| checker.cache(cache))
                .transpose()?,
        })
    }
}

fn read_file(what: &'static str, path: &Path) -> Result<String, ConfigError> {
    use io::Read as _;

    let mut text = String::new();
    fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE).read_to_string(&mut text))
        .map_err(|source| ConfigError::Read {
            what,
            path: path.to_owned(),
            source,
        })?;
    Ok(text)
}

/// Checks values; `path` is for its errors and for relative paths.
struct Checker<'a> {
    path: &'a Path,
}

impl Checker<'_> {
    fn images(
        &self,
        images: &ImagesSection,
        registries: &RegistriesSection,
    ) -> Result<ImageSettings, ConfigError> {
        let mut settings = ImageSettings {
            policies: PolicySettings {
                default: self.policies("images.pull_policy", images.pull_policy.list())?,
                allowed: self.policies(
                    "images.allowed_pull_policies",
                    &images.allowed_pull_policies,
                )?,
            },
            registries: self.registries(registries)?,
            ..ImageSettings::default()
        };
        if let Some(size) = &images.store_size {
            settings.max_bytes = parse_size(size).ok_or_else(|| {
                let problem = format!("\"{size}\" is no size such as \"50G\"");
                self.wrong("images.store_size", problem)
            })?;
        }
        Ok(settings)
    }

    fn policies(&self, key: &str, names: &[String]) -> Result<Vec<PullPolicy>, ConfigError> {
        names
            .iter()
            .map(|name| name.parse())
            .collect::<Result<_, _>>()
            .map_err(|error: vk_oci::PolicyError| self.wrong(key, error.to_string()))
    }

    fn registries(&self, section: &RegistriesSection) -> Result<RegistryOptions, ConfigError> {
        let mut options = RegistryOptions::default();
        for (registry, mirrors) in &section.mirrors {
            let key = format!("registries.mirrors.\"{registry}\"");
            self.registry(&key, registry)?;
            for mirror in mirrors {
                let (host, path) = mirror.split_once('/').unwrap_or((mirror, "x"));
                Repository::new(host, path).map_err(|_| {
                    let problem = format!(
                        "\"{mirror}\" is no mirror such as \"mirror.example.com\" or \"registry.example.com/proxy\""
                    );
                    self.wrong(&key, problem)
                })?;
            }
        }
        options.mirrors.clone_from(&section.mirrors);
        for registry in &section.insecure {
            self.registry("registries.insecure", registry)?;
            options.insecure.insert(registry.clone());
        }
        for file in &section.ca_files {
            let path = self.relative(file);
            options.ca_pem.push(read_file("the CA file", &path)?);
        }
        for (key, text, wait_limit) in [
            (
                "registries.unreachable_for",
                &section.unreachable_for,
                &mut options.retry.lost,
            ),
            (
                "registries.unavailable_for",
                &section.unavailable_for,
                &mut options.retry.busy,
            ),
        ] {
            if let Some(text) = text {
                *wait_limit = duration(text).ok_or_else(|| {
                    self.wrong(key, format!("\"{text}\" is no duration such as \"90s\""))
                })?;
            }
        }
        Ok(options)
    }

    fn cache(&self, section: &CacheSection) -> Result<CacheRegistry, ConfigError> {
        self.registry("cache.registry", &section.registry)?;
        let repo = section.repo.trim_matches('/');
        if !repo.is_empty() && Repository::new(&section.registry, repo).is_err() {
            let problem = format!("\"{repo}\" is no repository such as \"team/caches\"");
            return Err(self.wrong("cache.repo", problem));
        }
        let credential = match (&section.username, &section.password_file) {
            (Some(username), Some(file)) => {
                let password = read_file("the password file", &self.relative(file))?;
                let password = password.trim_end_matches(['\r', '\n']).to_owned();
                let username = username.clone();
                Some(Credential::Basic { username, password })
            }
            (None, None) => None,
            _ => {
                let problem = "username and password_file go together".to_owned();
                return Err(self.wrong("cache", problem));
            }
        };
        Ok(CacheRegistry {
            registry: section.registry.clone(),
            repo: repo.to_owned(),
            credential,
        })
    }

    fn registry(&self, key: &str, registry: &str) -> Result<(), ConfigError> {
        // Any path makes a repository of a good registry.
        Repository::new(registry, "x").map_err(|_| {
            let problem = format!(
                "\"{registry}\" is no registry such as \"registry.example.com:5000\" (without https://)"
            );
            self.wrong(key, problem)
        })?;
        Ok(())
    }

    fn relative(&self, path: &Path) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }

    fn wrong(&self, key: &str, problem: String) -> ConfigError {
        ConfigError::Value {
            path: self.path.to_owned(),
            key: key.to_owned(),
            problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use vk_text::chain;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("/etc/vk/config.toml")).map_err(|error| chain(&error))
    }

    #[test]
    fn every_key_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        fs::write(folder.path().join("ca.pem"), "CERTIFICATE").unwrap();
        fs::write(folder.path().join("password"), "hush\n").unwrap();
        fs::write(
            &path,
            r#"
[images]
pull_policy = ["if-not-present", "always"]
allowed_pull_policies = ["always", "if-not-present"]
store_size = "10G"

[registries]
mirrors = { "docker.io" = ["mirror.example.com:5000", "hub.example.com/proxy"] }
insecure = ["10.0.0.1:5000"]
ca_files = ["ca.pem"]
unreachable_for = "5s"
unavailable_for = "1m"

[cache]
registry = "registry.example.com"
repo = "team/caches/"
username = "ci"
password_file = "password"
"#,
        )
        .unwrap();

        let config = Config::read(&path).unwrap();

        let policies = &config.images.policies;
        assert_eq!(
            policies.default,
            [PullPolicy::IfNotPresent, PullPolicy::Always]
        );
        assert_eq!(
            policies.allowed,
            [PullPolicy::Always, PullPolicy::IfNotPresent]
        );
        assert_eq!(config.images.max_bytes, 10 << 30);
        let registries = &config.images.registries;
        assert_eq!(registries.mirrors["docker.io"].len(), 2);
        assert!(registries.insecure.contains("10.0.0.1:5000"));
        assert_eq!(registries.ca_pem, ["CERTIFICATE"]);
        assert_eq!(registries.retry.lost, Duration::from_secs(5));
        assert_eq!(registries.retry.busy, Duration::from_secs(60));
        assert_eq!(
            config.cache,
            Some(CacheRegistry {
                registry: "registry.example.com".to_owned(),
                repo: "team/caches".to_owned(),
                credential: Some(Credential::Basic {
                    username: "ci".to_owned(),
                    password: "hush".to_owned(),
                }),
            })
        );
        assert!(!format!("{config:?}").contains("hush"));
    }

    #[test]
    fn an_empty_file_changes_nothing() {
        let config = parse("").unwrap();

        assert_eq!(config.images.policies, PolicySettings::default());
        assert_eq!(config.cache, None);
        assert!(parse("[images]\npull_policy = \"never\"").is_ok());
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, parts) in [
            (
                "[images]\npul_policy = \"always\"",
                &["line 2", "`pul_policy`", "`pull_policy`"][..],
            ),
            ("[image]", &["line 1", "`image`", "`images`"]),
            (
                "[images]\npull_policy = 3",
                &["line 2", "a text or a list of texts"],
            ),
            (
                "[images]\npull_policy = \"sometimes\"",
                &["images.pull_policy", "\"sometimes\""],
            ),
            (
                "[images]\nstore_size = \"lots\"",
                &["images.store_size", "\"lots\""],
            ),
            (
                "[registries]\ninsecure = [\"http://a\"]",
                &["registries.insecure", "without https://"],
            ),
            (
                "[registries]\nmirrors = { \"docker.io\" = [\"UP/x y\"] }",
                &["mirrors.\"docker.io\""],
            ),
            (
                "[registries]\nunreachable_for = \"90\"",
                &["unreachable_for", "\"90s\""],
            ),
            (
                "[registries]\nca_files = [\"no-such.pem\"]",
                &["CA file", "no-such.pem"],
            ),
            ("[cache]\nrepo = \"x\"", &["line 1", "`registry`"]),
            (
                "[cache]\nregistry = \"r\"\nusername = \"a\"",
                &["go together"],
            ),
            ("[cache]\nregistry = \"r\"\nrepo = \"A\"", &["cache.repo"]),
            ("= 1", &["line 1"]),
        ] {
            let error = parse(text).unwrap_err();
            for part in parts.iter().chain(&["/etc/vk"]) {
                assert!(error.contains(part), "{text:?}: {error} lacks {part}");
            }
        }
    }

    #[test]
    fn a_file_that_was_named_must_exist() {
        let error = Config::read(Path::new("/no/such/file")).unwrap_err();

        assert!(matches!(error, ConfigError::Read { .. }), "{error}");
    }
}
