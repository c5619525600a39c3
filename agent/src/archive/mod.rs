//! Archives of artifacts and caches, made and opened here. Needs no archiver of the image.

mod make;
mod open;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;
use vk_agent_proto::frame::write_json;
use vk_agent_proto::{FrameError, Kind, Line};
use vk_archive::{Event, Severity};

pub(crate) use make::make;
pub(crate) use open::open;

/// Threads for an archive: one for each vCPU.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Makes a file without a name on the folder's disk.
fn nameless(folder: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(OFlag::O_TMPFILE.bits())
        .open(folder)
}

/// Sends a line for the job's trace.
fn say(host: &File, event: &Event) -> Result<(), FrameError> {
    tell(host, event.severity(), event.to_string())
}

fn tell(host: &File, severity: Severity, text: String) -> Result<(), FrameError> {
    let text = shortened(text);
    write_json(&mut &*host, Kind::Line, &Line { severity, text })
}

/// Longest line that is sent, in bytes: two paths (`PATH_MAX` of limits.h) and words. As JSON it stays below what a frame may
/// have (`MAX_LINE`), whatever is in it.
const MOST_LINE: usize = 10 << 10;

/// A line without what is too much of it.
fn shortened(mut text: String) -> String {
    if text.len() > MOST_LINE {
        text.truncate(text.floor_char_boundary(MOST_LINE));
        text.push('\u{2026}');
    }
    text
}
