//! The golden jobs about images, in VMs: what the job sees, its state and its code are those of GitLab Runner's Docker
//! executor; reasons are the dispatch protocol's.

#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::sync::Mutex;

use serde_json::Value;
use vk_tests::golden::{Job, compare, images};
use vk_tests::registry::Registry;
use vk_tests::vk::{JobRun, Vk};

/// One registry and one store for all jobs, as on a host.
struct Site {
    registry: Registry,
    vk: Vk,
}

/// Lines of the Docker executor about its own containers.
const OF_DOCKER: [&str; 2] = ["Using effective pull policy of", "Using docker image"];

/// Jobs that run: trace from the sources on, state and code are the recorded ones.
const RUN: [&str; 9] = [
    "101-image-plain",
    "102-image-variable",
    "103-image-entrypoint",
    "105-image-entrypoint-list",
    "106-image-entrypoint-bad",
    "107-image-user",
    "108-image-sh-only",
    "109-image-no-shell",
    "115-image-policy-always",
];

/// Jobs whose image cannot be had: the image, and what the last line says besides.
const REFUSED: [(&str, &str, &str); 4] = [
    (
        "110-image-missing",
        "@REGISTRY@/no/such/image:9",
        "not found",
    ),
    ("112-image-unreachable", "127.0.0.1:5999/build:1", "refused"),
    ("113-image-bad-name", "UPPER CASE::", "invalid"),
    ("114-image-policy-never", "@REGISTRY@/team/svc:1", "never"),
];

impl Site {
    fn run(&self, name: &str) -> (Job, JobRun) {
        let job = Job::load_image(name).unwrap();
        let text = job
            .render("127.0.0.1:1")
            .replace("@REGISTRY@", self.registry.host());
        let response: Value = serde_json::from_str(&text).unwrap();
        let vk = self.vk.second();
        let config = vk.dir().join("config.toml");
        // By default it is tried for 90 s.
        std::fs::write(&config, "[registries]\nunreachable_for = \"1s\"\n").unwrap();
        let run = vk.run_job(&response, &["--config", config.to_str().unwrap()]);
        (job, run)
    }

    fn check(&self, name: &str) {
        let (job, run) = self.run(name);
        let golden = String::from_utf8(job.trace.clone()).unwrap();
        let golden: String = golden
            .split_inclusive('\n')
            .filter(|line| !OF_DOCKER.iter().any(|words| line.contains(words)))
            .collect();

        if let Err(diff) = compare(golden.as_bytes(), &run.trace, Some("127.0.0.1:1")) {
            panic!("{name}: the trace differs\n{diff}\n{run:?}");
        }
        let (state, failure) = match job.expected.state.as_str() {
            "success" => ("success", ""),
            state => (state, "script"),
        };
        assert_eq!(run.failure(), failure, "{name} ended as {state}: {run:?}");
        let code = job.expected.exit_code.map(i64::from);
        assert_eq!(run.result["exit_code"].as_i64(), code, "{name}: {run:?}");
    }

    fn check_refused(&self, name: &str, image: &str, cause: &str) {
        let (_, run) = self.run(name);

        assert_eq!(run.failure(), "image_pull", "{name}: {run:?}");
        assert_eq!(run.result["exit_code"], Value::Null, "{name}: {run:?}");
        let image = image.replace("@REGISTRY@", self.registry.host());
        let text = run.text();
        let last = text.trim_end().lines().last().unwrap_or_default();
        for part in [image.as_str(), cause] {
            assert!(
                last.contains(part),
                "{name}: no {part:?} in {last:?}: {run:?}"
            );
        }
    }
}

/// gitlab-runner, wire §5.1 (job 102: a name with a variable) and wire §5.2 (114 and 115: policies).
#[test]
fn jobs_about_images_end_as_under_gitlab_runners_docker_executor() {
    let site = Site {
        registry: Registry::start(),
        vk: Vk::new(),
    };
    images::push_all(&site.registry);
    let mut left: Vec<Box<dyn Fn() + Send + '_>> = Vec::new();
    for name in RUN {
        let site = &site;
        left.push(Box::new(move || site.check(name)));
    }
    for (name, image, cause) in REFUSED {
        let site = &site;
        left.push(Box::new(move || site.check_refused(name, image, cause)));
    }
    let left = Mutex::new(left);

    // Two at a time: as many as this suite's tests elsewhere.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().pop();
                    let Some(check) = next else { return };
                    check();
                }
            });
        }
    });
}
