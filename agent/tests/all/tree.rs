//! Trees in and out, well-meant and hostile.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::kit::{Rehearsal, WAIT_LIMIT};
use tar::{Builder, EntryType, Header};
use tokio::io::AsyncReadExt;
use vk_agent_client::{AgentError, FailureKind, GetTreeRequest, PutTreeRequest, TreeSummary};

fn to(dest: &str) -> PutTreeRequest {
    PutTreeRequest {
        dest: dest.into(),
        mkdir: true,
        ..PutTreeRequest::default()
    }
}

async fn put(
    rehearsal: &Rehearsal,
    request: PutTreeRequest,
    tar: Vec<u8>,
) -> Result<TreeSummary, AgentError> {
    let putting = rehearsal.client.put_tree(request, tar.as_slice());
    tokio::time::timeout(WAIT_LIMIT, putting).await.unwrap()
}

async fn get(rehearsal: &Rehearsal, path: &str) -> io::Result<(Vec<u8>, Option<TreeSummary>)> {
    let request = GetTreeRequest {
        path: path.to_owned(),
    };
    let mut stream = rehearsal.client.get_tree(request).await.unwrap();
    let mut tar = Vec::new();
    tokio::time::timeout(WAIT_LIMIT, stream.read_to_end(&mut tar))
        .await
        .unwrap()?;
    Ok((tar, stream.summary()))
}

/// An entry of a tar, with its content.
type Entry = (Header, Vec<u8>);

/// An entry as hostile as it gets: the header says what it is told.
fn entry(kind: EntryType, name: &[u8], link: &[u8], content: &[u8]) -> Entry {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(1_000_000_000);
    let raw = header.as_gnu_mut().unwrap();
    raw.name[..name.len()].copy_from_slice(name);
    raw.linkname[..link.len()].copy_from_slice(link);
    header.set_cksum();
    (header, content.to_vec())
}

fn file(name: &str, content: &str) -> Entry {
    entry(EntryType::Regular, name.as_bytes(), b"", content.as_bytes())
}

fn link(name: &str, target: &str) -> Entry {
    entry(EntryType::Symlink, name.as_bytes(), target.as_bytes(), b"")
}

fn archive(entries: &[Entry]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (header, content) in entries {
        tar.append(header, content.as_slice()).unwrap();
    }
    tar.into_inner().unwrap()
}

/// Path, kind, mode, time, content or target of everything below `root`, in order.
fn listing(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let what = if meta.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if meta.is_dir() {
                waiting.push(path.clone());
                format!("{:o} folder", meta.mode())
            } else {
                let content = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                format!("{:o} x{} {content}", meta.mode(), meta.nlink())
            };
            let name = path.strip_prefix(root).unwrap().display().to_string();
            lines.push(format!("{name} @{} {what}", meta.mtime()));
        }
    }
    lines.sort();
    lines
}

