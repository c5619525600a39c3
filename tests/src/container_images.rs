//! The images that are looked at from inside, under Docker and under vk: what is odd about each is what images of the field have.
//! All have the program `tests/container/probe`, with a static busybox, in `/.probe`.

#![expect(
    clippy::expect_used,
    reason = "a kit for tests: what it cannot make fails the test"
)]

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tar::EntryType::Directory;

use crate::debian;
use crate::image_maker::{Compression, Image, Tar, busybox_program};
use crate::vk::workspace;

/// Where the program is in each image.
pub const PROBE: &str = "/.probe/probe";

/// An image and the users it is looked at as.
pub struct Looked {
    /// Names the image, and the files of what Docker showed.
    pub name: &'static str,
    /// As for `docker run --user`; empty for the image's own.
    pub users: &'static [&'static str],
    /// Whether the parts that are the same for all images are shown, too.
    pub kernel: bool,
    /// Whether a job can run in it: it has a shell.
    pub has_shell: bool,
    /// Whether `./test` looks at it; `./test --full` looks at all.
    pub often: bool,
    make: fn() -> Image,
}

impl Looked {
    /// The image.
    ///
    /// # Panics
    ///
    /// If what it is made of is not installed.
    #[must_use]
    pub fn image(&self) -> Image {
        (self.make)().layer(probe_layer(), Compression::Gzip)
    }

    /// What the program is started with.
    #[must_use]
    pub fn argv(&self) -> Vec<&'static str> {
        match self.kernel {
            true => vec![PROBE, "kernel"],
            false => vec![PROBE],
        }
    }
}

/// All of them.
pub const LOOKED_AT: &[Looked] = &[
    Looked {
        name: "busybox",
        users: &["", "builder"],
        kernel: true,
        has_shell: true,
        often: true,
        make: Image::busybox,
    },
    Looked {
        name: "debian",
        users: &["", "www-data"],
        kernel: false,
        has_shell: true,
        often: false,
        make: debian::with_gcc,
    },
    Looked {
        name: "distroless",
        users: &["", "0"],
        kernel: false,
        has_shell: false,
        often: false,
        make: distroless,
    },
    Looked {
        name: "user-by-name",
        users: &["", "root", "homeless", "dev:tools"],
        kernel: false,
        has_shell: true,
        often: true,
        make: user_by_name,
    },
    Looked {
        name: "user-by-number",
        users: &["", ":1000", "1000:", "0:0", "4243", "1000:tools:more"],
        kernel: false,
        has_shell: true,
        often: false,
        make: user_by_number,
    },
    Looked {
        name: "no-passwd",
        users: &["", "1000", "root"],
        kernel: false,
        has_shell: true,
        often: false,
        make: no_passwd,
    },
    Looked {
        name: "volumes",
        users: &["", "builder"],
        kernel: false,
        has_shell: true,
        often: true,
        make: volumes,
    },
    Looked {
        name: "links",
        users: &["", "builder"],
        kernel: false,
        has_shell: true,
        often: true,
        make: links,
    },
    Looked {
        name: "entry-point",
        users: &["", "builder"],
        kernel: false,
        has_shell: true,
        often: false,
        make: entry_point,
    },
    Looked {
        name: "odd-variables",
        users: &["", "builder"],
        kernel: false,
        has_shell: true,
        often: false,
        make: odd_variables,
    },
    Looked {
        name: "bare",
        users: &["", "1000"],
        kernel: false,
        has_shell: true,
        often: false,
        make: bare,
    },
    Looked {
        name: "read-only-folders",
        users: &["", "builder"],
        kernel: false,
        has_shell: true,
        often: false,
        make: read_only_folders,
    },
    Looked {
        name: "lived-in",
        users: &["", "builder"],
        kernel: false,
        has_shell: true,
        often: false,
        make: lived_in,
    },
];

