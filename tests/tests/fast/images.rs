//! Images pulled from Debian's `docker-registry` into the store, as a job would.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use vk_hub_proto::job::RegistryCredential;
use vk_oci::{Digest, RegistryOptions, RetryPolicy};
use vk_oci::{
    ImageSettings, ImageStore, ManifestError, PolicySettings, PullCause, PullError, PullEvent,
    PullPolicy, PullRequest, RemoveError, StoredImage,
};
use vk_tests::fault_proxy::{Action, FaultProxy};
use vk_tests::image_maker::{self, Compression, Flavour, Image, Tar, push_index};
use vk_tests::registry::{Demands, PASSWORD, Registry, USER};
use vk_text::chain;

mod disk;
mod fields;
mod foreign;
mod indexes;
mod logins;
mod peer;
mod store;
mod trouble;

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
                ..RetryPolicy::default()
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

/// All that the image holds, by Debian's erofs-utils.
fn extract(rootfs: &Path, folder: &Path) {
    let output = Command::new("fsck.erofs")
        .arg(format!("--extract={}", folder.display()))
        .args(["--overwrite", "--no-preserve"])
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
        count += u32::from(request.target.contains("/blobs/"));
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
    let folder = tempfile::tempdir().unwrap();
    extract(&image.rootfs(), folder.path());
    let last = std::fs::read_to_string(folder.path().join("last")).unwrap();
    assert_eq!(last, "11");
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
            .filter(|r| r.target.contains("/blobs/"))
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