/// A folder with one of everything.
fn make_sample(root: &Path) {
    fs::create_dir_all(root.join("a/deep/er")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    fs::write(root.join("a/run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("a/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(root.join("a/deep/er/file"), "x".repeat(300_000)).unwrap();
    fs::write(root.join("a/sei\u{df}e \n'\""), "odd name").unwrap();
    fs::write(root.join("n".repeat(200)), "long name").unwrap();
    let deep = ["d".repeat(90), "e".repeat(90)].join("/");
    fs::create_dir_all(root.join(&deep)).unwrap();
    fs::write(root.join(deep).join("f"), "long path").unwrap();
    fs::hard_link(root.join("a/run.sh"), root.join("empty/again")).unwrap();
    symlink("../no/where", root.join("a/dangling")).unwrap();
    symlink("l".repeat(150), root.join("a/long-target")).unwrap();
    symlink("/etc", root.join("outside")).unwrap();
    fs::write(root.join("secret"), "set").unwrap();
    fs::set_permissions(root.join("secret"), fs::Permissions::from_mode(0o4600)).unwrap();
    fs::set_permissions(root.join("a/deep"), fs::Permissions::from_mode(0o555)).unwrap();
}

#[tokio::test]
async fn a_tree_that_goes_out_and_in_again_is_the_same() {
    let rehearsal = Rehearsal::start().await;
    let (from, dest) = (rehearsal.path("from"), rehearsal.path("new/dest"));
    make_sample(Path::new(&from));

    let (tar, sent) = get(&rehearsal, &from).await.unwrap();
    let taken = put(&rehearsal, to(&dest), tar).await.unwrap();

    assert_eq!(listing(Path::new(&dest)), listing(Path::new(&from)));
    assert_eq!(Some(taken), sent);
    // The folder itself counts.
    assert_eq!(taken.entries, 17);
}

#[tokio::test]
async fn a_single_file_goes_under_its_last_name() {
    let rehearsal = Rehearsal::start().await;
    fs::write(rehearsal.path("report.xml"), "<ok/>").unwrap();

    let (tar, _) = get(&rehearsal, &rehearsal.path("report.xml"))
        .await
        .unwrap();
    let dest = rehearsal.path("dest");
    put(&rehearsal, to(&dest), tar).await.unwrap();

    assert_eq!(
        fs::read_to_string(rehearsal.path("dest/report.xml")).unwrap(),
        "<ok/>"
    );
}

#[tokio::test]
async fn sockets_and_fifos_stay() {
    let rehearsal = Rehearsal::start().await;
    let from = rehearsal.path("from");
    fs::create_dir(&from).unwrap();
    let fifo = Path::new(&from).join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();

    let (_, sent) = get(&rehearsal, &from).await.unwrap();

    assert_eq!(sent.unwrap().entries, 1);
}

#[tokio::test]
async fn what_is_not_there_cannot_be_packed() {
    let rehearsal = Rehearsal::start().await;

    let error = get(&rehearsal, "/no/such/path").await.unwrap_err();

    let inner = error
        .get_ref()
        .unwrap()
        .downcast_ref::<AgentError>()
        .unwrap();
    assert_eq!(inner.kind(), Some(FailureKind::NoSuchPath), "{inner}");
    assert!(inner.to_string().contains("/no/such/path"), "{inner}");
}

#[tokio::test]
async fn nothing_lands_outside_the_destination() {
    let evil: [(&str, Vec<Entry>); 9] = [
        ("dots", vec![file("../pwned", "x")]),
        ("inner dots", vec![file("a/../../pwned", "x")]),
        ("absolute", vec![file("/tmp/vk-agent-pwned", "x")]),
        (
            "behind a link",
            vec![link("out", ".."), file("out/pwned", "x")],
        ),
        (
            "behind two links",
            vec![
                link("one", "two"),
                link("two", "../"),
                file("one/pwned", "x"),
            ],
        ),
        (
            "a folder behind a link",
            vec![
                link("out", ".."),
                entry(EntryType::Directory, b"out/pwned", b"", b""),
            ],
        ),
        (
            "a hard link to the outside",
            vec![entry(EntryType::Link, b"pwned", b"../outside", b"")],
        ),
        (
            "a hard link through a link",
            vec![
                link("out", ".."),
                entry(EntryType::Link, b"pwned", b"out/outside", b""),
            ],
        ),
        (
            "a device",
            vec![entry(EntryType::Block, b"pwned", b"", b"")],
        ),
    ];

    for (what, entries) in evil {
        let rehearsal = Rehearsal::start().await;
        fs::write(rehearsal.path("outside"), "mine").unwrap();
        let dest = rehearsal.path("dest");

        let error = put(&rehearsal, to(&dest), archive(&entries))
            .await
            .unwrap_err();

        assert_eq!(error.kind(), Some(FailureKind::BadTree), "{what}: {error}");
        assert!(!Path::new(&rehearsal.path("pwned")).exists(), "{what}");
        assert!(!Path::new("/tmp/vk-agent-pwned").exists(), "{what}");
        assert!(!Path::new(&rehearsal.path("dest/pwned")).exists(), "{what}");
    }
}

#[tokio::test]
async fn a_file_over_a_link_replaces_the_link() {
    let rehearsal = Rehearsal::start().await;
    fs::write(rehearsal.path("outside"), "mine").unwrap();
    let dest = rehearsal.path("dest");
    let tar = archive(&[link("f", "../outside"), file("f", "theirs")]);

    put(&rehearsal, to(&dest), tar).await.unwrap();

    assert_eq!(
        fs::read_to_string(rehearsal.path("outside")).unwrap(),
        "mine"
    );
    assert_eq!(
        fs::read_to_string(rehearsal.path("dest/f")).unwrap(),
        "theirs"
    );
}

#[tokio::test]
async fn the_last_entry_of_a_name_wins_and_missing_parents_are_made() {
    let rehearsal = Rehearsal::start().await;
    let dest = rehearsal.path("dest");
    let tar = archive(&[
        file("./a/b/c", "first"),
        file("a/b/c", "second"),
        link("l", "a"),
        entry(EntryType::Directory, b"l/", b"", b""),
        file("l/x", "in a folder"),
        entry(EntryType::Link, b"d/e/again", b"a/b/c", b""),
    ]);

    put(&rehearsal, to(&dest), tar).await.unwrap();

    let read = |name: &str| fs::read_to_string(rehearsal.path(name)).unwrap();
    assert_eq!(read("dest/a/b/c"), "second");
    assert_eq!(read("dest/l/x"), "in a folder");
    assert_eq!(read("dest/d/e/again"), "second");
    assert!(!Path::new(&rehearsal.path("dest/a/x")).exists());
}

#[tokio::test]
async fn a_broken_stream_is_told_as_such() {
    let rehearsal = Rehearsal::start().await;
    let whole = archive(&[file("f", &"x".repeat(5_000))]);
    let rubbish: Vec<u8> = (0..4096_u32).map(|at| (at * 7) as u8).collect();

    for tar in [whole[..1_500].to_vec(), rubbish] {
        let dest = rehearsal.path("dest");
        let error = put(&rehearsal, to(&dest), tar).await.unwrap_err();
        assert_eq!(error.kind(), Some(FailureKind::BadTree), "{error}");
    }
}

#[tokio::test]
async fn an_early_failure_does_not_wait_for_the_rest() {
    let rehearsal = Rehearsal::start().await;
    let request = PutTreeRequest {
        mkdir: false,
        ..to(&rehearsal.path("missing"))
    };

    let putting = rehearsal.client.put_tree(request, tokio::io::repeat(0));
    let error = tokio::time::timeout(WAIT_LIMIT, putting)
        .await
        .unwrap()
        .unwrap_err();

    assert_eq!(error.kind(), Some(FailureKind::NoSuchPath), "{error}");
}

#[tokio::test]
async fn wiping_leaves_the_folder_and_nothing_in_it() {
    let rehearsal = Rehearsal::start().await;
    let dest = rehearsal.path("dest");
    make_sample(Path::new(&dest));
    let request = PutTreeRequest {
        wipe: true,
        ..to(&dest)
    };

    put(&rehearsal, request, archive(&[file("only", "x")]))
        .await
        .unwrap();

    let lines = listing(Path::new(&dest));
    assert_eq!(lines, ["only @1000000000 100644 x1 x"]);
}

#[tokio::test]
async fn a_tree_as_deep_as_a_path_goes_is_made_sent_and_wiped() {
    let rehearsal = Rehearsal::start().await;
    let (dest, deep) = (rehearsal.path("dest"), "d/".repeat(1_900));
    let to_deep = to(&rehearsal.path(&format!("dest/{deep}")));

    put(&rehearsal, to_deep, archive(&[file("f", "x")]))
        .await
        .unwrap();
    let (_, sent) = get(&rehearsal, &dest).await.unwrap();
    let request = PutTreeRequest {
        wipe: true,
        ..to(&dest)
    };
    put(&rehearsal, request, archive(&[])).await.unwrap();

    assert_eq!(sent.unwrap().entries, 1_902);
    assert_eq!(listing(Path::new(&dest)), [""; 0]);
}

#[tokio::test]
async fn an_owner_gets_all_that_is_made() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can give files away");
        return;
    }
    let rehearsal = Rehearsal::start().await;
    let dest = rehearsal.path("made/dest");
    let request = PutTreeRequest {
        owner: Some("4711:4712".into()),
        ..to(&dest)
    };
    let tar = archive(&[file("a/f", "x"), link("l", "a")]);

    put(&rehearsal, request, tar).await.unwrap();

    for name in [
        "made",
        "made/dest",
        "made/dest/a",
        "made/dest/a/f",
        "made/dest/l",
    ] {
        let meta = fs::symlink_metadata(rehearsal.path(name)).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (4711, 4712), "{name}");
    }
}

#[tokio::test]
async fn unknown_owners_and_relative_folders_are_refused() {
    let rehearsal = Rehearsal::start().await;
    let nobody = PutTreeRequest {
        owner: Some("nobody-of-this-name".into()),
        ..to(&rehearsal.path("dest"))
    };

    let unknown = put(&rehearsal, nobody, archive(&[])).await.unwrap_err();
    let relative = put(&rehearsal, to("dest"), archive(&[])).await.unwrap_err();

    assert_eq!(unknown.kind(), Some(FailureKind::UnknownUser), "{unknown}");
    assert_eq!(relative.kind(), Some(FailureKind::BadRequest), "{relative}");
}
