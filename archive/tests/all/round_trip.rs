//! Whatever is packed here is unpacked here: random trees and path lists, saved and restored.
//!
//! Some cases run each time. `VK_ROUND_TRIP_SECS=3600 cargo test --release -p vk-archive --test all round_trip` runs new
//! ones for so many seconds and says how many they were.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::mkfifo;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use vk_archive::{Entry, EntryKind, Extracted, Format, Level, Request, Selection, select, write};

use crate::kit::{Tree, options, unpack};

/// One thing that a tree gets, below the folders that are there by then.
#[derive(Clone, Debug)]
struct Make {
    /// Which of the folders it goes into, the newest first.
    folder: usize,
    name: Vec<u8>,
    what: What,
    /// Permission bits, where it has some.
    mode: u32,
    /// Seconds since 1970.
    mtime: i64,
}

#[derive(Clone, Debug)]
enum What {
    Folder,
    /// So many bytes, from the given one on counting up; every second file of a large size is a hole.
    File(usize, u8),
    /// Where it leads.
    Link(Target),
    /// Another name of one of the files.
    HardLink(usize),
    Pipe,
    Socket,
}

#[derive(Clone, Debug)]
enum Target {
    /// One of the things of the tree, by a path from the link's folder.
    There(usize),
    /// This text; if it is an absolute path, a folder beside the project.
    Text(Vec<u8>),
}

/// A path that a job names.
#[derive(Clone, Debug)]
enum Choice {
    /// A path or pattern as it stands.
    Text(String),
    /// One of the things of the tree, and what follows its path.
    There(usize, &'static str),
    /// The same by its absolute path.
    Absolute(usize),
    /// A link of the tree, and through it a thing of the folder that it leads to.
    Through(usize, usize),
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    let not_a_name = |name: &Vec<u8>| name != b"." && name != b"..";
    prop_oneof![
        // Few, so that what is made meets what is there.
        8 => "[ab]".prop_map(String::into_bytes),
        2 => "[a-c*?\\[\\]{}\\\\ .-]{1,4}".prop_map(String::into_bytes).prop_filter("no name", not_a_name),
        2 => proptest::collection::vec(prop_oneof![1..=46_u8, 48..=255_u8], 1..8).prop_filter("no name", not_a_name),
        1 => "[é語🎈]{1,60}".prop_map(String::into_bytes),
        1 => (200..=255_usize).prop_map(|len| vec![b'n'; len]),
    ]
}

fn targets() -> impl Strategy<Value = Target> {
    prop_oneof![
        6 => any::<usize>().prop_map(Target::There),
        1 => prop_oneof![
            Just(".".to_owned()),
            Just("..".to_owned()),
            Just("../..".to_owned()),
            Just("/".to_owned()),
            Just("nowhere".to_owned()),
            Just("a/../b/./a".to_owned()),
            "[ab/.]{1,8}",
            Just("t".repeat(4000)),
        ].prop_map(|text| Target::Text(text.into_bytes())),
        1 => proptest::collection::vec(1..=255_u8, 1..12).prop_map(Target::Text),
    ]
}

fn things() -> impl Strategy<Value = Make> {
    let what = prop_oneof![
        6 => Just(What::Folder),
        6 => (prop_oneof![6 => 0..200_usize, 1 => Just(70_000), 1 => Just(1 << 20), 1 => (4_usize << 20) - 1..9 << 20], any::<u8>())
            .prop_map(|(size, first)| What::File(size, first)),
        5 => targets().prop_map(What::Link),
        1 => any::<usize>().prop_map(What::HardLink),
        1 => Just(What::Pipe),
        1 => Just(What::Socket),
    ];
    let mode = prop_oneof![
        Just(0o644),
        Just(0o755),
        Just(0o700),
        Just(0o600),
        Just(0o7755),
        Just(0o4711),
        Just(0o1777),
    ];
    let mtime = prop_oneof![
        Just(0_i64),
        Just(1),
        Just(1_000_000_000),
        Just(i64::from(i32::MAX)),
        0..i64::from(i32::MAX),
    ];
    let folder = prop_oneof![3 => 0..3_usize, 1 => any::<usize>()];
    (folder, names(), what, mode, mtime).prop_map(|(folder, name, what, mode, mtime)| Make {
        folder,
        name,
        what,
        mode,
        mtime,
    })
}

fn choices() -> impl Strategy<Value = Choice> {
    let after = prop_oneof![
        4 => Just(""),
        1 => Just("/"),
        1 => Just("/*"),
        1 => Just("/**"),
        1 => Just("/./a/.."),
        1 => Just("/a"),
        1 => Just("/**/[!b]*"),
    ];
    prop_oneof![
        2 => prop_oneof![
            Just("*"), Just("**"), Just("."), Just("./"), Just("a"), Just("a/b"), Just("**/a"), Just("{a,b}/**"), Just("*/*"),
            Just("nothing"), Just(""), Just("../x"), Just("a/"), Just("a/*/b"),
        ].prop_map(|text| Choice::Text(text.to_owned())),
        1 => "[ab*?/]{1,8}".prop_map(Choice::Text),
        4 => (any::<usize>(), after).prop_map(|(thing, after)| Choice::There(thing, after)),
        1 => any::<usize>().prop_map(Choice::Absolute),
        4 => (any::<usize>(), any::<usize>()).prop_map(|(link, thing)| Choice::Through(link, thing)),
    ]
}

/// What a tree holds: paths from its root.
#[derive(Default)]
struct Made {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
    links: Vec<PathBuf>,
    all: Vec<PathBuf>,
    times: Vec<(PathBuf, u32, i64)>,
}

fn one_of<T>(list: &[T], number: usize) -> Option<&T> {
    list.get(number.checked_rem(list.len())?)
}

/// How to get from the folder `from` to `to`, both given from the same root.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let up = from.components().map(|_| "..");
    let path: PathBuf = up.collect::<PathBuf>().join(to);
    if path.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        path
    }
}

