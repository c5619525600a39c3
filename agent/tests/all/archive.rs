//! Archives out of and into a rehearsed agent, through the driver's client.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::kit::{Rehearsal, WAIT_LIMIT};
use vk_agent_client::{
    AgentError, ArchiveEvent, ArchiveFormat, ArchiveRequest, ArchiveSummary, ExtractRequest,
    ExtractSummary, FailureKind, Severity,
};

/// The archive's bytes, the lines for the trace, the summary.
type Archived = (Vec<u8>, Vec<String>, ArchiveSummary);

async fn archive(rehearsal: &Rehearsal, request: ArchiveRequest) -> Result<Archived, AgentError> {
    let archiving = async {
        let mut stream = rehearsal.client.archive(request).await?;
        let (mut bytes, mut lines) = (Vec::new(), Vec::new());
        while let Some(event) = stream.next().await? {
            match event {
                ArchiveEvent::Data(data) => bytes.extend(data),
                ArchiveEvent::Line(line) => {
                    lines.push(format!("{:?} {}", line.severity, line.text));
                }
            }
        }
        Ok((bytes, lines, stream.summary().unwrap()))
    };
    tokio::time::timeout(WAIT_LIMIT, archiving).await.unwrap()
}

async fn extract(
    rehearsal: &Rehearsal,
    request: ExtractRequest,
    bytes: &[u8],
) -> Result<ExtractSummary, AgentError> {
    let extracting = rehearsal.client.extract(request, bytes, |_| {});
    tokio::time::timeout(WAIT_LIMIT, extracting).await.unwrap()
}

fn of(root: &str, paths: &[&str], format: ArchiveFormat) -> ArchiveRequest {
    ArchiveRequest {
        root: root.to_owned(),
        paths: paths.iter().map(|&path| path.to_owned()).collect(),
        format,
        ..ArchiveRequest::default()
    }
}

fn into(dest: &str) -> ExtractRequest {
    fs::create_dir_all(dest).unwrap();
    ExtractRequest {
        dest: dest.to_owned(),
        max_archive_bytes: 100 << 20,
        max_entries: 10_000,
        max_bytes: 100 << 20,
        ..ExtractRequest::default()
    }
}

