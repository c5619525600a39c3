//! The folder of guest images: kernel, initramfs and the images called `local/…`.

use std::path::{Path, PathBuf};

/// Name of the image of a job that names none.
pub const DEFAULT_IMAGE: &str = "local/default";

/// What the reference of an image in the images folder begins with.
pub(crate) const LOCAL_PREFIX: &str = "local/";

/// Environment variable that names the images folder.
pub const IMAGES_DIR_VARIABLE: &str = "VK_IMAGES_DIR";

/// The guest images of this host, made by `images/build` (docs/images.md).
#[derive(Clone, Debug)]
pub struct Images {
    dir: PathBuf,
}

/// Why the images folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImagesError {
    /// The folder holds no kernel or no initramfs.
    #[error(
        "the guest images are not built: {} is missing; run `images/build` in vk's source folder, or name \
         their folder with --images or {IMAGES_DIR_VARIABLE}", missing.display()
    )]
    NotBuilt {
        /// The file that was looked for.
        missing: PathBuf,
    },
}

/// Why an image reference names nothing that can be booted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// A `local/…` image that is not in the folder.
    #[error("no image \"{name}\" on this host: its folder of guest images has no file {file}")]
    Unknown {
        /// The reference.
        name: String,
        /// The file name that was looked for.
        file: String,
    },
}

impl Images {
    /// The images in `explicit`, or else in [`IMAGES_DIR_VARIABLE`], or else in the first of the usual places that has them.
    ///
    /// # Errors
    ///
    /// [`ImagesError::NotBuilt`] if there are none.
    pub fn open(explicit: Option<&Path>) -> Result<Self, ImagesError> {
        let named = explicit.map(Path::to_owned).or_else(|| {
            let dir = std::env::var_os(IMAGES_DIR_VARIABLE).filter(|dir| !dir.is_empty())?;
            Some(PathBuf::from(dir))
        });
        let candidates = named.map_or_else(usual_places, |dir| vec![dir]);
        let mut first_missing = None;
        for dir in candidates {
            let images = Self { dir };
            match images.missing() {
                None => return Ok(images),
                Some(missing) => first_missing = first_missing.or(Some(missing)),
            }
        }
        let missing = first_missing.unwrap_or_else(|| PathBuf::from("images/out"));
        Err(ImagesError::NotBuilt { missing })
    }

    /// The kernel, uncompressed: it boots a third of a second sooner than `vmlinuz` under emulation.
    #[must_use]
    pub fn kernel(&self) -> PathBuf {
        self.dir.join("vmlinux")
    }

    /// The initramfs with the agent and the kernel modules.
    #[must_use]
    pub fn initramfs(&self) -> PathBuf {
        self.dir.join("initramfs.cpio")
    }

    /// The root file system of the image called `reference`; the default one for an empty reference.
    ///
    /// # Errors
    ///
    /// If there is no such image on this host.
    pub fn resolve(&self, reference: &str) -> Result<PathBuf, ImageError> {
        let name = if reference.is_empty() {
            DEFAULT_IMAGE
        } else {
            reference
        };
        let local = name.strip_prefix(LOCAL_PREFIX).unwrap_or_default();
        let file = format!("{local}.erofs");
        let plain = !local.is_empty()
            && !local.starts_with('.')
            && local
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        let path = self.dir.join(&file);
        if plain && path.is_file() {
            Ok(path)
        } else {
            Err(ImageError::Unknown {
                name: name.to_owned(),
                file,
            })
        }
    }

    fn missing(&self) -> Option<PathBuf> {
        [self.kernel(), self.initramfs()]
            .into_iter()
            .find(|file| !file.is_file())
    }
}

/// Where images are looked for when no folder is named: in the source tree the command was built in, then where
/// a package puts them.
fn usual_places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Ok(command) = std::env::current_exe() {
        // target/release/vk and target/debug/vk
        places.extend(
            command
                .ancestors()
                .nth(3)
                .map(|root| root.join("images/out")),
        );
        // bin/vk and lib/vk/images
        places.extend(
            command
                .ancestors()
                .nth(2)
                .map(|root| root.join("lib/vk/images")),
        );
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images() -> (tempfile::TempDir, Images) {
        let dir = tempfile::tempdir().unwrap();
        for file in [
            "vmlinux",
            "initramfs.cpio",
            "default.erofs",
            "tools-1.2.erofs",
        ] {
            std::fs::write(dir.path().join(file), b"").unwrap();
        }
        let images = Images::open(Some(dir.path())).unwrap();
        (dir, images)
    }

    #[test]
    fn an_empty_name_means_the_default_image() {
        let (_dir, images) = images();

        assert_eq!(
            images.resolve("").unwrap(),
            images.resolve(DEFAULT_IMAGE).unwrap()
        );
    }

    #[test]
    fn a_local_image_is_a_file_of_the_folder() {
        let (dir, images) = images();

        assert_eq!(
            images.resolve("local/tools-1.2").unwrap(),
            dir.path().join("tools-1.2.erofs")
        );
    }

    #[test]
    fn a_name_cannot_leave_the_folder() {
        let (_dir, images) = images();

        for name in [
            "local/",
            "local/../default",
            "local/.hidden",
            "local/a/b",
            "local/nope",
            "registry.example.com/a:1",
        ] {
            assert!(
                matches!(images.resolve(name), Err(ImageError::Unknown { .. })),
                "{name}"
            );
        }
    }

    #[test]
    fn a_folder_without_a_kernel_names_the_command_that_makes_it() {
        let dir = tempfile::tempdir().unwrap();

        let error = Images::open(Some(dir.path())).unwrap_err();

        assert!(error.to_string().contains("`images/build`"), "{error}");
    }
}