fn set_times(path: &Path, mtime: i64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(mtime.unsigned_abs());
    let file = File::open(path).unwrap();
    file.set_times(FileTimes::new().set_modified(time)).unwrap();
}

/// Makes what can be made: names may be taken, paths too long.
fn make(root: &Path, outside: &Path, things: &[Make]) -> Made {
    let mut made = Made {
        folders: vec![PathBuf::new()],
        ..Made::default()
    };
    for thing in things {
        let newest = made.folders.len() - 1 - thing.folder % made.folders.len();
        let folder = made.folders[newest].clone();
        let path = folder.join(OsStr::from_bytes(&thing.name));
        let place = root.join(&path);
        // Room for the same below another root.
        if place.as_os_str().len() > 3500 || place.symlink_metadata().is_ok() {
            continue;
        }
        let is_made = match &thing.what {
            What::Folder => fs::create_dir(&place).is_ok(),
            What::File(size, first) => {
                let content: Vec<u8> = (0..*size)
                    .map(|at| first.wrapping_add((at / 7) as u8))
                    .collect();
                if *size > 70_000 && first % 2 == 0 {
                    File::create(&place).is_ok_and(|file| file.set_len(*size as u64).is_ok())
                } else {
                    fs::write(&place, content).is_ok()
                }
            }
            What::Link(target) => {
                let target = match target {
                    Target::Text(text) if text.starts_with(b"/") => outside.to_owned(),
                    Target::Text(text) => PathBuf::from(OsStr::from_bytes(text)),
                    Target::There(number) => {
                        let to = one_of(&made.all, *number).cloned().unwrap_or_default();
                        relative(&folder, &to)
                    }
                };
                symlink(target, &place).is_ok()
            }
            What::HardLink(number) => one_of(&made.files, *number)
                .is_some_and(|file| fs::hard_link(root.join(file), &place).is_ok()),
            What::Pipe => mkfifo(&place, Mode::S_IRWXU).is_ok(),
            What::Socket => mknod(&place, SFlag::S_IFSOCK, Mode::S_IRWXU, 0).is_ok(),
        };
        if !is_made {
            continue;
        }
        match thing.what {
            What::Folder => made.folders.push(path.clone()),
            What::File(..) => made.files.push(path.clone()),
            What::Link(_) => made.links.push(path.clone()),
            _ => {}
        }
        if matches!(thing.what, What::Folder | What::File(..)) {
            made.times.push((path.clone(), thing.mode, thing.mtime));
        }
        made.all.push(path);
    }
    for (path, mode, mtime) in made.times.iter().rev() {
        let place = root.join(path);
        fs::set_permissions(&place, Permissions::from_mode(*mode)).unwrap();
        set_times(&place, *mtime);
    }
    made
}

