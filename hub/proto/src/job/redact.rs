//! A job without its secrets, for records and debug output.

use std::fmt;

use super::cache_key::sanitized;
use super::variables::Variables;
use super::{
    Artifact, Cache, CiJob, Dependency, Image, JobInfo, RegistryCredential, Secret, Sources,
    TraceOptions, Variable,
};

/// What stands in a redacted spec where a secret was.
pub const REDACTED: &str = "[REDACTED]";

/// Values of variables that are not shown, but are not masked either, are looked for within other texts from this
/// length on, in bytes: shorter ones would hide innocent text.
const SHORTEST_WITHIN: usize = 4;

impl CiJob {
    /// The spec for records and logs: every token, password and variable value that is not public (or is
    /// masked, or a file) replaced by [`REDACTED`], also where it stands within a cache's key or another text, and
    /// scripts as they are: what is secret there, their author wrote.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let hider = Hider::of(self);
        // Taken apart and put together field by field: whoever adds one has to say what is shown of it.
        let Self {
            job,
            token: _,
            server_url,
            server_ca_pem,
            sources,
            timeout_secs,
            variables,
            steps,
            image,
            services,
            artifacts,
            caches,
            registry_credentials,
            dependencies,
            trace,
            hooks,
        } = self.clone();
        Self {
            job: hider.job_info(job),
            token: REDACTED.into(),
            server_url: hider.text(&server_url),
            server_ca_pem,
            sources: hider.sources(sources),
            timeout_secs,
            variables: hider.variables(variables),
            steps,
            image: image.map(|image| hider.image(image)),
            services: each(services, |image| hider.image(image)),
            artifacts: each(artifacts, |artifact| hider.artifact(artifact)),
            caches: each(caches, |cache| hider.cache(cache)),
            registry_credentials: each(registry_credentials, |credential| {
                hider.registry_credential(credential)
            }),
            dependencies: each(dependencies, |dependency| hider.dependency(dependency)),
            trace: hider.trace(trace),
            hooks,
        }
    }
}

/// As [`CiJob::redacted`].
impl fmt::Debug for CiJob {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            job,
            token,
            server_url,
            server_ca_pem,
            sources,
            timeout_secs,
            variables,
            steps,
            image,
            services,
            artifacts,
            caches,
            registry_credentials,
            dependencies,
            trace,
            hooks,
        } = &self.redacted();
        formatter
            .debug_struct("CiJob")
            .field("job", job)
            .field("token", token)
            .field("server_url", server_url)
            .field("server_ca_pem", server_ca_pem)
            .field("sources", sources)
            .field("timeout_secs", timeout_secs)
            .field("variables", variables)
            .field("steps", steps)
            .field("image", image)
            .field("services", services)
            .field("artifacts", artifacts)
            .field("caches", caches)
            .field("registry_credentials", registry_credentials)
            .field("dependencies", dependencies)
            .field("trace", trace)
            .field("hooks", hooks)
            .finish()
    }
}

/// Shows the value of a variable that is public and neither masked nor a file.
impl fmt::Debug for Variable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            value,
            public,
            file,
            masked,
            raw,
        } = self;
        let value = if self.is_shown() { value } else { REDACTED };
        formatter
            .debug_struct("Variable")
            .field("key", key)
            .field("value", &value)
            .field("public", public)
            .field("file", file)
            .field("masked", masked)
            .field("raw", raw)
            .finish()
    }
}

/// As each variable shows itself, and without what the others hide.
impl fmt::Debug for Variables {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hider = Hider::new(Vec::new(), self.iter());
        formatter
            .debug_list()
            .entries(
                self.iter()
                    .cloned()
                    .map(|variable| hider.variable(variable)),
            )
            .finish()
    }
}

impl Variable {
    /// Whether records may show the value.
    fn is_shown(&self) -> bool {
        self.public && !self.masked && !self.file
    }
}

/// `text` with `mark` wherever any of `secrets` occurs in it; occurrences that overlap become one.
#[must_use]
pub fn hidden(text: &str, secrets: &[Secret], mark: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut hidden_to = 0;
    for (at, character) in text.char_indices() {
        let rest = text.get(at..).unwrap_or_default();
        let longest = secrets
            .iter()
            .map(Secret::expose)
            .filter(|secret| !secret.is_empty() && rest.starts_with(secret))
            .map(str::len)
            .max();
        if let Some(len) = longest {
            if at >= hidden_to {
                shown.push_str(mark);
            }
            hidden_to = hidden_to.max(at + len);
        }
        if at >= hidden_to {
            shown.push(character);
        }
    }
    shown
}

fn each<T>(list: Vec<T>, change: impl Fn(T) -> T) -> Vec<T> {
    list.into_iter().map(change).collect()
}

/// Takes secrets out of a job's parts.
struct Hider {
    secrets: Vec<Secret>,
}

impl Hider {
    fn of(job: &CiJob) -> Self {
        let written = Variables::new(job.variables.clone());
        let expanded = written.expanded();
        let mut secrets = job.secrets_within(&expanded);
        // Fallback keys are expanded twice (gitlab-runner, wire §4.3).
        let twice: Vec<Secret> = secrets
            .iter()
            .map(|secret| expanded.expand(secret.expose()))
            .filter(|secret| !secret.trim().is_empty())
            .map(Secret::from)
            .collect();
        secrets.extend(twice);
        let images = job.image.iter().chain(&job.services);
        let of_images = images.flat_map(|image| &image.variables);
        Self::new(
            secrets,
            written.iter().chain(expanded.iter()).chain(of_images),
        )
    }

