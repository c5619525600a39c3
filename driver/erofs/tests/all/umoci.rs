//! Random stacks of layers, converted here and unpacked by umoci (<https://umo.ci>), a second implementation that follows
//! symbolic links of lower layers, too: the same tree, or both refuse.
//!
//! The two may differ where a layer's own file is at stake, and nowhere else: umoci loses some without a word, or refuses
//! because of a file in the way. What this layer is checked for then does not come from the converter: each of its files
//! must be found by its name (see [`lost`]).
//!
//! The same stacks run each time. `VK_UMOCI_SECS=900 cargo test --release -p vk-erofs --test all umoci` runs new ones for so
//! many seconds and says how many they were.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::unistd::geteuid;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestCaseError, TestRng, TestRunner};
use sha2::{Digest as _, Sha256};
use vk_erofs::{ConvertError, EntryProblem};

use crate::support::{Entry, Kind, convert, layer};

/// What a layer has at a path.
#[derive(Clone, Debug)]
enum What {
    File,
    Folder,
    Fifo,
    Symlink(String),
    /// A hard link to what an earlier entry of the stack is called, counted from the end, the newest first.
    HardLink(usize),
    /// A hard link to this path. None that leads out: those are refused here, and followed inside the root by umoci.
    HardLinkTo(Vec<&'static str>),
    Whiteout,
    /// A whiteout of what an earlier entry is called.
    WhiteoutOf(usize),
    Opaque,
}

#[derive(Clone, Debug)]
struct Make {
    path: Vec<&'static str>,
    what: What,
    mode: u32,
}

/// Few, so that what comes meets what is there.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn path() -> impl Strategy<Value = Vec<&'static str>> {
    let len = prop_oneof![4 => Just(1_usize), 5 => Just(2), 2 => Just(3)];
    len.prop_flat_map(|len| prop::collection::vec(prop::sample::select(&NAMES[..]), len))
}

/// `..` comes first, if at all: umoci takes one behind a file, or behind nothing, as if that was a folder.
fn target() -> impl Strategy<Value = String> {
    let start = prop::sample::select(&["", "", "", "/", "/../", "../", "../../", "./"][..]);
    (start, path()).prop_flat_map(|(start, path)| {
        let target = start.to_owned() + &path.join("/");
        let up = start.strip_suffix('/').filter(|up| up.ends_with('.'));
        match up {
            Some(up) => prop_oneof![3 => Just(target), 1 => Just(up.to_owned())].boxed(),
            None => Just(target).boxed(),
        }
    })
}

fn make() -> impl Strategy<Value = Make> {
    let what = prop_oneof![
        6 => Just(What::File),
        5 => Just(What::Folder),
        1 => Just(What::Fifo),
        5 => target().prop_map(What::Symlink),
        2 => (0..4_usize).prop_map(What::HardLink),
        1 => path().prop_map(What::HardLinkTo),
        1 => Just(What::Whiteout),
        2 => (0..6_usize).prop_map(What::WhiteoutOf),
        1 => Just(What::Opaque),
    ];
    let mode = prop::sample::select(&[0o644, 0o600, 0o755, 0o700, 0o711, 0o4755, 0o1777, 0o2750]);
    (path(), what, mode).prop_map(|(path, what, mode)| Make { path, what, mode })
}

fn stacks() -> impl Strategy<Value = Vec<Vec<Make>>> {
    prop::collection::vec(prop::collection::vec(make(), 1..8), 1..4)
}

/// When the first file of a stack was last changed; each one has its own second, by which it is known.
const FIRST: u64 = 1_000_000_000;

