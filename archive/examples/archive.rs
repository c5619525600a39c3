//! The crate as a command: what `bench/archive` measures.
//!
//!     archive create FORMAT FOLDER OUT [THREADS [LEVEL]]
//!     archive extract ARCHIVE FOLDER [THREADS]
//!
//! Prints what was packed or unpacked, and the most memory that it took. A `create` takes all of the folder.

#![allow(clippy::expect_used, clippy::panic, reason = "a tool for measuring")]

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use vk_archive::{
    ExtractOptions, Format, Level, Limits, Owner, Request, Spill, detect, extract_tar_zstd,
    extract_zip, select, write,
};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["create", format, folder, out, options @ ..] => create(format, folder, out, options),
        ["extract", archive, folder, options @ ..] => extract(archive, folder, options),
        _ => panic!(
            "usage: archive create FORMAT FOLDER OUT [THREADS [LEVEL]] | archive extract ARCHIVE FOLDER [THREADS]"
        ),
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("proc(5)");
    for line in status.lines().filter(|line| line.starts_with("VmHWM:")) {
        eprintln!("{line}");
    }
}

fn threads(option: Option<&&str>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    option.map_or_else(all, |text| text.parse().expect("a number of threads"))
}

fn create(format: &str, folder: &str, out: &str, options: &[&str]) {
    let format = match format {
        "zip" => Format::Zip,
        "zipzstd" => Format::ZipZstd,
        "gzip" => Format::Gzip,
        "raw" => Format::Raw,
        "tarzstd" => Format::TarZstd,
        other => panic!("no format: {other}"),
    };
    let level = Level::parse(options.get(1).unwrap_or(&"default")).expect("a level");
    let mut say = |event: vk_archive::Event| eprintln!("{event}");
    let spill = Spill::into_folder(std::env::temp_dir());
    let request = Request {
        spill: Some(&spill),
        paths: &["**".to_owned()],
        ..Request::default()
    };
    let root = std::fs::canonicalize(folder).expect("the folder");
    let selection = select(&root, &request, &mut say).expect("choosing files");
    let mut out = File::create(out).expect("the archive");
    let written = write(
        &selection,
        format,
        level,
        threads(options.first()),
        &mut out,
        &mut say,
    )
    .expect("writing the archive");
    eprintln!("{written:?}");
    if selection.is_spilled() {
        eprintln!("the list of files went on in a file");
    }
}

fn extract(archive: &str, folder: &str, options: &[&str]) {
    let mut archive = File::open(archive).expect("the archive");
    let options = ExtractOptions {
        limits: Limits {
            entries: 10_000_000,
            bytes: 1 << 40,
        },
        owner: Owner::Archived,
        threads: threads(options.first()),
    };
    let mut head = [0; 4];
    archive.read_exact(&mut head).expect("reading the archive");
    let folder = Path::new(folder);
    let extracted = match detect(&head) {
        Format::TarZstd => extract_tar_zstd(BufReader::new(head.chain(archive)), folder, &options),
        _ => extract_zip(&archive, folder, &options),
    };
    match extracted {
        Ok(extracted) => eprintln!("{extracted:?}"),
        Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
    }
}
