//! Repositories and jobs that mean harm.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use vk_hub_proto::job::{Failure, Sources};
use vk_sources::{Checkout, CheckoutError, CheckoutRequest, Submodules};
use vk_tests::git_http::{GitServer, Repos, commit_all, git, write};

use super::kit::{Bench, Flags, TOKEN, request, sources, unpack, words};

const SUBMODULES: Submodules<'static> = Submodules {
    recursive: true,
    depth: 0,
    paths: &[],
    update_flags: &[],
    force_https: None,
};

/// A commit that no repository here has.
const ANY_COMMIT: &str = "a581ad24be5b6378665a7e22793b91424f336c76";

/// A repository in the making, and a file that must never come to be.
struct Trap {
    tree: TempDir,
    marker: PathBuf,
}

impl Trap {
    fn new() -> Self {
        let tree = tempfile::tempdir().unwrap();
        git(tree.path(), &["init", "--quiet"], &[]);
        let marker = std::env::temp_dir().join(format!(
            "marker-{}",
            tree.path().file_name().unwrap().to_string_lossy()
        ));
        Self { tree, marker }
    }

    fn path(&self) -> &Path {
        self.tree.path()
    }

    fn touch(&self) -> String {
        format!("touch {}", self.marker.display())
    }

    fn serve(&self, sha: &str) -> (GitServer, Sources) {
        let repos = Repos::new();
        repos.mirror(self.path(), "web");
        let server = repos.serve(TOKEN);
        let sources = Sources {
            sha: sha.to_owned(),
            depth: 0,
            ..sources(&server.repo_url("web"))
        };
        (server, sources)
    }

    /// Adds a submodule as only a hand-written `.gitmodules` can.
    fn submodule(&self, text: &str, path: &str, commit: &str) -> String {
        write(&self.path().join(".gitmodules"), text.as_bytes());
        git(self.path(), &["add", ".gitmodules"], &[]);
        let entry = format!("160000,{commit},{path}");
        git(
            self.path(),
            &["update-index", "--add", "--cacheinfo", &entry],
            &[],
        );
        git(self.path(), &["commit", "--quiet", "-m", "trap"], &[]);
        git(self.path(), &["rev-parse", "HEAD"], &[])
    }

    /// A commit of one entry that git itself would not add.
    fn entry(&self, mode: &str, name: &[u8], blob: &str) -> String {
        let blob_file = self.path().join("blob");
        write(&blob_file, blob.as_bytes());
        let blob = git(self.path(), &["hash-object", "-w"], &[&blob_file]);
        let mut raw = format!("{mode} ").into_bytes();
        raw.extend_from_slice(name);
        raw.push(0);
        raw.extend(
            (0..blob.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&blob[at..at + 2], 16).unwrap()),
        );
        let tree_file = self.path().join("tree");
        write(&tree_file, &raw);
        let tree = git(
            self.path(),
            &["hash-object", "-w", "--literally", "-t", "tree"],
            &[&tree_file],
        );
        let commit = git(self.path(), &["commit-tree", "-m", "trap", &tree], &[]);
        git(
            self.path(),
            &["update-ref", "refs/heads/main", &commit],
            &[],
        );
        commit
    }

    async fn spring(
        &self,
        sha: &str,
        submodules: Option<Submodules<'_>>,
    ) -> (Bench, Result<Checkout, CheckoutError>) {
        let (_server, sources) = self.serve(sha);
        let mut bench = Bench::new();
        let flags = Flags::default();
        let result = bench
            .run(CheckoutRequest {
                submodules,
                ..request(&sources, &flags)
            })
            .await;
        assert!(!self.marker.exists(), "{:#?}", bench.shown());
        (bench, result)
    }
}

#[tokio::test]
async fn filters_named_by_attributes_do_not_run() {
    let trap = Trap::new();
    write(
        &trap.path().join(".gitattributes"),
        b"* filter=evil diff=evil merge=evil\n",
    );
    write(
        &trap.path().join(".gitconfig"),
        format!("[filter \"evil\"]\n\tsmudge = {}\n", trap.touch()).as_bytes(),
    );
    write(&trap.path().join("a"), b"a");
    let sha = commit_all(trap.path(), "trap");

    let (_, result) = trap.spring(&sha, None).await;

    result.unwrap();
}

#[tokio::test]
async fn entries_inside_dot_git_are_not_written() {
    for name in [&b".git"[..], b".GIT", b"git~1", b".git\xe2\x80\x8c"] {
        let trap = Trap::new();
        let sha = trap.entry("100644", name, "evil");

        let (_, result) = trap.spring(&sha, None).await;

        // git knows the last as a disguise only on macOS: there it stays a plain name.
        if name != b".git\xe2\x80\x8c" {
            assert!(result.is_err(), "{}", String::from_utf8_lossy(name));
        }
    }
}

