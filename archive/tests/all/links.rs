//! Links of archives, and of the trees that they are unpacked into: what lies below them, and where it lands.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use vk_archive::{ExtractOptions, Format};

use crate::hostile::{Entry, Fixture, both, file, link, zip};
use crate::kit::{options, unpack};

/// Golden job 223: what lies below a link of the archive lies in a folder, and the link is not made.
#[test]
fn no_link_of_the_archive_is_followed_to_what_lies_below_it() {
    let cases: [(&[Entry], &str, &str); 6] = [
        (
            &[link("l", "../outside"), file("l/secret", "y")],
            "l",
            "l/secret",
        ),
        (
            &[file("l/secret", "y"), link("l", "../outside")],
            "l",
            "l/secret",
        ),
        (
            &[link("d/l", "/"), file("d/l/etc/x", "y")],
            "d/l",
            "d/l/etc/x",
        ),
        (
            &[
                link("a", "b"),
                link("b", "../outside"),
                file("a/secret", "y"),
            ],
            "a",
            "a/secret",
        ),
        (
            &[
                link("a", "../outside"),
                link("a/b", "sub"),
                file("a/b/x", "y"),
            ],
            "a",
            "a/b/x",
        ),
        (
            &[
                link("l", "../outside"),
                file("l/sub/", ""),
                file("l/sub/x", "y"),
            ],
            "l",
            "l/sub/x",
        ),
    ];
    for (entries, not_made, written) in cases {
        for (archive, format) in both(entries) {
            let fixture = Fixture::new();
            let dest = fixture.dest();

            let extracted = unpack(&archive, format, &dest, &options()).unwrap();

            fixture.check();
            let wanted = format!("remove {}/{not_made}: directory not empty", dest.display());
            let told = extracted.obstructed.unwrap().to_string();
            assert_eq!(told, wanted, "{format:?}");
            assert_eq!(fs::read(dest.join(written)).unwrap(), b"y", "{format:?}");
            let is_folder = |path: &Path| !path.is_symlink() && path.is_dir();
            assert!(is_folder(&dest.join(not_made)), "{format:?} {not_made}");
        }
    }
}

#[test]
fn links_below_a_link_of_the_archive_lie_in_a_folder_as_well() {
    let entries = [file("real/g", "y"), link("l", "real"), link("l/g", "other")];
    for (archive, format) in both(&entries) {
        let fixture = Fixture::new();
        let dest = fixture.dest();

        let extracted = unpack(&archive, format, &dest, &options()).unwrap();

        assert!(extracted.obstructed.is_some(), "{format:?}");
        assert_eq!(fs::read(dest.join("real/g")).unwrap(), b"y", "{format:?}");
        assert!(!dest.join("l").is_symlink(), "{format:?}");
        let target = fs::read_link(dest.join("l/g")).unwrap();
        assert_eq!(target, Path::new("other"), "{format:?}");
    }
}

/// Links of the destination make many names one, which several threads then write at once.
#[test]
fn many_names_of_one_file_are_written_all_the_same() {
    let names: Vec<String> = (0..64).map(|number| format!("l{number}/f")).collect();
    let entries: Vec<Entry> = names.iter().map(|name| file(name, "content")).collect();
    for (archive, format) in both(&entries) {
        for _ in 0..20 {
            let fixture = Fixture::new();
            let dest = fixture.dest();
            fs::create_dir(dest.join("real")).unwrap();
            for number in 0..64 {
                symlink("real", dest.join(format!("l{number}"))).unwrap();
            }
            let options = ExtractOptions {
                threads: 6,
                ..options()
            };

            unpack(&archive, format, &dest, &options).unwrap();

            assert_eq!(fs::read(dest.join("real/f")).unwrap(), b"content");
        }
    }
}