/// The stack's entries. Whatever has contents or a time has its own.
fn entries(stack: &[Vec<Make>]) -> Vec<Vec<Entry>> {
    let mut number = 0;
    let mut earlier: Vec<String> = Vec::new();
    let mut layers = Vec::new();
    for layer in stack {
        let mut entries = Vec::new();
        for Make { path, what, mode } in layer {
            let path = path.join("/");
            number += 1;
            let entry = match what {
                What::File => Entry::file(&path, format!("file {number}")).mode(*mode),
                // Folders that their owner cannot use would only show who runs the tests, and those of set group ID
                // that a kernel hands it on to what umoci makes in them.
                What::Folder => Entry::folder(&path).mode(mode & !0o2000 | 0o700),
                What::Fifo => Entry::new(b'6', &path).mode(*mode),
                What::Symlink(target) => Entry::symlink(&path, target),
                What::HardLink(back) => {
                    let Some(target) = earlier.iter().nth_back(*back) else {
                        continue;
                    };
                    Entry::hard_link(&path, target)
                }
                What::HardLinkTo(target) => Entry::hard_link(&path, target.join("/")),
                What::Whiteout => whiteout(&path),
                What::WhiteoutOf(back) => {
                    let Some(path) = earlier.iter().nth_back(*back) else {
                        continue;
                    };
                    whiteout(path)
                }
                What::Opaque => Entry::file(format!("{path}/.wh..wh..opq"), ""),
            };
            if !matches!(entry.kind, b'5') && mark(&entry).is_none() {
                earlier.push(path);
            }
            entries.push(entry.mtime(FIRST + number));
        }
        layers.push(entries);
    }
    layers
}

fn whiteout(path: &str) -> Entry {
    let mark = match path.rsplit_once('/') {
        Some((above, last)) => format!("{above}/.wh.{last}"),
        None => format!(".wh.{path}"),
    };
    Entry::file(mark, "")
}

/// The folder that a mark is in, and what it hides there; nothing for an opaque mark, which hides all.
fn mark(entry: &Entry) -> Option<(&str, Option<&str>)> {
    let path = std::str::from_utf8(&entry.path).unwrap();
    let (folder, last) = path.rsplit_once('/').unwrap_or(("", path));
    let hidden = last.strip_prefix(".wh.")?;
    Some((folder, (hidden != ".wh..opq").then_some(hidden)))
}

/// A file as either side can tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    what: Thing,
    /// Not of symbolic links, which have none of their own.
    mode: Option<u32>,
    /// Not of folders: that of one on the way to an entry is whenever it was unpacked.
    mtime: Option<i64>,
    /// Which file it is, among those of its tree.
    inode: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Thing {
    File(Vec<u8>),
    Folder,
    Fifo,
    Symlink(Vec<u8>),
}

/// By path from the root on.
type Tree = BTreeMap<String, Seen>;

fn ours(layers: &[Vec<Entry>]) -> Result<Tree, ConvertError> {
    let layers: Vec<_> = layers.iter().map(|entries| layer(entries)).collect();
    let tree = convert(&layers)?.tree();
    let seen = tree.0.into_iter().filter(|(path, _)| !path.is_empty());
    Ok(seen
        .map(|(path, found)| {
            let what = match &found.kind {
                Kind::File(_) => Thing::File(found.bytes().to_vec()),
                Kind::Folder => Thing::Folder,
                Kind::Fifo => Thing::Fifo,
                Kind::Symlink(target) => Thing::Symlink(target.clone()),
                other => panic!("{other:?}"),
            };
            let path = String::from_utf8(path).unwrap();
            (path, seen_of(what, found.mode, found.mtime.0, found.nid))
        })
        .collect())
}

fn seen_of(what: Thing, mode: u32, mtime: i64, inode: u64) -> Seen {
    Seen {
        mode: (!matches!(what, Thing::Symlink(_))).then_some(mode),
        mtime: (what != Thing::Folder).then_some(mtime),
        what,
        inode,
    }
}

