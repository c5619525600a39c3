//! The driver's crates and folders use one another only as the table in `docs/architecture.md` says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use vk_tests::vk::workspace;

/// Folders of `driver/src/job` in the order that the page names: each may use those before it.
const OF_JOB: [&str; 6] = [
    "expand",
    "settings",
    "variables",
    "script",
    "order",
    "stages",
];

/// A row of the table.
struct Room {
    /// Its folder's last name.
    name: String,
    is_crate: bool,
    may_use: BTreeSet<String>,
}

fn read(path: impl AsRef<Path>) -> String {
    let path = workspace().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The table, crates first; `all of the crates above` means all crates.
fn rooms() -> Vec<Room> {
    let page = read("docs/architecture.md");
    let row = Regex::new(r"(?m)^\| `driver/(src/)?([a-z]+)` \|[^|]*\|([^|]*)\|$").unwrap();
    let name = Regex::new(r"`([a-z]+)`").unwrap();
    let mut rooms: Vec<Room> = Vec::new();
    for found in row.captures_iter(&page) {
        let mut may_use: BTreeSet<String> = name
            .captures_iter(&found[3])
            .map(|name| name[1].to_owned())
            .collect();
        if found[3].contains("all of the crates above") {
            let crates = rooms.iter().filter(|room| room.is_crate);
            may_use.extend(crates.map(|room| room.name.clone()));
        }
        rooms.push(Room {
            name: found[2].to_owned(),
            is_crate: found.get(1).is_none(),
            may_use,
        });
    }
    rooms
}

/// The crates below `driver/` that a crate's manifest depends on, tests apart.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let text = read(manifest);
    let (_, rest) = text.split_once("[dependencies]").unwrap();
    let own = rest.split("\n[").next().unwrap();
    let entry = Regex::new(r"(?m)^vk-([a-z-]+) = ").unwrap();
    let named = entry.captures_iter(own).map(|entry| entry[1].to_owned());
    named
        .map(|name| match name.as_str() {
            "agent-client" => "client".to_owned(),
            _ => name,
        })
        .filter(|name| workspace().join("driver").join(name).is_dir())
        .collect()
}

/// The files below `folder`, by their path in it.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    files
}

/// The first names behind `prefix` in the code below `folder`, comments apart: `prefix::{a, b::c}` and `prefix::a`.
fn used_behind(folder: &Path, prefix: &str) -> BTreeMap<String, PathBuf> {
    let direct = Regex::new(&format!(r"\b{prefix}::([a-z_]+)")).unwrap();
    let group = Regex::new(&format!(r"\b{prefix}::\{{((?s).*?)\}};")).unwrap();
    let first = Regex::new(r"(?:^|,)\s*([a-z_]+)").unwrap();
    let comment = Regex::new(r"(?m)//.*$").unwrap();
    let mut used = BTreeMap::new();
    for file in sources(folder) {
        let text = fs::read_to_string(&file).unwrap();
        let text = comment.replace_all(&text, "");
        let mut names: Vec<String> = direct
            .captures_iter(&text)
            .map(|name| name[1].to_owned())
            .collect();
        for inner in group.captures_iter(&text) {
            names.extend(
                first
                    .captures_iter(&inner[1])
                    .map(|name| name[1].to_owned()),
            );
        }
        for name in names {
            used.entry(name).or_insert_with(|| file.clone());
        }
    }
    used
}

#[test]
fn the_table_names_every_crate_and_folder() {
    let driver = workspace().join("driver");
    let folders = |folder: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        entries
            .filter(|entry| entry.path().is_dir())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect()
    };
    let named = |is_crate| -> BTreeSet<String> {
        let rooms = rooms().into_iter();
        rooms
            .filter(|room| room.is_crate == is_crate)
            .map(|room| room.name)
            .collect()
    };
    let mut crates = folders(&driver);
    assert!(crates.remove("src"));
    assert_eq!(named(true), crates);
    assert_eq!(named(false), folders(&driver.join("src")));
    assert_eq!(
        folders(&driver.join("src/job")),
        OF_JOB.iter().map(|name| (*name).to_owned()).collect()
    );
}

#[test]
fn crates_depend_on_what_the_table_allows() {
    for room in rooms().iter().filter(|room| room.is_crate) {
        let used = dependencies(&format!("driver/{}/Cargo.toml", room.name));
        assert_eq!(used, room.may_use, "of driver/{}", room.name);
    }
}

#[test]
fn folders_use_what_the_table_allows() {
    let folders: Vec<Room> = rooms().into_iter().filter(|room| !room.is_crate).collect();
    for room in &folders {
        let used = used_behind(&workspace().join("driver/src").join(&room.name), "crate");
        for other in folders.iter().filter(|other| other.name != room.name) {
            if let Some(file) = used.get(&other.name) {
                assert!(
                    room.may_use.contains(&other.name),
                    "{} uses `{}`",
                    file.display(),
                    other.name
                );
            }
        }
    }
}

#[test]
fn folders_of_a_job_use_only_those_before_them() {
    let job = workspace().join("driver/src/job");
    for (position, folder) in OF_JOB.iter().enumerate() {
        let mut used = used_behind(&job.join(folder), "crate::job");
        used.extend(used_behind(&job.join(folder), "super::super"));
        for later in &OF_JOB[position + 1..] {
            assert!(
                !used.contains_key(*later),
                "{} uses `{later}`",
                used[*later].display()
            );
        }
    }
}
