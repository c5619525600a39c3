//! Lists that go on in files make the archives that lists in memory make.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::kit::{Packed, Tree, listing, options, pack, run, text, unpack};
use vk_archive::{
    EntryKind, Event, Format, Level, Request, Selection, Spill, SpillError, WriteError, select,
    write,
};

/// Thousands of files, of which git tracks one.
fn repository() -> Tree {
    let tree = Tree::new();
    for number in 0..3000 {
        // Names are met in an order that is not the paths'.
        let name = format!("d{}/{}/f{number}.txt", number % 7, number * 31 % 50);
        tree.file(&name, format!("content of {number}").repeat(number % 40));
    }
    tree.file("d3-and/more", "between `d3` and what is below it");
    tree.file("large", vec![7; 5_000_000]);
    tree.link("d0/link", "../large");
    fs::create_dir(tree.path("d1/empty")).unwrap();
    run("git", &["init", "-q"], tree.root());
    run("git", &["add", "large"], tree.root());
    tree
}

/// All of it several times over, and that in a spill's memory.
fn choose(root: &Path, spill: Option<&Spill>) -> (Selection, Vec<String>) {
    let mut lines = Vec::new();
    let request = Request {
        paths: &["d*/**", "**/*.txt", "d3", "d3/", "large", "*", "d6/*/f*"].map(str::to_owned),
        exclude: &[
            "d4/**/*1.txt".to_owned(),
            ".git".to_owned(),
            ".git/**".to_owned(),
        ],
        untracked: true,
        spill,
    };
    let mut say = |event: Event| lines.push(event.to_string());
    let selection = select(root, &request, &mut say).unwrap();
    (selection, lines)
}

fn spill(folder: &Path, memory: usize) -> Spill {
    Spill {
        folder: folder.to_owned(),
        memory,
    }
}

#[test]
fn archives_are_the_same_byte_for_byte() {
    let tree = repository();
    let work = Tree::new();
    let (in_memory, said) = choose(tree.root(), None);
    assert!(!in_memory.is_spilled() && in_memory.len() > 3000);
    let formats = [Format::Zip, Format::ZipZstd, Format::TarZstd];
    let wanted = formats.map(|format| pack(&in_memory, format, Level::Default, 2));

    // More runs than are merged at once; some; one and what is left.
    for memory in [3000, 50_000, 200_000] {
        let (selection, lines) = choose(tree.root(), Some(&spill(work.root(), memory)));

        assert!(selection.is_spilled(), "{memory}");
        assert_eq!(lines, said, "{memory}");
        assert_eq!(selection.len(), in_memory.len(), "{memory}");
        let entries = selection.iter().map(Result::unwrap);
        assert!(entries.eq(in_memory.iter().map(Result::unwrap)), "{memory}");
        for (format, wanted) in formats.iter().zip(&wanted) {
            let got: Packed = pack(&selection, *format, Level::Default, 3);
            assert!(got == *wanted, "{format:?} {memory}");
        }
    }
    // Files without names leave nothing behind.
    assert_eq!(fs::read_dir(work.root()).unwrap().count(), 0);
    let out = Tree::new();
    let [(zip, ..), ..] = &wanted;
    unpack(zip, Format::Zip, out.root(), &options()).unwrap();
    assert!(listing(out.root()).len() == in_memory.len());
}

#[test]
fn gzip_and_raw_take_a_spilled_list() {
    let tree = repository();
    let work = Tree::new();
    for (path, format) in [("**/*.txt", Format::Gzip), ("large", Format::Raw)] {
        let choose = |spill| {
            let request = Request {
                paths: &[path.to_owned()],
                spill,
                ..Request::default()
            };
            select(tree.root(), &request, &mut |_| {}).unwrap()
        };
        let small = spill(work.root(), 10);
        let spilled = choose(Some(&small));

        assert!(spilled.is_spilled());
        assert!(
            spilled
                .iter()
                .all(|entry| entry.unwrap().kind == EntryKind::File)
        );
        let (bytes, ..) = pack(&spilled, format, Level::Default, 2);
        assert!(
            bytes == pack(&choose(None), format, Level::Default, 2).0,
            "{format:?}"
        );
    }
}

