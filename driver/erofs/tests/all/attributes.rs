//! What a layer says of its files is what the image says of them.

use crate::support::layer::raw;
use crate::support::{Entry, Kind, convert, layer, tree_of};

#[test]
fn owners_modes_and_times_are_kept() {
    let tree = tree_of(&[vec![
        Entry::folder("./").mode(0o1777).owner(7, 8).mtime(5),
        Entry::file("su", "x").mode(0o4755).owner(0, 0).mtime(1),
        Entry::file("sg", "x").mode(0o2711).owner(1000, 1001),
        Entry::folder("tmp").mode(0o1777),
        Entry::file("none", "").mode(0).owner(0o7_777_777, 12),
        Entry::file("huge", "")
            .pax("uid", "4294967295")
            .pax("gid", "4294967294"),
        Entry::file("precise", "").pax("mtime", "1700000000.123456789"),
        Entry::file("old", "").pax("mtime", "-1.25"),
        Entry::symlink("link", "su").owner(5, 6).mtime(9),
    ]]);

    let facts = |path: &str| {
        let found = tree.get(path);
        (found.mode, found.uid, found.gid)
    };
    assert_eq!(facts(""), (0o1777, 7, 8));
    assert_eq!(facts("su"), (0o4755, 0, 0));
    assert_eq!(facts("sg"), (0o2711, 1000, 1001));
    assert_eq!(facts("tmp"), (0o1777, 0, 0));
    assert_eq!(facts("none"), (0, 0o7_777_777, 12));
    assert_eq!(facts("huge"), (0o644, u32::MAX, u32::MAX - 1));
    assert_eq!(facts("link"), (0o777, 5, 6));
    assert_eq!(tree.get("").mtime, (5, 0));
    assert_eq!(tree.get("su").mtime, (1, 0));
    assert_eq!(tree.get("precise").mtime, (1_700_000_000, 123_456_789));
    assert_eq!(tree.get("old").mtime, (-2, 750_000_000));
    assert_eq!(tree.get("link").mtime, (9, 0));
}

#[test]
fn numbers_of_gnus_binary_form_are_read() {
    let mut entry = Entry::file("a", "x").bytes();
    // Owner 2^31 and a time before 1970.
    entry[108..116].copy_from_slice(&(1_u64 << 63 | 1 << 31).to_be_bytes());
    entry[136..148].copy_from_slice(&[0xff; 12]);
    fix_checksum(&mut entry);

    let tree = convert(&[entry]).unwrap().tree();

    assert_eq!(tree.get("a").uid, 1 << 31);
    assert_eq!(tree.get("a").mtime, (-1, 0));
}

