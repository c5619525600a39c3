//! Makes OCI images from crafted layers, without a daemon, and pushes them.

#![expect(clippy::expect_used, reason = "a test kit fails by panicking")]

use std::io::Write;
use std::path::Path;

use bytes::Bytes;
use serde_json::{Value, json};
use vk_oci::{BlobSource, Digest, Reference};

use crate::registry::Registry;

/// How a layer is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

/// Whose media types an image uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// OCI's.
    Oci,
    /// Docker's (Image Manifest Version 2, Schema 2).
    Docker,
}

/// A layer's tar archive, entry by entry.
pub struct Tar {
    builder: tar::Builder<Vec<u8>>,
}

impl Default for Tar {
    fn default() -> Self {
        Self::new()
    }
}

impl Tar {
    /// An empty layer.
    #[must_use]
    pub fn new() -> Self {
        Self {
            builder: tar::Builder::new(Vec::new()),
        }
    }

    /// A folder, owned by root.
    #[must_use]
    pub fn folder(self, path: &str, mode: u32) -> Self {
        self.entry(path, tar::EntryType::Directory, mode, (0, 0), b"", None)
    }

    /// A file, owned by root.
    #[must_use]
    pub fn file(self, path: &str, mode: u32, content: &[u8]) -> Self {
        self.entry(path, tar::EntryType::Regular, mode, (0, 0), content, None)
    }

    /// A file of another owner.
    #[must_use]
    pub fn owned_file(self, path: &str, mode: u32, owner: (u64, u64), content: &[u8]) -> Self {
        self.entry(path, tar::EntryType::Regular, mode, owner, content, None)
    }

    /// A file of `size` bytes that are zeros but for `content` at `offset`, in GNU tar's form for sparse files.
    ///
    /// # Panics
    ///
    /// If `path` does not fit in a tar header.
    #[must_use]
    pub fn sparse_file(mut self, path: &str, size: u64, offset: u64, content: &[u8]) -> Self {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::GNUSparse);
        header.set_path(path).expect("a path that fits");
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        let gnu = header.as_gnu_mut().expect("GNU's header");
        gnu.set_real_size(size);
        for (part, (offset, len)) in gnu
            .sparse
            .iter_mut()
            .zip([(offset, content.len() as u64), (size, 0)])
        {
            part.set_offset(offset);
            part.set_length(len);
        }
        header.set_cksum();
        self.builder
            .append(&header, content)
            .expect("an entry in memory");
        self
    }

    /// A symbolic link.
    #[must_use]
    pub fn symlink(self, path: &str, target: &str) -> Self {
        self.entry(
            path,
            tar::EntryType::Symlink,
            0o777,
            (0, 0),
            b"",
            Some(target),
        )
    }

    /// A hard link.
    #[must_use]
    pub fn hard_link(self, path: &str, target: &str) -> Self {
        self.entry(path, tar::EntryType::Link, 0o644, (0, 0), b"", Some(target))
    }

    /// Takes away what an earlier layer has at `path` (OCI image spec 1.1, layer.md, "Whiteouts").
    #[must_use]
    pub fn whiteout(self, path: &str) -> Self {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let path = format!("{folder}/.wh.{name}");
        self.file(path.trim_start_matches('/'), 0o644, b"")
    }

    /// One entry, whose path and link may be anything that fits in a tar header.
    ///
    /// # Panics
    ///
    /// If it does not fit.
    #[must_use]
    pub fn entry(
        mut self,
        path: &str,
        kind: tar::EntryType,
        mode: u32,
        (uid, gid): (u64, u64),
        content: &[u8],
        link: Option<&str>,
    ) -> Self {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(uid);
        header.set_gid(gid);
        header.set_mtime(1_700_000_000);
        header.set_size(content.len() as u64);
        let name = header.as_old_mut();
        name.name
            .get_mut(..path.len())
            .expect("a path of at most 100 bytes")
            .copy_from_slice(path.as_bytes());
        if let Some(link) = link {
            name.linkname
                .get_mut(..link.len())
                .expect("a link of at most 100 bytes")
                .copy_from_slice(link.as_bytes());
        }
        header.set_cksum();
        self.builder
            .append(&header, content)
            .expect("an entry in memory");
        self
    }

    /// The archive.
    ///
    /// # Panics
    ///
    /// Never: it is in memory.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.builder.into_inner().expect("an archive in memory")
    }
}

/// An image before it is pushed.
#[derive(Clone, Debug)]
pub struct Image {
    /// Whose media types.
    pub flavour: Flavour,
    /// Operating system and architecture, as in `linux/arm/v7`.
    pub platform: String,
    /// The configuration's `config` object: `Env`, `User`, `WorkingDir`, `Entrypoint`, `Cmd`, `ExposedPorts`.
    pub config: Value,
    /// Tar archives, the lowest first, and how each is compressed.
    pub layers: Vec<(Vec<u8>, Compression)>,
}

