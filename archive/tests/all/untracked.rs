//! Untracked files beside real git's list of them (gitlab-runner, wire §3.3).

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::kit::{Tree, run, text};
use crate::selection::{asking, choose, git, git_says, names};

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

/// Makes a repository odd.
type Change = fn(&Tree);

/// What git says last and what it lists, in a folder.
fn git_fails_or_lists(folder: &Path) -> (String, Vec<String>) {
    let asked = asking(folder, &["ls-files", "-o", "-z"]).output().unwrap();
    let said = text(&asked.stderr);
    let fatal = said.find("fatal: ").map_or("", |at| &said[at..]);
    let fatal = fatal.strip_suffix('\n').unwrap_or(fatal);
    (fatal.to_owned(), names(&asked.stdout))
}

/// The same of vk.
fn vk_fails_or_lists(folder: &Path) -> (String, Vec<String>) {
    let (chosen, mut lines) = choose(folder, &[], &[], true);
    let last = lines.pop().unwrap();
    assert_eq!(last == FAILED, !lines.is_empty(), "{last}: {lines:?}");
    (lines.join("\n"), chosen)
}

fn config(tree: &Tree, text: &str) {
    tree.file(".git/config", text);
}

fn instead(tree: &Tree, name: &str, content: &str) {
    let path = tree.path(name);
    if path.is_dir() {
        fs::remove_dir_all(&path).unwrap();
    }
    tree.file(name, content);
}

fn head_link(tree: &Tree, target: &str) {
    fs::remove_file(tree.path(".git/HEAD")).unwrap();
    tree.link(".git/HEAD", target);
}

fn link_to_own(tree: &Tree, name: &str) {
    tree.file(&format!("{name}/n"), "x");
    tree.link(&format!("{name}/.git"), "../.git");
}

fn gitlink(tree: &Tree) {
    let entry = format!("160000,{},lib", "1".repeat(40));
    git(
        tree.root(),
        &["update-index", "--add", "--cacheinfo", &entry],
    );
    tree.file("lib/deep/n", "x");
}

fn bare_above(tree: &Tree) {
    fs::remove_dir_all(tree.path(".git")).unwrap();
    git(tree.root(), &["init", "-q", "--bare"]);
}

fn work_tree(tree: &Tree, path: &str) {
    git(tree.root(), &["config", "core.worktree", path]);
}

fn own_in(folder: &str, tree: &Tree) {
    fs::rename(tree.path(".git"), tree.path(folder)).unwrap();
    tree.file(".git", format!("gitdir: {folder}"));
}