/// A job's paths are text: what is none cannot be named.
fn path_list(root: &Path, made: &Made, choices: &[Choice]) -> Vec<String> {
    let chosen = choices.iter().filter_map(|choice| match choice {
        Choice::Text(text) => Some(text.clone()),
        Choice::There(number, after) => {
            let path = one_of(&made.all, *number)?.to_str()?;
            Some(format!("{path}{after}"))
        }
        Choice::Absolute(number) => {
            let path = root.join(one_of(&made.all, *number)?);
            Some(path.to_str()?.to_owned())
        }
        Choice::Through(link, number) => {
            let link = one_of(&made.links, *link)?;
            let inside: BTreeSet<PathBuf> = fs::read_dir(root.join(link))
                .ok()?
                .map(|entry| PathBuf::from(entry.unwrap().file_name()))
                .collect();
            let inside: Vec<PathBuf> = inside.into_iter().collect();
            let path = link.join(one_of(&inside, *number)?);
            Some(path.to_str()?.to_owned())
        }
    });
    chosen.collect()
}

/// A thing as it must be found again: kind, permissions, time, owner, and content or target. Of what a path leads through, only
/// that it is a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Thing {
    kind: EntryKind,
    mode: Option<u32>,
    mtime: Option<i64>,
    /// Content's checksum and length.
    content: Option<(u32, usize)>,
    target: Option<PathBuf>,
}

fn thing_at(place: &Path) -> Thing {
    let meta = fs::symlink_metadata(place).unwrap();
    let mut thing = Thing {
        kind: EntryKind::Other,
        mode: Some(meta.mode() & 0o7777),
        mtime: Some(meta.mtime()),
        content: None,
        target: None,
    };
    if meta.is_symlink() {
        // Links have no mode of their own.
        thing.kind = EntryKind::Symlink;
        thing.mode = None;
        thing.target = Some(fs::read_link(place).unwrap());
    } else if meta.is_dir() {
        thing.kind = EntryKind::Folder;
    } else if meta.is_file() {
        let content = fs::read(place).unwrap();
        thing.kind = EntryKind::File;
        thing.content = Some((crc32fast::hash(&content), content.len()));
    }
    thing
}

const PASSED: Thing = Thing {
    kind: EntryKind::Folder,
    mode: None,
    mtime: None,
    content: None,
    target: None,
};

/// All that lies below `root`.
fn things_below(root: &Path) -> BTreeMap<PathBuf, Thing> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let place = entry.unwrap().path();
            let thing = thing_at(&place);
            if thing.kind == EntryKind::Folder {
                waiting.push(place.clone());
            }
            found.insert(place.strip_prefix(root).unwrap().to_owned(), thing);
        }
    }
    found
}

/// What must be restored of `selection`, and the first link that cannot be.
fn wanted(root: &Path, selection: &Selection) -> (BTreeMap<PathBuf, Thing>, Option<PathBuf>) {
    let entries: Vec<Entry> = selection.iter().map(Result::unwrap).collect();
    let path = |entry: &Entry| PathBuf::from(std::ffi::OsString::from_vec(entry.path.clone()));
    let packed = |entry: &&Entry| entry.kind != EntryKind::Other && entry.path != b".";
    let mut wanted = BTreeMap::new();
    for entry in entries.iter().filter(packed) {
        for above in path(entry).ancestors().skip(1) {
            if !above.as_os_str().is_empty() {
                wanted.insert(above.to_owned(), PASSED);
            }
        }
    }
    let mut obstructed = None;
    for entry in entries.iter().filter(packed) {
        let path = path(entry);
        match wanted.get(&path) {
            Some(above) if *above == PASSED && entry.kind == EntryKind::Symlink => {
                obstructed.get_or_insert(path);
            }
            _ => {
                wanted.insert(path.clone(), thing_at(&root.join(&path)));
            }
        }
    }
    (wanted, obstructed)
}

fn is_same(found: &Thing, wanted: &Thing) -> bool {
    if *wanted == PASSED {
        return found.kind == EntryKind::Folder;
    }
    found == wanted
}

fn compare(
    root: &Path,
    extracted: &Extracted,
    (wanted, obstructed): &(BTreeMap<PathBuf, Thing>, Option<PathBuf>),
) -> Result<(), TestCaseError> {
    let found = things_below(root);
    for (path, wanted) in wanted {
        let found = found.get(path);
        prop_assert!(
            found.is_some_and(|found| is_same(found, wanted)),
            "{path:?}: {found:?} instead of {wanted:?}"
        );
    }
    let unwanted: Vec<_> = found
        .keys()
        .filter(|path| !wanted.contains_key(*path))
        .collect();
    prop_assert!(unwanted.is_empty(), "{unwanted:?}");
    let told = extracted.obstructed.as_ref().map(|link| link.path.clone());
    let obstructed = obstructed.as_ref().map(|link| {
        let path = root.join(link);
        path.into_os_string().into_vec()
    });
    // Which link is told first is the archive's order, not the paths'.
    prop_assert_eq!(
        told.is_some(),
        obstructed.is_some(),
        "{:?} {:?}",
        told,
        obstructed
    );
    Ok(())
}