/// What golden job 39 makes.
fn make_project(root: &Path) {
    fs::create_dir_all(root.join("out/deep")).unwrap();
    fs::create_dir(root.join("out/empty")).unwrap();
    fs::create_dir(root.join("src")).unwrap();
    fs::write(root.join("out/a.txt"), "a\n").unwrap();
    fs::set_permissions(root.join("out/a.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(root.join("out/deep/b.txt"), "b\n").unwrap();
    fs::write(root.join("out/deep/c.tmp"), "c\n").unwrap();
    symlink("a.txt", root.join("out/link")).unwrap();
    let numbers: String = (0..500_000).map(|number| format!("{number:05} ")).collect();
    fs::write(root.join("src/main.c"), &numbers[..3_000_000]).unwrap();
}

fn listing(root: &Path) -> String {
    let output = Command::new("find")
        .args([".", "-mindepth", "1", "-printf", "%p %m %Ts %y %l\n"])
        .current_dir(root)
        .output()
        .unwrap();
    let mut lines: Vec<_> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines.join("\n")
}

#[tokio::test]
async fn golden_39_is_archived_with_the_runners_lines_and_opened_again() {
    for format in [
        ArchiveFormat::Zip,
        ArchiveFormat::ZipZstd,
        ArchiveFormat::TarZstd,
    ] {
        let rehearsal = Rehearsal::start().await;
        let root = rehearsal.path("project");
        make_project(Path::new(&root));
        let request = ArchiveRequest {
            exclude: vec!["out/**/*.tmp".to_owned()],
            level: "fast".to_owned(),
            ..of(&root, &["out/", "src/**/*.c"], format)
        };

        let (bytes, lines, summary) = archive(&rehearsal, request).await.unwrap();

        let wanted = [
            "Info out/: found 6 matching artifact files and directories",
            "Info src/**/*.c: found 1 matching artifact files and directories",
            "Info out/**/*.tmp: excluded 1 files",
        ];
        assert_eq!(lines, wanted, "{format:?}");
        assert_eq!(
            (summary.entries, summary.archive_bytes),
            (7, bytes.len() as u64)
        );
        let dest = rehearsal.path("again");
        let opened = extract(&rehearsal, into(&dest), &bytes).await.unwrap();
        assert_eq!((opened.entries, opened.bytes), (7, summary.bytes));
        fs::remove_file(Path::new(&root).join("out/deep/c.tmp")).unwrap();
        // The one folder that was not chosen.
        let drop_src = |listing: String| -> Vec<String> {
            let lines = listing
                .lines()
                .filter(|line| !line.starts_with("./src ") && !line.starts_with("./out/deep "));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(
            drop_src(listing(Path::new(&dest))),
            drop_src(listing(Path::new(&root))),
            "{format:?}"
        );
    }
}

#[tokio::test]
async fn nothing_that_matches_is_no_archive_and_no_failure() {
    let rehearsal = Rehearsal::start().await;
    let root = rehearsal.path("project");
    fs::create_dir(&root).unwrap();
    let request = of(&root, &["nope/", "/tmp/outside-file"], ArchiveFormat::Zip);

    let (bytes, lines, summary) = archive(&rehearsal, request).await.unwrap();

    assert_eq!((bytes.len(), summary), (0, ArchiveSummary::default()));
    let wanted = [
        format!(
            "Warning nope/: no matching files. Ensure that the artifact path is relative to the \
             working directory ({root})"
        ),
        "Warning processPath: artifact path is not a subpath of project directory: \
         /tmp/outside-file"
            .to_owned(),
    ];
    assert_eq!(lines, wanted);
}

/// gitlab-runner, wire §3.4.4 and wire §3.4.5.
#[tokio::test]
async fn what_a_format_cannot_hold_is_said_in_the_runners_words() {
    let rehearsal = Rehearsal::start().await;
    let root = rehearsal.path("project");
    make_project(Path::new(&root));
    for (format, paths, wanted) in [
        (
            ArchiveFormat::Raw,
            ["out/a.txt", "src/main.c"],
            "only one file can be sent as raw",
        ),
        (
            ArchiveFormat::Gzip,
            ["out/empty", "src/main.c"],
            "the \"out/empty\" is not a regular file",
        ),
    ] {
        let error = archive(&rehearsal, of(&root, &paths, format))
            .await
            .unwrap_err();

        assert_eq!(error.kind(), Some(FailureKind::CannotArchive), "{error}");
        assert!(error.to_string().ends_with(wanted), "{error}");
    }
}

#[tokio::test]
async fn gzip_and_raw_come_out_whole() {
    let rehearsal = Rehearsal::start().await;
    let root = rehearsal.path("project");
    make_project(Path::new(&root));

    let (gzip, ..) = archive(&rehearsal, of(&root, &["src/main.c"], ArchiveFormat::Gzip))
        .await
        .unwrap();
    let (raw, ..) = archive(&rehearsal, of(&root, &["src/main.c"], ArchiveFormat::Raw))
        .await
        .unwrap();

    assert!(raw == fs::read(Path::new(&root).join("src/main.c")).unwrap());
    let mut gunzip = Command::new("gzip")
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = gunzip.stdin.take().unwrap();
    let feed = std::thread::spawn(move || stdin.write_all(&gzip).unwrap());
    let output = gunzip.wait_with_output().unwrap();
    feed.join().unwrap();
    assert!(output.stdout == raw);
}

#[tokio::test]
async fn untracked_files_need_no_git_in_the_guest() {
    let rehearsal = Rehearsal::start().await;
    let root = rehearsal.path("project");
    make_project(Path::new(&root));
    for args in [&["init", "-q"][..], &["add", "src"]] {
        assert!(
            Command::new("git")
                .args(args)
                .current_dir(&root)
                .status()
                .unwrap()
                .success()
        );
    }
    let request = ArchiveRequest {
        untracked: true,
        ..of(&root, &[], ArchiveFormat::TarZstd)
    };

    let (_, lines, summary) = archive(&rehearsal, request).await.unwrap();

    assert_eq!(lines, ["Info untracked: found 4 files"]);
    assert_eq!(summary.entries, 4);
}

#[tokio::test]
async fn what_cannot_be_opened_is_refused_and_named() {
    let rehearsal = Rehearsal::start().await;
    let root = rehearsal.path("project");
    make_project(Path::new(&root));
    let (zip, ..) = archive(&rehearsal, of(&root, &["src"], ArchiveFormat::Zip))
        .await
        .unwrap();
    let (tar, ..) = archive(&rehearsal, of(&root, &["src"], ArchiveFormat::TarZstd))
        .await
        .unwrap();
    let dest = rehearsal.path("dest");
    let narrow = |max_archive_bytes, max_entries, max_bytes| ExtractRequest {
        max_archive_bytes,
        max_entries,
        max_bytes,
        ..into(&dest)
    };
    let mut damaged = zip.clone();
    for byte in &mut damaged[300..400] {
        *byte = !*byte;
    }
    let cut = &tar[..tar.len() / 2];
    let size = zip.len() as u64;

    for (request, bytes, kind, wanted) in [
        (
            narrow(size - 1, 9, 1 << 30),
            &zip,
            FailureKind::BadArchive,
            "bytes",
        ),
        (
            narrow(size, 1, 1 << 30),
            &zip,
            FailureKind::BadArchive,
            "src/main.c: ",
        ),
        (
            narrow(size, 9, 2_999_999),
            &zip,
            FailureKind::BadArchive,
            "src/main.c: ",
        ),
        (
            narrow(size, 9, 2_999_999),
            &tar,
            FailureKind::BadArchive,
            "src/main.c: ",
        ),
        (
            narrow(size, 9, 1 << 30),
            &damaged,
            FailureKind::BadArchive,
            "src/main.c: ",
        ),
        (
            narrow(size, 9, 1 << 30),
            &cut.to_vec(),
            FailureKind::BadArchive,
            "the archive is damaged: ",
        ),
        (
            into(&dest),
            &b"\x1f\x8b\x08 gzip".to_vec(),
            FailureKind::BadArchive,
            "\"gzip\" format: unsupported archive format",
        ),
        (
            into(&dest),
            &b"no archive".to_vec(),
            FailureKind::BadArchive,
            "not a zip",
        ),
        (
            into(&dest),
            &Vec::new(),
            FailureKind::BadArchive,
            "not a zip",
        ),
    ] {
        let shown = format!("{request:?} with {} bytes", bytes.len());
        let result = extract(&rehearsal, request, bytes).await;
        let error = result.expect_err(&shown);

        assert_eq!(error.kind(), Some(kind), "{error}");
        assert!(error.to_string().contains(wanted), "{wanted}: {error}");
    }
}

#[tokio::test]
async fn bad_requests_are_told_from_bad_archives() {
    let rehearsal = Rehearsal::start().await;
    let missing = rehearsal.path("missing");
    let request = |dest: &str, owner: Option<&str>| ExtractRequest {
        dest: dest.to_owned(),
        owner: owner.map(str::to_owned),
        ..into(&rehearsal.path("there"))
    };
    for (request, kind) in [
        (request("relative", None), FailureKind::BadRequest),
        (request(&missing, None), FailureKind::NoSuchPath),
        (
            request(&rehearsal.path("there"), Some("no-such-user")),
            FailureKind::UnknownUser,
        ),
    ] {
        let error = extract(&rehearsal, request, b"x").await.unwrap_err();

        assert_eq!(error.kind(), Some(kind), "{error}");
    }
    let error = archive(&rehearsal, of(&missing, &["x"], ArchiveFormat::Zip))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Some(FailureKind::NoSuchPath), "{error}");
}

#[tokio::test]
async fn severities_are_the_runners() {
    let rehearsal = Rehearsal::start().await;
    let root = rehearsal.path("project");
    make_project(Path::new(&root));
    let mut stream = rehearsal
        .client
        .archive(of(&root, &["", "src"], ArchiveFormat::Zip))
        .await
        .unwrap();

    let mut severities = Vec::new();
    while let Some(event) = stream.next().await.unwrap() {
        if let ArchiveEvent::Line(line) = event {
            severities.push(line.severity);
        }
    }

    assert_eq!(severities, [Severity::Warning, Severity::Info]);
}

/// 38 MB of paths: the list goes on in a file, wherever the agent may make one.
#[tokio::test]
async fn more_paths_than_memory_takes_are_archived() {
    let rehearsal = Rehearsal::start().await;
    let project = tempfile::tempdir().unwrap();
    let deep = format!("{}/", "d".repeat(250)).repeat(15);
    let folder = project.path().join(&deep);
    fs::create_dir_all(&folder).unwrap();
    for number in 0..10_000 {
        fs::File::create(folder.join(number.to_string())).unwrap();
    }
    let root = project.path().to_str().unwrap();
    for format in [ArchiveFormat::Zip, ArchiveFormat::TarZstd] {
        let request = of(root, &["d*"], format);

        let (_, lines, summary) = archive(&rehearsal, request).await.unwrap();

        assert_eq!(
            lines,
            ["Info d*: found 10015 matching artifact files and directories"]
        );
        assert_eq!(summary.entries, 10_015);
    }
}
