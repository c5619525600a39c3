//! Caches in a folder of this host: an OCI image layout (OCI image spec 1.1, image-layout.md).
//!
//! `index.json` names each cache's manifest by `<repository>:<tag>`. It is changed under a lock, and whatever it names is
//! in `blobs/sha256` before it is: several processes may work on one folder, and one that is killed leaves it whole. When
//! the blobs have more bytes than they may have, the caches that were used the longest ago go first; a manifest's
//! modification time says when its cache was used.
//!
//! Disks lose and change bytes: what is read is compared with its digest, and what is stored replaces what bears its
//! name.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::manifest::{EMPTY, Layer, MANIFEST_TYPE, layer, manifest};
use crate::spool::Spooled;
use vk_oci::Digest;

/// The annotation that names an entry (OCI image spec 1.1, annotations.md).
const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// What an image layout says of itself (OCI image spec 1.1, image-layout.md).
const LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

/// Largest manifest that is read, in bytes; vk's own have a few hundred.
const MAX_MANIFEST: u64 = 1 << 20;

/// A folder of caches.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    root: PathBuf,
    max_bytes: u64,
}

/// Something could not be done with the folder.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the cache folder {}", path.display())]
pub struct FolderError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    schema_version: u32,
    media_type: String,
    manifests: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            schema_version: 2,
            media_type: "application/vnd.oci.image.index.v1+json".to_owned(),
            manifests: Vec::new(),
        }
    }
}

impl Index {
    fn find(&self, name: &str) -> Option<&Entry> {
        self.manifests.iter().find(|entry| entry.is_called(name))
    }
}

impl Entry {
    fn is_called(&self, name: &str) -> bool {
        self.annotations.get(REF_NAME).map(String::as_str) == Some(name)
    }
}

impl Folder {
    /// The folder `root`, made when it is needed, whose blobs have `max_bytes` at most.
    pub(super) fn new(root: PathBuf, max_bytes: u64) -> Self {
        Self { root, max_bytes }
    }

    /// The layer of the cache called `name`, open at its first byte and with the digest that it should have; `None` if
    /// there is none. One that is damaged is removed.
    pub(super) fn find(&self, name: &str) -> Result<Option<File>, FolderError> {
        self.try_find(name).map_err(self.failed())
    }

    /// Stores `archive` as the cache called `name`.
    pub(super) fn store(&self, name: &str, archive: Spooled) -> Result<(), FolderError> {
        self.try_store(name, archive).map_err(self.failed())
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> FolderError + '_ {
        |source| FolderError {
            path: self.root.clone(),
            source,
        }
    }

