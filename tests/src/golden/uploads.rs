//! Uploaded artifacts in the form of the recordings.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::gitlab::Upload;

/// What each upload was: query, file name, entries; the entries of a zip sorted by path.
///
/// # Errors
///
/// If an archive cannot be read.
pub fn recorded(uploads: &[Upload]) -> anyhow::Result<Vec<Value>> {
    uploads.iter().map(one).collect()
}

fn one(upload: &Upload) -> anyhow::Result<Value> {
    let format = upload
        .query
        .get("artifact_format")
        .map_or("", String::as_str);
    Ok(json!({
        "query": upload.query,
        "filename": upload.file_name,
        "entries": entries(format, &upload.content)?,
    }))
}

/// Lists an archive with Python's own modules, which are not ours.
const LIST: &str = r"
import gzip, io, json, stat, struct, sys, zipfile
format, data = sys.argv[1], sys.stdin.buffer.read()
entries = []
if format == 'zip':
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        for info in sorted(archive.infolist(), key=lambda info: info.filename):
            mode = info.external_attr >> 16
            entry = {'path': info.filename, 'mode': oct(mode), 'size': info.file_size}
            if stat.S_ISLNK(mode):
                entry['link'] = archive.read(info).decode()
            entries.append(entry)
elif format == 'gzip':
    flags, at = data[3], 10
    name = data[at:data.index(b'\0', at)].decode() if flags & 8 else ''
    entries.append({'path': name, 'content': gzip.decompress(data).decode()})
elif format == 'raw':
    entries.append({'content': data.decode()})
else:
    sys.exit('no such format: ' + format)
json.dump(entries, sys.stdout)
";

fn entries(format: &str, content: &[u8]) -> anyhow::Result<Value> {
    let mut python = Command::new("python3")
        .args(["-c", LIST, format])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start python3")?;
    let mut input = python.stdin.take().context("python3 has no input")?;
    // It reads all before it writes.
    input.write_all(content)?;
    drop(input);
    let output = python.wait_with_output()?;
    if !output.status.success() {
        bail!(
            "cannot list an archive: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