fn packed(selection: &Selection, format: Format, level: Level) -> Result<Vec<u8>, TestCaseError> {
    let mut bytes = Vec::new();
    let mut lines = Vec::new();
    let mut say = |event: vk_archive::Event| lines.push(event.to_string());
    write(selection, format, level, 2, &mut bytes, &mut say)
        .map_err(|error| TestCaseError::fail(format!("not packed: {error}")))?;
    prop_assert_eq!(lines, [""; 0]);
    Ok(bytes)
}

/// Saves what is chosen of a tree, and restores it into an empty folder and over the tree itself.
fn round_trip(things: &[Make], choices: &[Choice], level: Level) -> Result<(), TestCaseError> {
    let tree = Tree::new();
    tree.file("outside/a", "a");
    tree.file("outside/b/a", "b");
    // Deep enough that links to what is above it, and links through them, find nothing of others.
    let root = tree.path(&"above/".repeat(30)).join("p");
    fs::create_dir_all(&root).unwrap();
    let made = make(&root, &tree.path("outside"), things);
    let paths = path_list(&root, &made, choices);
    let request = Request {
        paths: &paths,
        ..Request::default()
    };
    let selection = select(&root, &request, &mut |_| {}).unwrap();
    let wanted = wanted(&root, &selection);
    let all = things_below(&root);
    for format in [Format::TarZstd, Format::Zip, Format::ZipZstd] {
        let bytes = packed(&selection, format, level)?;
        let dest = Tree::new();
        let extracted = unpack(&bytes, format, dest.root(), &options());
        let extracted = extracted.map_err(|error| {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            TestCaseError::fail(format!("{format:?} of {paths:?}: {error} {source:?}"))
        })?;
        compare(dest.root(), &extracted, &wanted)
            .map_err(|error| TestCaseError::fail(format!("{format:?} of {paths:?}: {error}")))?;

        over_itself(&root, &bytes, format, &all).map_err(|error| {
            TestCaseError::fail(format!("{format:?} of {paths:?}, over itself: {error}"))
        })?;
    }
    Ok(())
}

/// Restores an archive over the tree that it was made of, where all stays as it is. Links out of the tree are not followed: an
/// archive with files behind them is refused there.
fn over_itself(
    root: &Path,
    bytes: &[u8],
    format: Format,
    all: &BTreeMap<PathBuf, Thing>,
) -> Result<(), TestCaseError> {
    match unpack(bytes, format, root, &options()) {
        Ok(extracted) => prop_assert_eq!(extracted.obstructed, None),
        Err(error) => {
            let leads_out = "lies behind a symbolic link that leads out of the destination";
            let source = std::error::Error::source(&error).map(ToString::to_string);
            prop_assert!(error.to_string().contains(leads_out), "{error} {source:?}");
        }
    }
    let found = things_below(root);
    for (path, before) in all {
        let found = found.get(path);
        let is_same = found.is_some_and(|found| {
            // What is made anew changes the time of what holds it.
            found.kind == before.kind
                && found.content == before.content
                && found.target == before.target
        });
        prop_assert!(is_same, "{path:?}: {found:?} instead of {before:?}");
    }
    prop_assert_eq!(found.len(), all.len());
    Ok(())
}

fn cases() -> impl Strategy<Value = (Vec<Make>, Vec<Choice>, Level)> {
    let level = prop_oneof![
        Just(Level::Fastest),
        Just(Level::Fast),
        Just(Level::Default),
        Just(Level::Slow),
    ];
    (
        proptest::collection::vec(things(), 3..28),
        proptest::collection::vec(choices(), 1..7),
        level,
    )
}

#[test]
fn what_is_packed_is_unpacked() {
    let config = ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let until = std::env::var("VK_ROUND_TRIP_SECS").ok().map(|secs| {
        let secs = secs
            .parse()
            .expect("VK_ROUND_TRIP_SECS is a number of seconds");
        Instant::now() + Duration::from_secs(secs)
    });
    let mut trips = 0;
    loop {
        let mut runner = TestRunner::new(config.clone());
        let run = runner.run(&cases(), |(things, choices, level)| {
            round_trip(&things, &choices, level)
        });
        if let Err(error) = run {
            panic!("{error}");
        }
        trips += config.cases;
        match until {
            Some(until) if Instant::now() < until => {}
            Some(_) => return eprintln!("{trips} trees were saved and restored"),
            None => return,
        }
    }
}