    fn try_find(&self, name: &str) -> io::Result<Option<File>> {
        if !self.root.try_exists()? {
            return Ok(None);
        }
        let lock = self.lock()?;
        let index = self.read_index()?;
        let Some(entry) = index.find(name) else {
            return Ok(None);
        };
        let Some(layer) = self.layer_of(entry) else {
            return Ok(None);
        };
        let mut file = match File::open(self.blob(layer.digest)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if let Ok(digest) = entry.digest.parse() {
            self.touch(digest);
        }
        // Reading it takes long; nobody changes an open blob.
        drop(lock);
        if is_whole(&mut file, layer) {
            file.rewind()?;
            return Ok(Some(file));
        }
        tracing::warn!(
            cache = name,
            "a cache is damaged and removed: its blob is {}",
            layer.digest
        );
        self.remove(&file, layer.digest)?;
        Ok(None)
    }

    /// Removes the blob called `digest` if it still is `file`.
    fn remove(&self, file: &File, digest: Digest) -> io::Result<()> {
        let _lock = self.lock()?;
        let path = self.blob(digest);
        let (ours, found) = (file.metadata()?, fs::metadata(&path));
        if found.is_ok_and(|found| (found.dev(), found.ino()) == (ours.dev(), ours.ino())) {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    fn try_store(&self, name: &str, archive: Spooled) -> io::Result<()> {
        make(&self.root)?;
        let layer = Layer {
            digest: Digest::from_sha256(archive.digest()),
            size: archive.size(),
        };
        File::open(archive.path())?.sync_all()?;
        let _lock = self.lock()?;
        make(&self.root.join("blobs/sha256"))?;
        if !self.root.join("oci-layout").try_exists()? {
            self.write("oci-layout", LAYOUT)?;
        }
        // In the place of one that is there: it may be damaged, and these bytes are on the disk anyway.
        archive.persist(&self.blob(layer.digest))?;
        self.write_blob(EMPTY)?;
        let bytes = manifest(layer);
        let digest = self.write_blob(&bytes)?;
        self.touch(digest);
        let mut index = self.read_index()?;
        index.manifests.retain(|entry| !entry.is_called(name));
        index.manifests.push(Entry {
            media_type: MANIFEST_TYPE.to_owned(),
            digest: digest.to_string(),
            size: bytes.len() as u64,
            annotations: BTreeMap::from([(REF_NAME.to_owned(), name.to_owned())]),
        });
        self.bound(&mut index)
    }

    /// Leaves of `index` what was used last and has room, writes it, and removes the blobs that it does not need.
    fn bound(&self, index: &mut Index) -> io::Result<()> {
        let used = |entry: &Entry| {
            let digest = entry.digest.parse().ok()?;
            fs::metadata(self.blob(digest)).ok()?.modified().ok()
        };
        let mut entries: Vec<(SystemTime, Entry)> = std::mem::take(&mut index.manifests)
            .into_iter()
            .filter_map(|entry| Some((used(&entry)?, entry)))
            .collect();
        // Of the same age, the one stored last is the newest.
        entries.reverse();
        entries.sort_by_key(|(used, _)| std::cmp::Reverse(*used));
        let mut needed = BTreeMap::from([(Digest::of(EMPTY).hex(), EMPTY.len() as u64)]);
        for (_, entry) in entries {
            let Some(layer) = self.layer_of(&entry) else {
                continue;
            };
            let Ok(digest) = entry.digest.parse::<Digest>() else {
                continue;
            };
            let mut with = needed.clone();
            with.insert(digest.hex(), entry.size);
            with.insert(layer.digest.hex(), layer.size);
            let bytes = with
                .values()
                .fold(0_u64, |sum, size| sum.saturating_add(*size));
            if bytes > self.max_bytes {
                break;
            }
            needed = with;
            index.manifests.push(entry);
        }
        // As they were stored.
        index.manifests.reverse();
        self.write(
            "index.json",
            &serde_json::to_vec(&index).map_err(io::Error::other)?,
        )?;
        for blob in fs::read_dir(self.root.join("blobs/sha256"))? {
            let blob = blob?;
            let is_needed = blob
                .file_name()
                .to_str()
                .is_some_and(|name| needed.contains_key(name));
            if !is_needed {
                fs::remove_file(blob.path())?;
            }
        }
        Ok(())
    }

    fn layer_of(&self, entry: &Entry) -> Option<Layer> {
        let digest = entry.digest.parse().ok()?;
        let path = self.blob(digest);
        if fs::metadata(&path).ok()?.len() > MAX_MANIFEST {
            return None;
        }
        let bytes = fs::read(path).ok()?;
        (Digest::of(&bytes) == digest).then_some(())?;
        layer(&bytes).ok()
    }

    /// The index; one that cannot be read has no entries, and its blobs go with the next cache that is stored.
    fn read_index(&self) -> io::Result<Index> {
        let bytes = match fs::read(self.root.join("index.json")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Index::default()),
            bytes => bytes?,
        };
        Ok(serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            tracing::warn!(%error, "{}/index.json is broken: its caches are lost", self.root.display());
            Index::default()
        }))
    }

    fn write_blob(&self, bytes: &[u8]) -> io::Result<Digest> {
        let digest = Digest::of(bytes);
        let path = self.blob(digest);
        if !fs::read(&path).is_ok_and(|found| found == bytes) {
            self.write(path.strip_prefix(&self.root).unwrap_or(&path), bytes)?;
        }
        Ok(digest)
    }

