//! Cases from the field about files, names and keys that need no VM.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::json;
use tempfile::TempDir;
use vk_archive::{Event, Format, Level, Request, Selection, WriteError, select, write};
use vk_gitlab::response::parse;
use vk_gitlab::translate::{Options, translate};
use vk_http::Proxies;
use vk_tests::gitlab::GitLab;
use vk_trace::output_channel;
use vk_transfer::Spool;
use vk_transfer::tag;
use vk_transfer::{GitLab as Client, Upload};

const ALL: [Format; 5] = [
    Format::Zip,
    Format::ZipZstd,
    Format::TarZstd,
    Format::Gzip,
    Format::Raw,
];

fn tree(files: &[(&str, &str)]) -> TempDir {
    let root = TempDir::new().unwrap();
    for (name, content) in files {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root
}

fn chosen(root: &Path, paths: &[&str], exclude: &[&str]) -> (Selection, Vec<String>) {
    let owned =
        |texts: &[&str]| -> Vec<String> { texts.iter().map(|text| (*text).to_owned()).collect() };
    let (paths, exclude) = (owned(paths), owned(exclude));
    let request = Request {
        paths: &paths,
        exclude: &exclude,
        ..Request::default()
    };
    let mut lines = Vec::new();
    let selection = select(root, &request, &mut |event: Event| {
        lines.push(event.to_string());
    })
    .unwrap();
    (selection, lines)
}

fn packed(selection: &Selection, format: Format) -> (Result<Vec<u8>, WriteError>, Vec<String>) {
    let (mut bytes, mut lines) = (Vec::new(), Vec::new());
    let mut say = |event: Event| lines.push(event.to_string());
    let written = write(selection, format, Level::Default, 2, &mut bytes, &mut say);
    (written.map(|_| bytes), lines)
}

/// What cannot be read is named with the reason, whatever the format; root is refused by the kernel alone.
#[test]
fn an_unreadable_file_is_named_with_the_reason() {
    // Write-only, with a size of its own.
    let (selection, _) = chosen(Path::new("/sys/bus/platform"), &["uevent"], &[]);
    assert_eq!(selection.iter().count(), 1);
    for format in ALL {
        let (bytes, lines) = packed(&selection, format);
        let said = match bytes {
            Ok(_) => lines.join("\n"),
            Err(error) => error.to_string(),
        };
        assert!(
            said.contains("uevent: permission denied"),
            "{format:?}: {said}"
        );
    }
}

/// A file that is gone or has become something else is named; one that shrank goes as it is.
#[test]
fn files_that_change_meanwhile_break_no_archive() {
    for format in [Format::Zip, Format::ZipZstd, Format::TarZstd, Format::Gzip] {
        let root = tree(&[
            ("gone", "1"),
            ("kept", "kept"),
            ("link", "1"),
            ("short", "1234567"),
        ]);
        let (selection, _) = chosen(root.path(), &["*"], &[]);
        fs::remove_file(root.path().join("gone")).unwrap();
        fs::remove_file(root.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.path().join("link")).unwrap();
        fs::write(root.path().join("short"), "12").unwrap();

        let (bytes, lines) = packed(&selection, format);

        let said = lines.join("\n");
        for name in ["gone", "link"] {
            assert!(said.contains(name), "{format:?}: {said}");
        }
        assert!(!bytes.unwrap().is_empty());
    }
}

/// Names that a header cannot hold, or that look like something else.
fn odd_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "raport-ł.json",
        "a\nb",
        "a\r\nX-Evil: y",
        "a\"b",
        "a\\b",
        "-rf",
        "100%",
        "e:x",
        "測試.json",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("n".repeat(255));
    names
}

/// A gzip's header holds clean text only, its content is the file's.
#[test]
fn odd_names_make_a_clean_gzip_header_and_keep_the_content() {
    for name in odd_names() {
        let root = tree(&[(&name, "{\"content\": true}")]);
        let (selection, _) = chosen(root.path(), &["*"], &[]);
        let (bytes, _) = packed(&selection, Format::Gzip);
        let bytes = bytes.unwrap();

        let mut member = flate2::read::GzDecoder::new(bytes.as_slice());
        let mut content = String::new();
        std::io::Read::read_to_string(&mut member, &mut content).unwrap();
        assert_eq!(content, "{\"content\": true}", "{name:?}");
        let header = member.header().unwrap();
        for text in [header.filename(), header.comment()] {
            let text = text.unwrap();
            assert!(text.is_ascii(), "{name:?}: {text:?}");
            let plain = name.is_ascii() && !name.contains('%');
            assert_eq!(text == name.as_bytes(), plain, "{name:?}: {text:?}");
        }
    }
}

/// Nor does a file's name leave its place in an upload's form.
#[tokio::test]
async fn odd_names_stay_within_the_forms_header() {
    let server = GitLab::start();
    server.add_job(7, "token");
    let folder = TempDir::new().unwrap();
    let client = Client::new(&server.url(), None, &Proxies::default(), "vk 0 linux/amd64").unwrap();
    for name in odd_names() {
        let mut spool = Spool::create(folder.path()).unwrap();
        spool.write(b"content").await.unwrap();
        let file = spool.finish().await.unwrap();
        let upload = Upload {
            job_id: 7,
            token: "token",
            file: &file,
            file_name: &name,
            format: "gzip",
            artifact_type: "junit",
            expire_in: "",
            meter: None,
        };
        let (output, mut read) = output_channel();
        let drain = async { while read.recv().await.is_some() {} };
        let send = async {
            client.upload(&upload, &output).await.unwrap();
            drop(output);
        };
        tokio::join!(send, drain);

        let got = server.uploads(7).pop().unwrap();
        assert_eq!(got.content, b"content", "{name:?}");
        // As Go escapes it (mime/multipart).
        let escaped = name
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\r', "%0D")
            .replace('\n', "%0A");
        assert_eq!(got.file_name, escaped);
    }
}

