//! What an image expects of the house that it is run in: Docker's.

use serde_json::{Value, json};
use tar::EntryType;
use vk_tests::image_maker::{Compression, Image, Tar};
use vk_tests::job::script;
use vk_tests::registry::Registry;
use vk_tests::vk::{JobRun, Vk};

/// A layer over busybox that has something in the places that a machine would take for itself.
fn lived_in() -> Vec<u8> {
    let owned = |tar: Tar, path: &str, mode: u32| {
        tar.entry(path, EntryType::Directory, mode, (1000, 1000), b"", None)
    };
    let tar = owned(Tar::new(), "run/mysqld", 0o775).file("run/seed.conf", 0o644, b"from-image\n");
    owned(tar, "kept", 0o770)
        .file("kept/f", 0o644, b"kept\n")
        .symlink("tempest", "/var/lib/tempest")
        .symlink("opt", "var/opt")
        .finish()
}

fn run_in(image: &Image, commands: &[&str]) -> JobRun {
    let registry = Registry::start();
    image.push(&registry, "field:1");
    let mut job = script(commands);
    job["image"] = json!({"name": format!("{}/field:1", registry.host())});
    Vk::new().run_job(&job, &["--timestamps", "off"])
}

fn image(config: Value) -> Image {
    let mut config = config;
    config["Env"] = json!(["PATH=/bin"]);
    config["Cmd"] = json!(["sh"]);
    Image::busybox()
        .layer(lived_in(), Compression::Gzip)
        .config(config)
}

fn assert_lines(run: &JobRun, lines: &[&str]) {
    assert_eq!(run.status, 0, "{}\n{}", run.text(), run.stderr);
    run.assert_lines(lines);
}

/// What lies in `/run` stays, volumes are there, and a working folder is made where a link leads.
#[test]
fn an_image_finds_its_folders_as_under_docker() {
    let image = image(json!({
        "Volumes": {"/data/db": {}, "/kept": {}, "/sys/fs/cgroup": {}, "/tempest/below": {}},
        "WorkingDir": "/opt/app",
    }));

    let run = run_in(
        &image,
        &[
            "cat /run/seed.conf; stat -c '%a %u %g %n' /run/mysqld; echo > /run/mysqld/x && echo run-ok",
            "stat -c '%a %u %g %n' /data/db /kept /var/lib/tempest/below; cat /kept/f",
            "readlink /opt; readlink /tempest; ls -d /var/opt/app",
            "test -e /sys/fs/cgroup/cgroup.procs && echo cgroup-ok",
        ],
    );

    assert_lines(
        &run,
        &[
            "from-image",
            "775 1000 1000 /run/mysqld",
            "run-ok",
            "755 0 0 /data/db",
            "770 1000 1000 /kept",
            "755 0 0 /var/lib/tempest/below",
            "kept",
            "var/opt",
            "/var/lib/tempest",
            "/var/opt/app",
            "cgroup-ok",
        ],
    );
}

#[test]
fn a_user_of_the_image_has_no_login_and_owns_its_streams() {
    let run = run_in(
        &image(json!({"User": "1000:1000"})),
        &[
            "id -u; echo \"USER=${USER-unset} LOGNAME=${LOGNAME-unset} SHELL=${SHELL-unset}\"",
            "echo to-stdout > /dev/stdout; echo to-stderr > /dev/stderr; echo by-number > /proc/self/fd/1",
        ],
    );

    assert_lines(
        &run,
        &[
            "1000",
            "USER=unset LOGNAME=unset SHELL=unset",
            "to-stdout",
            "to-stderr",
            "by-number",
        ],
    );
}

#[test]
fn a_folder_that_an_image_cannot_have_is_its_own_fault() {
    for (config, told) in [
        (
            json!({"WorkingDir": "/run/seed.conf/x"}),
            "WORKDIR /run/seed.conf/x",
        ),
        (
            json!({"Volumes": {"/run/seed.conf": {}}}),
            "VOLUME /run/seed.conf",
        ),
        (
            json!({"Volumes": {"/sys/nothing-here": {}}}),
            "VOLUME /sys/nothing-here",
        ),
        (
            json!({"Volumes": {"/proc/nothing/here": {}}}),
            "VOLUME /proc/nothing/here",
        ),
    ] {
        let run = run_in(&image(config), &["echo never"]);

        assert_eq!(run.failure(), "configuration", "{}", run.text());
        let text = run.text();
        assert!(text.contains("/field:1\" cannot have its "), "{text}");
        assert!(text.contains(told), "no {told:?} in {text}");
        assert!(!text.contains("never"), "{text}");
    }
}

/// Images made for containers log there: PID 1's output is a container's.
#[test]
fn what_is_written_to_pid_1_is_output_of_the_stage() {
    let job = vk_tests::job::with_after_script(
        script(&[
            "ln -sf /proc/1/fd/1 /tmp/app.log; echo logged-by-pid-1 >> /tmp/app.log",
            "echo err-by-pid-1 > /proc/1/fd/2",
            "(sleep 0.1; seq 1 30000; echo last-of-$$) > /proc/1/fd/1 & sleep 0.2; wait; echo own",
        ]),
        &["echo after-by-pid-1 > /proc/1/fd/1"],
    );

    let run = Vk::new().run_job(&job, &["--timestamps", "off"]);

    let text = run.text();
    assert_lines(
        &run,
        &[
            "logged-by-pid-1",
            "err-by-pid-1",
            "30000",
            "own",
            "after-by-pid-1",
        ],
    );
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("last-of-"))
            .count(),
        1,
        "{text}"
    );
    let after = text.find("Running after script").unwrap();
    assert!(text.find("\nafter-by-pid-1").unwrap() > after, "{text}");
}