/// What umoci makes of layers, or what it says.
fn umocis(layers: &[Vec<Entry>]) -> Result<Tree, String> {
    let folder = tempfile::tempdir().unwrap();
    let (image, root) = (folder.path().join("image"), folder.path().join("root"));
    write_layout(&image, layers);
    let mut command = Command::new("umoci");
    command.args(["raw", "unpack", "--image"]);
    command.arg(format!("{}:it", image.display())).arg(&root);
    if !geteuid().is_root() {
        command.arg("--rootless");
    }
    let out = command
        .output()
        .expect("umoci, which ./setup --for-tests installs");
    if !out.status.success() {
        return Err(String::from_utf8_lossy(&out.stderr).into_owned());
    }
    let mut tree = Tree::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = match folder.as_str() {
                "" => name,
                folder => format!("{folder}/{name}"),
            };
            let found = fs::symlink_metadata(entry.path()).unwrap();
            let kind = found.file_type();
            let what = if kind.is_dir() {
                folders.push(path.clone());
                Thing::Folder
            } else if kind.is_symlink() {
                let target = fs::read_link(entry.path()).unwrap();
                Thing::Symlink(target.as_os_str().as_bytes().to_vec())
            } else if kind.is_fifo() {
                Thing::Fifo
            } else {
                Thing::File(fs::read(entry.path()).unwrap())
            };
            let mode = found.permissions().mode() & 0o7777;
            tree.insert(path, seen_of(what, mode, found.mtime(), found.ino()));
        }
    }
    Ok(tree)
}

/// An image in the form of the OCI image layout, called `it`.
fn write_layout(folder: &Path, layers: &[Vec<Entry>]) {
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let put = |bytes: &[u8]| {
        let digest = format!("{:x}", Sha256::digest(bytes));
        fs::write(blobs.join(&digest), bytes).unwrap();
        (digest, bytes.len())
    };
    let descriptor = |kind: &str, (digest, size): (String, usize)| {
        format!(
            r#"{{"mediaType":"application/vnd.oci.image.{kind}","digest":"sha256:{digest}","size":{size}"#
        )
    };
    let layers: Vec<_> = layers.iter().map(|entries| put(&layer(entries))).collect();
    let diff_ids: Vec<_> = layers
        .iter()
        .map(|(digest, _)| format!(r#""sha256:{digest}""#))
        .collect();
    let config = format!(
        r#"{{"architecture":"amd64","os":"linux","config":{{}},"rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#,
        diff_ids.join(",")
    );
    let layers: Vec<_> = layers
        .into_iter()
        .map(|blob| descriptor("layer.v1.tar", blob) + "}")
        .collect();
    let manifest = format!(
        r#"{{"schemaVersion":2,"config":{}}},"layers":[{}]}}"#,
        descriptor("config.v1+json", put(config.as_bytes())),
        layers.join(",")
    );
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{},"annotations":{{"org.opencontainers.image.ref.name":"it"}}}}]}}"#,
        descriptor("manifest.v1+json", put(manifest.as_bytes()))
    );
    fs::write(folder.join("index.json"), index).unwrap();
    let version = r#"{"imageLayoutVersion":"1.0.0"}"#;
    fs::write(folder.join("oci-layout"), version).unwrap();
}

/// Where the trees differ, with hard links by the first name of their file.
fn differences(ours: &Tree, umocis: &Tree) -> Vec<(String, String)> {
    let told = |tree: &Tree| -> BTreeMap<String, String> {
        let mut first: BTreeMap<u64, &str> = BTreeMap::new();
        for (path, seen) in tree {
            first.entry(seen.inode).or_insert(path);
        }
        let told = tree.iter().map(|(path, seen)| {
            let Seen {
                what,
                mode,
                mtime,
                inode,
            } = seen;
            let mode = mode.map(|mode| format!("{mode:o}"));
            let told = format!("{what:?} {mode:?} {mtime:?} = {}", first[inode]);
            (path.clone(), told)
        });
        told.collect()
    };
    let (ours, umocis) = (told(ours), told(umocis));
    let paths = ours.keys().chain(umocis.keys());
    let mut different: Vec<_> = paths
        .filter(|path| ours.get(*path) != umocis.get(*path))
        .map(|path| {
            (
                path.clone(),
                format!("{:?}, umoci {:?}", ours.get(path), umocis.get(path)),
            )
        })
        .collect();
    different.sort();
    different.dedup();
    different
}

