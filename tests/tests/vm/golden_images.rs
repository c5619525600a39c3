//! The golden jobs about images, in VMs: what the job sees, its state and its code are those of GitLab Runner's Docker
//! executor; reasons are the dispatch protocol's.

#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::sync::Mutex;

use serde_json::Value;
use vk_tests::golden::{Job, Refused, image_names, images};
use vk_tests::registry::Registry;
use vk_tests::vk::{JobRun, Vk};

/// One registry and one store for all jobs, as on a host.
struct Site {
    registry: Registry,
    vk: Vk,
}

impl Site {
    fn run(&self, job: &Job) -> JobRun {
        let text = job.response("127.0.0.1:1").unwrap().to_string();
        let text = text.replace("@REGISTRY@", self.registry.host());
        let response: Value = serde_json::from_str(&text).unwrap();
        let vk = self.vk.second();
        let config = vk.dir().join("config.toml");
        // By default it is tried for 90 s.
        std::fs::write(&config, "[registries]\nunreachable_for = \"1s\"\n").unwrap();
        vk.run_job(&response, &["--config", config.to_str().unwrap()])
    }

    fn check(&self, name: &str) {
        let job = Job::load_image(name).unwrap();
        let run = self.run(&job);
        if let Some(refused) = &job.differs.refused {
            return self.check_refused(name, refused, &run);
        }
        if let Err(diff) = job.compare(&run.trace, "127.0.0.1:1") {
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

    fn check_refused(&self, name: &str, refused: &Refused, run: &JobRun) {
        assert_eq!(run.failure(), "image_pull", "{name}: {run:?}");
        assert_eq!(run.result["exit_code"], Value::Null, "{name}: {run:?}");
        let image = refused.image.replace("@REGISTRY@", self.registry.host());
        let text = run.text();
        let last = text.trim_end().lines().last().unwrap_or_default();
        for part in [&image, &refused.cause] {
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
    let left = Mutex::new(image_names().unwrap());
    assert_eq!(left.lock().unwrap().len(), 13);

    // Two at a time: as many as there are places for VMs.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().pop();
                    let Some(name) = next else { return };
                    site.check(&name);
                }
            });
        }
    });
}