impl Default for Image {
    fn default() -> Self {
        Self::new()
    }
}

impl Image {
    /// An OCI image for linux/amd64 without layers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            flavour: Flavour::Oci,
            platform: "linux/amd64".to_owned(),
            config: json!({"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}),
            layers: Vec::new(),
        }
    }

    /// An image with the host's static busybox as its `sh` and its tools, of one gzip layer.
    ///
    /// # Panics
    ///
    /// If Debian's busybox-static is not installed.
    #[must_use]
    pub fn busybox() -> Self {
        Self::new().layer(busybox_layer(), Compression::Gzip)
    }

    /// The same image with one more layer.
    #[must_use]
    pub fn layer(mut self, tar: Vec<u8>, compression: Compression) -> Self {
        self.layers.push((tar, compression));
        self
    }

    /// The same image with another `config` object.
    #[must_use]
    pub fn config(mut self, config: Value) -> Self {
        self.config = config;
        self
    }

    /// The same image for another platform.
    #[must_use]
    pub fn platform(mut self, platform: &str) -> Self {
        platform.clone_into(&mut self.platform);
        self
    }

    /// The same image with other media types.
    #[must_use]
    pub fn flavour(mut self, flavour: Flavour) -> Self {
        self.flavour = flavour;
        self
    }

    /// The configuration blob.
    #[must_use]
    pub fn config_blob(&self) -> Vec<u8> {
        let platform = platform_object(&self.platform);
        let diff_ids: Vec<_> = self
            .layers
            .iter()
            .map(|(tar, _)| Digest::of(tar).to_string())
            .collect();
        let mut config = json!({
            "created": "2026-11-30T00:00:00Z",
            "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": [],
        });
        for (key, value) in platform.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        config.to_string().into_bytes()
    }

    /// Pushes it to `registry` as `name`, such as `team/build:1`, and answers its manifest's digest.
    ///
    /// # Panics
    ///
    /// If the registry does not take it.
    pub fn push(&self, registry: &Registry, name: &str) -> Digest {
        let manifest = self.push_blobs(registry, name);
        push_manifest(registry, name, self.manifest_type(), &manifest)
    }

    /// Pushes its blobs only, and answers its manifest.
    ///
    /// # Panics
    ///
    /// If the registry does not take them.
    pub fn push_blobs(&self, registry: &Registry, name: &str) -> Value {
        let (config_type, layer_type) = match self.flavour {
            Flavour::Oci => (
                "application/vnd.oci.image.config.v1+json",
                "application/vnd.oci.image.layer.v1.tar",
            ),
            Flavour::Docker => (
                "application/vnd.docker.container.image.v1+json",
                "application/vnd.docker.image.rootfs.diff.tar",
            ),
        };
        let layers: Vec<_> = self
            .layers
            .iter()
            .map(|(tar, compression)| {
                let suffix = match (self.flavour, compression) {
                    (_, Compression::None) => "",
                    (Flavour::Oci, Compression::Gzip) => "+gzip",
                    (Flavour::Docker, Compression::Gzip) => ".gzip",
                    (Flavour::Oci, Compression::Zstd) => "+zstd",
                    (Flavour::Docker, Compression::Zstd) => ".zstd",
                };
                let blob = compressed(tar, *compression);
                push_blob(registry, name, &format!("{layer_type}{suffix}"), blob)
            })
            .collect();
        json!({
            "schemaVersion": 2,
            "mediaType": self.manifest_type(),
            "config": push_blob(registry, name, config_type, self.config_blob()),
            "layers": layers,
        })
    }

    fn manifest_type(&self) -> &'static str {
        match self.flavour {
            Flavour::Oci => "application/vnd.oci.image.manifest.v1+json",
            Flavour::Docker => "application/vnd.docker.distribution.manifest.v2+json",
        }
    }
}

/// Pushes an index of `images` as `name` and answers its digest.
///
/// # Panics
///
/// If the registry does not take it.
pub fn push_index(registry: &Registry, name: &str, images: &[Image]) -> Digest {
    let flavour = images.first().map_or(Flavour::Oci, |image| image.flavour);
    let media_type = match flavour {
        Flavour::Oci => "application/vnd.oci.image.index.v1+json",
        Flavour::Docker => "application/vnd.docker.distribution.manifest.list.v2+json",
    };
    let repository = reference(registry, name);
    let manifests: Vec<_> = images
        .iter()
        .map(|image| {
            let manifest = image.push_blobs(registry, name).to_string();
            let digest = Digest::of(manifest.as_bytes());
            let pinned = format!("{}@{digest}", repository.repository().path());
            let value = serde_json::from_str(&manifest).expect("our own JSON");
            assert_eq!(
                push_manifest(registry, &pinned, image.manifest_type(), &value),
                digest
            );
            json!({
                "mediaType": image.manifest_type(),
                "digest": digest.to_string(),
                "size": manifest.len(),
                "platform": platform_object(&image.platform),
            })
        })
        .collect();
    let index = json!({"schemaVersion": 2, "mediaType": media_type, "manifests": manifests});
    push_manifest(registry, name, media_type, &index)
}

