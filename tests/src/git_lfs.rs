//! Git LFS as GitLab serves it beside a repository: the batch API, and the objects.

#![expect(clippy::expect_used, reason = "a test kit fails by panicking")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::git_http::{Repos, Request};

/// Folder of a bare repository that holds its LFS objects, each in a file named by its hash.
const FOLDER: &str = "lfs-objects";

/// What comes before an object's hash in its URL; GitLab's path.
const OBJECTS: &str = "/gitlab-lfs/objects/";

/// Path of the batch API below a repository's URL.
const BATCH: &str = "/info/lfs/objects/batch";

impl Repos {
    /// Puts an LFS object beside the repository `name` and gives the pointer that stands for it.
    ///
    /// # Panics
    ///
    /// When it cannot be written.
    pub fn lfs_object(&self, name: &str, content: &[u8]) -> Vec<u8> {
        let oid = oid(content);
        let folder = self.path(name).join(FOLDER);
        fs::create_dir_all(&folder).expect("a folder for LFS objects");
        fs::write(folder.join(&oid), content).expect("an LFS object");
        pointer(&oid, content.len() as u64)
    }
}

/// Hash of an LFS object.
#[must_use]
pub fn oid(content: &[u8]) -> String {
    use sha2::{Digest, Sha256};

    let hash = Sha256::digest(content);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A pointer file (git-lfs, `docs/spec.md`).
#[must_use]
pub fn pointer(oid: &str, size: u64) -> Vec<u8> {
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n").into()
}

/// An answer to a request.
pub(crate) struct Answer {
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
}

/// Answers what is LFS's. `base` is the server's URL and `root` its folder of repositories.
pub(crate) fn answer(
    request: &Request,
    body: &[u8],
    base: &str,
    root: &Path,
) -> Option<io::Result<Answer>> {
    if let Some(repository) = request.path.strip_suffix(BATCH) {
        let folder = folder(root, repository);
        return Some(batch(
            request,
            body,
            &format!("{base}{repository}"),
            &folder,
        ));
    }
    let (repository, oid) = request.path.split_once(OBJECTS)?;
    let object = fs::read(folder(root, repository).join(oid));
    Some(object.map(|body| Answer {
        content_type: "application/octet-stream",
        body,
    }))
}

/// The objects of a repository, given its path in URLs.
fn folder(root: &Path, repository: &str) -> PathBuf {
    let name = repository.trim_start_matches("/repos/");
    root.join(name).join(FOLDER)
}

/// git-lfs, `docs/api/batch.md`.
fn batch(request: &Request, body: &[u8], repository: &str, folder: &Path) -> io::Result<Answer> {
    let asked: Value = serde_json::from_slice(body)?;
    let objects = asked["objects"].as_array().into_iter().flatten();
    let objects: Vec<Value> = objects
        .map(|object| {
            let oid = object["oid"].as_str().unwrap_or_default();
            if !folder.join(oid).exists() {
                let error = json!({"code": 404, "message": "Object does not exist on the server"});
                return json!({"oid": oid, "size": object["size"], "error": error});
            }
            json!({
                "oid": oid,
                "size": object["size"],
                "authenticated": true,
                "actions": {"download": {
                    "href": format!("{repository}{OBJECTS}{oid}"),
                    "header": {"Authorization": request.headers.get("authorization")},
                }},
            })
        })
        .collect();
    Ok(Answer {
        content_type: "application/vnd.git-lfs+json",
        body: json!({"transfer": "basic", "objects": objects})
            .to_string()
            .into_bytes(),
    })
}