/// Patterns are doublestar's, after their paths were cleaned.
#[test]
fn patterns_choose_as_doublestar_does() {
    let root = tree(&[
        ("a/b/c.txt", ""),
        ("a/d.txt", ""),
        ("a/e.tmp", ""),
        ("a/b/f.tmp", ""),
        ("g.txt", ""),
    ]);
    let whole = ["a", "a/b", "a/b/c.txt", "a/b/f.tmp", "a/d.txt", "a/e.tmp"];
    let below = &whole[1..];
    let clean = ["a", "a/b", "a/b/c.txt", "a/d.txt"];
    let rows: [(&str, &[&str], &[&str]); 13] = [
        ("./a//", &[], &whole),
        ("a", &[], &whole),
        ("a/./b/..", &[], &whole),
        ("*/c.txt", &[], &[]),
        ("*/*/c.txt", &[], &["a/b/c.txt"]),
        ("*/d.txt", &[], &["a/d.txt"]),
        ("**/c.txt", &[], &["a/b/c.txt"]),
        ("**/*.txt", &[], &["a/b/c.txt", "a/d.txt", "g.txt"]),
        ("*.txt", &[], &["g.txt"]),
        ("a/*", &[], below),
        ("a/**", &[], &whole),
        ("a", &["a/**/*.tmp"], &clean),
        ("./a//", &["./a//**/*.tmp"], &clean),
    ];
    for (path, exclude, expected) in rows {
        let (selection, lines) = chosen(root.path(), &[path], exclude);
        let names: Vec<String> = selection
            .iter()
            .map(|entry| String::from_utf8_lossy(&entry.unwrap().path).into_owned())
            .collect();
        assert_eq!(names, expected, "{path} without {exclude:?}: {lines:?}");
        let is_warned = lines.iter().any(|line| line.contains("no matching files"));
        assert_eq!(is_warned, expected.is_empty(), "{path}: {lines:?}");
    }
}

/// The project's folder is resolved once: a link in its place, or above it, changes nothing.
#[test]
fn a_project_below_a_link_is_the_project() {
    let real = tree(&[("builds/p/kept/f", ""), ("builds/x", "")]);
    let links = TempDir::new().unwrap();
    let (above, itself) = (links.path().join("builds"), links.path().join("p"));
    std::os::unix::fs::symlink(real.path().join("builds"), &above).unwrap();
    std::os::unix::fs::symlink(real.path().join("builds/p"), &itself).unwrap();
    for root in [above.join("p"), itself] {
        let absolute = root.join("kept").to_str().unwrap().to_owned();
        let (selection, lines) = chosen(&root, &["kept", &absolute], &[]);
        let names: Vec<Vec<u8>> = selection.iter().map(|entry| entry.unwrap().path).collect();
        assert_eq!(names, [b"kept".as_slice(), b"kept/f"], "{lines:?}");

        for outside in ["../x", "..", "/etc", "kept/../../x"] {
            let (selection, lines) = chosen(&root, &[outside], &[]);
            assert_eq!(selection.iter().count(), 0);
            assert_eq!(
                lines,
                [format!(
                    "processPath: artifact path is not a subpath of project directory: {outside}"
                )]
            );
        }
    }
}

/// Keys are shown cleaned and stored as digests: no two that differ meet, and none leaves its place.
#[test]
fn odd_keys_are_cleaned_and_never_collide() {
    let long = "k".repeat(600);
    let rows = [
        ("../../p", "p"),
        (r"a\..\b", "b"),
        ("a%2f..%2fc", "c"),
        ("x ", "x"),
        ("", "build/main"),
        (long.as_str(), long.as_str()),
        (
            "Gemfile.lock-1f2e3d4c5b6a79880f1e2d3c4b5a69788f0e1d2c",
            "Gemfile.lock-1f2e3d4c5b6a79880f1e2d3c4b5a69788f0e1d2c",
        ),
        ("p-protected", "p-protected"),
        ("P", "P"),
    ];
    let caches: Vec<_> = rows
        .iter()
        .map(|(key, _)| json!({"key": key, "paths": ["a"], "policy": "pull-push"}))
        .collect();
    let response = json!({
        "id": 1, "token": "t", "cache": caches,
        "job_info": {"name": "build", "project_id": 7},
        "variables": [{"key": "GIT_STRATEGY", "value": "none"}],
        "git_info": {"ref": "main"},
        "steps": [{"name": "script", "script": ["true"]}],
    });
    let response = parse(response.to_string().as_bytes()).unwrap();
    let job = translate(response, &Options::default()).unwrap().job;

    let mut tags = BTreeSet::new();
    for (cache, (_, shown)) in job.caches.iter().zip(rows) {
        assert_eq!(cache.key, shown);
        for protected in [true, false] {
            let tag = tag(&cache.key, protected);
            assert_eq!(tag.len(), 64);
            assert!(tag.bytes().all(|byte| byte.is_ascii_hexdigit()));
            assert!(tags.insert(tag), "{shown} meets another");
        }
    }
    assert_eq!(tags.len(), rows.len() * 2);
}
