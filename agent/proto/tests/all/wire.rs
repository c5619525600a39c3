//! Pins the wire format: what stands in `fixtures` is what older and newer builds must read and write.

use std::ffi::OsString;
use std::fmt::Debug;
use std::os::unix::ffi::OsStringExt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use vk_agent_proto::frame::{decode_room, encode_json, encode_room, write_frame};
use vk_agent_proto::{
    Archive, ArchiveFormat, ArchiveSummary, Exec, ExitStatus, Exited, Extract, ExtractSummary,
    Failed, FailureKind, GetTree, Hello, Kind, Line, PutTree, Ready, Reply, Request, STDIN_WINDOW,
    Severity, Stats, TerminalSize, TreeSummary,
};

fn assert_pinned<T: Serialize + DeserializeOwned + PartialEq + Debug>(values: &[T], fixture: &str) {
    let parsed: Vec<T> = serde_json::from_str(fixture).unwrap();
    assert_eq!(parsed, values);
    let fixture: serde_json::Value = serde_json::from_str(fixture).unwrap();
    assert_eq!(serde_json::to_value(values).unwrap(), fixture);
}

#[test]
fn hello_is_pinned() {
    let host = Hello {
        magic: "vk-agent".into(),
        protocol: 1,
        release: "0.1.0".into(),
        epoch_ns: Some(1_764_446_400_000_000_000),
    };
    let guest = Hello {
        epoch_ns: None,
        ..host.clone()
    };

    assert_pinned(&[host, guest], include_str!("../fixtures/hello.json"));
}

