//! Images pulled from Debian's `docker-registry` into the store, as a job would.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use vk_driver::image::{
    ImageSettings, ImageStore, ManifestError, PolicySettings, PullCause, PullError, PullEvent,
    PullPolicy, PullRequest, RemoveError, StoredImage,
};
use vk_driver::registry::{Digest, RegistryOptions, RetryPolicy};
use vk_driver::report::chain;
use vk_hub_proto::job::RegistryCredential;
use vk_tests::fault_proxy::{Action, FaultProxy};
use vk_tests::image_maker::{self, Compression, Flavour, Image, Tar, push_index};
use vk_tests::registry::{Demands, PASSWORD, Registry, USER};

/// A store of its own, and what its pulls told.
struct Host {
    state: tempfile::TempDir,
    images: ImageStore,
    told: Mutex<Vec<String>>,
}

fn settings(registry: RegistryOptions) -> ImageSettings {
    ImageSettings {
        registries: RegistryOptions {
            retry: RetryPolicy {
                lost: Duration::from_millis(300),
                busy: Duration::from_millis(300),
                unknown_host: Duration::from_millis(100),
                first_pause: Duration::from_millis(10),
                longest_pause: Duration::from_millis(50),
            },
            ..registry
        },
        docker_config: None,
        ..ImageSettings::default()
    }
}

impl Host {
    fn new() -> Self {
        Self::with(settings(RegistryOptions::default()))
    }

    fn with(settings: ImageSettings) -> Self {
        let state = tempfile::tempdir().unwrap();
        let images = ImageStore::open(state.path(), settings).unwrap();
        let told = Mutex::default();
        Self {
            state,
            images,
            told,
        }
    }

    async fn ensure(&self, request: &PullRequest) -> Result<StoredImage, PullError> {
        let tell = |event: PullEvent<'_>| {
            let text = format!("{event:?}");
            self.told.lock().unwrap().push(text);
        };
        self.images.ensure(request, &tell).await
    }

    async fn pull(&self, name: &str) -> Result<StoredImage, PullError> {
        self.ensure(&PullRequest::new(name, PullPolicy::Always))
            .await
    }

    /// Why a pull fails, and the whole text.
    async fn failure(&self, name: &str) -> (PullError, String) {
        let error = self.pull(name).await.unwrap_err();
        let text = chain(&error);
        (error, text)
    }

    fn was_told(&self, beginning: &str) -> bool {
        let told = self.told.lock().unwrap();
        told.iter().any(|event| event.starts_with(beginning))
    }

    /// What pulls that are over left in the store.
    fn left_over(&self) -> usize {
        let tmp = self.state.path().join("images/tmp");
        std::fs::read_dir(tmp).unwrap().count()
    }
}

fn cause(error: &PullError) -> &PullCause {
    error.cause().unwrap_or_else(|| panic!("{error:?}"))
}

