//! What we write is read by the tools of the system, and what they write by us.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::kit::{Tree, all_of, listing, options, pack, pack_all, run, text, unpack};
use vk_archive::{EntryKind, Format, Level, Request, select, write};

/// A tree with one of everything that all tools know.
fn sample() -> Tree {
    let tree = Tree::new();
    tree.file("a/run.sh", "#!/bin/sh\n");
    fs::set_permissions(tree.path("a/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    tree.file("a/empty", "");
    tree.file("a/deep/er/text", "many words, many words\n".repeat(300_000));
    tree.file("日本/ü", "unicode");
    tree.file("sp ace", "x".repeat(100));
    // Does not shrink; more than one piece.
    let mut state = 1u64;
    let noise: Vec<u8> = (0..3_500_000)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    tree.file("noise", &noise);
    tree.file("small-noise", &noise[..5000]);
    let long = format!("{}/{}", "d".repeat(150), "e".repeat(120));
    tree.file(&format!("{long}/f"), "long path");
    tree.link("a/dangling", "../no/where");
    tree.link("long-link", &"l".repeat(150));
    fs::create_dir(tree.path("empty-folder")).unwrap();
    fs::set_permissions(tree.path("empty-folder"), fs::Permissions::from_mode(0o700)).unwrap();
    // Whole seconds, as archives have them.
    run(
        "find",
        &[
            ".",
            "-exec",
            "touch",
            "-h",
            "-d",
            "2021-03-04 05:06:07Z",
            "{}",
            "+",
        ],
        tree.root(),
    );
    tree
}

fn save(bytes: &[u8], name: &str, folder: &Tree) -> String {
    fs::write(folder.path(name), bytes).unwrap();
    folder.path(name).display().to_string()
}

#[test]
fn tools_of_the_system_read_our_zips() {
    let tree = sample();
    let wanted = listing(tree.root());
    for level in ["fastest", "fast", "default", "slowest"] {
        let level = Level::parse(level).unwrap();
        let (bytes, ..) = pack(&all_of(tree.root()), Format::Zip, level, 2);
        let work = Tree::new();
        let zip = save(&bytes, "ours.zip", &work);

        run("unzip", &["-tqq", &zip], work.root());
        let listed = text(&run("zipinfo", &["-1", &zip], work.root()).stdout);
        assert_eq!(listed.lines().count(), wanted.len());
        run("python3", &["-c", PYTHON, &zip], work.root());
        run("7z", &["t", &zip], work.root());
        for (program, args) in [
            ("unzip", &["-qq", &zip, "-d", "out"][..]),
            ("bsdtar", &["-xpf", &zip, "-C", "out"]),
        ] {
            let out = work.path("out");
            let _ = fs::remove_dir_all(&out);
            fs::create_dir(&out).unwrap();
            run(program, args, work.root());
            assert_eq!(listing(&out), wanted, "{program} {level:?}");
        }
    }
}

/// Reads all of a zip, checking sums, and that its entries look as GitLab Runner's do (gitlab-runner, wire §3.4.1 and
/// wire §3.4.2).
const PYTHON: &str = r"
import sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
for i in z.infolist():
    assert i.create_system == 3 and i.create_version == 20, i
    assert i.date_time == (2021, 3, 4, 5, 6, 6), i
    assert i.is_dir() == (i.external_attr >> 28 == 4) == bool(i.external_attr & 0x10), i
    assert i.extra[:9] == b'UT\x05\0\x01' + (1614834367).to_bytes(4, 'little'), i.extra
    assert i.extra[9:15] == b'ux\x0b\0\x01\x04' and len(i.extra) == 24, i.extra
    assert bool(i.flag_bits & 0x800) == any(c > '}' for c in i.filename), i
names = [i.filename.rstrip('/').encode() for i in z.infolist()]
assert names == sorted(names)
";

/// gitlab-runner, wire §3.4.3.
#[test]
fn tools_of_the_system_read_our_tars() {
    let tree = sample();
    let work = Tree::new();
    let tar = save(
        &pack_all(tree.root(), Format::TarZstd),
        "ours.tar.zst",
        &work,
    );

    for (program, args) in [
        ("tar", &["--zstd", "-xpf", &tar, "-C", "out"][..]),
        ("bsdtar", &["-xpf", &tar, "-C", "out"]),
    ] {
        let out = work.path("out");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir(&out).unwrap();
        run(program, args, work.root());
        assert_eq!(listing(&out), listing(tree.root()), "{program}");
    }
    let list = "import sys, tarfile; print(len(tarfile.open(sys.argv[1]).getmembers()))";
    run("zstd", &["-dq", &tar, "-o", "plain.tar"], work.root());
    let listed = run("python3", &["-c", list, "plain.tar"], work.root());
    assert_eq!(
        text(&listed.stdout).trim(),
        listing(tree.root()).len().to_string()
    );
}

#[test]
fn what_we_write_we_read() {
    let tree = sample();
    for format in [Format::Zip, Format::ZipZstd, Format::TarZstd] {
        for level in ["fastest", "default", "slowest"] {
            let (bytes, written, _) = pack(
                &all_of(tree.root()),
                format,
                Level::parse(level).unwrap(),
                2,
            );
            let out = Tree::new();

            let extracted = unpack(&bytes, format, out.root(), &options()).unwrap();

            assert_eq!(
                listing(out.root()),
                listing(tree.root()),
                "{format:?} {level}"
            );
            assert_eq!(
                (extracted.entries, extracted.bytes),
                (written.entries, written.bytes)
            );
            // Over itself, too.
            unpack(&bytes, format, out.root(), &options()).unwrap();
            assert_eq!(
                listing(out.root()),
                listing(tree.root()),
                "{format:?} {level}"
            );
        }
    }
}

/// A zip has seconds without a sign, as Go reads them, and else MS-DOS's time, which begins with 1980 and has even seconds.
#[test]
fn times_far_away_come_back() {
    let (year_1980, last, year_2106) = (315_532_800, u32::MAX.into(), 1i64 << 32);
    for (time, of_zip) in [
        (-300_000_000, year_1980),
        (-1, year_1980),
        (0, 0),
        (1 << 31, 1 << 31),
        (last, last),
        (year_2106, year_2106),
        (year_2106 + 31_000_001, year_2106 + 31_000_000),
    ] {
        let tree = Tree::new();
        tree.file("a", "text");
        run("touch", &["-d", &format!("@{time}"), "a"], tree.root());
        for (format, wanted) in [
            (Format::Zip, of_zip),
            (Format::ZipZstd, of_zip),
            (Format::TarZstd, time),
        ] {
            let dest = Tree::new();

            unpack(
                &pack_all(tree.root(), format),
                format,
                dest.root(),
                &options(),
            )
            .unwrap();

            let got = fs::metadata(dest.path("a")).unwrap().mtime();
            assert_eq!(got, wanted, "{format:?} {time}");
        }
    }
}

#[test]
fn other_tools_read_a_zips_times_of_2045() {
    let tree = Tree::new();
    tree.file("a", "text");
    run("touch", &["-d", "@2366841600", "a"], tree.root());
    let zip = save(&pack_all(tree.root(), Format::Zip), "a.zip", &tree);
    let script = "import sys, zipfile; print(zipfile.ZipFile(sys.argv[1]).infolist()[0].date_time)";

    let said = run("python3", &["-c", script, &zip], tree.root());

    assert_eq!(text(&said.stdout).trim(), "(2045, 1, 1, 0, 0, 0)");
}

#[test]
fn the_number_of_threads_changes_no_byte() {
    let tree = sample();
    let selection = all_of(tree.root());
    for format in [Format::Zip, Format::ZipZstd, Format::TarZstd] {
        let (one, ..) = pack(&selection, format, Level::Default, 1);
        for threads in [2, 3, 64] {
            assert!(
                pack(&selection, format, Level::Default, threads).0 == one,
                "{format:?} {threads}"
            );
        }
    }
}

#[test]
fn we_read_what_other_tools_write() {
    let tree = sample();
    let work = Tree::new();
    let out = work.path("zip.zip").display().to_string();
    run("zip", &["-qry6", &out, "."], tree.root());
    run(
        "bsdtar",
        &["-a", "-cf", &out.replace("zip.zip", "bsdtar.zip"), "."],
        tree.root(),
    );
    let python = "import shutil; shutil.make_archive(__import__('sys').argv[1], 'zip', '.')";
    run(
        "python3",
        &["-c", python, &out.replace("zip.zip", "python")],
        tree.root(),
    );
    run(
        "7z",
        &["a", "-snl", "-tzip", &out.replace("zip.zip", "7z.zip"), "."],
        tree.root(),
    );
    let tar = out.replace("zip.zip", "gnu.tar.zst");
    run("tar", &["--zstd", "-cf", &tar, "."], tree.root());
    run(
        "bsdtar",
        &[
            "--zstd",
            "--format",
            "pax",
            "-cf",
            &out.replace("zip.zip", "pax.tar.zst"),
            ".",
        ],
        tree.root(),
    );

    for name in [
        "zip.zip",
        "bsdtar.zip",
        "gnu.tar.zst",
        "pax.tar.zst",
        "python.zip",
        "7z.zip",
    ] {
        let format = if name.ends_with("zst") {
            Format::TarZstd
        } else {
            Format::Zip
        };
        let again = Tree::new();
        let bytes = fs::read(work.path(name)).unwrap();
        unpack(&bytes, format, again.root(), &options()).unwrap();
        if ["python.zip", "7z.zip"].contains(&name) {
            // They follow or lose links, and keep neither folders' modes nor exact times.
            assert_eq!(
                fs::read(again.path("noise")).unwrap(),
                fs::read(tree.path("noise")).unwrap()
            );
            assert!(again.path("empty-folder").is_dir() && again.path("日本/ü").is_file());
        } else {
            assert_eq!(listing(again.root()), listing(tree.root()), "{name}");
        }
    }
}

/// gitlab-runner, wire §8.8: gzip.
#[test]
fn gzip_is_one_member_for_each_file() {
    let tree = Tree::new();
    for name in ["b.xml", "测试", "test%dir", "a"] {
        tree.file(name, format!("content of {name}\n").repeat(200_000));
    }
    let work = Tree::new();
    let gz = save(&pack_all(tree.root(), Format::Gzip), "ours.gz", &work);

    let unpacked = run("gzip", &["-dc", &gz], work.root()).stdout;

    let contents =
        ["a", "b.xml", "test%dir", "测试"].map(|name| fs::read(tree.path(name)).unwrap());
    assert!(unpacked == contents.concat());
    let bytes = fs::read(gz).unwrap();
    for field in [
        &b"\0\xffa\0a\0"[..],
        b"\0\xffb.xml\0b.xml\0",
        b"\0\xffe:test%25dir\0e:test%25dir\0",
        b"e:%E6%B5%8B%E8%AF%95\0",
    ] {
        assert!(
            bytes.windows(field.len()).any(|window| window == field),
            "{}",
            text(field)
        );
    }
}

#[test]
fn files_that_change_are_taken_as_they_are_or_left_out_with_a_line() {
    for format in [Format::Zip, Format::ZipZstd, Format::TarZstd, Format::Gzip] {
        let tree = Tree::new();
        let big = vec![7u8; 9_000_000];
        for name in [
            "a", "b-gone", "c-shrunk", "d-grown", "e-folder", "f-link", "g-pipe", "z",
        ] {
            tree.file(name, "content");
        }
        for name in ["big-gone", "big-shrunk", "big-grown"] {
            tree.file(name, &big);
        }
        let selection = all_of(tree.root());
        for name in ["b-gone", "e-folder", "f-link", "g-pipe", "big-gone"] {
            fs::remove_file(tree.path(name)).unwrap();
        }
        tree.file("c-shrunk", "co");
        tree.file("d-grown", "content and more");
        fs::create_dir(tree.path("e-folder")).unwrap();
        tree.link("f-link", "a");
        nix::unistd::mkfifo(&tree.path("g-pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        tree.file("big-shrunk", &big[..5_000_000]);
        tree.file("big-grown", [&big[..], b"more"].concat());

        let (bytes, _, lines) = pack(&selection, format, Level::Fast, 2);

        let gone = |name| format!("File ignored: open {name}: no such file or directory");
        let shorter = "File ignored: read big-shrunk: the file became shorter".to_owned();
        for line in [gone("b-gone"), gone("big-gone"), shorter] {
            assert_eq!(
                lines.iter().filter(|it| **it == line).count(),
                1,
                "{format:?} {lines:?}"
            );
        }
        for name in ["e-folder", "f-link", "g-pipe"] {
            let line = format!("File ignored: open {name}: ");
            assert!(
                lines.iter().any(|it| it.starts_with(&line)),
                "{format:?} {lines:?}"
            );
        }
        if format == Format::Gzip {
            continue;
        }
        let out = Tree::new();
        unpack(&bytes, format, out.root(), &options()).unwrap();
        let read = |name: &str| fs::read(out.path(name)).unwrap();
        assert_eq!(read("a"), b"content");
        assert_eq!(read("c-shrunk"), b"co");
        assert_eq!(read("d-grown"), b"content");
        assert_eq!(read("z"), b"content");
        assert!(read("big-grown") == big);
        assert!(read("big-shrunk").starts_with(&big[..5_000_000]));
        assert!(!out.path("big-gone").exists() && !out.path("e-folder").exists());
    }
}

#[test]
fn a_raw_file_that_shrinks_is_sent_shorter_with_a_line() {
    let tree = Tree::new();
    tree.file("log", "long content");
    let selection = all_of(tree.root());
    tree.file("log", "long");

    let (bytes, _, lines) = pack(&selection, Format::Raw, Level::Default, 2);

    assert_eq!(bytes, b"long");
    assert_eq!(lines, ["File ignored: read log: the file became shorter"]);
}

#[test]
fn files_that_cannot_be_read_are_left_out_with_a_line() {
    // Root reads everything: what only the kernel can refuse stands in.
    let root = Path::new("/proc/self");
    let request = Request {
        paths: &["mem".to_owned(), "status".to_owned()],
        ..Request::default()
    };
    let selection = select(root, &request, &mut |_| {}).unwrap();
    assert!(
        selection
            .iter()
            .all(|entry| entry.unwrap().kind == EntryKind::File)
    );

    for format in [Format::Zip, Format::TarZstd] {
        let (_, written, _) = pack(&selection, format, Level::Default, 2);

        assert_eq!(written.entries, 2);
    }
}

#[test]
fn twenty_thousand_files_go_and_come_in_order() {
    let tree = Tree::new();
    for number in 0..20_000 {
        if number % 200 == 0 {
            fs::create_dir_all(tree.path(&format!("d{}", number / 200))).unwrap();
        }
        fs::write(
            tree.path(&format!("d{}/f{number}", number / 200)),
            number.to_string(),
        )
        .unwrap();
    }
    for format in [Format::Zip, Format::TarZstd] {
        let bytes = pack_all(tree.root(), format);
        let out = Tree::new();
        let extracted = unpack(&bytes, format, out.root(), &options()).unwrap();
        assert_eq!(extracted.entries, 20_100);
        assert_eq!(listing(out.root()), listing(tree.root()));
        if format == Format::Zip {
            let zip = save(&bytes, "many.zip", &out);
            run("unzip", &["-tqq", &zip], out.root());
        }
    }
}

#[test]
fn more_entries_than_short_fields_can_count_are_read_by_others() {
    let tree = Tree::new();
    let folders: Vec<String> = (0..300).map(|number| format!("{number}")).collect();
    for folder in &folders {
        fs::create_dir(tree.path(folder)).unwrap();
        for number in 0..220 {
            File::create(tree.path(&format!("{folder}/{number}"))).unwrap();
        }
    }
    let work = Tree::new();
    let zip = save(&pack_all(tree.root(), Format::Zip), "many.zip", &work);

    let count = "import sys, zipfile; print(len(zipfile.ZipFile(sys.argv[1]).namelist()))";
    let counted = run("python3", &["-c", count, &zip], work.root());
    assert_eq!(text(&counted.stdout).trim(), "66300");
    let listed = run("unzip", &["-Z1", &zip], work.root()).stdout;
    assert_eq!(text(&listed).lines().count(), 66_300);
    let out = work.path("out");
    fs::create_dir(&out).unwrap();
    let file = File::open(&zip).unwrap();
    assert_eq!(
        vk_archive::extract_zip(&file, &out, &options())
            .unwrap()
            .entries,
        66_300
    );
}

#[test]
fn a_sparse_file_of_six_gib_is_archived_and_comes_back_sparse() {
    let tree = Tree::new();
    let file = File::create(tree.path("big")).unwrap();
    file.set_len(6 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"in the middle", 5 << 30).unwrap();
    tree.file("z-after", "it");
    for format in [Format::Zip, Format::TarZstd] {
        let work = Tree::new();
        let mut archive = std::io::BufWriter::new(File::create(work.path("big.archive")).unwrap());
        let selection = all_of(tree.root());
        let level = Level::Fast;
        let written = write(&selection, format, level, 2, &mut archive, &mut |_| {}).unwrap();
        archive.flush().unwrap();
        assert_eq!(written.bytes, (6 << 30) + 2);
        let path = work.path("big.archive").display().to_string();
        if format == Format::Zip {
            let listed = text(&run("zipinfo", &["-l", &path], work.root()).stdout);
            assert!(listed.contains(" 6442450944 "), "{listed}");
            let check = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.infolist()[0].file_size == 6 << 30; assert z.read('z-after') == b'it'";
            run("python3", &["-c", check, &path], work.root());
        }
        let out = work.path("out");
        fs::create_dir(&out).unwrap();
        let mut options = options();
        options.limits.bytes = 7 << 30;
        let archive = File::open(&path).unwrap();
        match format {
            Format::Zip => vk_archive::extract_zip(&archive, &out, &options),
            _ => vk_archive::extract_tar_zstd(archive, &out, &options),
        }
        .unwrap();
        let file = File::open(out.join("big")).unwrap();
        let meta = file.metadata().unwrap();
        let mut middle = [0; 13];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut middle, 5 << 30).unwrap();
        assert_eq!((meta.len(), &middle), (6 << 30, b"in the middle"));
        assert!(std::os::unix::fs::MetadataExt::blocks(&meta) < 100_000);
    }
}
