//! Whatever is packed here is unpacked here: random trees and path lists, saved and restored.
//!
//! Some cases run each time. `VK_ROUND_TRIP_SECS=3600 cargo test --release -p vk-archive --test all round_trip` runs new
//! ones for so many seconds and says how many they were.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::stat::{Mode, SFlag, mknod};
use nix::unistd::{geteuid, mkfifo};
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};
use vk_archive::{
    Entry, EntryKind, ExtractError, Extracted, Format, Level, Request, Selection, select, write,
};

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
    let is_root = geteuid().is_root();
    for (path, mode, mtime) in made.times.iter().rev() {
        let place = root.join(path);
        if is_root {
            // Before the mode: a new owner takes the set-id bits away.
            let id = u32::try_from(mtime % 3).unwrap() * 1000;
            chown(&place, Some(id), Some(id + 1)).unwrap();
        }
        // Others than root can do nothing with what they may not read.
        let mode = if is_root { *mode } else { mode | 0o700 };
        fs::set_permissions(&place, Permissions::from_mode(mode)).unwrap();
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
    owner: Option<(u32, u32)>,
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
        owner: Some((meta.uid(), meta.gid())),
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
    owner: None,
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

/// What must be restored of a selection, and the links that cannot be.
struct Wanted {
    things: BTreeMap<PathBuf, Thing>,
    obstructed: BTreeSet<PathBuf>,
}

fn wanted(root: &Path, selection: &Selection) -> Wanted {
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
    let mut obstructed = BTreeSet::new();
    for entry in entries.iter().filter(packed) {
        let path = path(entry);
        match wanted.get(&path) {
            Some(above) if *above == PASSED && entry.kind == EntryKind::Symlink => {
                obstructed.insert(path);
            }
            _ => {
                wanted.insert(path.clone(), thing_at(&root.join(&path)));
            }
        }
    }
    Wanted {
        things: wanted,
        obstructed,
    }
}

fn is_same(found: &Thing, wanted: &Thing) -> bool {
    if *wanted == PASSED {
        return found.kind == EntryKind::Folder;
    }
    found == wanted
}

fn compare(root: &Path, extracted: &Extracted, wanted: &Wanted) -> Result<(), TestCaseError> {
    let found = things_below(root);
    let things = &wanted.things;
    for (path, wanted) in things {
        let found = found.get(path);
        prop_assert!(
            found.is_some_and(|found| is_same(found, wanted)),
            "{path:?}: {found:?} instead of {wanted:?}"
        );
    }
    let unwanted: Vec<_> = found
        .keys()
        .filter(|path| !things.contains_key(*path))
        .collect();
    prop_assert!(unwanted.is_empty(), "{unwanted:?}");
    let told = told(root, extracted);
    prop_assert_eq!(told.is_some(), !wanted.obstructed.is_empty());
    prop_assert!(told.is_none_or(|link| wanted.obstructed.contains(&link)));
    Ok(())
}

/// The link that is said not to have been made.
fn told(root: &Path, extracted: &Extracted) -> Option<PathBuf> {
    let link = extracted.obstructed.as_ref()?;
    let path = PathBuf::from(OsStr::from_bytes(&link.path));
    Some(path.strip_prefix(root).unwrap().to_owned())
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

/// A project's folder, with another one beside it that nothing may touch.
struct Site {
    tree: Tree,
    root: PathBuf,
    made: Made,
    outside: BTreeMap<PathBuf, Thing>,
}

impl Site {
    fn new(things: &[Make]) -> Self {
        let tree = Tree::new();
        tree.file("outside/a", "a");
        tree.file("outside/b/a", "b");
        // Deep enough that links to what is above it, and links through them, find nothing of others.
        let root = tree.path(&"above/".repeat(30)).join("p");
        fs::create_dir_all(&root).unwrap();
        let made = make(&root, &tree.path("outside"), things);
        let outside = things_below(&tree.path("outside"));
        Self {
            tree,
            root,
            made,
            outside,
        }
    }

    fn unpack(&self, archive: &[u8], format: Format) -> Result<Extracted, ExtractError> {
        let extracted = unpack(archive, format, &self.root, &options());
        assert_eq!(things_below(&self.tree.path("outside")), self.outside);
        extracted
    }

    /// Whether a link leads what lies at `path` out of the project.
    fn leads_out(&self, path: &Path) -> bool {
        path.ancestors().skip(1).any(|above| {
            let place = self.root.join(above).canonicalize();
            place.is_ok_and(|place| !place.starts_with(self.root.canonicalize().unwrap()))
        })
    }
}

/// Saves what is chosen of a tree, and restores it into an empty folder, over the tree itself, and over another one.
fn round_trip(case: &Case) -> Result<(), TestCaseError> {
    let site = Site::new(&case.things);
    let root = &site.root;
    let paths = path_list(root, &site.made, &case.choices);
    let request = Request {
        paths: &paths,
        ..Request::default()
    };
    let selection = select(root, &request, &mut |_| {}).unwrap();
    let wanted = wanted(root, &selection);
    let all = things_below(root);
    for format in [Format::TarZstd, Format::Zip, Format::ZipZstd] {
        let at = |place: &str, error: &TestCaseError| {
            TestCaseError::fail(format!("{format:?} of {paths:?}, {place}: {error}"))
        };
        let archive = packed(&selection, format, case.level)?;
        into_nothing(&archive, format, &wanted).map_err(|error| at("into nothing", &error))?;
        over_itself(&site, &archive, format, &all, &wanted)
            .map_err(|error| at("over itself", &error))?;
        over_another(&case.others, &archive, format, &wanted)
            .map_err(|error| at("over another", &error))?;
    }
    Ok(())
}

fn failed(error: &ExtractError) -> TestCaseError {
    let source = std::error::Error::source(error).map(ToString::to_string);
    TestCaseError::fail(format!("{error} {source:?}"))
}

fn into_nothing(archive: &[u8], format: Format, wanted: &Wanted) -> Result<(), TestCaseError> {
    let site = Site::new(&[]);
    let extracted = site
        .unpack(archive, format)
        .map_err(|error| failed(&error))?;
    compare(&site.root, &extracted, wanted)
}

/// Over the tree that it was made of, all stays as it is, but for the times of folders that something is made in. An archive
/// with something behind a link out of the project is refused there.
fn over_itself(
    site: &Site,
    archive: &[u8],
    format: Format,
    all: &BTreeMap<PathBuf, Thing>,
    wanted: &Wanted,
) -> Result<(), TestCaseError> {
    let leads_out = wanted.things.keys().any(|path| site.leads_out(path));
    match site.unpack(archive, format) {
        Ok(extracted) => {
            prop_assert!(!leads_out);
            prop_assert_eq!(extracted.obstructed, None);
        }
        Err(error) if leads_out && error.to_string().contains("leads out") => {}
        Err(error) => return Err(failed(&error)),
    }
    let found = things_below(&site.root);
    for (path, before) in all {
        let mut before = before.clone();
        let mut found = found.get(path).cloned();
        if before.kind == EntryKind::Folder || leads_out {
            before.mtime = None;
            found.as_mut().map(|found| found.mtime.take());
        }
        prop_assert!(
            found.as_ref() == Some(&before),
            "{path:?}: {found:?} instead of {before:?}"
        );
    }
    prop_assert_eq!(found.len(), all.len());
    Ok(())
}

/// Over another tree, what is restored takes the place of what is there, unless that is a folder with something in it. Links that
/// are there may make one thing of several: then it is enough that nothing leads out.
fn over_another(
    others: &[Make],
    archive: &[u8],
    format: Format,
    wanted: &Wanted,
) -> Result<(), TestCaseError> {
    let site = Site::new(others);
    let is_full = |path: &Path| {
        let place = site.root.join(path);
        !place.is_symlink() && fs::read_dir(place).is_ok_and(|mut folder| folder.next().is_some())
    };
    let in_the_way: BTreeSet<&PathBuf> = wanted
        .things
        .iter()
        .filter(|(path, wanted)| wanted.kind != EntryKind::Folder && is_full(path))
        .map(|(path, _)| path)
        .collect();
    let extracted = site.unpack(archive, format);
    if !site.made.links.is_empty() {
        return Ok(());
    }
    let extracted = match extracted {
        Ok(extracted) => extracted,
        Err(_) if !in_the_way.is_empty() => return Ok(()),
        Err(error) => return Err(failed(&error)),
    };
    let found = things_below(&site.root);
    for (path, wanted) in &wanted.things {
        let found = found.get(path);
        prop_assert!(
            in_the_way.contains(path) || found.is_some_and(|found| is_same(found, wanted)),
            "{path:?}: {found:?} instead of {wanted:?}"
        );
    }
    let told = told(&site.root, &extracted);
    let may_be_told =
        |link: &PathBuf| wanted.obstructed.contains(link) || in_the_way.contains(link);
    prop_assert!(told.as_ref().is_none_or(may_be_told), "{:?}", told);
    prop_assert!(told.is_some() || (wanted.obstructed.is_empty() && in_the_way.is_empty()));
    Ok(())
}

/// A tree, what is chosen of it, and what stands elsewhere.
#[derive(Clone, Debug)]
struct Case {
    things: Vec<Make>,
    choices: Vec<Choice>,
    level: Level,
    others: Vec<Make>,
}

fn cases() -> impl Strategy<Value = Case> {
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
        proptest::collection::vec(things(), 0..10),
    )
        .prop_map(|(things, choices, level, others)| Case {
            things,
            choices,
            level,
            others,
        })
}

#[test]
fn what_is_packed_is_unpacked() {
    let config = ProptestConfig {
        cases: 80,
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
        let run = runner.run(&cases(), |case| round_trip(&case));
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
