//! The scratch disk: an empty ext4 file system in a sparse file, which a job's writes go to.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vk_process::{Exit, SpawnError};
use vk_text::{last_lines, printable};

/// Smallest scratch disk, in bytes: below, the file system itself takes most of the room.
pub const MIN_SIZE: u64 = 16 * 1024 * 1024;

/// Bytes of disk for each inode: a million files fit on 4 GiB, for a sixteenth of the room.
const BYTES_PER_INODE: &str = "4096";

/// What the file system is made of, whatever the host's `mke2fs.conf` says. The journal is for speed, since nobody mounts
/// the disk after a crash: without one, ext4 takes no inode again for minutes after its file was deleted and passes over
/// all of those at each new file (`recently_deleted` in the kernel's `fs/ext4/ialloc.c`), so that jobs with many
/// short-lived files get slower and slower.
const FEATURES: &str = "none,has_journal,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,\
     large_file,huge_file,dir_nlink,extra_isize,metadata_csum";

/// Size of the journal in MiB: a sixty-fourth of the disk, within what `mke2fs` takes and ext4 uses.
fn journal_mib(size: u64) -> u64 {
    (size >> 26).clamp(4, 64)
}

/// Most that is read of what `mke2fs` says, in bytes.
const MAX_MESSAGE: u64 = 4096;

/// A scratch disk could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScratchError {
    /// It would be smaller than [`MIN_SIZE`].
    #[error("a scratch disk of {0} bytes is too small: {MIN_SIZE} are needed")]
    TooSmall(u64),
    /// The file could not be made.
    #[error("cannot make the scratch disk {}", path.display())]
    File {
        /// Where.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// There is no `mke2fs`.
    #[error("mke2fs is not installed: install the package `e2fsprogs`")]
    NotInstalled,
    /// `mke2fs` could not be started.
    #[error("cannot format the scratch disk")]
    Spawn(#[source] SpawnError),
    /// `mke2fs` failed.
    #[error("cannot format the scratch disk {}: mke2fs ended ({exit}): {message}", path.display())]
    Format {
        /// Where.
        path: PathBuf,
        /// How it ended.
        exit: Exit,
        /// What it said.
        message: String,
    },
}

/// Makes a scratch disk of `size` bytes at `path`, where nothing may be yet, for its owner alone (mode 0600). It takes
/// some 10 ms and, of the host's disk, a few hundred kB, whatever the size: the guest's kernel finds the inode tables
/// zeroed. `search_path`, in the form of `PATH`, is where `mke2fs` is looked for outside of Debian's `/usr/sbin`.
///
/// # Errors
///
/// See [`ScratchError`].
pub async fn create(path: &Path, size: u64, search_path: &OsStr) -> Result<(), ScratchError> {
    if size < MIN_SIZE {
        return Err(ScratchError::TooSmall(size));
    }
    let failed = |source| ScratchError::File {
        path: path.to_owned(),
        source,
    };
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|file| file.set_len(size))
        .map_err(failed)?;
    format(path, size, search_path).await
}

async fn format(path: &Path, size: u64, search_path: &OsStr) -> Result<(), ScratchError> {
    let mut command = Command::new(program());
    command
        // Variables of e2fsprogs could change what is made.
        .env_clear()
        .env("PATH", search_path)
        .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256"])
        .args(["-m", "0", "-i", BYTES_PER_INODE, "-O", FEATURES])
        .args(["-J", &format!("size={}", journal_mib(size))])
        .args([
            "-E",
            "lazy_itable_init=0,lazy_journal_init=1,root_owner=0:0,discard",
        ])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = vk_process::spawn(command)
        .await
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ScratchError::NotInstalled,
            _ => ScratchError::Spawn(error),
        })?;
    let stderr = child.take_stderr();
    let exit = child.wait().await;
    if exit.success() {
        return Ok(());
    }
    let mut message = Vec::new();
    if let Some(stderr) = stderr {
        // The process is gone: this does not wait, and half a message is better than none.
        let _ = stderr.take(MAX_MESSAGE).read_to_end(&mut message);
    }
    Err(ScratchError::Format {
        path: path.to_owned(),
        exit,
        message: last_lines(printable(&message).lines()),
    })
}

/// `mke2fs` is in no ordinary user's `PATH` on Debian.
fn program() -> PathBuf {
    ["/usr/sbin/mke2fs", "/sbin/mke2fs"]
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.exists())
        .unwrap_or_else(|| PathBuf::from("mke2fs"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    async fn make(path: &Path, size: u64) -> Result<(), ScratchError> {
        create(path, size, OsStr::new(vk_process::SEARCH_PATH)).await
    }

    fn superblock(path: &Path) -> String {
        let output = Command::new("/usr/sbin/dumpe2fs")
            .arg(path)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    fn field(text: &str, name: &str) -> u64 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_once(':').unwrap().1.trim().parse().unwrap()
    }

    #[tokio::test]
    async fn size_is_as_asked_with_room_for_a_million_files_and_most_of_the_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scratch.img");

        make(&path, 4 << 30).await.unwrap();

        let text = superblock(&path);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 4 << 30);
        assert!(field(&text, "Free inodes") > 1_000_000);
        assert!(field(&text, "Free blocks") * 4096 > 3_900_000_000);
        assert_eq!(field(&text, "Reserved block count"), 0);
    }

    #[tokio::test]
    async fn file_is_sparse_and_leaves_no_work_for_the_guest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scratch.img");

        make(&path, 64 << 30).await.unwrap();

        let on_disk = std::fs::metadata(&path).unwrap().blocks() * 512;
        assert!(on_disk < 16 << 20, "{on_disk} bytes on disk");
        let text = superblock(&path);
        let groups = text.matches("(Blocks ").count();
        assert_eq!(text.matches("ITABLE_ZEROED").count(), groups);
    }

    #[tokio::test]
    async fn there_is_a_journal_that_leaves_most_of_a_small_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scratch.img");

        make(&path, MIN_SIZE).await.unwrap();

        let text = superblock(&path);
        assert!(text.contains("has_journal"));
        assert!(field(&text, "Free blocks") * 4096 > MIN_SIZE / 2);
    }

    #[tokio::test]
    async fn odd_sizes_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scratch.img");

        make(&path, MIN_SIZE + 12345).await.unwrap();

        assert_eq!(std::fs::metadata(&path).unwrap().len(), MIN_SIZE + 12345);
    }

    #[tokio::test]
    async fn file_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scratch.img");

        make(&path, MIN_SIZE).await.unwrap();

        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn too_small_a_disk_is_refused() {
        let folder = tempfile::tempdir().unwrap();

        let error = make(&folder.path().join("x"), 4096).await.unwrap_err();

        assert!(matches!(error, ScratchError::TooSmall(4096)));
    }

    #[tokio::test]
    async fn missing_folder_is_named() {
        let error = make(Path::new("/no/such/folder/x"), MIN_SIZE)
            .await
            .unwrap_err();

        assert!(error.to_string().contains("/no/such/folder/x"));
    }
}
