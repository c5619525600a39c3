//! What an image's name asks for.

use crate::registry::{Reference, ReferenceError};

/// What the reference of an image in the folder of guest images begins with.
pub const LOCAL_PREFIX: &str = "local/";

/// Prefixes that name another way to come by an image, which is not built yet.
const RESERVED: [&str; 2] = ["dockerfile:", "compose:"];

/// Why a name is none of an image in a registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// A way to come by images that is not built yet.
    #[error(
        "the image \"{name}\" is to be made by `{prefix}`, which vk cannot do yet: name an image of a registry"
    )]
    Reserved {
        /// The name.
        name: String,
        /// Its prefix.
        prefix: &'static str,
    },
    /// One of the guest images, which no registry has.
    #[error(
        "the image \"{0}\" is one of this host's guest images, which `images/build` makes: there is nothing to pull"
    )]
    Local(String),
    /// No reference.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
}

/// The image of a registry that `name` means.
pub(crate) fn parse(name: &str) -> Result<Reference, NameError> {
    if name.starts_with(LOCAL_PREFIX) {
        return Err(NameError::Local(name.to_owned()));
    }
    match RESERVED.into_iter().find(|prefix| name.starts_with(prefix)) {
        Some(prefix) => Err(NameError::Reserved {
            name: name.to_owned(),
            prefix,
        }),
        None => Ok(name.parse()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_images_are_in_no_registry() {
        assert!(matches!(parse("local/default"), Err(NameError::Local(_))));
        assert!(parse("r.example.com/local/default").is_ok());
    }

    #[test]
    fn prefixes_for_later_are_told_from_bad_names() {
        for name in ["dockerfile:ci/Dockerfile", "compose:app", "dockerfile:"] {
            assert!(
                matches!(parse(name), Err(NameError::Reserved { .. })),
                "{name}"
            );
        }
        assert!(matches!(
            parse("UPPER CASE::"),
            Err(NameError::Reference(_))
        ));
        assert!(parse("dockerfile").is_ok());
        assert!(parse("compose/app:1").is_ok());
    }
}
