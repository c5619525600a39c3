//! Arguments, variables and paths in JSON: any bytes but NUL, as Linux has them. UTF-8 is a string; what is not is an
//! array of its bytes' numbers.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// For `#[serde(with)]` on an [`OsString`].
pub(crate) fn serialize<S: Serializer>(text: &OsStr, to: S) -> Result<S::Ok, S::Error> {
    Borrowed(text).serialize(to)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<OsString, D::Error> {
    Ok(Owned::deserialize(from)?.0)
}

/// For `#[serde(with)]` on an `Option<OsString>`.
pub(crate) mod optional {
    use super::{Borrowed, Deserialize, Deserializer, OsString, Owned, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde's signature")]
    pub(crate) fn serialize<S: Serializer>(
        text: &Option<OsString>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        text.as_deref().map(Borrowed).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<OsString>, D::Error> {
        let text = Option::<Owned>::deserialize(from)?;
        Ok(text.map(|text| text.0))
    }
}

/// For `#[serde(with)]` on a `Vec<OsString>`.
pub(crate) mod list {
    use super::{Borrowed, Deserialize, Deserializer, OsString, Owned, Serializer};

    pub(crate) fn serialize<S: Serializer>(list: &[OsString], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(list.iter().map(|text| Borrowed(text)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<OsString>, D::Error> {
        let list = Vec::<Owned>::deserialize(from)?;
        Ok(list.into_iter().map(|text| text.0).collect())
    }
}

/// For `#[serde(with)]` on a `Vec<(OsString, OsString)>`.
pub(crate) mod pairs {
    use super::{Borrowed, Deserialize, Deserializer, OsString, Owned, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        list: &[(OsString, OsString)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(
            list.iter()
                .map(|(name, value)| (Borrowed(name), Borrowed(value))),
        )
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(OsString, OsString)>, D::Error> {
        let list = Vec::<(Owned, Owned)>::deserialize(from)?;
        Ok(list
            .into_iter()
            .map(|(name, value)| (name.0, value.0))
            .collect())
    }
}

struct Borrowed<'a>(&'a OsStr);

impl Serialize for Borrowed<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => to.serialize_str(text),
            None => to.collect_seq(self.0.as_bytes()),
        }
    }
}

struct Owned(OsString);

impl<'de> Deserialize<'de> for Owned {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(OfEither).map(Self)
    }
}

struct OfEither;

impl<'de> Visitor<'de> for OfEither {
    type Value = OsString;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a string or an array of bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<OsString, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<OsString, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut numbers: A) -> Result<OsString, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = numbers.next_element()? {
            bytes.push(byte);
        }
        Ok(OsString::from_vec(bytes))
    }
}
