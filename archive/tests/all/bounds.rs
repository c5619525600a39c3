//! What archives cost stays within bounds, hostile ones and hostile trees included: each test measures a process of its own.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::kit::{Tree, all_of, pack, run, text, unpack};
use nix::sys::resource::{Resource, setrlimit};
use vk_archive::{ExtractOptions, Format, Level, Limits, Owner, Request, Spill, select, write};

/// What an agent may take.
const MOST_MEMORY: u64 = 128 << 20;

/// The name of a test that is to be run here, by a process that measures it.
const ALONE: &str = "VK_TEST_ALONE";

/// Runs the test `name` of this file, which is the calling one, in a process of its own.
fn alone(name: &str, test: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return test();
    }
    // It may end without cleaning up.
    let folder = Tree::new();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([&format!("bounds::{name}"), "--exact", "--nocapture"])
        .env(ALONE, name)
        .env("TMPDIR", folder.root())
        // One heap, whose memory any thread can use again.
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

/// A line of proc_pid_status(5), in bytes.
fn status(wanted: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(wanted));
    let kib: u64 = line
        .unwrap()
        .trim_matches(['\t', ' ', 'k', 'B'])
        .parse()
        .unwrap();
    kib << 10
}

/// Most memory since the last call of [`forget_peak`].
fn peak() -> u64 {
    status("VmHWM:")
}

fn forget_peak() {
    // proc_pid_clear_refs(5).
    fs::write("/proc/self/clear_refs", "5").unwrap();
}

fn with_threads(threads: usize) -> ExtractOptions {
    ExtractOptions {
        limits: Limits {
            entries: 1_000_000,
            bytes: 1 << 40,
        },
        owner: Owner::Archived,
        threads,
    }
}

#[test]
fn very_many_folders_in_one_are_named_once() {
    alone("very_many_folders_in_one_are_named_once", || {
        let tree = Tree::new();
        let deep = vec!["d".repeat(200); 18].join("/");
        fs::create_dir_all(tree.path(&deep)).unwrap();
        std::env::set_current_dir(tree.path(&deep)).unwrap();
        for number in 0..20_000 {
            fs::create_dir(format!("{number}")).unwrap();
        }
        let spill = Spill {
            folder: std::env::temp_dir(),
            memory: 16 << 20,
        };
        for untracked in [false, true] {
            let paths = if untracked {
                vec![]
            } else {
                vec!["*".to_owned()]
            };
            if untracked {
                run("git", &["init", "-q"], tree.root());
            }
            let request = Request {
                paths: &paths,
                untracked,
                spill: Some(&spill),
                ..Request::default()
            };
            forget_peak();

            select(tree.root(), &request, &mut |_| {}).unwrap();

            // Their paths are 72 MB.
            assert!(peak() < 60 << 20, "{untracked} {}", peak());
        }
    });
}

#[test]
fn links_with_long_names_and_targets_are_packed_few_at_a_time() {
    alone(
        "links_with_long_names_and_targets_are_packed_few_at_a_time",
        || {
            let tree = Tree::new();
            let deep = vec!["d".repeat(200); 15].join("/");
            fs::create_dir_all(tree.path(&deep)).unwrap();
            std::env::set_current_dir(tree.path(&deep)).unwrap();
            let target = "t".repeat(4000);
            for number in 0..12_000 {
                symlink(&target, format!("{number}")).unwrap();
            }
            let selection = all_of(tree.root());
            for format in [Format::TarZstd, Format::Zip] {
                let mut out = std::io::sink();
                forget_peak();
                let before = status("VmRSS:");

                write(&selection, format, Level::Default, 6, &mut out, &mut |_| {}).unwrap();

                assert!(
                    peak() < before + MOST_MEMORY,
                    "{format:?} {before} {}",
                    peak()
                );
            }
        },
    );
}

/// A tar's start: a file of so many bytes, which follow.
fn large_file(size: u64) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_path("large").unwrap();
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    header.as_bytes().to_vec()
}

#[test]
fn frames_of_all_sizes_are_unpacked_in_bounded_memory() {
    alone("frames_of_all_sizes_are_unpacked_in_bounded_memory", || {
        let mut archive = Vec::new();
        let content: Vec<u8> = (0..8u32 << 20)
            .map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8)
            .collect();
        let small = content.len() / 2;
        archive.extend(zstd::bulk::compress(&large_file(28 * content.len() as u64), 1).unwrap());
        for _ in 0..24 {
            archive.extend(zstd::bulk::compress(&content[..small], -5).unwrap());
            archive.extend(zstd::bulk::compress(&content[small..], -5).unwrap());
        }
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(25).unwrap();
        for _ in 0..4 {
            encoder.write_all(&content).unwrap();
        }
        encoder.write_all(&[0; 1024]).unwrap();
        archive.extend(encoder.finish().unwrap());
        drop(content);
        let dest = Tree::new();
        forget_peak();
        let before = status("VmRSS:");

        let extracted = unpack(&archive, Format::TarZstd, dest.root(), &with_threads(6)).unwrap();

        assert_eq!(extracted.bytes, 28 * (8 << 20));
        assert!(peak() < before + MOST_MEMORY, "{before} {}", peak());
    });
}