#[tokio::test]
async fn submodules_cannot_run_programs_or_reach_the_host_s_files() {
    let secret = Trap::new();
    write(&secret.path().join("s"), b"of the host");
    let commit = commit_all(secret.path(), "one");
    let local = secret.path().display().to_string();
    for url in [
        "ext::TOUCH",
        "--upload-pack=TOUCH",
        "-u./x",
        "file://LOCAL",
        "LOCAL",
        "LOCAL/.git",
        "ssh://-oProxyCommand=TOUCH/x",
        "git://127.0.0.1/x",
        "ftp://127.0.0.1/x",
        "fd::0",
    ] {
        let trap = Trap::new();
        let url = url.replace("TOUCH", &trap.touch()).replace("LOCAL", &local);
        let text = format!("[submodule \"x\"]\n\tpath = x\n\turl = {url}\n");
        let sha = trap.submodule(&text, "x", &commit);

        let (bench, result) = trap.spring(&sha, Some(SUBMODULES)).await;

        let error = result.expect_err(&url);
        assert_eq!(error.failure(), Failure::ExternalDependency);
        assert!(!bench.shown().join("\n").contains("of the host"));
    }
}

#[tokio::test]
async fn submodules_cannot_leave_their_place() {
    for (name, path) in [
        ("../../evil", "x"),
        ("x/../../../evil", "x"),
        ("-x", "x"),
        ("x", "-x"),
        (".git", "x"),
        ("x/.git", "x"),
    ] {
        let trap = Trap::new();
        let text = format!(
            "[submodule \"{name}\"]\n\tpath = {path}\n\turl = ./web.git\n\tupdate = !{}\n",
            trap.touch()
        );
        let sha = trap.submodule(&text, path, ANY_COMMIT);

        let (bench, _) = trap.spring(&sha, Some(SUBMODULES)).await;

        let strays: Vec<_> = std::fs::read_dir(bench.work.path()).unwrap().collect();
        // At most the checkout's own folder, gone if it failed.
        assert!(strays.len() <= 1, "{strays:?}");
    }
}

#[tokio::test]
async fn submodules_at_dot_git_are_not_brought() {
    for path in [".git", ".GIT", "git~1"] {
        let trap = Trap::new();
        let text = format!("[submodule \"x\"]\n\tpath = {path}\n\turl = ./web.git\n");
        let blob_file = trap.path().join("blob");
        write(&blob_file, text.as_bytes());
        let blob = git(trap.path(), &["hash-object", "-w"], &[&blob_file]);
        let mut raw = Vec::new();
        for (mode, name, hash) in [
            ("160000", path, ANY_COMMIT),
            ("100644", ".gitmodules", &blob),
        ] {
            raw.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            raw.extend(
                (0..40)
                    .step_by(2)
                    .map(|at| u8::from_str_radix(&hash[at..at + 2], 16).unwrap()),
            );
        }
        let file = trap.path().join("tree");
        write(&file, &raw);
        let options = ["hash-object", "-w", "--literally", "-t", "tree"];
        let tree = git(trap.path(), &options, &[&file]);
        let sha = git(trap.path(), &["commit-tree", "-m", "trap", &tree], &[]);
        git(trap.path(), &["update-ref", "refs/heads/main", &sha], &[]);

        let (_, result) = trap.spring(&sha, Some(SUBMODULES)).await;

        assert!(result.is_err(), "{path}");
    }
}

#[tokio::test]
async fn a_submodule_s_update_command_does_not_run() {
    let trap = Trap::new();
    let text = format!(
        "[submodule \"x\"]\n\tpath = x\n\turl = ./web.git\n\tupdate = !{}\n",
        trap.touch()
    );
    let sha = trap.submodule(&text, "x", ANY_COMMIT);

    let (_, result) = trap.spring(&sha, Some(SUBMODULES)).await;

    result.unwrap_err();
}