/// A repository that tracks `tracked` and not `new` and `p/new` is changed; the folder is where both are asked.
const ROWS: &[(&str, &str, Change)] = &[
    ("bare", "", |tree| {
        git(tree.root(), &["config", "core.bare", "true"]);
    }),
    ("bare, below", "p", |tree| {
        git(tree.root(), &["config", "core.bare", "true"]);
    }),
    ("in .git", ".git", |_| {}),
    ("below .git", ".git/refs/heads", |_| {}),
    ("in what only looks like .git", "p/.git/q", |tree| {
        tree.file("p/.git/q/new", "x");
    }),
    ("in .git, with a work tree above", ".git/refs", |tree| {
        work_tree(tree, "..");
        tree.file(".git/refs/new", "x");
    }),
    ("below a bare repository", "p", bare_above),
    ("in a bare repository", "", bare_above),
    ("in a bare repository, broken", "p", |tree| {
        bare_above(tree);
        tree.file("config", "[core\n");
    }),
    ("commondir empty", "", |tree| {
        tree.file(".git/commondir", "");
    }),
    ("commondir a folder", "", |tree| {
        fs::create_dir(tree.path(".git/commondir")).unwrap();
    }),
    ("commondir nowhere", "", |tree| {
        tree.file(".git/commondir", "nowhere");
    }),
    ("commondir with a blank", "", |tree| {
        tree.file(".git/commondir", ". \n");
    }),
    ("commondir here", "", |tree| {
        tree.file(".git/commondir", ".\r\n\n");
    }),
    ("commondir here, bare", "", |tree| {
        git(tree.root(), &["config", "core.bare", "true"]);
        tree.file(".git/commondir", ".");
    }),
    ("commondir here, broken", "", |tree| {
        config(tree, "[core]\nx y");
        tree.file(".git/commondir", ".");
    }),
    ("HEAD a link", "", |tree| head_link(tree, "refs")),
    ("HEAD an old link", "", |tree| {
        head_link(tree, "refs/heads/main");
    }),
    ("HEAD a link to a file", "", |tree| {
        tree.file(".git/other", "ref: refs/heads/main");
        head_link(tree, "other");
    }),
    ("HEAD far off", "", |tree| {
        tree.file(".git/HEAD", format!("ref:{}refs/heads/x", " ".repeat(300)));
    }),
    ("HEAD a commit", "", |tree| {
        tree.file(".git/HEAD", "a".repeat(40));
    }),
    ("HEAD too short", "", |tree| {
        tree.file(".git/HEAD", "a".repeat(39));
    }),
    ("refs a file", "", |tree| instead(tree, ".git/refs", "")),
    ("objects a file", "", |tree| {
        instead(tree, ".git/objects", "");
    }),
    ("a link to the own .git", "", |tree| link_to_own(tree, "a")),
    ("below a link to the own .git", "a", |tree| {
        link_to_own(tree, "a");
    }),
    ("a file that names the own .git", "", |tree| {
        tree.file("a/n", "x");
        tree.file("a/.git", "gitdir: ../.git");
    }),
    ("above a submodule", "", gitlink),
    ("in a submodule", "lib", gitlink),
    ("below a submodule", "lib/deep", gitlink),
    ("work tree below, from there", "p", |tree| {
        work_tree(tree, "../p");
    }),
    ("work tree here", "p", |tree| work_tree(tree, "..")),
    ("work tree here, absolute", "p", |tree| {
        work_tree(tree, tree.root().to_str().unwrap());
    }),
    ("work tree without a name", "", |tree| work_tree(tree, "")),
    ("work tree a file", "", |tree| work_tree(tree, "../new")),
    ("work tree nowhere", "", |tree| work_tree(tree, "../nope")),
    ("work tree nowhere, absolute", "", |tree| {
        work_tree(tree, "/no-such-folder");
    }),
    ("work tree of a bare repository", "", |tree| {
        git(tree.root(), &["config", "core.bare", "true"]);
        work_tree(tree, "..");
    }),
    ("own work tree setting", "", |tree| {
        git(
            tree.root(),
            &["config", "extensions.worktreeConfig", "true"],
        );
        tree.file(".git/config.worktree", "[core]\nbare");
    }),
    ("own work tree setting, broken", "", |tree| {
        git(
            tree.root(),
            &["config", "extensions.worktreeConfig", "true"],
        );
        tree.file(".git/config.worktree", "[core");
    }),
    ("elsewhere", "p", |tree| own_in("own", tree)),
    ("elsewhere, broken", "p", |tree| {
        own_in("own", tree);
        tree.file("own/config", "\n[a b]");
    }),
    ("no configuration", "", |tree| {
        fs::remove_file(tree.path(".git/config")).unwrap();
    }),
    (
        "a folder that is too large to name a repository",
        "",
        |tree| {
            tree.file("p/.git", vec![b'x'; (1 << 20) + 1]);
        },
    ),
];

/// git(1) does the same in each of these folders: its line and its list.
#[test]
fn an_odd_repository_is_to_vk_what_it_is_to_git() {
    for (name, folder, change) in ROWS {
        let tree = tracking("tracked");
        tree.file("new", "x");
        tree.file("p/new", "x");
        change(&tree);
        let folder = tree.path(folder);

        assert_eq!(
            vk_fails_or_lists(&folder),
            git_fails_or_lists(&folder),
            "{name}"
        );
    }
}