fn bytes(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

#[test]
fn what_is_neither_text_nor_bytes_is_refused() {
    for argument in ["1", "null", "[256]", "[-1]", "[\"a\"]", "{}", "[1.5]"] {
        let request = format!(r#"{{"exec":{{"argv":[{argument}]}}}}"#);

        assert!(
            serde_json::from_str::<Request>(&request).is_err(),
            "{request}"
        );
    }
}

#[test]
fn requests_are_pinned() {
    let requests = [
        Request::Exec(Exec {
            argv: vec!["bash".into(), "-l".into()],
            env: vec![("B".into(), "1".into()), ("A".into(), "ż \"2\"".into())],
            cwd: Some("/builds/group/project".into()),
            user: Some("www-data:users".into()),
            stdin: true,
            kill_grace_ms: 10_000,
            terminal: None,
        }),
        Request::Exec(Exec {
            argv: vec!["sh".into()],
            terminal: Some(TerminalSize {
                columns: 80,
                rows: 25,
            }),
            ..Exec::default()
        }),
        Request::Exec(Exec {
            argv: vec!["printf".into(), bytes(b"a\xff")],
            env: vec![(bytes(b"\xfe"), bytes(b"\x01\x80"))],
            cwd: Some(bytes(b"/\xe9")),
            ..Exec::default()
        }),
        Request::PutTree(PutTree {
            dest: bytes(b"/\xe9"),
            ..PutTree::default()
        }),
        Request::PutTree(PutTree {
            dest: "/builds/group/project".into(),
            mkdir: true,
            wipe: true,
            owner: Some("1000:1000".into()),
        }),
        Request::GetTree(GetTree {
            path: "/builds/group/project/out".into(),
        }),
        Request::Archive(Archive {
            root: "/builds/group/project".into(),
            paths: vec!["out/".into(), "src/**/*.c".into()],
            exclude: vec!["out/**/*.tmp".into()],
            untracked: true,
            format: ArchiveFormat::TarZstd,
            level: "slowest".into(),
        }),
        Request::Extract(Extract {
            dest: "/builds/group/project".into(),
            format: Some(ArchiveFormat::ZipZstd),
            owner: Some("1000:1000".into()),
            max_archive_bytes: 10 << 30,
            max_entries: 1_000_000,
            max_bytes: 20 << 30,
        }),
        Request::Stats,
        Request::Shutdown,
    ];

    assert_pinned(&requests, include_str!("../fixtures/requests.json"));
}

#[test]
fn a_terminals_size_is_two_little_endian_numbers() {
    let size = TerminalSize {
        columns: 0x0102,
        rows: 25,
    };

    assert_eq!(size.encode(), [2, 1, 25, 0]);
    assert_eq!(TerminalSize::decode(&size.encode()).unwrap(), size);
    for wrong in [&[][..], &[1, 2, 3], &[1, 2, 3, 4, 5]] {
        assert!(TerminalSize::decode(wrong).is_err());
    }
}

#[test]
fn replies_are_pinned() {
    let replies = [
        Reply::Ready(Ready {
            kernel_ms: 900,
            agent_ms: 120,
        }),
        Reply::Exited(Exited {
            status: ExitStatus::Code(42),
            oom_kills: 0,
            oom_killed: Vec::new(),
            process_limit: None,
        }),
        Reply::Exited(Exited {
            status: ExitStatus::Signal(9),
            oom_kills: 1,
            oom_killed: Vec::new(),
            process_limit: None,
        }),
        Reply::Exited(Exited {
            status: ExitStatus::Code(2),
            oom_kills: 3,
            oom_killed: vec!["cc1plus".into(), "a\n".into()],
            process_limit: Some(860),
        }),
        Reply::Done(TreeSummary {
            entries: 3,
            bytes: 1_234,
        }),
        Reply::Archived(ArchiveSummary {
            entries: 7,
            bytes: 1_000,
            archive_bytes: 500,
        }),
        Reply::Extracted(ExtractSummary {
            entries: 7,
            bytes: 1_000,
            obstructed: "remove /builds/group/project/out/link: directory not empty".into(),
        }),
        Reply::Stats(Stats {
            mem_total: 1 << 31,
            mem_available: 1 << 30,
            cpu_busy_ms: 1_500,
            cpu_idle_ms: 500,
            load_1m: 0.25,
            disk_total: 10 << 30,
            disk_free: 9 << 30,
            inodes_free: 655_360,
            uptime_ms: 2_000,
            execs: 1,
        }),
        Reply::Failed(Failed {
            kind: FailureKind::UnknownUser,
            message: "no user `ci` in the image's /etc/passwd".into(),
        }),
    ];

    assert_pinned(&replies, include_str!("../fixtures/replies.json"));
}

#[test]
fn failure_kinds_are_pinned() {
    let kinds = [
        FailureKind::BadRequest,
        FailureKind::UnknownUser,
        FailureKind::NoSuchPath,
        FailureKind::CommandNotFound,
        FailureKind::NotExecutable,
        FailureKind::BadTree,
        FailureKind::BadArchive,
        FailureKind::CannotArchive,
        FailureKind::DiskFull,
        FailureKind::Guest,
    ];

    assert_pinned(&kinds, include_str!("../fixtures/failure-kinds.json"));
}

#[test]
fn formats_and_lines_are_pinned() {
    let formats = [
        ArchiveFormat::Zip,
        ArchiveFormat::ZipZstd,
        ArchiveFormat::Gzip,
        ArchiveFormat::Raw,
        ArchiveFormat::TarZstd,
    ];
    let lines = [
        Severity::Info,
        Severity::Plain,
        Severity::Warning,
        Severity::Error,
    ]
    .map(|severity| Line {
        severity,
        text: "out/: found 6 matching artifact files and directories".into(),
    });

    assert_pinned(&formats, include_str!("../fixtures/archive-formats.json"));
    assert_pinned(&lines, include_str!("../fixtures/lines.json"));
}

#[test]
fn a_request_of_few_fields_reads_with_defaults() {
    let request: Request = serde_json::from_str(r#"{"exec":{"argv":["true"]}}"#).unwrap();

    let wanted = Exec {
        argv: vec!["true".into()],
        ..Exec::default()
    };
    assert_eq!(request, Request::Exec(wanted));
}

#[test]
fn frames_are_kind_length_payload() {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, Kind::Stdout, b"hi\n").unwrap();
    write_frame(&mut bytes, Kind::Cancel, b"").unwrap();
    bytes.extend(encode_json(Kind::Request, &Request::Stats).unwrap());

    assert_eq!(
        bytes,
        b"\x21\x03\0\0\0hi\n\x10\0\0\0\0\x02\x07\0\0\0\"stats\""
    );
}

#[test]
fn room_for_input_is_four_bytes() {
    assert_eq!(encode_room(0x1234).unwrap(), b"\x14\x04\0\0\0\x34\x12\0\0");
    assert_eq!(decode_room(b"\x34\x12\0\0").unwrap(), 0x1234);
}

#[test]
fn room_beyond_the_window_is_refused() {
    let too_much = u32::try_from(STDIN_WINDOW + 1).unwrap().to_le_bytes();

    assert!(encode_room(STDIN_WINDOW + 1).is_err());
    assert!(decode_room(&too_much).is_err());
    assert!(decode_room(b"\0\0\0").is_err());
}
