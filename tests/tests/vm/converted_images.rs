//! The guest's kernel reads what the converter writes: a busybox image of two layers, with a bit of everything.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use tar::{Builder, EntryType, Header};
use vk_erofs::{Compression, Converter, Limits};
use vk_tests::vk::{Vk, images};

/// `cap_net_raw=ep` (linux/capability.h: revision 2, effective; bit 13).
const CAP_NET_RAW: &[u8] = b"\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

const APPLETS: [&str; 13] = [
    "sh", "cat", "chmod", "find", "id", "ls", "md5sum", "readlink", "stat", "su", "tail", "tr",
    "wc",
];

struct Layer(Builder<Vec<u8>>);

impl Layer {
    fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    fn add(&mut self, kind: EntryType, path: &str, mode: u32, link: Option<&str>, data: &[u8]) {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_700_000_000);
        header.set_size(data.len() as u64);
        if kind == EntryType::Char {
            // /dev/null's.
            header.set_device_major(1).unwrap();
            header.set_device_minor(3).unwrap();
        }
        match link {
            Some(link) => self.0.append_link(&mut header, path, link).unwrap(),
            None => self.0.append_data(&mut header, path, data).unwrap(),
        }
    }

    fn file(&mut self, path: &str, mode: u32, data: &[u8]) {
        self.add(EntryType::Regular, path, mode, None, data);
    }

    fn symlink(&mut self, path: &str, target: &str) {
        self.add(EntryType::Symlink, path, 0o777, Some(target), b"");
    }

    fn finish(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

fn lower(busybox: &[u8], long: &str) -> Vec<u8> {
    let mut layer = Layer::new();
    layer.file("bin/busybox", 0o755, busybox);
    for applet in APPLETS {
        layer.symlink(&format!("bin/{applet}"), "busybox");
    }
    layer.file(
        "etc/passwd",
        0o644,
        b"root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n",
    );
    layer.file("etc/group", 0o644, b"root:x:0:\nuser:x:1000:\n");
    layer
        .0
        .append_pax_extensions([("SCHILY.xattr.security.capability", CAP_NET_RAW)])
        .unwrap();
    layer.file("with/ping", 0o755, busybox);
    layer.file("without/ping", 0o755, busybox);
    for n in 0..3000 {
        layer.file(&format!("big/{n}-{}", "x".repeat(n % 150)), 0o600, b"");
    }
    layer.symlink("long", long);
    layer.file("old/gone", 0o644, b"1");
    layer.file("gone", 0o644, b"1");
    layer.file("usr/lib/first", 0o644, b"1");
    layer.symlink("lib", "usr/lib");
    layer.finish()
}

fn upper(deep: &str) -> Vec<u8> {
    let mut layer = Layer::new();
    layer.file(".wh.gone", 0o644, b"");
    layer.file("old/.wh..wh..opq", 0o644, b"");
    layer.file("old/new", 0o4750, b"2");
    layer.file("lib/second", 0o644, b"2");
    layer.add(EntryType::Link, "third", 0o644, Some("usr/lib/first"), b"");
    layer.add(EntryType::Char, "nodes/null", 0o666, None, b"");
    layer.add(EntryType::Fifo, "nodes/fifo", 0o620, None, b"");
    layer.file(deep, 0o644, b"deep");
    layer
        .0
        .append_pax_extensions([
            ("GNU.sparse.major", &b"0"[..]),
            ("GNU.sparse.minor", b"1"),
            ("GNU.sparse.size", b"5368709123"),
            ("GNU.sparse.map", b"5368709120,3"),
        ])
        .unwrap();
    layer.file("sparse", 0o644, b"end");
    layer.finish()
}

#[test]
fn the_guest_sees_what_the_layers_say() {
    let busybox = std::fs::read("/bin/busybox").unwrap();
    let (long, deep) = ("t".repeat(4050), "d/".repeat(500) + "file");
    let vk = Vk::new();
    let dir = vk.dir().join("images");
    std::fs::create_dir(&dir).unwrap();
    for file in ["vmlinux", "initramfs.cpio"] {
        symlink(images().join(file), dir.join(file)).unwrap();
    }
    convert(
        &dir.join("busybox.erofs"),
        &lower(&busybox, &long),
        &upper(&deep),
    );

    let script = format!(
        r#"
        md5sum /bin/busybox
        ls /big | wc -l
        find /big -type f -perm 600 | wc -l
        readlink /long | wc -c
        ls -d /gone /old/* 2>/dev/null
        stat -c '%n %a %u:%g %Y %h %F' /old/new /third /lib/second /nodes/null /nodes/fifo /usr /lib
        echo x > /nodes/null
        cat /{deep}; echo
        stat -c %s /sparse; tail -c 3 /sparse; echo
        for p in with without; do
            su user -c "/$p/ping -c 1 127.0.0.1" >/dev/null 2>&1 && echo $p: works || echo $p: fails
        done
        "#
    );
    // busybox's ping knows raw sockets only, which take a capability.
    vk.wait_for_place();
    let out = vk
        .command()
        .env("VK_IMAGES_DIR", &dir)
        .args(["run", "local/busybox", "--", "/bin/sh", "-c", &script])
        .output()
        .unwrap();

    let sum = Command::new("md5sum").arg("/bin/busybox").output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    let expected = "\
3000
3000
4051
/old/new
/old/new 4750 0:0 1700000000 1 regular file
/third 644 0:0 1700000000 2 regular file
/lib/second 644 0:0 1700000000 1 regular file
/nodes/null 666 0:0 1700000000 1 character special file
/nodes/fifo 620 0:0 1700000000 1 fifo
/usr 755 0:0 0 3 directory
/lib 777 0:0 1700000000 1 symbolic link
deep
5368709123
end
with: works
without: fails
";
    let text = String::from_utf8_lossy(&out.stdout);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{text}{errors}");
    assert_eq!(text, sum + expected, "{errors}");
}

fn convert(image: &Path, lower: &[u8], upper: &[u8]) {
    let mut converter = Converter::new(File::create(image).unwrap(), Limits::default()).unwrap();
    let mut gzip = flate2::read::GzEncoder::new(lower, flate2::Compression::fast());
    let mut compressed = Vec::new();
    gzip.read_to_end(&mut compressed).unwrap();
    converter
        .add_layer(&mut &compressed[..], Compression::Gzip)
        .unwrap();
    converter
        .add_layer(&mut &upper[..], Compression::None)
        .unwrap();
    converter.finish().unwrap();
}