    /// Writes a file whole or not at all.
    fn write(&self, name: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let path = self.root.join(name);
        let folder = path.parent().unwrap_or(&self.root);
        let mut draft = tempfile::NamedTempFile::new_in(folder)?;
        draft.write_all(bytes)?;
        draft.as_file().sync_all()?;
        draft.persist(&path)?;
        File::open(folder)?.sync_all()
    }

    fn blob(&self, digest: Digest) -> PathBuf {
        self.root.join("blobs/sha256").join(digest.hex())
    }

    /// Takes note of a manifest's use.
    fn touch(&self, manifest: Digest) {
        let touched =
            File::open(self.blob(manifest)).and_then(|file| file.set_modified(SystemTime::now()));
        if let Err(error) = touched {
            tracing::debug!(%error, "cannot note that a cache was used");
        }
    }

    /// Held while the index is read or changed.
    fn lock(&self) -> io::Result<File> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(self.root.join("lock"))?;
        file.lock()?;
        Ok(file)
    }
}

/// Whether `file` has the bytes of `layer`. One that cannot be read has not.
fn is_whole(file: &mut File, layer: Layer) -> bool {
    let has_size = file.metadata().is_ok_and(|found| found.len() == layer.size);
    let mut digest = Sha256::new();
    has_size
        && io::copy(file, &mut digest).is_ok()
        && Digest::from_sha256(digest.finalize().into()) == layer.digest
}

fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::spool::Spool;

    async fn archive(content: &[u8], folder: &Path) -> Spooled {
        let mut spool = Spool::create(folder).unwrap();
        spool.write(content).await.unwrap();
        spool.finish().await.unwrap()
    }

    struct Place {
        dir: tempfile::TempDir,
        folder: Folder,
    }

    impl Place {
        fn new(max_bytes: u64) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let folder = Folder::new(dir.path().join("cache"), max_bytes);
            Self { dir, folder }
        }

        async fn store(&self, name: &str, content: &[u8]) {
            let archive = archive(content, self.dir.path()).await;
            self.folder.store(name, archive).unwrap();
        }

        fn find(&self, name: &str) -> Option<Vec<u8>> {
            let mut content = Vec::new();
            self.folder
                .find(name)
                .unwrap()?
                .read_to_end(&mut content)
                .unwrap();
            Some(content)
        }

        fn bytes(&self) -> u64 {
            fs::read_dir(self.folder.root.join("blobs/sha256"))
                .unwrap()
                .map(|blob| blob.unwrap().metadata().unwrap().len())
                .sum()
        }

        /// As if the cache had been used at that time.
        fn age(&self, name: &str, seconds: u64) {
            let index = self.folder.read_index().unwrap();
            let digest = index.find(name).unwrap().digest.parse().unwrap();
            let at = SystemTime::now() - Duration::from_secs(seconds);
            File::open(self.folder.blob(digest))
                .unwrap()
                .set_modified(at)
                .unwrap();
        }
    }

    #[tokio::test]
    async fn what_is_stored_is_found_and_the_last_one_wins() {
        let place = Place::new(1 << 20);
        assert_eq!(place.find("a:1"), None);

        place.store("a:1", b"one").await;
        place.store("a:2", b"two").await;
        place.store("a:1", b"one").await;
        place.store("a:2", b"three").await;

        assert_eq!(place.find("a:1").unwrap(), b"one");
        assert_eq!(place.find("a:2").unwrap(), b"three");
        assert_eq!(place.find("a:3"), None);
        // Two layers, two manifests and the empty configuration: the replaced ones are gone.
        let blobs = fs::read_dir(place.folder.root.join("blobs/sha256")).unwrap();
        assert_eq!(blobs.count(), 5);
    }

    #[tokio::test]
    async fn two_names_share_the_bytes_they_have_in_common() {
        let place = Place::new(1 << 20);
        place.store("a:1", b"same").await;
        place.store("b:1", b"same").await;
        assert_eq!(place.find("a:1").unwrap(), b"same");
        assert_eq!(place.find("b:1").unwrap(), b"same");
        // One layer, one manifest and the empty configuration.
        let blobs = fs::read_dir(place.folder.root.join("blobs/sha256")).unwrap();
        assert_eq!(blobs.count(), 3);
    }

    #[tokio::test]
    async fn what_was_used_the_longest_ago_goes_first() {
        let place = Place::new(8_000);
        for name in ["a", "b", "c"] {
            let mut content = vec![0; 2_000];
            content.extend(name.bytes());
            place.store(name, &content).await;
        }
        place.age("a", 30);
        place.age("b", 20);
        place.age("c", 10);
        place.find("a").unwrap();

        place.store("d", &[1; 2_000]).await;

        assert!(place.bytes() <= 8_000, "{}", place.bytes());
        assert_eq!(place.find("b"), None);
        for name in ["a", "c", "d"] {
            assert!(place.find(name).is_some(), "{name}");
        }
    }

    #[tokio::test]
    async fn a_cache_larger_than_all_may_be_is_not_kept_and_harms_no_other() {
        let place = Place::new(4_000);
        place.store("small", b"x").await;
        place.age("small", 10);

        place.store("large", &[0; 10_000]).await;

        assert_eq!(place.find("large"), None);
        assert!(place.bytes() <= 4_000);
    }

    #[tokio::test]
    async fn a_broken_index_or_blob_is_a_cache_miss() {
        let place = Place::new(1 << 20);
        place.store("a", b"one").await;
        let layer = place.folder.blob(Digest::of(b"one"));
        fs::write(&layer, b"on").unwrap();
        assert_eq!(place.find("a"), None);
        place.store("a", b"one").await;
        assert_eq!(place.find("a").unwrap(), b"one");

        fs::write(place.folder.root.join("index.json"), b"{").unwrap();
        assert_eq!(place.find("a"), None);
        place.store("a", b"two").await;
        assert_eq!(place.find("a").unwrap(), b"two");
    }

    /// Whichever blob it is, and whatever the disk did to it.
    #[tokio::test]
    async fn a_damaged_blob_is_a_miss_and_storing_again_repairs_it() {
        type Damage = fn(&mut Vec<u8>);
        let damages: [(&str, Damage); 3] = [
            ("a flipped bit", |bytes| bytes[1] ^= 1),
            ("a lost end", |bytes| bytes.truncate(1)),
            ("bytes behind its end", |bytes| bytes.push(0)),
        ];
        let layer = Layer {
            digest: Digest::of(b"one"),
            size: 3,
        };
        let manifest = Digest::of(&manifest(layer));
        for blob in [layer.digest, manifest] {
            for (what, damage) in damages {
                let place = Place::new(1 << 20);
                place.store("a", b"one").await;
                place.store("b", b"two").await;
                let path = place.folder.blob(blob);
                let mut bytes = fs::read(&path).unwrap();
                damage(&mut bytes);
                fs::write(&path, &bytes).unwrap();

                assert_eq!(place.find("a"), None, "{what}");
                assert_eq!(place.find("b").unwrap(), b"two", "{what}");
                if blob == layer.digest {
                    assert!(!path.exists(), "{what}: it takes room");
                }
                place.store("a", b"one").await;
                assert_eq!(place.find("a").unwrap(), b"one", "{what}");

                // Without anybody having looked.
                fs::write(&path, &bytes).unwrap();
                place.store("a", b"one").await;
                assert_eq!(place.find("a").unwrap(), b"one", "{what}");
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn many_at_once_lose_nothing() {
        let place = Arc::new(Place::new(1 << 20));
        let mut tasks = Vec::new();
        for number in 0..8_u8 {
            let place = Arc::clone(&place);
            tasks.push(tokio::spawn(async move {
                for round in 0..5_u8 {
                    place.store(&format!("n{number}"), &[number, round]).await;
                    assert_eq!(place.find(&format!("n{number}")).unwrap(), [number, round]);
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        for number in 0..8_u8 {
            assert_eq!(place.find(&format!("n{number}")).unwrap(), [number, 4]);
        }
    }
}