#[tokio::test]
async fn a_link_for_a_folder_cannot_be_written_through() {
    let outside = tempfile::tempdir().unwrap();
    let trap = Trap::new();
    let link = outside.path().display().to_string();
    let blob_file = trap.path().join("blob");
    write(&blob_file, b"evil");
    let evil = git(trap.path(), &["hash-object", "-w"], &[&blob_file]);
    write(&blob_file, link.as_bytes());
    let target = git(trap.path(), &["hash-object", "-w"], &[&blob_file]);
    // `a` is a link, then `a/b` a file below it.
    let tree_of = |entries: &[(&str, &str, &str)]| {
        let mut raw = Vec::new();
        for (mode, name, hash) in entries {
            raw.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            raw.extend(
                (0..40)
                    .step_by(2)
                    .map(|at| u8::from_str_radix(&hash[at..at + 2], 16).unwrap()),
            );
        }
        let file = trap.path().join("tree");
        write(&file, &raw);
        let options = ["hash-object", "-w", "--literally", "-t", "tree"];
        git(trap.path(), &options, &[&file])
    };
    let inner = tree_of(&[("100644", "b", &evil)]);
    let outer = tree_of(&[("120000", "a", &target), ("40000", "a", &inner)]);
    let sha = git(trap.path(), &["commit-tree", "-m", "trap", &outer], &[]);
    git(trap.path(), &["update-ref", "refs/heads/main", &sha], &[]);

    let _ = trap.spring(&sha, None).await;

    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn odd_names_reach_the_guest_as_they_are() {
    let trap = Trap::new();
    let long = "n".repeat(255);
    let deep = ["d".repeat(200), "e".repeat(200), "f".to_owned()].join("/");
    let names: [&[u8]; 8] = [
        b"-rf",
        b"--upload-pack=x",
        b"line\nbreak",
        b"\xff\xfe",
        b" ",
        b"\"quoted\\",
        long.as_bytes(),
        deep.as_bytes(),
    ];
    for name in names {
        write(&trap.path().join(OsStr::from_bytes(name)), name);
    }
    std::os::unix::fs::symlink("/etc/passwd", trap.path().join("link")).unwrap();
    std::os::unix::fs::symlink("a//b/./../c", trap.path().join("odd-link")).unwrap();
    std::os::unix::fs::symlink("t".repeat(300), trap.path().join("long-link")).unwrap();
    let sha = commit_all(trap.path(), "odd");

    let (_bench, result) = trap.spring(&sha, None).await;
    let guest = unpack(result.unwrap().project_dir()).await;

    for name in names {
        let content = std::fs::read(guest.path().join(OsStr::from_bytes(name))).unwrap();
        assert_eq!(content, name);
    }
    let target = |name: &str| std::fs::read_link(guest.path().join(name)).unwrap();
    assert_eq!(target("link"), Path::new("/etc/passwd"));
    assert_eq!(target("odd-link").as_os_str(), "a//b/./../c");
    assert_eq!(target("long-link").as_os_str(), "t".repeat(300).as_str());
    assert_eq!(git(guest.path(), &["status", "--short"], &[]), "");
}

#[tokio::test]
async fn flags_that_would_act_on_the_host_are_refused_before_anything_runs() {
    let trap = Trap::new();
    write(&trap.path().join("a"), b"a");
    let sha = commit_all(trap.path(), "one");
    let (server, sources) = trap.serve(&sha);
    let upload_pack = words(&format!("--upload-pack={}", trap.touch().replace(' ', "")));
    let reference = words("--reference=/");
    let default = Flags::default();
    let refused = [
        CheckoutRequest {
            fetch_flags: &upload_pack,
            ..request(&sources, &default)
        },
        CheckoutRequest {
            clean_flags: Some(&upload_pack),
            ..request(&sources, &default)
        },
        CheckoutRequest {
            submodules: Some(Submodules {
                update_flags: &reference,
                ..SUBMODULES
            }),
            ..request(&sources, &default)
        },
    ];
    for request in refused {
        let mut bench = Bench::new();

        let error = bench.run(request).await.unwrap_err();

        assert!(
            matches!(error, CheckoutError::RefusedFlag { .. }),
            "{error}"
        );
        assert_eq!(error.failure(), Failure::Configuration);
        assert!(bench.lines.is_empty());
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_token_with_a_line_break_is_refused_and_not_shown() {
    let mut bench = Bench::new();
    let (sources, flags) = (sources("http://127.0.0.1:1/x.git"), Flags::default());

    let error = bench
        .run(CheckoutRequest {
            token: "s3cr3t\nurl=http://evil/",
            ..request(&sources, &flags)
        })
        .await
        .unwrap_err();

    assert!(matches!(error, CheckoutError::BadToken));
    assert!(!format!("{error} {error:?}").contains("s3cr3t"));
}

#[tokio::test]
async fn a_tree_that_names_itself_over_and_over_is_refused() {
    let trap = Trap::new();
    let blob_file = trap.path().join("blob");
    write(&blob_file, b"boom");
    let mut entry = git(trap.path(), &["hash-object", "-w"], &[&blob_file]);
    let mut mode = "100644";
    // 10^9 files.
    for _ in 0..9 {
        let raw_hash: Vec<u8> = (0..40)
            .step_by(2)
            .map(|at| u8::from_str_radix(&entry[at..at + 2], 16).unwrap())
            .collect();
        let mut raw = Vec::new();
        for name in 0..10 {
            raw.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            raw.extend_from_slice(&raw_hash);
        }
        let file = trap.path().join("tree");
        write(&file, &raw);
        entry = git(trap.path(), &["hash-object", "-w", "-t", "tree"], &[&file]);
        mode = "40000";
    }
    let sha = git(trap.path(), &["commit-tree", "-m", "bomb", &entry], &[]);
    git(trap.path(), &["update-ref", "refs/heads/main", &sha], &[]);

    let (_server, sources) = trap.serve(&sha);
    let mut bench = Bench::new();
    let flags = Flags::default();
    let error = bench
        .run(CheckoutRequest {
            max_tree_bytes: 1 << 20,
            ..request(&sources, &flags)
        })
        .await
        .unwrap_err();

    assert!(
        matches!(error, CheckoutError::TreeTooLarge { .. }),
        "{error}"
    );
}
