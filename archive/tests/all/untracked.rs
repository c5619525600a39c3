//! Untracked files beside real git's list of them (gitlab-runner, wire §3.3).

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::Command;

use crate::kit::{Tree, run};
use crate::selection::{choose, git, git_says};

/// The helper's line where git fails.
const FAILED: &str = "untracked: exit status 128";

/// A repository that tracks one file.
fn tracking(file: &str) -> Tree {
    let tree = Tree::new();
    git(tree.root(), &["init", "-q"]);
    tree.file(file, "x");
    git(tree.root(), &["add", "."]);
    tree
}

/// Golden job 206, and what else git does not list or lists as one.
#[test]
fn what_git_lists_is_untracked_and_nothing_else() {
    let tree = tracking("tracked/f");
    for folder in ["e/e", "fresh", "broken/.git", "named", "tracked/deep"] {
        fs::create_dir_all(tree.path(folder)).unwrap();
    }
    run("mkfifo", &["f", "tracked/f2"], tree.root());
    let _socket = UnixListener::bind(tree.path("s")).unwrap();
    tree.file("g", "x");
    tree.link("h", "g");
    tree.link("i", "nope");
    tree.link("to-folder", "tracked");
    git(&tree.path("fresh"), &["init", "-q"]);
    tree.file("fresh/z", "z");
    tree.file("broken/.git/HEAD", "nonsense");
    tree.file("broken/x", "x");
    tree.file("named/.git", "gitdir: nowhere");
    tree.file("named/x", "x");
    let listed = git_says(tree.root());

    let (chosen, lines) = choose(tree.root(), &[], &[], true);

    assert_eq!(chosen, listed);
    assert_eq!(lines, [format!("untracked: found {} files", listed.len())]);
    for out in ["f", "s", "tracked/f2", "named/.git", "fresh/z"] {
        assert!(!chosen.iter().any(|path| path == out), "{out}");
    }
}

#[test]
fn a_repository_above_the_project_counts_as_for_git() {
    let tree = tracking("p/tracked");
    tree.file("p/new", "x");
    tree.file("p/deep/new", "x");
    tree.file("beside", "x");

    let (chosen, _) = choose(&tree.path("p"), &[], &[], true);

    assert_eq!(chosen, ["deep/new", "new"]);
    assert_eq!(chosen, git_says(&tree.path("p")));
}

#[test]
fn a_worktree_of_a_repository_is_read_as_one() {
    let tree = tracking("tracked");
    git(tree.root(), &["commit", "-q", "-m", "m"]);
    git(tree.root(), &["worktree", "add", "-q", "--detach", "other"]);
    tree.file("other/new", "x");

    let (chosen, _) = choose(&tree.path("other"), &[], &[], true);

    assert_eq!(chosen, ["new"]);
}

/// git(1) says the same, where it is asked.
#[test]
fn a_file_in_the_place_of_a_repository_is_told_in_gits_words() {
    let tree = Tree::new();
    for content in [
        "nonsense",
        "gitdir: ",
        "gitdir: nowhere",
        "gitdir: /no/where",
    ] {
        tree.file(".git", content);
        let asked = Command::new("git")
            .args(["ls-files", "-o"])
            .current_dir(tree.root())
            .output()
            .unwrap();
        let said = String::from_utf8(asked.stderr).unwrap();

        let (_, lines) = choose(tree.root(), &[], &[], true);

        if content != "gitdir: " {
            assert_eq!(lines[0], said.trim_end(), "{content}");
        }
        assert_eq!(lines[1], FAILED, "{content}");
    }
}