fn fix_checksum(header: &mut [u8]) {
    header[148..156].fill(b' ');
    let sum: u32 = header[..512].iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

#[test]
fn devices_and_fifos_are_kept() {
    let device = |kind, path, device| Entry {
        device,
        ..Entry::new(kind, path)
    };
    let tree = tree_of(&[vec![
        device(b'3', "null", (1, 3)),
        device(b'4', "disk", (259, 70_000)),
        device(b'3', "last", (4095, 0xf_ffff)),
        device(b'3', "hidden", (0, 0)),
        Entry::new(b'6', "fifo").mode(0o622),
    ]]);

    assert_eq!(tree.get("null").kind, Kind::CharDevice(1, 3));
    assert_eq!(tree.get("disk").kind, Kind::BlockDevice(259, 70_000));
    assert_eq!(tree.get("last").kind, Kind::CharDevice(4095, 0xf_ffff));
    assert_eq!(tree.get("hidden").kind, Kind::CharDevice(0, 0));
    assert_eq!(tree.get("fifo").kind, Kind::Fifo);
    assert_eq!(tree.get("fifo").mode, 0o622);
}

#[test]
fn symbolic_links_of_any_length_keep_their_target() {
    let long = "x".repeat(4095);
    let tree = tree_of(&[vec![
        Entry::symlink("short", "a"),
        Entry::symlink("absolute", "/../etc/passwd"),
        Entry::symlink("bytes", b"\xff\n"),
        Entry::symlink("inline", &long[..4032]),
        Entry::symlink("block", &long[..4033]),
        Entry::symlink("long", &long),
        Entry::hard_link("again", "long"),
    ]]);

    let target = |path: &str| match &tree.get(path).kind {
        Kind::Symlink(target) => target.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(target("short"), b"a");
    assert_eq!(target("absolute"), b"/../etc/passwd");
    assert_eq!(target("bytes"), b"\xff\n");
    for (path, len) in [
        ("inline", 4032),
        ("block", 4033),
        ("long", 4095),
        ("again", 4095),
    ] {
        assert_eq!(target(path), long.as_bytes()[..len], "{path}");
    }
}

#[test]
fn extended_attributes_are_kept_in_the_namespaces_that_linux_has() {
    // Of ping: cap_net_raw=ep; with a line break in it, as capabilities' bits may have.
    let capability = b"\x01\x00\x00\x02\x00\x20\x0a\x00\0\0\0\0\0\0\0\0\0\0\0\0";
    let acl = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x04\0\x04\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";
    let long = vec![b'v'; 65_535];
    let layers = [layer(&[
        Entry::file("ping", "x").xattr("security.capability", capability),
        Entry::file("all", "x")
            .xattr("user.comment", "a\0b=c\n")
            .xattr("user.empty", "")
            .xattr("trusted.vk", "t")
            .xattr("system.posix_acl_access", acl)
            .xattr("trusted.overlay.opaque", "y")
            .xattr("com.apple.provenance", "z"),
        Entry::folder("folder")
            .xattr("system.posix_acl_default", acl)
            .xattr("user.long", &long),
        Entry::symlink("link", "ping").xattr("trusted.link", "l"),
        Entry::file("bare", "x"),
        Entry::file("folder/in", "x").xattr("user.long", &long),
    ])];
    let image = convert(&layers).unwrap();
    image.fsck();
    let tree = image.tree();

    assert_eq!(
        tree.get("ping").xattr("security.capability"),
        Some(&capability[..])
    );
    let all = tree.get("all");
    assert_eq!(all.xattrs.len(), 4);
    assert_eq!(all.xattr("user.comment"), Some(&b"a\0b=c\n"[..]));
    assert_eq!(all.xattr("user.empty"), Some(&b""[..]));
    assert_eq!(all.xattr("trusted.vk"), Some(&b"t"[..]));
    assert_eq!(all.xattr("system.posix_acl_access"), Some(&acl[..]));
    assert_eq!(
        tree.get("folder").xattr("system.posix_acl_default"),
        Some(&acl[..])
    );
    assert_eq!(tree.get("folder").xattr("user.long"), Some(&long[..]));
    assert_eq!(tree.get("folder/in").xattr("user.long"), Some(&long[..]));
    assert_eq!(tree.get("link").xattr("trusted.link"), Some(&b"l"[..]));
    assert!(tree.get("bare").xattrs.is_empty());
    assert_eq!(image.layers[0].skipped_xattrs, 2);
}

#[test]
fn names_may_be_any_bytes() {
    let names: [&[u8]; 7] = [
        b"\xff\xfe",
        b"caf\xc3\xa9",
        b"line\nbreak",
        b" ",
        b"-",
        b"!before dot",
        b"~after",
    ];
    let entries: Vec<_> = names.iter().map(|name| Entry::file(name, name)).collect();

    let tree = tree_of(&[entries]);

    for name in names {
        assert_eq!(tree.get(name).bytes(), name);
    }
}

#[test]
fn the_longest_names_and_paths_are_kept_in_every_dialect() {
    let name = "n".repeat(255);
    let deep = format!("{}{}", "d/".repeat(1920), &name);
    assert_eq!(deep.len(), 4095);
    let gnu_name = "g".repeat(150) + "/" + &name;
    let gnu = [
        raw_long(b'L', gnu_name.as_bytes()),
        raw_long(b'K', &[b't'; 300]),
        Entry::symlink("short", "short").bytes(),
    ]
    .concat();
    let mut ustar = Entry::file("name", "u").bytes();
    ustar[345..348].copy_from_slice(b"p/q");
    fix_checksum(&mut ustar);
    let pax = [
        Entry::file(&deep, "deep").bytes(),
        Entry::file(&name, "").bytes(),
    ]
    .concat();

    let tree = convert(&[gnu, ustar, pax]).unwrap().tree();

    assert_eq!(tree.text(&deep), "deep");
    assert_eq!(tree.text(&name), "");
    assert_eq!(tree.text("p/q/name"), "u");
    assert_eq!(tree.get(&gnu_name).kind, Kind::Symlink(vec![b't'; 300]));
}

/// Not as deep as can be: fsck.erofs calls itself for each folder, and its stack overflows.
#[test]
fn deep_folders_are_sound() {
    let deep = "d/".repeat(400) + "file";

    let tree = tree_of(&[vec![Entry::file(&deep, "deep")]]);

    assert_eq!(tree.text(&deep), "deep");
}

fn raw_long(kind: u8, name: &[u8]) -> Vec<u8> {
    raw(kind, b"././@LongLink", &[name, b"\0"].concat())
}

#[test]
fn a_large_folder_has_all_its_names() {
    let names: Vec<String> = (0..20_000)
        .map(|n| format!("{n}-{}", "x".repeat(n % 200)))
        .collect();
    let entries: Vec<_> = names
        .iter()
        .map(|name| Entry::file(format!("big/{name}"), name))
        .collect();

    let tree = tree_of(&[entries]);

    assert_eq!(tree.0.len(), 20_002);
    for name in &names {
        assert_eq!(tree.text(format!("big/{name}")), *name);
    }
}
