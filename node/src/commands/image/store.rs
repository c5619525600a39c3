//! The store, as the commands open it, and its images as they are shown.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use vk_oci::{ImageStore, StoredSummary};
use vk_text::chain;

use crate::cli::HostArgs;
use crate::exit::{self, Status};
use crate::log::print_error;

/// How much of an image's id people are shown.
const SHORT_ID: usize = 12;

/// Opens the store that `host` names.
pub(super) fn open(host: &HostArgs) -> Result<ImageStore, Status> {
    host.open()?.image_store().map_err(|error| failed(&error))
}

/// Prints what could not be done.
pub(super) fn failed(error: &(dyn std::error::Error + 'static)) -> Status {
    print_error(&chain(error));
    exit::SYSTEM
}

/// Prints to standard output. A reader may close its end early.
pub(super) fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// The beginning of an image's id.
pub(super) fn short(id: &str) -> &str {
    id.get(..SHORT_ID).unwrap_or(id)
}

/// The name that people know an image by: its first reference with a tag.
pub(super) fn name(image: &StoredSummary) -> &str {
    let tagged = image.references.iter().find(|name| !name.contains('@'));
    tagged
        .or(image.references.first())
        .map_or("<none>", String::as_str)
}

/// An image in JSON.
pub(super) fn to_json(image: &StoredSummary) -> Value {
    json!({
        "id": image.id,
        "references": image.references,
        "digest": image.digest,
        "platform": image.platform,
        "size_bytes": image.disk_bytes,
        "last_used": seconds(image.last_used),
        "in_use": image.in_use,
    })
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