    /// Of `secrets`, and of the values of those `variables` that are not shown.
    fn new<'v>(mut secrets: Vec<Secret>, variables: impl Iterator<Item = &'v Variable>) -> Self {
        for variable in variables.filter(|variable| !variable.is_shown()) {
            let value = variable.value.trim();
            let is_long = value.len() >= SHORTEST_WITHIN;
            if is_long || variable.masked && !value.is_empty() {
                secrets.push(value.into());
            }
        }
        secrets.sort_unstable();
        secrets.dedup();
        Self { secrets }
    }

    fn text(&self, text: &str) -> String {
        hidden(text, &self.secrets, REDACTED)
    }

    fn texts(&self, texts: Vec<String>) -> Vec<String> {
        each(texts, |text| self.text(&text))
    }

    fn job_info(&self, info: JobInfo) -> JobInfo {
        let JobInfo {
            id,
            name,
            stage,
            pipeline_id,
            project_id,
            project_name,
            project_path,
            namespace_id,
            root_namespace_id,
            user_id,
            runner_id,
        } = info;
        // Names that GitLab shows to whoever sees the job; no variable is expanded in them.
        JobInfo {
            id,
            name,
            stage,
            pipeline_id,
            project_id,
            project_name,
            project_path,
            namespace_id,
            root_namespace_id,
            user_id,
            runner_id,
        }
    }

    fn sources(&self, sources: Sources) -> Sources {
        let Sources {
            allow_fetch,
            repo_url,
            object_format,
            git_ref,
            sha,
            before_sha,
            ref_type,
            refspecs,
            depth,
            protected,
        } = sources;
        Sources {
            allow_fetch,
            repo_url: self.text(&repo_url),
            object_format,
            git_ref,
            sha,
            before_sha,
            ref_type,
            refspecs,
            depth,
            protected,
        }
    }

    fn variables(&self, variables: Vec<Variable>) -> Vec<Variable> {
        each(variables, |variable| self.variable(variable))
    }

    fn variable(&self, variable: Variable) -> Variable {
        let is_shown = variable.is_shown();
        let Variable {
            key,
            value,
            public,
            file,
            masked,
            raw,
        } = variable;
        let value = if is_shown {
            self.text(&value)
        } else {
            REDACTED.to_owned()
        };
        Variable {
            key,
            value,
            public,
            file,
            masked,
            raw,
        }
    }

    fn image(&self, image: Image) -> Image {
        let Image {
            name,
            aliases,
            command,
            entrypoint,
            ports,
            variables,
            pull_policy,
            platform,
            user,
        } = image;
        Image {
            name: self.text(&name),
            aliases: self.texts(aliases),
            command: self.texts(command),
            entrypoint: self.texts(entrypoint),
            ports,
            variables: self.variables(variables),
            pull_policy,
            platform,
            user,
        }
    }

    fn artifact(&self, artifact: Artifact) -> Artifact {
        let Artifact {
            name,
            untracked,
            paths,
            exclude,
            when,
            artifact_type,
            artifact_format,
            expire_in,
        } = artifact;
        Artifact {
            name: self.text(&name),
            untracked,
            paths: self.texts(paths),
            exclude: self.texts(exclude),
            when,
            artifact_type,
            artifact_format,
            expire_in,
        }
    }

    fn cache(&self, cache: Cache) -> Cache {
        let Cache {
            key,
            raw_key,
            fallback_keys,
            raw_fallback_keys,
            untracked,
            policy,
            paths,
            when,
        } = cache;
        let (key, raw_key) = self.key(&key, raw_key);
        let mut raw = raw_fallback_keys.into_iter();
        let (mut keys, mut raw_keys) = (Vec::new(), Vec::new());
        for key in fallback_keys {
            let raw_key = raw.next();
            let has_raw = raw_key.is_some();
            let (key, raw_key) = self.key(&key, raw_key.unwrap_or_default());
            keys.push(key);
            raw_keys.extend(has_raw.then_some(raw_key));
        }
        raw_keys.extend(raw.map(|key| self.text(&key)));
        Cache {
            key,
            raw_key,
            fallback_keys: keys,
            raw_fallback_keys: raw_keys,
            untracked,
            policy,
            paths: self.texts(paths),
            when,
        }
    }

    /// A key and what it was made from.
    fn key(&self, key: &str, raw: String) -> (String, String) {
        let redacted = self.text(&raw);
        if redacted == raw {
            return (self.text(key), raw);
        }
        // Cleaning may have changed the secret beyond recognition.
        (sanitized(&redacted), redacted)
    }

    fn registry_credential(&self, credential: RegistryCredential) -> RegistryCredential {
        let RegistryCredential {
            url,
            username,
            password: _,
        } = credential;
        RegistryCredential {
            url: self.text(&url),
            username: self.text(&username),
            password: REDACTED.into(),
        }
    }

    fn dependency(&self, dependency: Dependency) -> Dependency {
        let Dependency {
            id,
            name,
            token: _,
            filename,
            size,
        } = dependency;
        Dependency {
            id,
            name,
            token: REDACTED.into(),
            filename: self.text(&filename),
            size,
        }
    }

    fn trace(&self, trace: TraceOptions) -> TraceOptions {
        let TraceOptions {
            sections,
            mask_prefixes,
            limit_bytes,
        } = trace;
        TraceOptions {
            sections,
            mask_prefixes,
            limit_bytes,
        }
    }
}