#[test]
fn few_windows_of_a_zip_are_open_at_once() {
    alone("few_windows_of_a_zip_are_open_at_once", || {
        let tree = Tree::new();
        for number in 0..12 {
            let file = fs::File::create(tree.path(&format!("{number}"))).unwrap();
            file.set_len(40 << 20).unwrap();
        }
        // As long as a window, in one frame, which vk itself does not make.
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(25).unwrap();
        std::io::copy(&mut fs::File::open(tree.path("0")).unwrap(), &mut encoder).unwrap();
        let frame = encoder.finish().unwrap();
        let zip = zip_of(&frame, 40 << 20, 12);
        let dest = Tree::new();
        forget_peak();
        let before = status("VmRSS:");

        unpack(&zip, Format::ZipZstd, dest.root(), &with_threads(16)).unwrap();

        assert!(peak() < before + MOST_MEMORY, "{before} {}", peak());
    });
}

/// A zip in which `count` files have the same packed content of zeros.
fn zip_of(packed: &[u8], size: u32, count: u16) -> Vec<u8> {
    let mut checksum = crc32fast::Hasher::new();
    for _ in 0..size >> 20 {
        checksum.update(&[0; 1 << 20]);
    }
    let checksum = checksum.finalize();
    let (mut zip, mut directory) = (Vec::new(), Vec::new());
    for number in 0..count {
        let name = format!("{number:02}");
        let offset = u32::try_from(zip.len()).unwrap();
        let mut common = vec![63, 0, 0, 0, 93, 0, 0, 0, 0x21, 0];
        common.extend(checksum.to_le_bytes());
        common.extend(u32::try_from(packed.len()).unwrap().to_le_bytes());
        common.extend(size.to_le_bytes());
        common.extend([2, 0, 0, 0]);
        zip.extend(b"PK\x03\x04");
        zip.extend(&common);
        zip.extend(name.as_bytes());
        zip.extend(packed);
        directory.extend(b"PK\x01\x02\x3f\x03");
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend((0o100_644u32 << 16).to_le_bytes());
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let start = u32::try_from(zip.len()).unwrap();
    zip.extend(&directory);
    zip.extend(b"PK\x05\x06\0\0\0\0");
    zip.extend(count.to_le_bytes());
    zip.extend(count.to_le_bytes());
    zip.extend(u32::try_from(directory.len()).unwrap().to_le_bytes());
    zip.extend(start.to_le_bytes());
    zip.extend([0, 0]);
    zip
}

/// How many of so many threads the kernel gives.
fn threads_at_once(wanted: usize) -> usize {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let wait = || {
            while !is_over.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        };
        let given = (0..wanted)
            .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, wait).ok())
            .count();
        is_over.store(true, Ordering::Relaxed);
        given
    })
}

#[test]
fn fewer_threads_than_wanted_will_do() {
    alone("fewer_threads_than_wanted_will_do", || {
        let tree = Tree::new();
        tree.file("a", vec![7; 3_000_000]);
        tree.file("b", "text");
        let selection = all_of(tree.root());
        let (bytes, ..) = pack(&selection, Format::TarZstd, Level::Default, 1);
        // Memory that stays with the process, for all but threads' stacks.
        let pieces: Vec<Vec<u8>> = (0..400).map(|_| vec![1; 64 << 10]).collect();
        let _pin = vec![1; 64 << 10];
        drop(pieces);
        let most = status("VmSize:") + (7 << 20);
        setrlimit(Resource::RLIMIT_AS, most, most).unwrap();
        assert!(threads_at_once(12) < 12, "there is room for all");
        let dest = Tree::new();

        unpack(&bytes, Format::TarZstd, dest.root(), &with_threads(6)).unwrap();

        assert_eq!(fs::read(dest.path("a")).unwrap(), vec![7; 3_000_000]);
        assert_eq!(fs::read_to_string(dest.path("b")).unwrap(), "text");
        let (again, ..) = pack(&selection, Format::TarZstd, Level::Default, 6);
        assert!(again == bytes);
    });
}
