//! `executor_opts` of an image: what is not known there is remembered, for the job then fails (gitlab-runner, wire
//! §1.8.2).

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::lenient;

/// Options of an image, by executor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecutorOptions {
    /// Those of the Docker executor.
    pub docker: DockerOptions,
    /// Those of the Kubernetes executor.
    pub kubernetes: KubernetesOptions,
    /// Keys that are none of these, sorted.
    pub unknown: Vec<String>,
}

/// Options of an image under the Docker executor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DockerOptions {
    /// Platform, such as `linux/arm64`.
    pub platform: Option<String>,
    /// User, by name or number.
    pub user: Option<String>,
    /// Keys that are none of these, sorted.
    pub unknown: Vec<String>,
}

/// Options of an image under the Kubernetes executor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubernetesOptions {
    /// User, by number.
    pub user: Option<String>,
    /// Keys that are none of these, sorted.
    pub unknown: Vec<String>,
}

/// A struct that is read key by key.
trait Options: Default {
    /// Reads the value of `key` unless the key is unknown.
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error>;

    fn unknown(&mut self) -> &mut Vec<String>;
}

impl Options for ExecutorOptions {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "docker" => self.docker = map.next_value::<Option<_>>()?.unwrap_or_default(),
            "kubernetes" => self.kubernetes = map.next_value::<Option<_>>()?.unwrap_or_default(),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Vec<String> {
        &mut self.unknown
    }
}

impl Options for DockerOptions {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "platform" => self.platform = map.next_value()?,
            "user" => self.user = map.next_value::<User>()?.0,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Vec<String> {
        &mut self.unknown
    }
}

impl Options for KubernetesOptions {
    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
        match key {
            "user" => self.user = map.next_value::<User>()?.0,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn unknown(&mut self) -> &mut Vec<String> {
        &mut self.unknown
    }
}

/// A user by name or number.
struct User(Option<String>);

impl<'de> Deserialize<'de> for User {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        lenient::text_or_integer(deserializer).map(Self)
    }
}

struct OptionsVisitor<T>(PhantomData<T>);

impl<'de, T: Options> Visitor<'de> for OptionsVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut options = T::default();
        while let Some(key) = map.next_key::<String>()? {
            if !options.read(&key, &mut map)? {
                map.next_value::<IgnoredAny>()?;
                options.unknown().push(key);
            }
        }
        options.unknown().sort_unstable();
        Ok(options)
    }
}

macro_rules! read_as_options {
    ($($options:ty),*) => {$(
        impl<'de> Deserialize<'de> for $options {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_map(OptionsVisitor(PhantomData))
            }
        }
    )*};
}

read_as_options!(ExecutorOptions, DockerOptions, KubernetesOptions);