/// What Debian's erofs-utils say the image holds: the listing of a folder.
fn listing(rootfs: &Path, folder: &str) -> String {
    let output = Command::new("dump.erofs")
        .args(["--ls", "--path", folder])
        .arg(rootfs)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn assert_sound(rootfs: &Path) {
    let output = Command::new("fsck.erofs")
        .arg(rootfs)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn small_layer(file: &str) -> Vec<u8> {
    Tar::new().file(file, 0o644, file.as_bytes()).finish()
}

#[tokio::test]
async fn an_image_of_any_flavour_and_compression_becomes_a_root_file_system() {
    for (flavour, compression) in [
        (Flavour::Oci, Compression::Gzip),
        (Flavour::Oci, Compression::Zstd),
        (Flavour::Oci, Compression::None),
        (Flavour::Docker, Compression::Gzip),
    ] {
        let registry = Registry::start();
        let digest = Image::new()
            .flavour(flavour)
            .layer(small_layer("first"), compression)
            .layer(small_layer("second"), compression)
            .layer(Tar::new().whiteout("first").finish(), compression)
            .config(json!({"Env": ["A=b"], "User": "1000", "Cmd": ["sh"]}))
            .push(&registry, "team/a:1");
        let host = Host::new();

        let image = host.pull(&registry.image("team/a:1")).await.unwrap();

        assert_sound(&image.rootfs());
        let files = listing(&image.rootfs(), "/");
        assert!(
            files.contains("second") && !files.contains("first"),
            "{files}"
        );
        assert_eq!(image.digest(), digest);
        assert_eq!(image.config().env, [("A".to_owned(), "b".to_owned())]);
        assert_eq!(image.config().user, "1000");
        assert_eq!(image.reference().to_string(), registry.image("team/a:1"));
        assert_eq!(host.left_over(), 0);
    }
}

#[tokio::test]
async fn many_layers_are_applied_in_order_however_they_come() {
    let registry = Registry::start();
    let image = (0..12).fold(Image::new(), |image, number| {
        let tar = Tar::new()
            .file("last", 0o644, number.to_string().as_bytes())
            .file(&format!("layer-{number}"), 0o644, &vec![b'x'; 200_000])
            .finish();
        image.layer(tar, Compression::Gzip)
    });
    image.push(&registry, "a:1");
    // The early ones come last.
    let mut count = 0;
    let proxy = FaultProxy::start(registry.host(), move |request| {
        count += u32::from(request.path.contains("/blobs/"));
        if count < 5 {
            Action::Slow(1000, Duration::from_millis(20))
        } else {
            Action::Forward
        }
    });

    let host = Host::new();
    let image = host.pull(&proxy.image("a:1")).await.unwrap();

    assert_sound(&image.rootfs());
    let files = listing(&image.rootfs(), "/");
    assert!(
        (0..12).all(|number| files.contains(&format!("layer-{number}"))),
        "{files}"
    );
    let content = std::fs::read(image.rootfs()).unwrap();
    assert!(content.windows(2).any(|window| window == b"11"));
}

#[tokio::test]
async fn the_platforms_image_is_taken_and_a_missing_one_is_named_with_those_there_are() {
    let registry = Registry::start();
    let of = |platform: &str| {
        Image::new()
            .platform(platform)
            .layer(small_layer(&platform.replace('/', "-")), Compression::Gzip)
    };
    let index = push_index(&registry, "a:1", &[of("linux/arm64"), of("linux/amd64")]);
    let host = Host::new();

    let guest = host.pull(&registry.image("a:1")).await.unwrap();
    let mut request = PullRequest::new(&registry.image("a:1"), PullPolicy::Always);
    request.platform = Some("linux/arm64/v8".to_owned());
    let other = host.ensure(&request).await.unwrap();
    request.platform = Some("linux/s390x".to_owned());
    let missing = host.ensure(&request).await.unwrap_err();

    assert_eq!(guest.digest(), index);
    assert!(listing(&guest.rootfs(), "/").contains("linux-amd64"));
    assert_eq!(other.digest(), index);
    assert!(listing(&other.rootfs(), "/").contains("linux-arm64"));
    assert_eq!(other.platform(), "linux/arm64");
    let text = chain(&missing);
    for part in [
        "linux/s390x",
        "linux/arm64, linux/amd64",
        &registry.image("a:1"),
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test]
async fn an_image_for_another_platform_alone_is_refused() {
    let registry = Registry::start();
    Image::new().platform("linux/arm64").push(&registry, "a:1");

    let (error, text) = Host::new().failure(&registry.image("a:1")).await;

    assert!(
        matches!(
            cause(&error),
            PullCause::Manifest {
                source: ManifestError::Platform { .. },
                ..
            }
        ),
        "{text}"
    );
}

#[tokio::test]
async fn an_image_that_is_here_is_not_downloaded_again() {
    let registry = Registry::start();
    Image::busybox().push(&registry, "a:1");
    let proxy = FaultProxy::start(registry.host(), |_| Action::Forward);
    let host = Host::new();
    let name = proxy.image("a:1");
    let blobs = || {
        proxy
            .requests()
            .iter()
            .filter(|r| r.path.contains("/blobs/"))
            .count()
    };
    host.pull(&name).await.unwrap();
    let first = blobs();

    let second = host.pull(&name).await.unwrap();

    assert_eq!(blobs(), first);
    assert!(host.was_told("Present"));
    assert!(second.rootfs().is_file());
}

#[tokio::test]
async fn a_policy_decides_whether_the_registry_is_asked() {
    let mut registry = Registry::start();
    let old = Image::new()
        .layer(small_layer("old"), Compression::Gzip)
        .push(&registry, "a:1");
    let host = Host::new();
    let name = registry.image("a:1");
    let with = |policy| PullRequest::new(&name, policy);

    let never = host.ensure(&with(PullPolicy::Never)).await.unwrap_err();
    let pulled = host.ensure(&with(PullPolicy::IfNotPresent)).await.unwrap();
    let new = Image::new()
        .layer(small_layer("new"), Compression::Gzip)
        .push(&registry, "a:1");
    let kept = host.ensure(&with(PullPolicy::IfNotPresent)).await.unwrap();
    let never_now = host.ensure(&with(PullPolicy::Never)).await.unwrap();
    let always = host.ensure(&with(PullPolicy::Always)).await.unwrap();
    let after = host.ensure(&with(PullPolicy::Never)).await.unwrap();
    let pinned = format!("{}@{old}", registry.image("a"));
    let by_digest = host
        .ensure(&PullRequest::new(&pinned, PullPolicy::Never))
        .await
        .unwrap();
    registry.stop();
    let offline = host.ensure(&with(PullPolicy::IfNotPresent)).await.unwrap();

    assert!(
        matches!(cause(&never), PullCause::NotHere { .. }),
        "{never:?}"
    );
    assert!(chain(&never).contains(&name));
    for image in [pulled, kept, never_now, by_digest] {
        assert_eq!(image.digest(), old);
    }
    for image in [always, after, offline] {
        assert_eq!(image.digest(), new);
    }
}

#[tokio::test]
async fn policies_are_tried_in_order_and_those_not_allowed_left_out() {
    let registry = Registry::start();
    Image::new().push(&registry, "a:1");
    let host = Host::with(ImageSettings {
        policies: PolicySettings {
            default: Vec::new(),
            allowed: vec![PullPolicy::Never, PullPolicy::Always],
        },
        ..settings(RegistryOptions::default())
    });
    let mut request = PullRequest::new(&registry.image("a:1"), PullPolicy::Always);
    request.policies = ["never", "if-not-present", "always"]
        .map(str::to_owned)
        .to_vec();

    let image = host.ensure(&request).await;
    request.policies = vec!["if-not-present".to_owned()];
    let refused = host.ensure(&request).await.unwrap_err();

    assert!(image.is_ok());
    assert!(host.was_told("Policies([Never, Always])"));
    assert!(host.was_told("Failed { policy: Never"));
    assert!(host.was_told("Attempt { number: 2, policy: Always }"));
    assert!(refused.is_configuration());
    assert!(
        refused
            .to_string()
            .contains("is not one of the allowed_pull_policies"),
        "{refused}"
    );
}

#[tokio::test]
async fn names_that_lead_nowhere_are_told_apart() {
    let registry = Registry::start();
    let host = Host::new();

    let (missing, missing_text) = host.failure(&registry.image("no/such/image:9")).await;
    let (bad, bad_text) = host.failure("UPPER CASE::").await;
    let (nobody, nobody_text) = host.failure("127.0.0.1:1/build:1").await;
    let (reserved, _) = host.failure("dockerfile:ci/Dockerfile").await;

    assert!(
        matches!(cause(&missing), PullCause::Registry(_)),
        "{missing_text}"
    );
    let expected = format!(
        "failed to pull image \"{}\" with specified policies [always]: ",
        registry.image("no/such/image:9")
    );
    assert!(missing_text.starts_with(&expected), "{missing_text}");
    assert!(missing_text.contains("manifest unknown"), "{missing_text}");
    assert!(matches!(cause(&bad), PullCause::Name(_)), "{bad_text}");
    assert_eq!(
        bad_text,
        "failed to pull image \"UPPER CASE::\" with specified policies [always]: invalid reference format: \
         repository name (library/UPPER CASE) must be lowercase"
    );
    assert!(
        matches!(cause(&nobody), PullCause::Registry(_)),
        "{nobody_text}"
    );
    assert!(
        nobody_text.contains("refused") && nobody_text.contains("127.0.0.1:1"),
        "{nobody_text}"
    );
    assert!(reserved.is_configuration());
    assert!(!missing.is_configuration() && !bad.is_configuration() && !nobody.is_configuration());
}

#[tokio::test]
async fn a_login_is_taken_from_where_there_is_one() {
    let registry = Registry::with(Demands {
        login: true,
        tls: false,
    });
    Image::new().push(&registry, "a:1");
    let name = registry.image("a:1");
    // `builder:hush-hush`
    let config =
        json!({"auths": {registry.host(): {"auth": "YnVpbGRlcjpodXNoLWh1c2g="}}}).to_string();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.json");
    std::fs::write(&file, &config).unwrap();
    let request = PullRequest::new(&name, PullPolicy::Always);
    let with_variable = PullRequest {
        docker_auth_config: Some(config),
        ..request.clone()
    };
    let with_job = PullRequest {
        registry_credentials: vec![RegistryCredential {
            url: registry.host().to_owned(),
            username: USER.to_owned(),
            password: PASSWORD.to_owned(),
        }],
        ..request.clone()
    };
    let of_host = Host::with(ImageSettings {
        docker_config: Some(file),
        ..settings(RegistryOptions::default())
    });

    assert!(Host::new().ensure(&with_variable).await.is_ok());
    assert!(Host::new().ensure(&with_job).await.is_ok());
    assert!(of_host.ensure(&request).await.is_ok());
    assert!(of_host.was_told("Login"));
    let (_, text) = Host::new().failure(&name).await;
    assert!(text.contains("without a login"), "{text}");
}

#[tokio::test]
async fn what_is_damaged_is_refused_and_nothing_is_kept() {
    let registry = Registry::start();
    let layer = |content: &[u8]| {
        let kind = "application/vnd.oci.image.layer.v1.tar+gzip";
        image_maker::push_blob(&registry, "a:1", kind, content.to_vec())
    };
    let good = Image::new().layer(small_layer("a"), Compression::Gzip);
    let manifest = good.push_blobs(&registry, "a:1");
    let mut no_gzip = manifest.clone();
    no_gzip["layers"][0] = layer(b"\x1f\x8b\x08\x00rubbish");
    let mut other_layer = manifest.clone();
    let other = small_layer("b");
    other_layer["layers"][0] = layer(&image_maker::compressed(&other, Compression::Gzip));
    let mut one_more = manifest.clone();
    let twice = one_more["layers"][0].clone();
    one_more["layers"] = json!([twice, twice]);
    let kind = "application/vnd.oci.image.manifest.v1+json";

    for (manifest, part) in [
        (no_gzip, "cannot unpack layer"),
        (other_layer, "as its configuration says"),
        (one_more, "2 layers, its configuration 1"),
    ] {
        image_maker::push_manifest(&registry, "a:1", kind, &manifest);
        let host = Host::new();

        let (_, text) = host.failure(&registry.image("a:1")).await;

        assert!(text.contains(part), "{text}");
        assert!(host.images.list().unwrap().is_empty());
        assert_eq!(host.left_over(), 0);
    }
}

#[tokio::test]
async fn a_layer_that_breaks_off_is_resumed_and_one_with_the_wrong_digest_is_refused() {
    let registry = Registry::start();
    let noise: Vec<u8> = (0..400_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let tar = |name: &str| Tar::new().file(name, 0o644, &noise).finish();
    let image = Image::new()
        .layer(tar("a"), Compression::None)
        .layer(tar("b"), Compression::None);
    image.push(&registry, "a:1");
    let layers = [Digest::of(&tar("a")), Digest::of(&tar("b"))].map(|digest| digest.to_string());
    let breaking = FaultProxy::start(registry.host(), |request| {
        let is_whole = !request.headers.contains_key("range");
        if request.path.contains("/blobs/") && is_whole {
            Action::DropAfter(100_000)
        } else {
            Action::Forward
        }
    });
    let corrupting = FaultProxy::start(registry.host(), move |request| {
        if layers.iter().any(|layer| request.path.ends_with(layer)) {
            Action::Corrupt(300_000)
        } else {
            Action::Forward
        }
    });
    let host = Host::new();

    let resumed = host.pull(&breaking.image("a:1")).await.unwrap();
    let other = Host::new();
    let (error, text) = other.failure(&corrupting.image("a:1")).await;

    assert_sound(&resumed.rootfs());
    assert!(matches!(cause(&error), PullCause::Registry(_)), "{text}");
    assert!(text.contains("digest mismatch"), "{text}");
    assert!(other.images.list().unwrap().is_empty());
}

#[tokio::test]
async fn two_pulls_of_one_image_share_the_work() {
    let registry = Registry::start();
    Image::busybox().push(&registry, "a:1");
    let proxy = FaultProxy::start(registry.host(), |request| {
        if request.path.contains("/blobs/") {
            Action::Slow(200_000, Duration::from_millis(50))
        } else {
            Action::Forward
        }
    });
    let host = Host::new();
    // Another process's view: a store of its own on the same folder.
    let second = ImageStore::open(host.state.path(), settings(RegistryOptions::default())).unwrap();
    let request = PullRequest::new(&proxy.image("a:1"), PullPolicy::Always);

    let (one, other) = tokio::join!(host.ensure(&request), second.ensure(&request, &|_| {}));

    assert_eq!(one.unwrap().rootfs(), other.unwrap().rootfs());
    let blobs = proxy
        .requests()
        .iter()
        .filter(|r| r.path.contains("/blobs/"))
        .count();
    assert_eq!(blobs, 2, "one configuration and one layer");
}

#[tokio::test]
async fn a_pull_that_is_dropped_leaves_nothing() {
    let registry = Registry::start();
    Image::busybox().push(&registry, "a:1");
    let proxy = FaultProxy::start(registry.host(), |request| {
        if request.path.contains("/blobs/") {
            Action::Slow(10_000, Duration::from_millis(100))
        } else {
            Action::Forward
        }
    });
    let host = Host::new();
    let name = proxy.image("a:1");

    let pull = tokio::time::timeout(Duration::from_millis(800), host.pull(&name)).await;

    assert!(pull.is_err(), "it should take longer");
    assert!(host.was_told("Layers"));
    assert_eq!(host.left_over(), 0);
    assert!(host.pull(&registry.image("a:1")).await.is_ok());
}

#[tokio::test]
async fn images_in_use_stay_and_the_others_go_oldest_first() {
    let registry = Registry::start();
    let content = vec![b'x'; 1 << 20];
    for name in ["a", "b", "c"] {
        let tar = Tar::new().file(name, 0o644, &content).finish();
        Image::new()
            .layer(tar, Compression::Gzip)
            .push(&registry, &format!("{name}:1"));
    }
    let host = Host::new();
    let in_use = host.pull(&registry.image("a:1")).await.unwrap();
    for name in ["b:1", "c:1"] {
        // Times of files on some file systems have steps of a hundredth of a second.
        tokio::time::sleep(Duration::from_millis(30)).await;
        drop(host.pull(&registry.image(name)).await.unwrap());
    }
    let references = || -> Vec<_> {
        let list = host.images.list().unwrap();
        list.into_iter()
            .filter_map(|image| image.references.into_iter().find(|r| r.contains(":1")))
            .collect()
    };
    assert_eq!(
        references(),
        ["c:1", "b:1", "a:1"].map(|name| registry.image(name))
    );

    let one = host.images.collect(Some(5 << 19)).unwrap();
    let left = references();
    let all = host.images.collect(Some(0)).unwrap();

    let digests = |removed: &[vk_driver::image::StoredSummary]| -> Vec<_> {
        removed
            .iter()
            .map(|image| image.references[0].clone())
            .collect()
    };
    assert_eq!(digests(&one.removed).len(), 1);
    assert_eq!(left, ["c:1", "a:1"].map(|name| registry.image(name)));
    assert_eq!(all.removed.len(), 1);
    assert_eq!(references(), [registry.image("a:1")]);
    assert!(in_use.rootfs().is_file());
    let busy = host.images.remove(&registry.image("a:1")).unwrap_err();
    assert!(matches!(busy, RemoveError::InUse(_)), "{busy}");
    drop(in_use);
    host.images.remove(&registry.image("a:1")).unwrap();
    assert!(host.images.list().unwrap().is_empty());
    let gone = host.images.remove(&registry.image("a:1")).unwrap_err();
    assert!(matches!(gone, RemoveError::Unknown(_)), "{gone}");
}

#[tokio::test]
async fn the_store_keeps_within_its_bound() {
    let registry = Registry::start();
    let host = Host::with(ImageSettings {
        max_bytes: 5 << 19,
        ..settings(RegistryOptions::default())
    });

    for name in ["a", "b", "c"] {
        let tar = Tar::new().file(name, 0o644, &vec![b'x'; 1 << 20]).finish();
        let name = format!("{name}:1");
        Image::new()
            .layer(tar, Compression::Gzip)
            .push(&registry, &name);
        drop(host.pull(&registry.image(&name)).await.unwrap());
        tokio::time::sleep(Duration::from_millis(30)).await;
    }

    let list = host.images.list().unwrap();
    assert_eq!(list.len(), 2);
    assert!(
        list.iter()
            .all(|image| !image.references.contains(&registry.image("a:1")))
    );
}

#[tokio::test]
async fn an_image_that_no_disk_holds_is_refused_before_it_is_downloaded() {
    let registry = Registry::start();
    let image = Image::new().layer(small_layer("a"), Compression::Gzip);
    let mut manifest = image.push_blobs(&registry, "a:1");
    // The registry does not compare sizes.
    manifest["layers"][0]["size"] = json!(1_u64 << 50);
    let kind = "application/vnd.oci.image.manifest.v1+json";
    image_maker::push_manifest(&registry, "a:1", kind, &manifest);
    let host = Host::new();

    let (error, text) = host.failure(&registry.image("a:1")).await;

    assert!(matches!(cause(&error), PullCause::NoSpace { .. }), "{text}");
    assert!(text.contains("needs about 3221225472 MiB"), "{text}");
    assert!(!host.was_told("Layers"));
}

#[tokio::test]
async fn a_damaged_entry_is_pulled_again() {
    let registry = Registry::start();
    Image::new()
        .layer(small_layer("a"), Compression::Gzip)
        .push(&registry, "a:1");
    let host = Host::new();
    let name = registry.image("a:1");
    let rootfs = host.pull(&name).await.unwrap().rootfs();
    std::fs::write(&rootfs, b"short").unwrap();

    let again = host
        .ensure(&PullRequest::new(&name, PullPolicy::IfNotPresent))
        .await
        .unwrap();

    assert_sound(&again.rootfs());
}

#[tokio::test]
async fn an_image_copied_by_skopeo_is_an_image() {
    let registry = Registry::start();
    Image::busybox().push(&registry, "made:1");
    let folder = tempfile::tempdir().unwrap();
    let layout = format!("oci:{}:latest", folder.path().join("layout").display());
    let copy = |from: &str, to: &str, more: &[&str]| {
        let output = Command::new("skopeo")
            .args([
                "copy",
                "--quiet",
                "--src-tls-verify=false",
                "--dest-tls-verify=false",
            ])
            .args(more)
            .args([from, to])
            .env("TMPDIR", folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    copy(
        &format!("docker://{}", registry.image("made:1")),
        &layout,
        &[],
    );
    copy(
        &layout,
        &format!("docker://{}", registry.image("oci:1")),
        &["--dest-compress-format=zstd", "--dest-compress"],
    );
    copy(
        &layout,
        &format!("docker://{}", registry.image("v2:1")),
        &["--format=v2s2"],
    );
    let host = Host::new();

    for name in ["oci:1", "v2:1"] {
        let image = host.pull(&registry.image(name)).await.unwrap();

        assert_sound(&image.rootfs());
        assert!(listing(&image.rootfs(), "/bin").contains("busybox"));
    }
}

#[tokio::test]
async fn an_image_changed_by_umoci_is_an_image() {
    let registry = Registry::start();
    Image::busybox().push(&registry, "made:1");
    let folder = tempfile::tempdir().unwrap();
    let layout = folder.path().join("layout").display().to_string();
    let tagged = format!("{layout}:latest");
    let bundle = folder.path().join("bundle").display().to_string();
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .env("TMPDIR", folder.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {output:?}"
        );
    };
    let from = format!("docker://{}", registry.image("made:1"));
    let to = format!("docker://{}", registry.image("changed:1"));
    run(
        "skopeo",
        &[
            "copy",
            "--quiet",
            "--src-tls-verify=false",
            &from,
            &format!("oci:{tagged}"),
        ],
    );
    run(
        "umoci",
        &["unpack", "--rootless", "--image", &tagged, &bundle],
    );
    let added = format!("{bundle}/rootfs/srv/inserted");
    std::fs::create_dir(format!("{bundle}/rootfs/srv")).unwrap();
    std::fs::write(added, "content").unwrap();
    std::fs::remove_file(format!("{bundle}/rootfs/bin/wget")).unwrap();
    run("umoci", &["repack", "--image", &tagged, &bundle]);
    run(
        "umoci",
        &[
            "config",
            "--image",
            &tagged,
            "--config.env",
            "MADE_BY=umoci",
        ],
    );
    run(
        "skopeo",
        &[
            "copy",
            "--quiet",
            "--dest-tls-verify=false",
            &format!("oci:{tagged}"),
            &to,
        ],
    );

    let host = Host::new();
    let image = host.pull(&registry.image("changed:1")).await.unwrap();

    assert_sound(&image.rootfs());
    assert!(listing(&image.rootfs(), "/srv").contains("inserted"));
    assert!(!listing(&image.rootfs(), "/bin").contains("wget"));
    assert!(
        image
            .config()
            .env
            .contains(&("MADE_BY".to_owned(), "umoci".to_owned()))
    );
}
