//! What the store keeps, and what goes.

use super::*;

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

    let digests = |removed: &[vk_oci::StoredSummary]| -> Vec<_> {
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

/// As if the host had been started again since its images were looked at.
fn restart(host: &Host) {
    let checked = host.state.path().join("images/checked");
    for note in std::fs::read_dir(checked).unwrap() {
        std::fs::write(note.unwrap().path(), "another boot").unwrap();
    }
}

#[tokio::test]
async fn an_entry_with_other_bytes_is_found_at_its_first_use_after_a_restart_and_pulled_again() {
    let registry = Registry::start();
    let content: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let tar = Tar::new().file("a", 0o644, &content).finish();
    Image::new()
        .layer(tar, Compression::Gzip)
        .push(&registry, "a:1");
    let host = Host::new();
    let name = registry.image("a:1");
    let rootfs = host.pull(&name).await.unwrap().rootfs();
    let good = std::fs::read(&rootfs).unwrap();
    let never = PullRequest::new(&name, PullPolicy::Never);
    let if_missing = PullRequest::new(&name, PullPolicy::IfNotPresent);
    let damage = || {
        use std::os::unix::fs::FileExt;

        let file = std::fs::File::options().write(true).open(&rootfs).unwrap();
        let middle = file.metadata().unwrap().len() / 2;
        file.write_all_at(&[0xff; 4096], middle).unwrap();
    };

    restart(&host);
    let sound = host.ensure(&never).await;
    damage();
    restart(&host);
    let damaged = host.ensure(&never).await;
    let again = host.ensure(&if_missing).await.unwrap();

    assert!(sound.is_ok(), "{sound:?}");
    assert!(
        matches!(cause(&damaged.unwrap_err()), PullCause::NotHere { .. }),
        "it must not boot"
    );
    assert!(std::fs::read(again.rootfs()).unwrap() == good);
    assert_eq!(host.left_over(), 0);
}

#[tokio::test]
async fn a_damaged_entry_that_is_in_use_is_replaced_too() {
    let registry = Registry::start();
    Image::new()
        .layer(small_layer("a"), Compression::Gzip)
        .push(&registry, "a:1");
    let host = Host::new();
    let name = registry.image("a:1");
    let in_use = host.pull(&name).await.unwrap();
    std::fs::write(in_use.rootfs(), b"short").unwrap();

    let again = host.pull(&name).await.unwrap();

    assert_sound(&again.rootfs());
    assert_eq!(host.left_over(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_not_collected_before_its_pull_is_over() {
    let registry = Registry::start();
    Image::new()
        .layer(small_layer("a"), Compression::Gzip)
        .push(&registry, "a:1");
    let host = Host::new();
    let over = Arc::new(AtomicBool::new(false));
    let collector = std::thread::spawn({
        let (images, over) = (host.images.clone(), Arc::clone(&over));
        move || {
            while !over.load(Ordering::SeqCst) {
                images.collect(Some(0)).unwrap();
            }
        }
    });

    let mut gone = 0;
    for _ in 0..30 {
        let image = host.pull(&registry.image("a:1")).await.unwrap();
        gone += u32::from(!image.rootfs().is_file());
    }
    over.store(true, Ordering::SeqCst);
    collector.join().unwrap();

    assert_eq!(gone, 0);
}
