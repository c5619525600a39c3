//! Jobs in images from a registry.

use serde_json::{Value, json};
use vk_tests::debian;
use vk_tests::job::script;
use vk_tests::registry::Registry;
use vk_tests::vk::Vk;

/// A C project with a test, made by the job: sources from git are tested elsewhere.
fn c_project(image: &str, policy: &str) -> Value {
    let mut job = script(&[
        "printf '%s\\n' '#include <stdio.h>' 'int add(int, int);' \
            'int main(void) { printf(\"sum %d\\n\", add(2, 3)); return add(2, 3) != 5; }' > main.c",
        "echo 'int add(int a, int b) { return a + b; }' > add.c",
        "printf 'test: sum\\n\\t./sum\\nsum: main.o add.o\\n\\tcc -o $@ $^\\n' > Makefile",
        "make test",
        // Its capability came through layer, conversion and mount: it works for who is not root.
        "su -s /bin/sh nobody -c 'ping -c 1 -W 5 127.0.0.1'",
        "cat /etc/hostname /etc/hosts; test -e /etc/resolv.conf",
    ]);
    job["image"] = json!({"name": image, "pull_policy": [policy]});
    job
}

#[test]
fn a_c_project_builds_in_debian_twice_the_second_time_without_the_registry() {
    let mut registry = Registry::start();
    let digest = debian::with_gcc().push(&registry, "team/debian-gcc:12");
    let image = registry.image("team/debian-gcc:12");
    let vk = Vk::new();

    let first = vk.run_job(&c_project(&image, "if-not-present"), &[]);
    registry.stop();
    let second = vk.run_job(&c_project(&image, "if-not-present"), &[]);

    for run in [&first, &second] {
        assert_eq!(run.status, 0, "{run:?}");
        let text = run.text();
        for line in [
            "sum 5",
            "1 packets transmitted, 1 received",
            &digest.to_string(),
        ] {
            assert!(text.contains(line), "no {line:?} in {run:?}");
        }
    }
    // One that must ask the registry cannot.
    let third = vk.run_job(&c_project(&image, "never"), &[]);
    assert_eq!(third.status, 0, "{third:?}");
    let ls = vk.run(["image", "ls", "--json"]);
    let listed: Value = serde_json::from_slice(&ls.stdout).unwrap();
    assert!(listed.to_string().contains(&digest.to_string()), "{listed}");
}
