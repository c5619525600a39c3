//! File names of uploaded archives (gitlab-runner, wire §3.2: `artifactFilename`).

use vk_hub_proto::job::ArchiveFormat;

/// The name when the job gives none: the default of the helper's `--name`.
const UNNAMED: &str = "artifacts";

/// The name when a name's last part says nothing.
const NO_PART: &str = "default";

/// The file name of an archive called `name` (variables expanded); `None` where the job names none. A name that expands
/// to nothing is one.
#[must_use]
pub fn file_name(name: Option<&str>, format: ArchiveFormat) -> String {
    let base = match base(name.unwrap_or(UNNAMED)) {
        "." => NO_PART,
        base => base,
    };
    format!("{base}{}", suffix(format))
}

/// The name that GitLab knows a format by.
#[must_use]
pub fn format_name(format: ArchiveFormat) -> &'static str {
    match format {
        ArchiveFormat::Zip => "zip",
        ArchiveFormat::Gzip => "gzip",
        ArchiveFormat::Raw => "raw",
        ArchiveFormat::ZipZstd => "zipzstd",
        ArchiveFormat::TarZstd => "tarzstd",
    }
}

fn suffix(format: ArchiveFormat) -> &'static str {
    match format {
        ArchiveFormat::Zip | ArchiveFormat::ZipZstd => ".zip",
        ArchiveFormat::Gzip => ".gz",
        ArchiveFormat::TarZstd => ".tar.zst",
        ArchiveFormat::Raw => "",
    }
}

/// Go's `path.Base`: what follows the last slash, slashes at the end aside; one slash for nothing but slashes.
fn base(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() {
        return if path.is_empty() { "." } else { "/" };
    }
    trimmed.rsplit('/').next().unwrap_or(trimmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// gitlab-runner, wire §3.2 and wire §8.10.
    #[test]
    fn names_are_made_as_by_gitlab_runner() {
        let cases = [
            ("bundle-main", ArchiveFormat::Zip, "bundle-main.zip"),
            ("", ArchiveFormat::Zip, "default.zip"),
            ("", ArchiveFormat::Raw, "default"),
            ("repos/web/main", ArchiveFormat::Zip, "main.zip"),
            ("junit.xml", ArchiveFormat::Gzip, "junit.xml.gz"),
            ("a", ArchiveFormat::ZipZstd, "a.zip"),
            ("a", ArchiveFormat::TarZstd, "a.tar.zst"),
            (".", ArchiveFormat::Zip, "default.zip"),
            ("x/.", ArchiveFormat::Zip, "default.zip"),
            ("x/", ArchiveFormat::Zip, "x.zip"),
            ("/", ArchiveFormat::Zip, "/.zip"),
            ("..", ArchiveFormat::Zip, "...zip"),
        ];
        for (name, format, expected) in cases {
            assert_eq!(file_name(Some(name), format), expected, "{name:?}");
        }
        assert_eq!(file_name(None, ArchiveFormat::Zip), "artifacts.zip");
        assert_eq!(file_name(None, ArchiveFormat::Raw), "artifacts");
    }
}