/// git(1) says the same of each of these files.
#[test]
fn an_odd_configuration_is_to_vk_what_it_is_to_git() {
    let first = "[core]\nrepositoryformatversion = 1\n[extensions]\n";
    let mut texts: Vec<String> = [
        "",
        "[core",
        "[core]\nx y",
        "[core]\nx y\n",
        "[core]\n=3",
        "[core]\n\tx = \"a",
        "[core]\n\tx = \"a\n",
        "[core]\n x = \\q",
        "[a \"b]\n",
        "[a\n",
        "[a \n",
        "[a \"b\\\n",
        "[a b]",
        "[a \"b\" ]",
        "[a \"b\\x\"]\nc=1",
        "[]\nx=1",
        "[a_b]",
        "[core]\nx=a\\",
        "[core]\nx=\"a\\\nb\"",
        "[core]\nx_1=1",
        "[core]\nx-1=1",
        "[core]\n9=1",
        "\u{1}",
        "\u{feff}[core]\nx=1\n!",
        "# c\n; d\n[a.b]\nc=1 # x\\\n!",
        "[core]\r\nx=1\r\n\r\ny\r",
        "[core] bare = maybe",
        "[core]\nbare=\n!",
        "[core]\nworktree",
        "[core]\nrepositoryformatversion",
        "[core]\nrepositoryformatversion=x",
        "[core]\nrepositoryformatversion=1kb",
        "[core]\nrepositoryformatversion=99999999999",
        "[core]\nrepositoryformatversion=7",
        "[core]\nrepositoryformatversion=0x2",
        "[core]\nrepositoryformatversion=-1\nbare=true",
        "[core]\nRepositoryFormatVersion = \"0\" ; one\nbare = on",
        "[core]\nrepositoryformatversion=0\nbare = 0k",
        "[core]\nbare=true",
        "[extensions]\nfoo=1\nobjectformat=sha256",
        "[core]\nrepositoryformatversion=0\n[extensions]\nfoo=1",
        "[core]\nrepositoryformatversion=0\n[extensions]\nobjectformat=sha1",
        "[core]\nrepositoryformatversion=0\n[extensions]\nobjectformat=sha1\nnoop-v1",
    ]
    .map(str::to_owned)
    .into();
    texts.extend(
        [
            "foo=1",
            "foo=1\n[Extensions \"Bar\"]\nbaz=2",
            "objectformat=sha9",
            "objectformat=SHA1",
            "objectformat",
            "objectformat=sha1",
            "preciousobjects=x",
            "noop=x\nnoop-v1=x\npartialclone=x\npreciousobjects=1\nworktreeconfig=0",
        ]
        .map(|text| format!("{first}{text}")),
    );
    for text in texts {
        let tree = tracking("tracked");
        tree.file("p/new", "x");
        config(&tree, &text);
        let folder = tree.path("p");

        assert_eq!(
            vk_fails_or_lists(&folder),
            git_fails_or_lists(&folder),
            "{text:?}"
        );
    }
}

/// git(1) says the same of each of these files, as long as they name no line's end.
#[test]
fn a_file_in_the_place_of_a_repository_is_told_in_gits_words() {
    let tree = Tree::new();
    fs::create_dir(tree.path("p")).unwrap();
    let large = [b'x'; 1 << 20];
    let long = [&b"gitdir: "[..], &[b'a'; 70_000]].concat();
    for content in [
        b"nonsense",
        &b""[..],
        b"gitdir:",
        b"gitdir: ",
        b"gitdir: \r\n\n",
        b"gitdir: nowhere",
        b"gitdir: nowhere \n",
        b"gitdir: no\0where",
        b"gitdir: /no/where\r\n",
        b"gitdir: \x1b[31m\x01\x7f\t",
        &large,
        &[&large[..], b"x"].concat(),
        &long,
    ] {
        tree.file(".git", content);
        for folder in ["", "p"] {
            let folder = tree.path(folder);

            assert_eq!(
                vk_fails_or_lists(&folder),
                git_fails_or_lists(&folder),
                "{:?}",
                text(&content[..content.len().min(40)])
            );
        }
    }
    tree.file(".git", "gitdir: no\nfatal: where");
    let (said, _) = vk_fails_or_lists(&tree.path("p"));
    assert!(said.ends_with("/no?fatal: where"), "{said}");
}

/// git would list the files there, which are none of the project.
#[test]
fn a_work_tree_without_the_project_is_refused() {
    let tree = tracking("tracked");
    let there = Tree::new();
    there.file("tracked", "x");
    tree.file("new", "x");
    work_tree(&tree, there.root().to_str().unwrap());

    let (said, chosen) = vk_fails_or_lists(tree.root());

    let top = fs::canonicalize(there.root()).unwrap();
    let wanted = format!(
        "fatal: the project lies outside of core.worktree, which is {}",
        top.display()
    );
    assert_eq!((said, chosen), (wanted, Vec::new()));
}

/// git waits for a pipe's other end.
#[test]
fn pipes_and_devices_in_a_repository_are_not_opened() {
    for (name, wanted) in [
        (".git/HEAD", "fatal: not a git repository"),
        (".git/config", "fatal: unable to access '.git/config'"),
        (".git/commondir", "fatal: failed to read"),
        (".git/index", "fatal: cannot read"),
    ] {
        for device in [false, true] {
            let tree = tracking("tracked");
            tree.file("p/new", "x");
            let _ = fs::remove_file(tree.path(name));
            match device {
                true => tree.link(name, "/dev/null"),
                false => drop(run("mkfifo", &[name], tree.root())),
            }

            let (said, chosen) = vk_fails_or_lists(tree.root());

            assert!(said.starts_with(wanted), "{name}: {said}");
            assert_eq!(chosen, [""; 0], "{name}");
        }
    }
    let tree = tracking("tracked");
    tree.file("p/new", "x");
    run("mkfifo", &["p/.git"], tree.root());
    assert_eq!(choose(tree.root(), &[], &[], true).0, ["p/new"]);
    assert_eq!(choose(&tree.path("p"), &[], &[], true).0, ["new"]);
}
