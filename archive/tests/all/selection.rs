//! What is chosen, and what is said about it: the tables of gitlab-runner, wire §3.3 and wire §8.9, on real trees.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::kit::{Tree, run, text};
use proptest::prelude::*;
use vk_archive::{EntryKind, Pattern, Request, select};

/// The chosen paths and the lines.
pub fn choose(
    root: &Path,
    paths: &[&str],
    exclude: &[&str],
    untracked: bool,
) -> (Vec<String>, Vec<String>) {
    let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let (paths, exclude) = (owned(paths), owned(exclude));
    let request = Request {
        paths: &paths,
        exclude: &exclude,
        untracked,
        ..Request::default()
    };
    let mut lines = Vec::new();
    let selection = select(root, &request, &mut |event| lines.push(event.to_string())).unwrap();
    let paths = selection
        .iter()
        .map(|entry| text(&entry.unwrap().path))
        .collect();
    (paths, lines)
}

fn no_match(path: &str, root: &Path) -> String {
    format!(
        "{path}: no matching files. Ensure that the artifact path is relative to the working \
         directory ({})",
        root.display()
    )
}

/// The tree of GitLab Runner's tests, with files at several depths.
fn table_tree() -> Tree {
    let tree = Tree::new();
    for folder in ["foo", "foo/bar", "foo/bar/baz"] {
        for name in [
            "file.txt",
            "file.extra.dots.txt",
            "xfile.txt",
            "file2.txt",
            "note.txt.md",
            "1.bin",
            "2.bin",
            "even-this.txt",
        ] {
            tree.file(&format!("{folder}/{name}"), "x");
        }
    }
    for name in ["a.thing", "b2.thing", "bar/foo/test.txt"] {
        tree.file(name, "x");
    }
    fs::create_dir(tree.path("foo/bar/baz2")).unwrap();
    tree
}

/// gitlab-runner, wire §8.9, the table: each row's paths, rules, and what a name must look like to be chosen.
#[test]
fn the_tables_rows_choose_what_they_should() {
    let tree = table_tree();
    let root = tree.root();
    let wd = root.display().to_string();
    let name = root.file_name().unwrap().to_str().unwrap();
    let all: Vec<String> = {
        let mut all = choose(root, &["**"], &[], false).0;
        all.retain(|path| path != ".");
        all
    };
    let depth = |path: &str| path.matches('/').count();
    let txt = |path: &str| path.ends_with(".txt");
    let is_file = |path: &str| root.join(path).is_file();
    type Row<'a> = (String, Vec<String>, Box<dyn Fn(&str) -> bool + 'a>);
    let rows: Vec<Row<'_>> = vec![
        (
            "foo/**/*.txt".into(),
            vec![],
            Box::new(|path| path.starts_with("foo/") && txt(path)),
        ),
        (
            "foo/**/*.txt".into(),
            vec!["foo/**/xfile.txt".into()],
            Box::new(|path| path.starts_with("foo/") && txt(path) && !path.ends_with("xfile.txt")),
        ),
        (
            "foo//*.txt".into(),
            vec![],
            Box::new(|path| path.starts_with("foo/") && txt(path) && depth(path) == 1),
        ),
        (
            "foo//*.txt".into(),
            vec!["foo//*2.txt".into()],
            Box::new(|path| {
                path.starts_with("foo/")
                    && txt(path)
                    && depth(path) == 1
                    && !path.ends_with("2.txt")
            }),
        ),
        (
            format!("{wd}/*.thing"),
            vec![],
            Box::new(|path| path.ends_with(".thing")),
        ),
        (
            format!("{wd}/*.thing"),
            vec![format!("{wd}/*2.thing")],
            Box::new(|path| path == "a.thing"),
        ),
        (
            format!("{wd}/foo/bar/*.bin"),
            vec![format!("{wd}/foo/bar/*2.bin")],
            Box::new(|path| path == "foo/bar/1.bin"),
        ),
        (
            "./foo/**//*/*.*".into(),
            vec![],
            Box::new(|path| path.starts_with("foo/") && depth(path) >= 2 && is_file(path)),
        ),
        (
            "./foo/**//*/*.*".into(),
            vec!["**/*.bin".into()],
            Box::new(|path| {
                path.starts_with("foo/")
                    && depth(path) >= 2
                    && is_file(path)
                    && !path.ends_with(".bin")
            }),
        ),
        (
            "foo/**/*.*".into(),
            vec!["**/*.bin".into(), "**/*even-this*".into()],
            Box::new(|path| {
                path.starts_with("foo/")
                    && is_file(path)
                    && !path.ends_with(".bin")
                    && !path.contains("even-this")
            }),
        ),
        (
            "foo/**".into(),
            vec![],
            Box::new(|path| path == "foo" || path.starts_with("foo/")),
        ),
        (
            format!("../{name}/foo/*.txt"),
            vec![format!("../{name}/foo/*2.txt")],
            Box::new(|path| {
                path.starts_with("foo/")
                    && txt(path)
                    && depth(path) == 1
                    && !path.ends_with("2.txt")
            }),
        ),
        (">/**".into(), vec![], Box::new(|_| false)),
        ("**".into(), vec!["**".into()], Box::new(|_| false)),
    ];
    for (path, exclude, wanted) in rows {
        let exclude: Vec<&str> = exclude.iter().map(String::as_str).collect();

        let (chosen, lines) = choose(root, &[&path], &exclude, false);

        let wanted: Vec<String> = all.iter().filter(|path| wanted(path)).cloned().collect();
        assert_eq!(chosen, wanted, "{path} {exclude:?}");
        let first = match chosen.is_empty() {
            true => no_match(&path, root),
            false => lines[0].clone(),
        };
        assert_eq!(lines[0], first, "{path} {exclude:?}");
        assert_eq!(lines.len() > 1, !exclude.is_empty(), "{lines:?}");
    }
}

