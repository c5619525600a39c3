//! `vk image`, as people and scripts use it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use vk_tests::fault_proxy::{Action, FaultProxy};
use vk_tests::image_maker::{self, Compression, Image, Tar};
use vk_tests::processes::{Signal, send};
use vk_tests::registry::{Demands, PASSWORD, Registry, USER};
use vk_tests::small_disk;
use vk_tests::vk::Vk;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// `vk` that sees no configuration of this machine.
fn start(vk: &Vk, args: &[&str]) -> Child {
    vk.command()
        .args(args)
        .env("HOME", vk.dir())
        .env_remove("DOCKER_CONFIG")
        .env_remove("XDG_CONFIG_HOME")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn run(vk: &Vk, args: &[&str]) -> Output {
    start(vk, args).wait_with_output().unwrap()
}

fn layer(name: &str) -> Vec<u8> {
    Tar::new().file(name, 0o644, &vec![b'x'; 100_000]).finish()
}

/// A proxy that sends blobs slowly.
fn slow(registry: &Registry) -> FaultProxy {
    FaultProxy::start(registry.host(), |request| {
        if request.target.contains("/blobs/") {
            Action::Slow(20_000, Duration::from_millis(100))
        } else {
            Action::Forward
        }
    })
}

fn asked_for_blobs(proxy: &FaultProxy) -> usize {
    let requests = proxy.requests();
    requests
        .iter()
        .filter(|request| request.target.contains("/blobs/"))
        .count()
}

#[test]
fn images_are_pulled_listed_and_removed() {
    let registry = Registry::start();
    let digest = Image::new()
        .layer(layer("a"), Compression::Gzip)
        .push(&registry, "a:1");
    Image::new()
        .layer(layer("b"), Compression::Gzip)
        .push(&registry, "b:1");
    let (a, b) = (registry.image("a:1"), registry.image("b:1"));
    let vk = Vk::without_vm();

    let pulled = run(&vk, &["image", "pull", &a, &b]);
    let again = json(&run(
        &vk,
        &["image", "pull", "--json", "--policy", "never", &a],
    ));
    let listed = json(&run(&vk, &["image", "ls", "--json"]));
    let table = text(&run(&vk, &["image", "ls"]).stdout);

    assert_eq!(pulled.status.code(), Some(0), "{pulled:?}");
    assert!(text(&pulled.stdout).starts_with(&format!("{a} {digest}\n{b} sha256:")));
    assert!(
        text(&pulled.stderr).contains("downloading 1 layers"),
        "{pulled:?}"
    );
    assert_eq!(again[0]["digest"], digest.to_string());
    let entries = listed.as_array().unwrap();
    assert_eq!(entries.len(), 2);
    // The one that was used last comes first.
    assert_eq!(entries[0]["digest"], digest.to_string());
    assert!(
        entries
            .iter()
            .all(|image| image["size_bytes"].as_u64().unwrap() > 100_000)
    );
    assert!(
        table.contains(&a) && table.contains("linux/amd64") && table.contains(" ago"),
        "{table}"
    );

    let id = entries[1]["id"].as_str().unwrap();
    let removed = run(&vk, &["image", "rm", &id[..12]]);
    assert!(text(&removed.stdout).contains(&b), "{removed:?}");
    let collected = json(&run(&vk, &["image", "gc", "--max-size", "0", "--json"]));
    assert_eq!(collected["removed"].as_array().unwrap().len(), 1);
    assert_eq!(collected["left_bytes"], 0);
    let missing = run(&vk, &["image", "rm", &a]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(text(&missing.stderr).contains("no image"), "{missing:?}");
}

#[test]
fn what_cannot_be_pulled_is_told_in_a_line_with_status_3() {
    let registry = Registry::start();
    let vk = Vk::without_vm();
    let name = registry.image("no/such/image:9");

    let output = run(&vk, &["image", "pull", &name]);

    assert_eq!(output.status.code(), Some(3));
    assert!(output.stdout.is_empty());
    let said = text(&output.stderr);
    let last = said.lines().last().unwrap();
    assert!(
        last.starts_with("vk: failed to pull image") && last.contains(&name),
        "{said}"
    );
}

#[test]
fn what_cannot_be_meant_is_bad_usage() {
    let vk = Vk::without_vm();
    for args in [
        ["image", "pull", "--policy", "sometimes", "127.0.0.1:1/a:1"],
        [
            "image",
            "pull",
            "--platform",
            "no/such/plat/form",
            "127.0.0.1:1/a:1",
        ],
        [
            "run",
            "--platform",
            "nonsense",
            "127.0.0.1:1/a:1",
            "--shell",
        ],
    ] {
        let output = run(&vk, &args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    }
    let local = run(&vk, &["image", "pull", "local/default"]);
    assert_eq!(local.status.code(), Some(3), "{local:?}");
    assert!(text(&local.stderr).contains("nothing to pull"), "{local:?}");
}

#[test]
fn a_pull_asks_the_registry_whatever_is_configured_for_jobs() {
    let registry = Registry::start();
    let push = |name: &str| {
        Image::new()
            .layer(layer(name), Compression::Gzip)
            .push(&registry, "a:1")
    };
    let vk = Vk::without_vm();
    let config = vk.dir().join("vk.toml");
    fs::write(&config, "[images]\npull_policy = \"if-not-present\"\n").unwrap();
    let image = registry.image("a:1");
    let pull = |more: &[&str]| {
        let args = [
            "image",
            "pull",
            "--json",
            "--config",
            config.to_str().unwrap(),
            &image,
        ];
        json(&run(&vk, &[&args[..], more].concat()))[0]["digest"].clone()
    };

    let old = push("old").to_string();
    assert_eq!(pull(&[]), old);
    let new = push("new").to_string();
    assert_eq!(pull(&["--policy", "never"]), old);
    assert_eq!(pull(&[]), new);
}

#[test]
fn images_give_way_to_bytes_and_not_to_what_a_manifest_claims() {
    let registry = Registry::start();
    let filled = |byte, megabytes: usize| {
        let tar = Tar::new().file("a", 0o644, &vec![byte; megabytes << 20]);
        Image::new().layer(tar.finish(), Compression::Gzip)
    };
    filled(1, 100).push(&registry, "first:1");
    filled(2, 220).push(&registry, "large:1");
    let mut manifest = filled(3, 1).push_blobs(&registry, "liar:1");
    // Three times this fits only without the first image.
    manifest["layers"][0]["size"] = serde_json::json!(60 << 20);
    let kind = "application/vnd.oci.image.manifest.v1+json";
    image_maker::push_manifest(&registry, "liar:1", kind, &manifest);
    let vk = Vk::without_vm();
    let host = registry.host();
    let script = format!(
        "\"$VK\" image pull {host}/first:1 && ! \"$VK\" image pull {host}/liar:1 && \"$VK\" image ls && \
         \"$VK\" image pull {host}/large:1 && \"$VK\" image ls"
    );

    let output = small_disk::shell(&vk, 300, &script).output().unwrap();

    assert!(output.status.success(), "{output:?}");
    let (said, told) = (text(&output.stderr), text(&output.stdout));
    assert!(said.contains("size mismatch"), "{said}");
    let lists: Vec<_> = told.split("LAST USED").collect();
    assert!(lists[1].contains("first:1"), "{told}");
    assert!(
        lists[2].contains("large:1") && !lists[2].contains("first:1"),
        "{told}"
    );
}

/// Between any two steps, those of the collector and of replacing a damaged entry, too.
#[test]
fn pulls_that_are_killed_at_any_moment_leave_a_store_that_works() {
    let registry = Registry::start();
    for name in ["a", "b"] {
        Image::busybox()
            .layer(layer(name), Compression::None)
            .push(&registry, &format!("{name}:1"));
    }
    let images = ["a:1", "b:1"].map(|name| registry.image(name));
    let vk = Vk::without_vm();
    let config = vk.dir().join("vk.toml");
    // Room for one of them: each pull collects the other.
    fs::write(&config, "[images]\nstore_size = \"3M\"\n").unwrap();
    let pull = |image: &str| {
        start(
            &vk,
            &["image", "pull", "--config", config.to_str().unwrap(), image],
        )
    };
    let begin = Instant::now();
    assert!(
        pull(&images[0])
            .wait_with_output()
            .unwrap()
            .status
            .success()
    );
    let whole = begin.elapsed();
    let rootfs = || {
        let entries = fs::read_dir(vk.state().join("images/entries")).unwrap();
        entries.map(|entry| entry.unwrap().path().join("rootfs.erofs"))
    };

    for round in 0..24_u32 {
        let mut killed = pull(&images[round as usize % 2]);
        std::thread::sleep(whole * (round * 7 % 24) / 22);
        killed.kill().unwrap();
        killed.wait().unwrap();
        if round % 3 == 0 {
            for rootfs in rootfs() {
                let file = fs::File::options().write(true).open(rootfs).unwrap();
                file.set_len(4096).unwrap();
            }
        }
    }

    let policy = ["--policy", "if-not-present", "--policy", "always"];
    for image in &images {
        let args = ["image", "pull", "--config", config.to_str().unwrap(), image];
        let output = run(&vk, &[&args[..], &policy].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let checked = rootfs().filter(|rootfs| {
            let check = std::process::Command::new("fsck.erofs")
                .arg(rootfs)
                .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
                .output();
            check.unwrap().status.success()
        });
        assert!(checked.count() > 0);
    }
    // Records on their way, which are small, may stay for some minutes.
    let left = fs::read_dir(vk.state().join("images/tmp")).unwrap();
    assert_eq!(
        left.filter(|entry| entry.as_ref().unwrap().path().is_dir())
            .count(),
        0
    );
}

#[test]
fn a_configuration_names_authorities_and_a_helper_program_logs_in() {
    let registry = Registry::with(Demands {
        tls: true,
        login: true,
    });
    Image::new().push(&registry, "a:1");
    let vk = Vk::without_vm();
    let path = |name: &str| vk.dir().join(name);
    fs::write(path("ca.pem"), registry.ca_pem()).unwrap();
    fs::write(path("vk.toml"), "[registries]\nca_files = [\"ca.pem\"]\n").unwrap();
    fs::create_dir(path(".docker")).unwrap();
    let docker = format!("{{\"credHelpers\": {{\"{}\": \"test\"}}}}", registry.host());
    fs::write(path(".docker/config.json"), docker).unwrap();
    let helper = format!(
        "#!/bin/sh\n[ \"$*\" = get ] && read -r url; [ \"$url\" = {} ] || exit 1\n\
         echo '{{\"ServerURL\": \"x\", \"Username\": \"{USER}\", \"Secret\": \"{PASSWORD}\"}}'\n",
        registry.host()
    );
    fs::write(path("docker-credential-test"), helper).unwrap();
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path("docker-credential-test"), mode).unwrap();
    let pull = |config: &[&str]| {
        let search = format!("{}:/usr/bin:/bin", vk.dir().display());
        let mut command = vk.command();
        command
            .args(["image", "pull"])
            .args(config)
            .arg(registry.image("a:1"));
        command
            .env("HOME", vk.dir())
            .env_remove("DOCKER_CONFIG")
            .env_remove("XDG_CONFIG_HOME")
            .env("PATH", search);
        command.output().unwrap()
    };
    let file = path("vk.toml").display().to_string();

    let with = pull(&["--config", &file]);
    let without = pull(&[]);

    assert_eq!(with.status.code(), Some(0), "{with:?}");
    assert!(!text(&with.stderr).contains(PASSWORD));
    assert_eq!(without.status.code(), Some(3));
    assert!(text(&without.stderr).contains("TLS"), "{without:?}");
    let usual = path(".config/vk");
    fs::create_dir_all(&usual).unwrap();
    fs::write(usual.join("config.toml"), "[image]\n").unwrap();
    let wrong = pull(&[]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        text(&wrong.stderr).contains("unknown field `image`"),
        "{wrong:?}"
    );
}

#[test]
fn a_killed_pull_leaves_a_store_that_works() {
    let registry = Registry::start();
    Image::busybox()
        .layer(layer("second"), Compression::None)
        .push(&registry, "a:1");
    let proxy = slow(&registry);
    let vk = Vk::without_vm();
    let tmp = vk.state().join("images/tmp");
    let waiting = || fs::read_dir(&tmp).map_or(0, Iterator::count);

    let mut pull = start(&vk, &["image", "pull", &proxy.image("a:1")]);
    let end = Instant::now() + Duration::from_secs(60);
    while asked_for_blobs(&proxy) < 3 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Some of both layers has come.
    std::thread::sleep(Duration::from_millis(300));
    pull.kill().unwrap();
    pull.wait().unwrap();
    let left = waiting();
    let listed = json(&run(&vk, &["image", "ls", "--json"]));
    let swept = waiting();
    let again = run(&vk, &["image", "pull", &registry.image("a:1")]);

    assert!(left > 0, "it was killed too early");
    assert_eq!(listed.as_array().unwrap().len(), 0);
    assert_eq!(swept, 0);
    assert_eq!(again.status.code(), Some(0), "{again:?}");
}

#[test]
fn two_processes_that_pull_one_image_share_the_work() {
    let registry = Registry::start();
    Image::new()
        .layer(layer("a"), Compression::None)
        .push(&registry, "a:1");
    let proxy = slow(&registry);
    let vk = Vk::without_vm();

    let pulls = [1, 2, 3].map(|_| start(&vk, &["image", "pull", &proxy.image("a:1")]));

    for pull in pulls {
        let output = pull.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    assert_eq!(
        asked_for_blobs(&proxy),
        2,
        "one configuration and one layer"
    );
}

#[test]
fn an_interrupted_pull_ends_and_leaves_nothing() {
    let registry = Registry::start();
    Image::busybox().push(&registry, "a:1");
    let proxy = slow(&registry);
    let vk = Vk::without_vm();

    let pull = start(&vk, &["image", "pull", &proxy.image("a:1")]);
    let end = Instant::now() + Duration::from_secs(60);
    while asked_for_blobs(&proxy) < 2 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    send(pull.id(), Signal::INT);
    let output = pull.wait_with_output().unwrap();

    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert_eq!(
        fs::read_dir(vk.state().join("images/tmp")).unwrap().count(),
        0
    );
}