/// Where a process with the tree as its root finds `name`, whose last part is not followed.
fn place(tree: &Tree, name: &str) -> Option<String> {
    walk(tree, name).map(|(place, _)| place)
}

/// The same, and all that it comes by.
fn walk(tree: &Tree, name: &str) -> Option<(String, Vec<String>)> {
    let mut walked = Vec::new();
    let mut rest: Vec<String> = name.rsplit('/').map(str::to_owned).collect();
    let mut here: Vec<String> = Vec::new();
    let mut links = 0;
    while let Some(part) = rest.pop() {
        match part.as_str() {
            "" | "." => continue,
            ".." => {
                here.pop();
                continue;
            }
            _ => here.push(part),
        }
        let found = tree.get(&here.join("/"))?;
        walked.push(here.join("/"));
        if rest.is_empty() {
            break;
        }
        match &found.what {
            Thing::Symlink(target) => {
                links += 1;
                if links > 40 {
                    return None;
                }
                let target = std::str::from_utf8(target).unwrap();
                here.pop();
                if target.starts_with('/') {
                    here.clear();
                }
                rest.extend(target.rsplit('/').map(str::to_owned));
            }
            Thing::Folder => {}
            _ => return None,
        }
    }
    Some((here.join("/"), walked))
}

/// Where the folder `name` is, whatever links lead to it, and all on the way to it.
fn walk_folder(tree: &Tree, name: &str) -> Option<(String, Vec<String>)> {
    let (place, walked) = walk(tree, &format!("{name}/."))?;
    let is_folder = tree
        .get(&place)
        .is_none_or(|found| found.what == Thing::Folder);
    is_folder.then_some((place, walked))
}