/// Writes `image` as `docker load` takes it (Docker image specification 1.2, "Combined Image JSON + Filesystem Changeset
/// Format"), named `name`.
///
/// # Panics
///
/// If it cannot be written.
pub fn write_archive(image: &Image, name: &str, file: &Path) {
    let mut archive = tar::Builder::new(fs::File::create(file).expect("a file for the archive"));
    let mut add = |name: &str, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, name, content)
            .expect("the archive takes it");
    };
    add("config.json", &image.config_blob());
    let mut layers = Vec::new();
    for (number, (tar, _)) in image.layers.iter().enumerate() {
        let name = format!("layer-{number}/layer.tar");
        add(&name, tar);
        layers.push(name);
    }
    let manifest = json!([{"Config": "config.json", "RepoTags": [name], "Layers": layers}]);
    add("manifest.json", manifest.to_string().as_bytes());
    archive.finish().expect("the archive can be closed");
}

fn probe_layer() -> Vec<u8> {
    let probe = fs::read(workspace().join("tests/container/probe")).expect("the probe");
    let busybox = fs::read(busybox_program()).expect("busybox can be read");
    Tar::new()
        .folder(".probe/", 0o755)
        .file(".probe/busybox", 0o755, &busybox)
        .file(".probe/probe", 0o755, &probe)
        .finish()
}

/// The settings of an image with the program as its command, and `more`.
fn config(more: Value) -> Value {
    let mut config = json!({
        "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
        "Cmd": [PROBE],
    });
    if let Value::Object(more) = more {
        for (key, value) in more {
            config[key] = value;
        }
    }
    config
}

fn over_busybox(tar: Tar, more: Value) -> Image {
    Image::busybox()
        .layer(tar.finish(), Compression::Gzip)
        .config(config(more))
}

fn owned_folder(tar: Tar, path: &str, mode: u32, owner: (u64, u64)) -> Tar {
    tar.entry(path, Directory, mode, owner, b"", None)
}

fn distroless() -> Image {
    let tar = Tar::new()
        .folder("etc/", 0o755)
        .file(
            "etc/passwd",
            0o644,
            b"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n",
        )
        .file("etc/group", 0o644, b"root:x:0:\nnonroot:x:65532:\n")
        .folder("tmp/", 0o1777);
    let tar = owned_folder(tar, "home/nonroot/", 0o700, (65532, 65532));
    Image::new()
        .layer(tar.finish(), Compression::Gzip)
        .config(config(json!({
            "User": "nonroot",
            "WorkingDir": "/home/nonroot",
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
        })))
}

const USERS: &[u8] = b"root:x:0:0:root:/root:/bin/sh\n\
    # a comment\n\
    dev:x:1234:1234:Dev,,,:/home/dev:/bin/false\n\
    homeless:x:1235:1235:::\n\
    4243:x:1236:1236:a name of digits:/home/digits:/bin/sh\n\
    builder:x:1000:1000::/home/builder:/bin/sh\n";

const GROUPS: &[u8] = b"root:x:0:\n\
    tools:x:2000:dev,builder\n\
    docker:x:2001:builder,dev\n\
    builder:x:1000:\n\
    dev:x:1234:\n";

fn user_by_name() -> Image {
    let tar = Tar::new()
        .file("etc/passwd", 0o644, USERS)
        .file("etc/group", 0o644, GROUPS);
    let tar = owned_folder(tar, "home/dev/", 0o700, (1234, 1234));
    over_busybox(tar, json!({"User": "dev", "WorkingDir": "/home/dev/src"}))
}

fn user_by_number() -> Image {
    let tar = Tar::new()
        .file("etc/passwd", 0o644, USERS)
        .file("etc/group", 0o644, GROUPS);
    over_busybox(tar, json!({"User": "4242"}))
}

fn no_passwd() -> Image {
    let tar = Tar::new().whiteout("etc/passwd").whiteout("etc/group");
    over_busybox(tar, json!({}))
}

fn volumes() -> Image {
    let tar = owned_folder(Tar::new(), "kept/", 0o770, (1000, 1000));
    let tar = tar
        .file("kept/file", 0o640, b"kept\n")
        .symlink("var/link", "/srv/led")
        .folder("srv/", 0o755)
        .folder("closed/", 0o700);
    over_busybox(
        tar,
        json!({
            "Volumes": {"/kept": {}, "/data/db": {}, "/closed/within": {}, "/var/link/below": {}, "/trailing/": {}},
            "WorkingDir": "/data/db/work",
        }),
    )
}

