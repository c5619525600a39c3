//! A folder's content as a tar, over what stands there already.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, symlink};

use tar::{Builder, EntryType, Header};
use vk_archive::{ExtractError, Extracted, Owner, extract_tar};

use crate::kit::{Tree, options};

fn header(kind: EntryType, name: &str, link: &str, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o750);
    header.set_uid(7);
    header.set_gid(7);
    header.set_mtime(1_000_000_000);
    let raw = header.as_gnu_mut().unwrap();
    raw.name[..name.len()].copy_from_slice(name.as_bytes());
    raw.linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_cksum();
    header
}

#[derive(Default)]
struct Tar(Vec<(Header, Vec<u8>)>);

impl Tar {
    fn add(mut self, kind: EntryType, name: &str, link: &str, content: &str) -> Self {
        let header = header(kind, name, link, content.len() as u64);
        self.0.push((header, content.into()));
        self
    }

    fn file(self, name: &str, content: &str) -> Self {
        self.add(EntryType::Regular, name, "", content)
    }

    fn folder(self, name: &str) -> Self {
        self.add(EntryType::Directory, name, "", "")
    }

    fn link(self, name: &str, target: &str) -> Self {
        self.add(EntryType::Symlink, name, target, "")
    }

    fn hard_link(self, name: &str, target: &str) -> Self {
        self.add(EntryType::Link, name, target, "")
    }

    fn bytes(self) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for (header, content) in self.0 {
            tar.append(&header, content.as_slice()).unwrap();
        }
        tar.into_inner().unwrap()
    }

    fn unpack(self, dest: &Tree) -> Result<Extracted, ExtractError> {
        unpack(&self.bytes(), dest)
    }
}

fn unpack(tar: &[u8], dest: &Tree) -> Result<Extracted, ExtractError> {
    let options = vk_archive::ExtractOptions {
        owner: Owner::Unpacking,
        ..options()
    };
    extract_tar(tar, dest.root(), &options)
}

fn read(dest: &Tree, name: &str) -> String {
    fs::read_to_string(dest.path(name)).unwrap()
}

#[test]
fn the_last_of_a_name_wins_whatever_its_kind() {
    let large = "x".repeat(3_000_000);
    let dest = Tree::new();

    Tar::default()
        .file("small", "first")
        .file("small", "second")
        .file("grows", "small")
        .file("grows", &large)
        .file("shrinks", &large)
        .file("shrinks", "small")
        .file("to-link", "content")
        .link("to-link", "nowhere")
        .link("from-link", "nowhere")
        .file("from-link", "content")
        .link("to-folder", "/")
        .folder("to-folder/")
        .file("to-folder/in", "it")
        .folder("from-folder/")
        .file("from-folder", "content")
        .unpack(&dest)
        .unwrap();

    assert_eq!(read(&dest, "small"), "second");
    assert_eq!(read(&dest, "grows"), large);
    assert_eq!(read(&dest, "shrinks"), "small");
    let target = fs::read_link(dest.path("to-link")).unwrap();
    assert_eq!(target.to_str(), Some("nowhere"));
    assert_eq!(read(&dest, "from-link"), "content");
    assert_eq!(read(&dest, "to-folder/in"), "it");
    assert_eq!(read(&dest, "from-folder"), "content");
}

#[test]
fn a_hard_link_is_to_the_file_that_had_the_name_then() {
    let dest = Tree::new();

    Tar::default()
        .file("a", "first")
        .hard_link("b", "a")
        .file("a", "second")
        .unpack(&dest)
        .unwrap();

    assert_eq!(read(&dest, "a"), "second");
    assert_eq!(read(&dest, "b"), "first");
}

#[test]
fn the_destination_and_folders_keep_their_modes_and_times_and_are_the_unpackers() {
    let dest = Tree::new();

    let extracted = Tar::default()
        .folder("./")
        .folder("sub/")
        .file("sub/file", "content")
        .file("-file", "content")
        .file("missing/file", "content")
        .unpack(&dest)
        .unwrap();

    assert_eq!((extracted.entries, extracted.bytes), (5, 21));
    for name in ["", "sub", "sub/file"] {
        let meta = fs::metadata(dest.path(name)).unwrap();
        let found = (meta.mode() & 0o7777, meta.mtime());
        assert_eq!(found, (0o750, 1_000_000_000), "{name}");
        assert_eq!(meta.uid(), nix::unistd::geteuid().as_raw(), "{name}");
    }
    // Not for everybody, whatever the umask allows.
    let mode = fs::metadata(dest.path("missing")).unwrap().mode();
    assert_eq!(mode & 0o022, 0, "{mode:o}");
}

#[test]
fn links_that_stand_there_are_not_followed() {
    let dest = Tree::new();
    dest.file("real/file", "mine");
    symlink("real", dest.path("link")).unwrap();

    for tar in [
        Tar::default().file("link/file", "theirs"),
        Tar::default().folder("link/folder/"),
        Tar::default().link("link/link", "x"),
    ] {
        let error = tar.unpack(&dest).unwrap_err().to_string();
        assert!(
            error.ends_with("would lie behind a symbolic link"),
            "{error}"
        );
    }
    Tar::default()
        .folder("link/")
        .file("link/file", "theirs")
        .unpack(&dest)
        .unwrap();

    assert_eq!(read(&dest, "real/file"), "mine");
    assert_eq!(read(&dest, "link/file"), "theirs");
    assert_eq!(fs::read_dir(dest.path("real")).unwrap().count(), 1);
}

#[test]
fn headers_that_would_fill_the_memory_are_refused() {
    for kind in [
        EntryType::GNULongName,
        EntryType::GNULongLink,
        EntryType::XHeader,
    ] {
        let dest = Tree::new();
        let size = 8 << 20;
        let mut tar = Builder::new(Vec::new());
        let name = header(kind, "name", "", size);
        tar.append(&name, io::repeat(b'x').take(size)).unwrap();
        let file = header(EntryType::Regular, "name", "", 0);
        tar.append(&file, io::empty()).unwrap();

        let result = unpack(&tar.into_inner().unwrap(), &dest);

        let error = result.unwrap_err().to_string();
        assert!(error.contains("names and attributes"), "{kind:?} {error}");
    }
}

#[test]
fn content_without_use_is_passed_over_whatever_its_size() {
    let dest = Tree::new();
    let size = 2 << 20;
    let mut tar = Builder::new(Vec::new());
    for kind in [EntryType::XGlobalHeader, EntryType::Directory] {
        let header = header(kind, "name", "", size);
        tar.append(&header, io::repeat(b'x').take(size)).unwrap();
    }

    let extracted = unpack(&tar.into_inner().unwrap(), &dest).unwrap();

    assert_eq!(extracted.entries, 1);
}

#[test]
fn a_tar_without_its_end_is_refused_and_what_came_before_is_there() {
    let dest = Tree::new();
    let bytes = Tar::default().file("a", "content").bytes();

    let error = unpack(&bytes[..1024], &dest).unwrap_err().to_string();

    assert!(error.contains("ends before the tar's end"), "{error}");
    assert_eq!(read(&dest, "a"), "content");
}