fn is_at_or_below(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A mark of a layer, by what its way is when it comes.
struct Marked {
    /// All on the way to its folder, that one among them.
    walked: Vec<String>,
    /// What is hidden, and all below it.
    hidden: String,
}

/// The marks of the newest layer.
fn marks(layers: &[Vec<Entry>]) -> Vec<Marked> {
    let (newest, lower) = layers.split_last().unwrap();
    let mut marks = Vec::new();
    for (at, entry) in newest.iter().enumerate() {
        let Some((folder, hidden)) = mark(entry) else {
            continue;
        };
        // Without what comes later and may change the way; unless that is what makes good a loss.
        let so_far = [lower, &[newest[..=at].to_vec()]].concat();
        let tree = ours(&so_far).or_else(|_| ours(layers));
        let Some((folder, walked)) = tree.ok().and_then(|tree| walk_folder(&tree, folder)) else {
            continue;
        };
        let hidden = match hidden {
            Some(hidden) if folder.is_empty() => hidden.to_owned(),
            Some(hidden) => format!("{folder}/{hidden}"),
            None => folder,
        };
        marks.push(Marked { walked, hidden });
    }
    marks
}

/// Whether marks are why a path differs:
///
/// - The folder that a mark is in is made, and those on the way to it, whatever becomes of the way later. umoci leaves
///   out what has nothing to hide.
/// - A whiteout of a folder hides the folder's mode wherever it stands in the layer. umoci keeps the mode if something
///   of the layer came into the folder before.
fn is_by_mark(marks: &[Marked], path: &str, ours: &Tree, umocis: &Tree) -> bool {
    let (our, umoci) = (ours.get(path), umocis.get(path));
    let is_folder = umoci.is_some_and(|seen| seen.what == Thing::Folder);
    let is_implied = |seen: &Seen| seen.what == Thing::Folder && seen.mode == Some(0o755);
    our.is_some_and(is_implied)
        && marks.iter().any(|mark| match is_folder {
            true => is_at_or_below(path, &mark.hidden),
            false => mark.walked.iter().any(|walked| walked == path),
        })
}

/// Whether umoci refuses a hard link because it has removed what the link leads to: that which has the link's name.
fn is_by_own_link(layers: &[Vec<Entry>], told: &str) -> bool {
    let (newest, lower) = layers.split_last().unwrap();
    (0..newest.len()).any(|at| {
        let name = std::str::from_utf8(&newest[at].path).unwrap();
        if newest[at].kind != b'1' || !told.contains(&format!("unpack entry: {name}: link: ")) {
            return false;
        }
        let target = std::str::from_utf8(&newest[at].link).unwrap();
        let Ok(before) = ours(&[lower, &[newest[..at].to_vec()]].concat()) else {
            return false;
        };
        let (place, way) = (place(&before, name), walk(&before, target));
        place
            .zip(way)
            .is_some_and(|(place, (_, walked))| walked.contains(&place))
    })
}

/// Whether a hard link of the layer is to a file in whose place a folder is made here, for a mark in it.
fn is_link_to_mark(layers: &[Vec<Entry>], umocis: &Tree) -> bool {
    let marks = marks(layers);
    let (newest, lower) = layers.split_last().unwrap();
    // Where the target is before the layer, in the end, or by its name.
    let before = ours(lower).unwrap_or_default();
    newest
        .iter()
        .filter(|entry| entry.kind == b'1')
        .any(|link| {
            let target = std::str::from_utf8(&link.link).unwrap();
            let places = [
                place(&before, target),
                place(umocis, target),
                Some(target.to_owned()),
            ];
            let is_made = |place: &String| marks.iter().any(|mark| mark.walked.contains(place));
            places.iter().flatten().any(is_made)
        })
}

/// The entries of a layer, the last one of each name, that a tree does not have at their names.
fn lost(layer: &[Entry], tree: &Tree) -> Vec<String> {
    let mut wanted: BTreeMap<&[u8], &Entry> = BTreeMap::new();
    for entry in layer.iter().filter(|entry| mark(entry).is_none()) {
        wanted.insert(&entry.path, entry);
    }
    let is_lost = |entry: &Entry| {
        let name = std::str::from_utf8(&entry.path).unwrap();
        let Some((place, walked)) = walk(tree, name) else {
            return true;
        };
        let Some(found) = tree.get(&place) else {
            return true;
        };
        // A link that replaced one on its own way is not found by the name that it came by.
        let is_link = entry.kind == b'2';
        if is_link && walked.iter().rev().skip(1).any(|walked| *walked == place) {
            return true;
        }
        let mtime = found.mtime.map(|mtime| u64::try_from(mtime).unwrap());
        match (entry.kind, &found.what) {
            (b'5', what) => *what != Thing::Folder,
            (_, Thing::Folder) => true,
            // Its file is older than the link, and what came later would be something else in its place.
            (b'1', _) => mtime > Some(entry.mtime),
            _ => mtime != Some(entry.mtime),
        }
    };
    let lost = wanted.into_values().filter(|entry| is_lost(entry));
    lost.map(|entry| entry.path.escape_ascii().to_string())
        .collect()
}

/// Whether umoci loses an entry of the newest layer, in the end or until it comes again.
fn loses(layers: &[Vec<Entry>]) -> bool {
    let (newest, lower) = layers.split_last().unwrap();
    (1..=newest.len()).any(|count| {
        let so_far = &newest[..count];
        let tree = umocis(&[lower, &[so_far.to_vec()]].concat());
        tree.is_ok_and(|tree| !lost(so_far, &tree).is_empty())
    })
}

/// Layers in short: of each entry its type, name and what it links to.
fn told(layers: &[Vec<Entry>]) -> String {
    let told = |entry: &Entry| {
        let Entry {
            kind, path, link, ..
        } = entry;
        format!(
            "{}{} {}",
            char::from(*kind),
            path.escape_ascii(),
            link.escape_ascii()
        )
    };
    let layers = layers.iter().map(|layer| layer.iter().map(told).collect());
    layers
        .map(|layer: Vec<_>| layer.join(", "))
        .collect::<Vec<_>>()
        .join("; then ")
}

fn compare(stack: &[Vec<Make>]) -> Result<(), TestCaseError> {
    let layers = entries(stack);
    let fail = |text: String, layers: &[Vec<Entry>]| {
        Err(TestCaseError::fail(format!("{text}\n{}", told(layers))))
    };
    if let (Ok(ours), Ok(umocis)) = (ours(&layers), umocis(&layers))
        && differences(&ours, &umocis).is_empty()
    {
        return Ok(());
    }
    // The first layer that matters.
    for count in 1..=layers.len() {
        let layers = &layers[..count];
        let newest = &layers[count - 1];
        let is_kept = |tree: &Tree| lost(newest, tree).is_empty();
        match (ours(layers), umocis(layers)) {
            (Ok(ours), umocis) if !is_kept(&ours) => {
                let lost = lost(newest, &ours);
                return fail(format!("lost: {lost:?}, umoci: {umocis:?}"), layers);
            }
            (Ok(ours), Ok(umocis)) => {
                let different = differences(&ours, &umocis);
                if different.is_empty() {
                    continue;
                }
                let marks = marks(layers);
                // Without what is explained: it may have been a hard link's first name.
                let (mut our_rest, mut umoci_rest) = (ours.clone(), umocis.clone());
                for (path, _) in &different {
                    if is_by_mark(&marks, path, &ours, &umocis) {
                        our_rest.remove(path);
                        umoci_rest.remove(path);
                    }
                }
                let different = differences(&our_rest, &umoci_rest);
                if !different.is_empty() && !loses(layers) {
                    return fail(format!("{different:#?}"), layers);
                }
            }
            (Ok(_), Err(told))
                if !told.contains("not a directory")
                    && !is_by_own_link(layers, &told)
                    && !loses(layers) =>
            {
                return fail(format!("umoci refuses: {told}"), layers);
            }
            (Err(error), Ok(umocis)) => {
                // umoci does not look for the folder of a mark that has nothing to hide; containerd does.
                let is_by_mark = match &error {
                    ConvertError::Entry { problem, path } => match problem {
                        EntryProblem::BelowFile => path.contains(".wh."),
                        EntryProblem::LinkToFolder => is_link_to_mark(layers, &umocis),
                        _ => false,
                    },
                    _ => false,
                };
                if !is_by_mark && !loses(layers) {
                    return fail(format!("{error}, umoci: {:?}", umocis.keys()), layers);
                }
            }
            (Ok(_) | Err(_), Err(_)) => {}
        }
        return Ok(());
    }
    Ok(())
}

#[test]
fn stacks_become_what_umoci_makes_of_them() {
    let config = ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let until = std::env::var("VK_UMOCI_SECS").ok().map(|secs| {
        let secs = secs.parse().expect("VK_UMOCI_SECS is a number of seconds");
        Instant::now() + Duration::from_secs(secs)
    });
    let mut count = 0;
    loop {
        // The same stacks each time, unless new ones are wanted.
        let mut runner = match until {
            Some(_) => TestRunner::new(config.clone()),
            None => {
                let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
                TestRunner::new_with_rng(config.clone(), rng)
            }
        };
        let run = runner.run(&stacks(), |stack| compare(&stack));
        if let Err(error) = run {
            panic!("{error}");
        }
        count += config.cases;
        match until {
            Some(until) if Instant::now() < until => {}
            Some(_) => return eprintln!("{count} stacks were compared"),
            None => return,
        }
    }
}
