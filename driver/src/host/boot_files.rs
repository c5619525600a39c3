//! The folder of guest images: kernel, initramfs and the images called `local/…`.

use std::path::{Path, PathBuf};

use vk_oci::LOCAL_PREFIX;

/// Name of the image of a job that names none.
pub(crate) const DEFAULT_IMAGE: &str = "local/default";

/// The guest images of this host, made by `images/build` (docs/images.md).
#[derive(Clone, Debug)]
pub(crate) struct BootFiles {
    dir: PathBuf,
}

/// Why the images folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum BootFilesError {
    /// The folder holds no kernel or no initramfs.
    #[error(
        "the guest images are not built: {} is missing; run `images/build` in vk's source folder, or name \
         their folder with --images or VK_IMAGES_DIR", missing.display()
    )]
    NotBuilt {
        /// The file that was looked for.
        missing: PathBuf,
    },
}

/// Why an image reference names nothing that can be booted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ImageError {
    /// A `local/…` image that is not in the folder.
    #[error("no image \"{name}\" on this host: its folder of guest images has no file {file}")]
    Unknown {
        /// The reference.
        name: String,
        /// The file name that was looked for.
        file: String,
    },
}

impl BootFiles {
    /// The images in `dir`.
    ///
    /// # Errors
    ///
    /// [`BootFilesError::NotBuilt`] if there are none.
    pub(crate) fn open(dir: &Path) -> Result<Self, BootFilesError> {
        let files = Self {
            dir: dir.to_owned(),
        };
        match files.missing() {
            None => Ok(files),
            Some(missing) => Err(BootFilesError::NotBuilt { missing }),
        }
    }

    /// The kernel, uncompressed: it boots a third of a second sooner than `vmlinuz` under emulation.
    #[must_use]
    pub(crate) fn kernel(&self) -> PathBuf {
        self.dir.join("vmlinux")
    }

    /// The initramfs with the agent and the kernel modules.
    #[must_use]
    pub(crate) fn initramfs(&self) -> PathBuf {
        self.dir.join("initramfs.cpio")
    }

    /// The root file system of the image called `reference`; the default one for an empty reference.
    ///
    /// # Errors
    ///
    /// If there is no such image on this host.
    pub(crate) fn resolve(&self, reference: &str) -> Result<PathBuf, ImageError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn images() -> (tempfile::TempDir, BootFiles) {
        let dir = tempfile::tempdir().unwrap();
        for file in [
            "vmlinux",
            "initramfs.cpio",
            "default.erofs",
            "tools-1.2.erofs",
        ] {
            std::fs::write(dir.path().join(file), b"").unwrap();
        }
        let images = BootFiles::open(dir.path()).unwrap();
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

        let error = BootFiles::open(dir.path()).unwrap_err();

        assert!(error.to_string().contains("`images/build`"), "{error}");
    }
}