fn links() -> Image {
    let tar = Tar::new()
        .whiteout("tmp")
        .symlink("tmp", "var/tmp")
        .folder("var/tmp/", 0o1777)
        .file("var/tmp/seed", 0o644, b"seed\n")
        .symlink("run", "/var/run")
        .folder("var/run/", 0o755)
        .file("var/run/seed", 0o644, b"seed\n")
        .symlink("opt", "var/opt")
        .symlink("builds", "/var/builds")
        .symlink("tempest", "../../../var/lib/tempest");
    over_busybox(tar, json!({"WorkingDir": "/opt/app/../kept"}))
}

fn entry_point() -> Image {
    let script =
        b"#!/bin/sh\nexport FROM_ENTRY=yes\numask 027\ncd /srv 2>/dev/null || cd /\nexec \"$@\"\n";
    let tar = Tar::new()
        .file("usr/bin/entry", 0o755, script)
        .folder("srv/", 0o755);
    over_busybox(
        tar,
        json!({
            "Entrypoint": ["entry"],
            "Env": ["PATH=/usr/bin:/bin", "LANG=C.UTF-8"],
            "StopSignal": "SIGINT",
            "Shell": ["/bin/sh", "-ec"],
            "Labels": {"maintainer": "nobody"},
            "ExposedPorts": {"80/tcp": {}},
            "OnBuild": ["RUN false"],
            "Healthcheck": {"Test": ["CMD", "false"]},
        }),
    )
}

fn odd_variables() -> Image {
    over_busybox(
        Tar::new(),
        json!({
            "Env": [
                "PATH=/bin:/usr/bin", "EMPTY=", "SPACED= a  b ", "TWICE=1", "TWICE=2", "lines=a\nb", "EQUALS=a=b=c",
                "dotted.name=1", "dashed-name=1", "1STARTS=digit", "HOME=/of/image", "HOSTNAME=of-image", "TERM=dumb", "USER=of-image",
                "umlaut=\u{fc}", "QUOTES='\"`$(", "PWD=/of/image", "SHLVL=7", "LD_LIBRARY_PATH=", "TZ=Europe/Berlin",
            ],
        }),
    )
}

/// Nothing but a shell: none of the folders that a runtime mounts on.
fn bare() -> Image {
    let busybox = fs::read(busybox_program()).expect("busybox can be read");
    let tar = Tar::new()
        .folder("bin/", 0o755)
        .file("bin/sh", 0o755, &busybox);
    Image::new()
        .layer(tar.finish(), Compression::Gzip)
        .config(json!({"Cmd": [PROBE]}))
}

fn read_only_folders() -> Image {
    let mut tar = Tar::new();
    for folder in [
        "./", "etc/", "tmp/", "run/", "var/", "home/", "root/", "proc/", "sys/", "dev/", "builds/",
    ] {
        tar = tar.folder(folder, 0o555);
    }
    over_busybox(tar, json!({"WorkingDir": "/home/made/here"}))
}

/// Things in the places that a runtime takes for itself.
fn lived_in() -> Image {
    let tar = Tar::new()
        .file("etc/hostname", 0o600, b"of-image\n")
        .file("etc/hosts", 0o600, b"192.0.2.1 of-image\n")
        .symlink("etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf")
        .file("etc/mtab", 0o644, b"of-image\n")
        .file("dev/of-image", 0o644, b"hidden\n")
        .file("proc/of-image", 0o644, b"hidden\n")
        .file("sys/of-image", 0o644, b"hidden\n")
        .folder("etc/profile.d/", 0o755)
        .file("etc/profile", 0o644, b"export PATH=/of/profile:$PATH\n")
        .file("etc/environment", 0o644, b"OF_ENVIRONMENT=1\n");
    let tar = owned_folder(tar, "run/mysqld/", 0o775, (1000, 1000));
    let tar = owned_folder(tar, "run/lock/", 0o1777, (0, 0)).file("run/seed", 0o644, b"seed\n");
    let tar = owned_folder(tar, "builds/", 0o2775, (1000, 1000));
    over_busybox(tar, json!({"WorkingDir": "/run/mysqld"}))
}