#[test]
fn little_stays_in_memory() {
    let tree = repository();

    // The folder is not looked at.
    let (selection, _) = choose(tree.root(), Some(&Spill::into_folder("/no/such/folder")));

    assert!(!selection.is_spilled());
    pack(&selection, Format::Zip, Level::Fast, 2);
}

/// What was seen of a path first counts, wherever the list is.
#[test]
fn a_file_that_changes_between_two_patterns_is_the_first_one() {
    let work = Tree::new();
    for memory in [1, 400, 1 << 20] {
        let tree = Tree::new();
        for number in 0..20 {
            tree.file(&format!("f{number}"), "content");
        }
        let request = Request {
            paths: &["f*".to_owned(), "*".to_owned(), "f1*".to_owned()],
            spill: Some(&spill(work.root(), memory)),
            ..Request::default()
        };
        let mut times = 0;
        let selection = select(tree.root(), &request, &mut |_| {
            times += 1;
            for number in 0..20 {
                tree.file(&format!("f{number}"), "content".repeat(times + 1));
            }
        })
        .unwrap();

        assert_eq!(selection.len(), 20);
        assert!(
            selection.iter().all(|entry| entry.unwrap().size == 7),
            "{memory}"
        );
    }
}

#[test]
fn a_folder_that_takes_no_file_is_named() {
    let tree = repository();
    let work = Tree::new();
    let folder = work.path("gone");
    let request = |paths| Request {
        paths,
        ..Request::default()
    };
    let all = ["*".to_owned()];
    let small = spill(&folder, 1000);
    let spilling = Request {
        spill: Some(&small),
        ..request(&all)
    };
    let wanted = format!(
        "cannot keep the list of chosen files in `{}`: ",
        folder.display()
    );

    let error = select(tree.root(), &spilling, &mut |_| {}).unwrap_err();
    assert!(error.to_string().starts_with(&wanted), "{error}");

    // Enough for the list, not for the directory of a zip.
    let spilling = Request {
        spill: Some(&spill(&folder, 400_000)),
        ..request(&all)
    };
    let selection = select(tree.root(), &spilling, &mut |_| {}).unwrap();
    assert!(!selection.is_spilled());
    let mut out = std::io::sink();
    let error = write(
        &selection,
        Format::Zip,
        Level::Fast,
        2,
        &mut out,
        &mut |_| {},
    )
    .unwrap_err();
    assert!(matches!(error, WriteError::Spill(SpillError::Io { .. })));
    assert!(error.to_string().starts_with(&wanted), "{error}");
}

#[test]
fn a_full_disk_is_said_and_what_to_do() {
    let tree = repository();
    let disk = Tree::new();
    let test = std::env::current_exe().unwrap();
    let script = "mount -t tmpfs -o size=64k none \"$DISK\" && exec \"$TEST\" --exact --ignored spill::on_a_full_disk";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .envs([
            ("DISK", disk.root()),
            ("TEST", test.as_path()),
            ("TREE", tree.root()),
        ])
        .output()
        .unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[test]
#[ignore = "for `a_full_disk_is_said_and_what_to_do`, on a small disk"]
fn on_a_full_disk() {
    let [disk, tree] = ["DISK", "TREE"].map(|name| std::env::var_os(name).unwrap());
    let all = ["*".to_owned()];
    for (memory, format) in [(1000, None), (400_000, Some(Format::Zip))] {
        let small = spill(disk.as_ref(), memory);
        let request = Request {
            paths: &all,
            spill: Some(&small),
            ..Request::default()
        };
        let selection = select(tree.as_ref(), &request, &mut |_| {});
        let error = match format {
            None => selection.unwrap_err(),
            Some(format) => {
                let mut out = std::io::sink();
                let selection = selection.unwrap();
                match write(&selection, format, Level::Fast, 2, &mut out, &mut |_| {}) {
                    Err(WriteError::Spill(error)) => error,
                    other => panic!("{other:?}"),
                }
            }
        };
        assert!(matches!(error, SpillError::Full { .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            format!(
                "no room in `{}` for the list of chosen files; make room there, or choose fewer files",
                Path::new(&disk).display()
            )
        );
    }
}