#[test]
fn excluded_files_are_counted_for_each_rule() {
    let tree = Tree::new();
    for name in [
        "bar/baz/1.txt",
        "bar/baz/2.txt",
        "bar/baz/3.txt",
        "bar/baz/1.md",
        "bar/baz/2.md",
    ] {
        tree.file(&format!("foo/test/{name}"), "x");
    }

    let exclude = ["foo/test/bar/baz/3.txt", "foo/**/*.md"];
    let (chosen, lines) = choose(tree.root(), &["foo/test/"], &exclude, false);

    let wanted = [
        "foo/test",
        "foo/test/bar",
        "foo/test/bar/baz",
        "foo/test/bar/baz/1.txt",
        "foo/test/bar/baz/2.txt",
    ];
    assert_eq!(chosen, wanted);
    let wanted = [
        "foo/test/: found 5 matching artifact files and directories",
        "foo/test/bar/baz/3.txt: excluded 1 files",
        "foo/**/*.md: excluded 2 files",
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn matches_below_matches_count_again() {
    let tree = Tree::new();
    for name in ["dir/a/1", "dir/a/2", "dir/b/3"] {
        tree.file(name, "x");
    }
    tree.file("dir/4", "x");

    let (chosen, lines) = choose(tree.root(), &["dir/**"], &["dir/a/1"], false);

    // gitlab-runner, wire §3.3: 17 over a tree of seven; here dir (7), a (3), b (2), four files, without a/1 thrice.
    assert_eq!(chosen.len(), 6);
    let wanted = [
        "dir/**: found 13 matching artifact files and directories",
        "dir/a/1: excluded 3 files",
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn an_excluded_folder_keeps_what_is_in_it() {
    let tree = Tree::new();
    tree.file("dir/a", "x");

    assert_eq!(choose(tree.root(), &["dir"], &["dir"], false).0, ["dir/a"]);
    assert_eq!(choose(tree.root(), &["dir"], &["dir/**"], false).0, [""; 0]);
}

#[test]
fn what_lies_outside_is_refused_in_the_runners_words() {
    let tree = Tree::new();
    tree.file("relative.txt", "x");
    let inside = tree.path("relative.txt").display().to_string();
    for path in [
        "/absolute.txt",
        "/**/absolute.txt",
        "../../../relative.txt",
        "..",
        "../up",
    ] {
        let (chosen, lines) = choose(tree.root(), &[path], &[], false);

        assert!(chosen.is_empty());
        let wanted =
            format!("processPath: artifact path is not a subpath of project directory: {path}");
        assert_eq!(lines, [wanted]);
    }
    assert_eq!(
        choose(tree.root(), &[&inside], &[], false).0,
        ["relative.txt"]
    );
}

#[test]
fn a_rule_outside_ends_the_rules_and_is_told_once() {
    let tree = Tree::new();
    for name in ["a", "b", "c"] {
        tree.file(name, "x");
    }

    let (chosen, lines) = choose(tree.root(), &["*"], &["a", "../*.*", "b"], false);

    assert_eq!(chosen, ["b", "c"]);
    let wanted = [
        "isExcluded: artifact path is not a subpath of project directory: ../*.*",
        "*: found 2 matching artifact files and directories",
        "a: excluded 1 files",
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn odd_requests_are_warned_of() {
    let tree = Tree::new();
    tree.file("a", "x");

    let (chosen, lines) = choose(
        tree.root(),
        &["", "dir/[a", "nope", "n*"],
        &["[", "a\\"],
        false,
    );

    assert!(chosen.is_empty());
    let wanted = [
        "No matching files. Path is empty.".to_owned(),
        "dir/[a: syntax error in pattern".to_owned(),
        no_match("nope", tree.root()),
        no_match("n*", tree.root()),
    ];
    assert_eq!(lines, wanted);
}

/// gitlab-runner, wire §3.3, "Glob facts".
#[test]
fn links_are_entered_only_where_a_path_names_them() {
    let tree = Tree::new();
    tree.file("real/f", "x");
    tree.file("other/g", "x");
    symlink("real", tree.path("link")).unwrap();
    symlink("../other", tree.path("real/inner")).unwrap();
    symlink("nowhere", tree.path("dang")).unwrap();
    fs::create_dir(tree.path("d")).unwrap();
    symlink("nowhere", tree.path("d/dang")).unwrap();
    let chosen = |path: &str| choose(tree.root(), &[path], &[], false).0;
    let none: [&str; 0] = [];

    assert_eq!(chosen("link"), ["link"]);
    assert_eq!(chosen("link/"), ["link"]);
    assert_eq!(chosen("link/*"), ["link/f", "link/inner"]);
    assert_eq!(chosen("link/**"), ["link", "link/f", "link/inner"]);
    assert_eq!(chosen("link/f"), ["link/f"]);
    assert_eq!(chosen("real/**"), ["real", "real/f", "real/inner"]);
    assert_eq!(chosen("real"), ["real", "real/f", "real/inner"]);
    assert_eq!(chosen("*/f"), ["real/f"]);
    assert_eq!(chosen("dang"), none);
    assert_eq!(chosen("d/dang"), none);
    assert_eq!(chosen("dan*"), ["dang"]);
    assert_eq!(chosen("d/*"), ["d/dang"]);
    assert_eq!(chosen("d"), ["d", "d/dang"]);
    assert_eq!(chosen("real/f/x"), none);
}

#[test]
fn cycles_of_links_end() {
    let tree = Tree::new();
    tree.file("top/project/a/f", "x");
    tree.file("top/project/b/g", "x");
    for (target, link) in [
        ("../b", "a/sibling"),
        ("..", "a/parent"),
        (".", "b/self"),
        ("../../..", "b/top"),
    ] {
        symlink(target, tree.path("top/project").join(link)).unwrap();
    }

    let (chosen, lines) = choose(tree.root(), &["**/project"], &[], false);

    let below = [
        "",
        "/a",
        "/a/f",
        "/a/parent",
        "/a/sibling",
        "/b",
        "/b/g",
        "/b/self",
        "/b/top",
    ];
    assert_eq!(chosen, below.map(|path| format!("top/project{path}")));
    assert_eq!(
        lines,
        ["**/project: found 9 matching artifact files and directories"]
    );
}

#[test]
fn odd_names_are_chosen_as_they_are() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let tree = Tree::new();
    for name in [
        &b"a\\b"[..],
        b"ab",
        b"x[1].txt",
        b"x1.txt",
        b"\xff\xfe",
        "日本.txt".as_bytes(),
        b"new\nline",
        b"{br}.log",
    ] {
        fs::write(tree.root().join(OsStr::from_bytes(name)), "x").unwrap();
    }
    let chosen = |path: &str| choose(tree.root(), &[path], &[], false).0;

    assert_eq!(chosen("a\\b"), ["a\\b"]);
    assert_eq!(chosen("a\\\\b"), [""; 0]);
    assert_eq!(chosen("x[1].txt"), ["x1.txt"]);
    assert_eq!(chosen("x\\[1\\].txt"), ["x[1].txt"]);
    assert_eq!(chosen("*.txt"), ["x1.txt", "x[1].txt", "日本.txt"]);
    assert_eq!(chosen("??.txt"), ["x1.txt", "日本.txt"]);
    assert_eq!(chosen("*.log"), ["{br}.log"]);
    assert_eq!(chosen("?\u{fffd}"), [""; 0]);
    assert_eq!(choose(tree.root(), &["*"], &[], false).0.len(), 8);
}

#[test]
fn what_is_chosen_says_what_it_is() {
    let tree = Tree::new();
    tree.file("f", "four");
    fs::set_permissions(tree.path("f"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("f", tree.path("l")).unwrap();
    nix::unistd::mkfifo(&tree.path("p"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(tree.path("d")).unwrap();

    let request = Request {
        paths: &["*".to_owned()],
        ..Request::default()
    };
    let selection = select(tree.root(), &request, &mut |_| {}).unwrap();

    let kinds: Vec<_> = selection
        .iter()
        .map(Result::unwrap)
        .map(|entry| (text(&entry.path), entry.kind))
        .collect();
    let wanted = [
        ("d", EntryKind::Folder),
        ("f", EntryKind::File),
        ("l", EntryKind::Symlink),
        ("p", EntryKind::Other),
    ];
    assert_eq!(kinds, wanted.map(|(path, kind)| (path.to_owned(), kind)));
    let file = selection.iter().nth(1).unwrap().unwrap();
    assert_eq!((file.mode, file.size), (0o100_750, 4));
}

#[test]
fn folders_nested_deeper_than_a_stack_are_chosen() {
    let tree = Tree::new();
    let deep = "d/".repeat(1500);
    fs::create_dir_all(tree.path(&deep)).unwrap();
    tree.file(&format!("{deep}f"), "x");

    assert_eq!(choose(tree.root(), &["d"], &[], false).0.len(), 1501);
    assert_eq!(choose(tree.root(), &["**/f"], &[], false).0.len(), 1);
}

/// git(1) in a folder, without settings of this machine and in plain words.
pub fn asking(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command
        .args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(args)
        .current_dir(root)
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "LANGUAGE"] {
        command.env_remove(name);
    }
    command
}

pub fn git(root: &Path, args: &[&str]) -> Vec<u8> {
    let output = asking(root, args).output().unwrap();
    assert!(
        output.status.success(),
        "git {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// What git itself lists, folders' slashes taken off.
pub fn git_says(root: &Path) -> Vec<String> {
    names(&git(root, &["ls-files", "-o", "-z"]))
}

/// Names of a list with NULs, folders' slashes taken off.
pub fn names(listed: &[u8]) -> Vec<String> {
    let names = listed
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    let names: BTreeSet<String> = names
        .map(|name| text(name).trim_end_matches('/').to_owned())
        .collect();
    names.into_iter().collect()
}

/// A repository with all that untracked files can be beside.
fn repository(options: &[&str]) -> Tree {
    let tree = Tree::new();
    let root = tree.root();
    git(root, &[&["init", "-q"][..], options].concat());
    for name in [
        "a",
        "dir/b",
        "dir/sub/c",
        "dir.x/d",
        "gone/e",
        "was-file",
        "was-link/f",
        "прил",
        "odd\n\"name",
    ] {
        tree.file(name, "x");
    }
    git(root, &["add", "."]);
    fs::remove_dir_all(tree.path("gone")).unwrap();
    fs::remove_file(tree.path("was-file")).unwrap();
    tree.file("was-file/new", "x");
    fs::remove_dir_all(tree.path("was-link")).unwrap();
    symlink("dir", tree.path("was-link")).unwrap();
    tree.file(".gitignore", "*.o\nignored/\n");
    for name in [
        "x.o",
        "ignored/y",
        "dir/new",
        "dir/sub/new2",
        "dir.x.new",
        "неотслеживаемый",
        "gone/again",
    ] {
        tree.file(name, "x");
    }
    symlink("nowhere", tree.path("dangling")).unwrap();
    fs::create_dir(tree.path("empty")).unwrap();
    // Another repository, with and without commits, and a folder that only looks like one.
    for nested in ["nested", "dir/nested"] {
        tree.file(&format!("{nested}/f"), "x");
        git(&tree.path(nested), &["init", "-q"]);
    }
    tree.file("looks/.git/f", "x");
    tree.file("looks/g", "x");
    tree
}

#[test]
fn untracked_files_are_those_that_git_lists() {
    for options in [&[][..], &["--object-format=sha256"]] {
        let tree = repository(options);
        for version in ["2", "3", "4"] {
            git(tree.root(), &["update-index", "--index-version", version]);
            if version == "3" {
                git(tree.root(), &["add", "-N", "dir/new"]);
            }

            let (chosen, lines) = choose(tree.root(), &[], &[], true);

            assert_eq!(chosen, git_says(tree.root()), "{options:?} {version}");
            assert_eq!(lines, [format!("untracked: found {} files", chosen.len())]);
        }
    }
}

#[test]
fn submodules_are_tracked() {
    let tree = Tree::new();
    let lib = Tree::new();
    git(lib.root(), &["init", "-q"]);
    lib.file("f", "x");
    git(lib.root(), &["add", "."]);
    git(lib.root(), &["commit", "-q", "-m", "m"]);
    git(tree.root(), &["init", "-q"]);
    let from = lib.root().display().to_string();
    git(
        tree.root(),
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            &from,
            "lib",
        ],
    );
    tree.file("lib/untracked-there", "x");
    tree.file("new", "x");

    assert_eq!(choose(tree.root(), &[], &[], true).0, git_says(tree.root()));
    // The submodule's own folder: its .git is a file.
    assert_eq!(
        choose(&tree.path("lib"), &[], &[], true).0,
        ["untracked-there"]
    );
}

#[test]
fn rules_apply_to_untracked_files() {
    let tree = Tree::new();
    git(tree.root(), &["init", "-q"]);
    tree.file("a.o", "x");
    tree.file("b", "x");

    let (chosen, lines) = choose(tree.root(), &["*.o"], &["b"], true);

    assert_eq!(chosen, ["a.o"]);
    let wanted = [
        "*.o: found 1 matching artifact files and directories",
        "untracked: found 1 files",
        "b: excluded 1 files",
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn without_untracked_files_or_a_repository_there_is_a_warning() {
    let tree = Tree::new();
    assert_eq!(
        choose(tree.root(), &[], &[], true).1,
        [
            "fatal: not a git repository (or any of the parent directories): .git",
            "untracked: exit status 128"
        ]
    );
    git(tree.root(), &["init", "-q"]);
    assert_eq!(
        choose(tree.root(), &[], &[], true).1,
        ["untracked: no files"]
    );
    tree.file("f", "x");
    fs::write(tree.path(".git/index"), "DIRC nonsense").unwrap();
    let (chosen, lines) = choose(tree.root(), &[], &[], true);
    assert!(
        chosen.is_empty()
            && lines[0].starts_with("fatal: ")
            && lines[1] == "untracked: exit status 128",
        "{lines:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A pattern chooses what it matches, and what is below that.
    #[test]
    fn patterns_choose_what_they_match(
        files in proptest::collection::btree_set("[ab]{1,2}(/[ab]{1,2}){0,2}/f", 1..12),
        pattern in "[ab*?]{1,3}(/[ab*?]{1,3}){0,2}",
    ) {
        let tree = Tree::new();
        for file in &files {
            tree.file(file, "x");
        }
        let matcher = Pattern::new(pattern.as_bytes()).unwrap();
        let all = choose(tree.root(), &["**"], &[], false).0;
        let wanted: Vec<String> = all.into_iter().filter(|path| {
            let parts: Vec<_> = path.match_indices('/').map(|(at, _)| &path[..at]).chain([path.as_str()]).collect();
            match path.as_str() {
                // Nothing but `**` matches the project itself, too.
                "." => pattern.split('/').all(|part| part == "**"),
                _ => parts.iter().any(|part| matcher.matches(part.as_bytes())),
            }
        }).collect();
        // A path without letters of meaning is no pattern.
        prop_assume!(pattern.contains(['*', '?']));
        prop_assert_eq!(choose(tree.root(), &[&pattern], &[], false).0, wanted);
    }
}

/// Nobody would ever write to it.
#[test]
fn a_pipe_in_an_indexs_place_holds_nothing_up() {
    let tree = repository(&[]);
    fs::remove_file(tree.path(".git/index")).unwrap();
    run("mkfifo", &[".git/index"], tree.root());

    let (chosen, lines) = choose(tree.root(), &[], &[], true);

    assert_eq!(chosen, [""; 0]);
    let [line, _] = lines.as_slice() else {
        panic!("{lines:?}")
    };
    assert!(line.contains("index: no regular file"), "{line}");
}