/// The tree that such an archive was made of may stand there already.
#[test]
fn a_link_that_stands_there_as_the_archive_has_it_is_followed_beneath_the_destination() {
    let entries = [link("l", "real"), file("l/f", "new")];
    for (archive, format) in both(&entries) {
        let fixture = Fixture::new();
        let dest = fixture.dest();
        fs::create_dir(dest.join("real")).unwrap();
        symlink("real", dest.join("l")).unwrap();

        let extracted = unpack(&archive, format, &dest, &options()).unwrap();

        assert_eq!(extracted.obstructed, None, "{format:?}");
        assert_eq!(fs::read(dest.join("real/f")).unwrap(), b"new", "{format:?}");
        assert!(dest.join("l").is_symlink(), "{format:?}");
    }
}

/// As with GitLab Runner: what is written goes through a link of the destination, which then gives way to the archive's.
#[test]
fn a_link_that_stands_there_gives_way_when_all_below_it_is_written() {
    for entries in [
        [link("l", "real"), file("l/f", "new")],
        [file("l/f", "new"), link("l", "real")],
    ] {
        for (archive, format) in both(&entries) {
            let fixture = Fixture::new();
            let dest = fixture.dest();
            fs::create_dir(dest.join("other")).unwrap();
            symlink("other", dest.join("l")).unwrap();

            let extracted = unpack(&archive, format, &dest, &options()).unwrap();

            assert_eq!(extracted.obstructed, None, "{format:?}");
            assert_eq!(
                fs::read(dest.join("other/f")).unwrap(),
                b"new",
                "{format:?}"
            );
            let target = fs::read_link(dest.join("l")).unwrap();
            assert_eq!(target, Path::new("real"), "{format:?}");
        }
    }
}

#[test]
fn no_folder_gets_a_mode_through_a_link_of_the_archive() {
    let folder = Entry {
        mode: 0o040_750,
        ..file("p/d/", "")
    };
    for target in ["r", "../outside"] {
        for entries in [
            [folder.clone(), link("p", target)],
            [link("p", target), folder.clone()],
        ] {
            for (archive, format) in both(&entries) {
                let fixture = Fixture::new();
                let dest = fixture.dest();
                for path in ["q", "r/d"] {
                    fs::create_dir_all(dest.join(path)).unwrap();
                }
                fs::set_permissions(dest.join("r/d"), fs::Permissions::from_mode(0o711)).unwrap();
                symlink("q", dest.join("p")).unwrap();

                unpack(&archive, format, &dest, &options()).unwrap();

                fixture.check();
                let mode = fs::metadata(dest.join("r/d")).unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o711, "{format:?}");
                let now = fs::read_link(dest.join("p")).unwrap();
                assert_eq!(now, Path::new(target), "{format:?}");
                assert!(dest.join("q/d").is_dir(), "{format:?}");
            }
        }
    }
}

#[test]
fn what_is_left_out_of_a_zip_takes_no_links_place() {
    let pipe = Entry {
        mode: 0o010_644,
        ..file("l/p", "")
    };
    let fixture = Fixture::new();
    let dest = fixture.dest();

    let extracted = unpack(
        &zip(&[link("l", "real"), pipe]),
        Format::Zip,
        &dest,
        &options(),
    );

    assert_eq!(extracted.unwrap().obstructed, None);
    assert_eq!(fs::read_link(dest.join("l")).unwrap(), Path::new("real"));
}

/// A name takes time for each of its parts: none is longer than a path can be.
#[test]
fn a_name_longer_than_any_path_is_refused_in_few_words() {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(0);
    header.set_mode(0o644);
    let name = "a/".repeat(400_000) + "f";
    tar.append_data(&mut header, &name, &b""[..]).unwrap();
    let tar = zstd::bulk::compress(&tar.into_inner().unwrap(), 1).unwrap();
    let long = Entry {
        name: name.as_bytes()[..60_000].to_vec(),
        ..file("f", "x")
    };

    for (archive, format) in [(tar, Format::TarZstd), (zip(&[long]), Format::Zip)] {
        let refusal = Fixture::new().refusal(&archive, format);

        assert!(refusal.contains("longer than any path"), "{refusal}");
        assert!(refusal.len() < 200, "{}", refusal.len());
    }
}
