//! File names of uploaded archives (gitlab-runner, wire §3.2: `artifactFilename`).

use vk_hub_proto::job::ArtifactFormat;

/// The name when the job gives none: the default of the helper's `--name`.
const UNNAMED: &str = "artifacts";

/// The name when a name's last part says nothing.
const NO_PART: &str = "default";

/// The file name of an archive called `name` (variables expanded); `None` where the job names none. A name that expands
/// to nothing is one.
#[must_use]
pub fn file_name(name: Option<&str>, format: ArtifactFormat) -> String {
    let base = match base(name.unwrap_or(UNNAMED)) {
        "." => NO_PART,
        base => base,
    };
    format!("{base}{}", suffix(format))
}

/// The name that GitLab knows a format by.
#[must_use]
pub fn format_name(format: ArtifactFormat) -> &'static str {
    match format {
        ArtifactFormat::Zip => "zip",
        ArtifactFormat::Gzip => "gzip",
        ArtifactFormat::Raw => "raw",
        ArtifactFormat::ZipZstd => "zipzstd",
        ArtifactFormat::TarZstd => "tarzstd",
    }
}

fn suffix(format: ArtifactFormat) -> &'static str {
    match format {
        ArtifactFormat::Zip | ArtifactFormat::ZipZstd => ".zip",
        ArtifactFormat::Gzip => ".gz",
        ArtifactFormat::TarZstd => ".tar.zst",
        ArtifactFormat::Raw => "",
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
            ("bundle-main", ArtifactFormat::Zip, "bundle-main.zip"),
            ("", ArtifactFormat::Zip, "default.zip"),
            ("", ArtifactFormat::Raw, "default"),
            ("repos/web/main", ArtifactFormat::Zip, "main.zip"),
            ("junit.xml", ArtifactFormat::Gzip, "junit.xml.gz"),
            ("a", ArtifactFormat::ZipZstd, "a.zip"),
            ("a", ArtifactFormat::TarZstd, "a.tar.zst"),
            (".", ArtifactFormat::Zip, "default.zip"),
            ("x/.", ArtifactFormat::Zip, "default.zip"),
            ("x/", ArtifactFormat::Zip, "x.zip"),
            ("/", ArtifactFormat::Zip, "/.zip"),
            ("..", ArtifactFormat::Zip, "...zip"),
        ];
        for (name, format, expected) in cases {
            assert_eq!(file_name(Some(name), format), expected, "{name:?}");
        }
        assert_eq!(file_name(None, ArtifactFormat::Zip), "artifacts.zip");
        assert_eq!(file_name(None, ArtifactFormat::Raw), "artifacts");
    }
}
