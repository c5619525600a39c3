//! Trees to archive, and what tools of the system make of archives.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use vk_archive::{
    Event, ExtractError, ExtractOptions, Extracted, Format, Level, Limits, Owner, Request,
    Selection, Written, extract_tar_zstd, extract_zip, select, write,
};

/// A folder of files, gone when dropped.
pub struct Tree(tempfile::TempDir);

impl Tree {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Makes a file and the folders above it.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn link(&self, name: &str, target: &str) {
        symlink(target, self.path(name)).unwrap();
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Chooses everything but the folder itself.
pub fn all_of(root: &Path) -> Selection {
    let request = Request {
        paths: &["*".to_owned()],
        ..Request::default()
    };
    select(root, &request, &mut |_| {}).unwrap()
}

pub type Packed = (Vec<u8>, Written, Vec<String>);

pub fn pack(selection: &Selection, format: Format, level: Level, threads: usize) -> Packed {
    let (mut bytes, mut lines) = (Vec::new(), Vec::new());
    let mut say = |event: Event| lines.push(event.to_string());
    let written = write(selection, format, level, threads, &mut bytes, &mut say).unwrap();
    assert_eq!(written.archive_bytes, bytes.len() as u64);
    (bytes, written, lines)
}

pub fn pack_all(root: &Path, format: Format) -> Vec<u8> {
    let (bytes, _, lines) = pack(&all_of(root), format, Level::Default, 2);
    assert_eq!(lines, [""; 0]);
    bytes
}

pub fn options() -> ExtractOptions {
    ExtractOptions {
        limits: Limits {
            entries: 100_000,
            bytes: 1 << 30,
        },
        owner: Owner::Archived,
        threads: 2,
    }
}

pub fn unpack(
    bytes: &[u8],
    format: Format,
    dest: &Path,
    options: &ExtractOptions,
) -> Result<Extracted, ExtractError> {
    if format == Format::TarZstd {
        return extract_tar_zstd(bytes, dest, options);
    }
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
    extract_zip(&file, dest, options)
}

/// Path, kind, permissions, time, and content or target of everything below `root`, in order.
pub fn listing(root: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let what = if meta.is_symlink() {
                format!(
                    "-> {}",
                    text(fs::read_link(&path).unwrap().as_os_str().as_bytes())
                )
            } else if meta.is_dir() {
                waiting.push(path.clone());
                format!("folder {:o} @{}", meta.mode(), meta.mtime())
            } else {
                let content = fs::read(&path).unwrap();
                let hash = crc32fast::hash(&content);
                format!(
                    "file {:o} @{} {} {hash:08x}",
                    meta.mode(),
                    meta.mtime(),
                    content.len()
                )
            };
            let name = path.strip_prefix(root).unwrap();
            lines.push(format!(
                "{} {what}",
                name.as_os_str().as_bytes().escape_ascii()
            ));
        }
    }
    lines.sort();
    lines
}

/// Runs a tool of the system; what it says if it fails is the panic.
pub fn run(program: &str, args: &[&str], folder: &Path) -> Output {
    let output = Command::new(program)
        .args(args)
        .current_dir(folder)
        .env("LC_ALL", "C.UTF-8")
        .output()
        .unwrap_or_else(|error| panic!("{program} is needed ({error}): run ./setup --for-tests"));
    assert!(
        output.status.success(),
        "{program} {args:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}
