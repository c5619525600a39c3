//! Tar streams made by hand, well-formed or not.

/// An entry of a layer.
#[derive(Clone, Debug)]
pub struct Entry {
    pub path: Vec<u8>,
    pub kind: u8,
    pub link: Vec<u8>,
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    pub mtime: u64,
    pub device: (u32, u32),
    pub data: Vec<u8>,
    /// Size in the header, if not that of the data.
    pub size: Option<u64>,
    /// Records of an extended header before it.
    pub pax: Vec<(String, Vec<u8>)>,
}

impl Entry {
    pub fn new(kind: u8, path: impl AsRef<[u8]>) -> Self {
        Self {
            path: path.as_ref().to_vec(),
            kind,
            link: Vec::new(),
            mode: if kind == b'5' { 0o755 } else { 0o644 },
            uid: 0,
            gid: 0,
            mtime: 1_700_000_000,
            device: (0, 0),
            data: Vec::new(),
            size: None,
            pax: Vec::new(),
        }
    }

    pub fn file(path: impl AsRef<[u8]>, data: impl AsRef<[u8]>) -> Self {
        Self {
            data: data.as_ref().to_vec(),
            ..Self::new(b'0', path)
        }
    }

    pub fn folder(path: impl AsRef<[u8]>) -> Self {
        Self::new(b'5', path)
    }

    pub fn symlink(path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        Self {
            link: target.as_ref().to_vec(),
            mode: 0o777,
            ..Self::new(b'2', path)
        }
    }

    pub fn hard_link(path: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Self {
        Self {
            link: target.as_ref().to_vec(),
            ..Self::new(b'1', path)
        }
    }

    pub fn mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    pub fn owner(self, uid: u64, gid: u64) -> Self {
        Self { uid, gid, ..self }
    }

    pub fn mtime(self, mtime: u64) -> Self {
        Self { mtime, ..self }
    }

    pub fn pax(mut self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.pax.push((key.to_owned(), value.as_ref().to_vec()));
        self
    }

    pub fn xattr(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.pax(&format!("SCHILY.xattr.{name}"), value)
    }

    /// The entry's blocks; what is too long for its fields goes into an extended header.
    pub fn bytes(&self) -> Vec<u8> {
        let mut pax = self.pax.clone();
        if self.path.len() > 100 {
            pax.push(("path".to_owned(), self.path.clone()));
        }
        if self.link.len() > 100 {
            pax.push(("linkpath".to_owned(), self.link.clone()));
        }
        let mut bytes = Vec::new();
        if !pax.is_empty() {
            let records: Vec<u8> = pax.iter().flat_map(|(k, v)| record(k, v)).collect();
            bytes.extend(raw(b'x', b"pax", &records));
        }
        let mut header = tar::Header::new_ustar();
        put(&mut header, 0, &self.path[..self.path.len().min(100)]);
        put(&mut header, 157, &self.link[..self.link.len().min(100)]);
        header.set_mode(self.mode);
        header.set_uid(self.uid);
        header.set_gid(self.gid);
        header.set_mtime(self.mtime);
        header.set_size(self.size.unwrap_or(self.data.len() as u64));
        header.set_device_major(self.device.0).unwrap();
        header.set_device_minor(self.device.1).unwrap();
        put(&mut header, 156, &[self.kind]);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend(padded(&self.data));
        bytes
    }
}

/// A whole tar stream.
pub fn layer(entries: &[Entry]) -> Vec<u8> {
    let mut bytes: Vec<u8> = entries.iter().flat_map(Entry::bytes).collect();
    bytes.extend([0; 1024]);
    bytes
}

/// A header of any type with contents.
pub fn raw(kind: u8, path: &[u8], contents: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    put(&mut header, 0, path);
    put(&mut header, 156, &[kind]);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(contents.len() as u64);
    header.set_cksum();
    [header.as_bytes(), &padded(contents)[..]].concat()
}

/// A record of an extended header.
pub fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let len = (rest..).find(|len| rest + len.to_string().len() == *len);
    let start = format!("{} {key}=", len.unwrap());
    [start.as_bytes(), value, b"\n"].concat()
}

pub fn padded(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    data.resize(data.len().next_multiple_of(512), 0);
    data
}

fn put(header: &mut tar::Header, at: usize, bytes: &[u8]) {
    header.as_mut_bytes()[at..at + bytes.len()].copy_from_slice(bytes);
}
