//! What the tests share: layers made entry by entry, and images read back.

pub mod layer;
pub mod reader;

use std::fs::File;
use std::io::Read;
use std::process::Command;

use vk_erofs::{Compression, ConvertError, Converter, LayerSummary, Limits, Summary};

pub use layer::{Entry, layer};
pub use reader::{Kind, Tree};

/// An image made by the converter.
pub struct Image {
    dir: tempfile::TempDir,
    pub layers: Vec<LayerSummary>,
    pub summary: Summary,
}

impl Image {
    pub fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("image.erofs")
    }

    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path()).unwrap()
    }

    /// What is in it, by the tests' own reader.
    pub fn tree(&self) -> Tree {
        Tree::read(&File::open(self.path()).unwrap())
    }

    /// Checks it with `fsck.erofs`, which reads all of it.
    pub fn fsck(&self) {
        let mut command = Command::new("fsck.erofs");
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
        let out = command.arg("--extract").arg(self.path()).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "fsck.erofs: {text}");
    }
}

/// Converts plain layers.
pub fn convert(layers: &[Vec<u8>]) -> Result<Image, ConvertError> {
    convert_with(layers, Limits::default())
}

pub fn convert_with(layers: &[Vec<u8>], limits: Limits) -> Result<Image, ConvertError> {
    let layers = layers.iter().map(|layer| (&layer[..], Compression::None));
    convert_streams(layers, limits)
}

pub fn convert_streams<R: Read + Send>(
    layers: impl Iterator<Item = (R, Compression)>,
    limits: Limits,
) -> Result<Image, ConvertError> {
    let dir = tempfile::tempdir().unwrap();
    let file = File::create(dir.path().join("image.erofs")).unwrap();
    let mut converter = Converter::new(file, limits)?;
    let mut summaries = Vec::new();
    for (mut layer, compression) in layers {
        summaries.push(converter.add_layer(&mut layer, compression)?);
    }
    let summary = converter.finish()?;
    Ok(Image {
        dir,
        layers: summaries,
        summary,
    })
}

/// Converts layers given by their entries, checks the image and reads it.
pub fn tree_of(layers: &[Vec<Entry>]) -> Tree {
    let layers: Vec<_> = layers.iter().map(|entries| layer(entries)).collect();
    let image = convert(&layers).unwrap();
    image.fsck();
    image.tree()
}

/// The error of a single layer with these entries.
pub fn refusal(entries: &[Entry]) -> ConvertError {
    match convert(&[layer(entries)]) {
        Ok(image) => panic!("accepted: {:?}", image.tree().paths()),
        Err(error) => error,
    }
}