/// Pushes any JSON as a manifest and answers its digest.
///
/// # Panics
///
/// If the registry does not take it.
pub fn push_manifest(
    registry: &Registry,
    name: &str,
    media_type: &str,
    manifest: &Value,
) -> Digest {
    let reference = reference(registry, name);
    // A client of its own: connections belong to the runtime that made them.
    let (client, media_type) = (registry.client(), media_type.to_owned());
    let bytes = manifest.to_string().into_bytes();
    wait(async move { client.push_manifest(&reference, &media_type, bytes).await })
        .expect("the registry takes the manifest")
}

/// Pushes a blob to the repository of `name` and answers its descriptor.
///
/// # Panics
///
/// If the registry does not take it.
pub fn push_blob(registry: &Registry, name: &str, media_type: &str, blob: Vec<u8>) -> Value {
    let reference = reference(registry, name);
    let (size, digest) = (blob.len(), Digest::of(&blob));
    let (client, source) = (registry.client(), BlobSource::Bytes(Bytes::from(blob)));
    wait(async move {
        let repository = reference.repository();
        client
            .push_blob(repository, digest, size as u64, source)
            .await
    })
    .expect("the registry takes the blob");
    json!({"mediaType": media_type, "digest": digest.to_string(), "size": size})
}

fn reference(registry: &Registry, name: &str) -> Reference {
    registry.image(name).parse().expect("a reference")
}

/// Runs async work to its end, also from inside a runtime.
fn wait<T: Send>(work: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime")
                    .block_on(work)
            })
            .join()
            .expect("the work ends")
    })
}

/// `tar`, compressed.
///
/// # Panics
///
/// Never: it is in memory.
#[must_use]
pub fn compressed(tar: &[u8], compression: Compression) -> Vec<u8> {
    match compression {
        Compression::None => tar.to_vec(),
        Compression::Gzip => {
            let level = flate2::Compression::fast();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(tar).expect("memory takes it");
            encoder.finish().expect("memory takes it")
        }
        Compression::Zstd => zstd::encode_all(tar, 1).expect("memory takes it"),
    }
}

/// The host's static busybox.
///
/// # Panics
///
/// If Debian's busybox-static is not installed.
#[must_use]
pub fn busybox_program() -> &'static Path {
    ["/bin/busybox", "/usr/bin/busybox"]
        .into_iter()
        .map(Path::new)
        .find(|path| path.is_file())
        .expect("busybox-static is installed (setup lists it)")
}

/// `/bin/busybox` with a link for each of its tools, and the folders and files that a small system has.
///
/// # Panics
///
/// If Debian's busybox-static is not installed.
#[must_use]
pub fn busybox_layer() -> Vec<u8> {
    let program = busybox_program();
    let content = std::fs::read(program).expect("busybox can be read");
    let listed = std::process::Command::new(program)
        .arg("--list")
        .output()
        .expect("busybox runs");
    let tools = String::from_utf8_lossy(&listed.stdout).into_owned();
    let mut tar = Tar::new();
    for folder in [
        "bin/", "etc/", "home/", "proc/", "root/", "sys/", "dev/", "usr/", "usr/bin/", "var/",
    ] {
        tar = tar.folder(folder, 0o755);
    }
    tar = tar
        .folder("tmp/", 0o1777)
        .file(
            "etc/passwd",
            0o644,
            b"root:x:0:0:root:/root:/bin/sh\nbuilder:x:1000:1000::/home/builder:/bin/sh\n",
        )
        .file("etc/group", 0o644, b"root:x:0:\nbuilder:x:1000:\n")
        .file("bin/busybox", 0o755, &content);
    for tool in tools.lines().filter(|tool| *tool != "busybox") {
        tar = tar.symlink(&format!("bin/{tool}"), "busybox");
    }
    tar.finish()
}

/// The `platform` object of `os/architecture[/variant]` (OCI image spec 1.1, image-index.md).
fn platform_object(platform: &str) -> Value {
    let mut parts = platform.split('/');
    let mut object = json!({"os": parts.next(), "architecture": parts.next()});
    if let Some(variant) = parts.next() {
        object["variant"] = variant.into();
    }
    object
}
