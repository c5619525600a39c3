//! Pulls that meet failures, and pulls at the same time.

use super::*;

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
        if request.target.contains("/blobs/") && is_whole {
            Action::DropAfter(100_000)
        } else {
            Action::Forward
        }
    });
    let corrupting = FaultProxy::start(registry.host(), move |request| {
        if layers.iter().any(|layer| request.target.ends_with(layer)) {
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
        if request.target.contains("/blobs/") {
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
        .filter(|r| r.target.contains("/blobs/"))
        .count();
    assert_eq!(blobs, 2, "one configuration and one layer");
}

#[tokio::test]
async fn a_pull_that_is_dropped_leaves_nothing() {
    let registry = Registry::start();
    Image::busybox().push(&registry, "a:1");
    let proxy = FaultProxy::start(registry.host(), |request| {
        if request.target.contains("/blobs/") {
            Action::Slow(10_000, Duration::from_millis(100))
        } else {
            Action::Forward
        }
    });
    let host = Host::new();
    let request = PullRequest::new(&proxy.image("a:1"), PullPolicy::Always);
    let some_came = tokio::sync::Notify::new();
    let tell = |event: PullEvent<'_>| {
        if matches!(event, PullEvent::Received { .. }) {
            some_came.notify_one();
        }
    };

    tokio::select! {
        _ = host.images.ensure(&request, &tell) => panic!("it should take longer"),
        () = some_came.notified() => {}
    }

    assert_eq!(host.left_over(), 0);
    assert!(host.pull(&registry.image("a:1")).await.is_ok());
}

/// The converter learns of a layer that does not come at the same time as the one who waits for both.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_cause_of_a_layer_that_does_not_come_is_told_however_slow_the_audience() {
    let registry = Registry::start();
    let noise: Vec<u8> = (0..400_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let layer = Tar::new().file("a", 0o644, &noise).finish();
    Image::new()
        .layer(layer, Compression::None)
        .push(&registry, "a:1");
    let proxy = FaultProxy::start(registry.host(), |request| {
        if request.headers.contains_key("range") {
            Action::status(404)
        } else if request.target.contains("/blobs/") {
            Action::DropAfter(200_000)
        } else {
            Action::Forward
        }
    });
    let mut settings = settings(RegistryOptions::default());
    settings.registries.retry.lost = Duration::from_secs(60);
    // Long enough for progress to be told in between, and over while it is told.
    settings.registries.retry.first_pause = Duration::from_millis(400);
    settings.registries.retry.longest_pause = Duration::from_millis(400);
    let tell = |event: PullEvent<'_>| {
        if matches!(event, PullEvent::Received { .. }) {
            std::thread::sleep(Duration::from_millis(600));
        }
    };

    // Which of the two is heard first is left to chance.
    for _ in 0..6 {
        let host = Host::with(settings.clone());
        let request = PullRequest::new(&proxy.image("a:1"), PullPolicy::Always);
        let error = host.images.ensure(&request, &tell).await.unwrap_err();

        assert!(matches!(cause(&error), PullCause::Registry(_)), "{error:?}");
        assert!(chain(&error).contains("not found"), "{}", chain(&error));
    }
}

#[tokio::test]
async fn a_slow_registry_keeps_nobody_waiting_who_wants_the_image_from_another_one() {
    let registry = Registry::start();
    let noise: Vec<u8> = (0..300_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let layer = Tar::new().file("a", 0o644, &noise).finish();
    Image::new()
        .layer(layer, Compression::None)
        .push(&registry, "a:1");
    let is_slow = Arc::new(AtomicBool::new(true));
    let proxy = FaultProxy::start(registry.host(), {
        let is_slow = Arc::clone(&is_slow);
        move |request| {
            if request.target.contains("/blobs/") && is_slow.load(Ordering::SeqCst) {
                Action::Slow(1000, Duration::from_millis(50))
            } else {
                Action::Forward
            }
        }
    });
    let host = Host::new();
    let slow = PullRequest::new(&proxy.image("a:1"), PullPolicy::Always);
    let layers = tokio::sync::Notify::new();
    let tell = |event: PullEvent<'_>| {
        if matches!(event, PullEvent::Layers(_)) {
            layers.notify_one();
        }
    };

    let (from_slow, from_other) = tokio::join!(host.images.ensure(&slow, &tell), async {
        layers.notified().await;
        host.pull(&registry.image("a:1")).await
    });

    // Whichever is done first, both use one entry.
    assert!(!host.was_told("Waiting"));
    let (from_slow, from_other) = (from_slow.unwrap(), from_other.unwrap());
    assert_eq!(from_slow.rootfs(), from_other.rootfs());
    assert_sound(&from_slow.rootfs());
    assert_eq!(host.images.list().unwrap().len(), 1);
    assert_eq!(host.left_over(), 0);
}

#[tokio::test]
async fn twenty_jobs_of_one_image_come_back_when_a_busy_registry_wants_and_share_the_download() {
    let registry = Registry::start();
    Image::busybox().push(&registry, "a:1");
    let mut refused = 0;
    let proxy = FaultProxy::start(registry.host(), move |_| {
        refused += 1;
        if refused > 5 {
            return Action::Forward;
        }
        let answer = "HTTP/1.1 429 Too Many\nRetry-After: 3\nContent-Type: text/plain\n\
                      Connection: close\nContent-Length: 9\n\nslow down";
        Action::Raw(answer.as_bytes().to_vec())
    });
    let mut settings = settings(RegistryOptions::default());
    settings.registries.retry.busy = Duration::from_secs(60);
    let host = Host::with(settings.clone());
    let start = std::time::Instant::now();

    let jobs: Vec<_> = (0..20)
        .map(|_| {
            let images = ImageStore::open(host.state.path(), settings.clone()).unwrap();
            let request = PullRequest::new(&proxy.image("a:1"), PullPolicy::Always);
            tokio::spawn(async move { images.ensure(&request, &|_| {}).await })
        })
        .collect();
    for job in jobs {
        assert_sound(&job.await.unwrap().unwrap().rootfs());
    }

    // A lower bound holds on a slow machine, too.
    assert!(start.elapsed() >= Duration::from_secs(3));
    let requests = proxy.requests();
    let count = |part: &str| requests.iter().filter(|r| r.target.contains(part)).count();
    assert_eq!(count("/manifests/"), 25, "one each, and five once more");
    assert_eq!(count("/blobs/"), 2, "one configuration and one layer");
}
