//! Converts layers to an image, and tells what it took: `convert IMAGE LAYER...`, bottom first. Layers called `.gz` or
//! `.tgz` are gzip's, `.zst` ones zstd's, others plain tar.

use std::error::Error;
use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use std::time::Instant;

use vk_erofs::{Compression, Converter, Limits};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let image = arguments.next().ok_or("usage: convert IMAGE LAYER...")?;
    let start = Instant::now();
    let mut converter = Converter::new(File::create(&image)?, Limits::default())?;
    let mut bytes = 0;
    for layer in arguments {
        let compression = match Path::new(&layer).extension().and_then(OsStr::to_str) {
            Some("gz" | "tgz") => Compression::Gzip,
            Some("zst") => Compression::Zstd,
            _ => Compression::None,
        };
        let summary = converter.add_layer(&mut File::open(&layer)?, compression)?;
        bytes += summary.bytes;
    }
    let summary = converter.finish()?;
    let converted = start.elapsed();
    File::open(&image)?.sync_all()?;
    println!(
        "{bytes} bytes in layers, {} in the image, {} files: {} ms, {} ms with sync, {}",
        summary.image_bytes,
        summary.inodes,
        converted.as_millis(),
        start.elapsed().as_millis(),
        peak_memory()?,
    );
    Ok(())
}

/// The most memory that this process had, as the kernel tells it.
fn peak_memory() -> Result<String, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    Ok(line
        .ok_or("no VmHWM in /proc/self/status")?
        .trim()
        .to_owned()
        + " of memory at most")
}
