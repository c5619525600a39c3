//! What a process sees in an image, beside what Docker showed it (`tests/container`, recorded): in `vk run`, and in a job's hook, script
//! and `after_script`.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;

use serde_json::json;
use vk_tests::container_images::{LOOKED_AT, Looked, PROBE};
use vk_tests::git_http::{commit_all, write};
use vk_tests::job::{script, with_after_script};
use vk_tests::registry::Registry;
use vk_tests::sight::{Meant, Sight, unexplained};
use vk_tests::vk::{Vk, workspace};

use self::meant::{EVERYWHERE, IN_HOOKS, IN_JOBS, ON_TERMINALS};
use crate::terminal::TerminalUser;

mod meant;

/// One registry and one store for all images, as on a host.
struct Site {
    registry: Registry,
    vk: Vk,
    unexplained: Mutex<String>,
    used: Mutex<BTreeSet<&'static str>>,
}

impl Site {
    fn image(&self, looked: &Looked) -> String {
        self.registry.image(&format!("looked-at/{}:1", looked.name))
    }

    /// What Docker showed this user.
    fn recorded(looked: &Looked, user: &str, kind: &str) -> Sight {
        let user = if user.is_empty() { "-" } else { user };
        let name = format!("{}.{}{kind}", looked.name, user.replace([':', '/'], "+"));
        let file = workspace().join("tests/container/docker").join(name);
        let text = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Sight::read(&text)
    }

    fn compare(&self, what: &str, docker: &Sight, here: &Sight, meant: &[&Meant]) {
        let mut used = self.used.lock().unwrap();
        let text = unexplained(&docker.differences(here), meant, &mut used);
        if !text.is_empty() {
            self.note(&format!("{what}\n{text}"));
        }
    }

    /// All images are looked at before the test fails.
    fn note(&self, text: &str) {
        *self.unexplained.lock().unwrap() += text;
    }

    fn look_by_run(&self, looked: &Looked, user: &str) {
        let image = self.image(looked);
        let mut args = vec!["run", "--mem", "512M"];
        if !user.is_empty() {
            args.extend(["--user", user]);
        }
        args.push(&image);
        args.push("--");
        args.extend(looked.argv());
        let output = self.vk.second().run(args);

        let what = format!("{} as {user:?} by vk run", looked.name);
        let docker = Self::recorded(looked, user, "");
        let here = Sight::read(&output.stdout);
        if here.is_empty() != docker.is_empty() {
            let told = String::from_utf8_lossy(&output.stderr);
            return self.note(&format!("{what}: {:?} {told}\n", output.status));
        }
        let meant: Vec<_> = EVERYWHERE.iter().collect();
        self.compare(&what, &docker, &here, &meant);
    }

    fn look_on_terminal(&self, looked: &Looked, user: &str) {
        let vk = self.vk.second();
        let image = self.image(looked);
        let mut args = vec!["run", "--shell", "--mem", "512M", "--cpus", "1"];
        if !user.is_empty() {
            args.extend(["--user", user]);
        }
        args.extend([&image, "--", PROBE]);
        let shown = TerminalUser::on_terminal(&vk, &args).sees_the_end();
        // What vk said before stands in the first line.
        let shown = &shown[shown.find("env PATH").unwrap_or_default()..];

        let what = format!("{} as {user:?} by a terminal", looked.name);
        let docker = Self::recorded(looked, user, ".terminal");
        let here =
            Sight::read(shown.as_bytes()).only("(status|stream|terminal|env|process|limit) .*");
        let meant: Vec<_> = EVERYWHERE.iter().chain(ON_TERMINALS).collect();
        self.compare(&what, &docker, &here, &meant);
    }

    fn look_by_job(&self, looked: &Looked, user: &str) {
        let probe = looked.argv().join(" ");
        let mut job = with_after_script(
            script(&["echo in-script", &probe]),
            &["echo in-after_script", &probe],
        );
        job["hooks"] =
            json!([{"name": "pre_get_sources_script", "script": ["echo in-hook", &probe]}]);
        job["image"] = json!({"name": self.image(looked)});
        if !user.is_empty() {
            job["image"]["executor_opts"] = json!({"docker": {"user": user}});
        }
        // Hooks are for sources.
        let variables = job["variables"].as_array_mut().unwrap();
        variables.retain(|variable| variable["key"] != "GIT_STRATEGY");
        let repo = self.vk.dir().join("repo");
        let args = ["--timestamps", "off", "--repo", repo.to_str().unwrap()];
        let run = self.vk.second().run_job(&job, &args);

        let name = format!("{} as {user:?}", looked.name);
        let docker = Self::recorded(looked, user, "");
        let failure = if docker.is_empty() {
            "configuration"
        } else {
            ""
        };
        if run.failure() != failure {
            return self.note(&format!("{name} in a job: {run:?}\n"));
        }
        if docker.is_empty() {
            return;
        }
        let of_jobs: Vec<_> = EVERYWHERE.iter().chain(IN_JOBS).collect();
        let of_hooks: Vec<_> = of_jobs.iter().copied().chain(IN_HOOKS).collect();
        let mut rest = run.trace.as_slice();
        for place in ["hook", "script", "after_script"] {
            let start = format!("\nin-{place}\n");
            let at = find(rest, start.as_bytes());
            let Some(at) = at else {
                return self.note(&format!("{name}: no {place} in {run:?}\n"));
            };
            rest = &rest[at + start.len()..];
            let here = Sight::read(&rest[..find(rest, b"\nin-").unwrap_or(rest.len())]);
            let what = format!("{name} in a job's {place}");
            let meant = if place == "hook" { &of_hooks } else { &of_jobs };
            self.compare(&what, &docker, &here, meant);
        }
    }
}

/// How an image is looked at.
enum Way {
    Run,
    Job,
    Terminal,
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// `VK_CONTAINER_IMAGES` is `all` (`./test --full`), or names of images.
fn chosen() -> Vec<&'static Looked> {
    let wanted = std::env::var("VK_CONTAINER_IMAGES").unwrap_or_default();
    let names: Vec<_> = wanted.split(',').collect();
    let is_chosen = |looked: &&Looked| match names.as_slice() {
        [""] => looked.often,
        ["all"] => true,
        names => names.contains(&looked.name),
    };
    LOOKED_AT.iter().filter(is_chosen).collect()
}

#[test]
fn a_process_sees_what_docker_shows_it() {
    let site = Site {
        registry: Registry::start(),
        vk: Vk::without_vm(),
        unexplained: Mutex::default(),
        used: Mutex::default(),
    };
    let repo = site.vk.dir().join("repo");
    write(&repo.join("hello.txt"), b"hello");
    commit_all(&repo, "one");
    let chosen = chosen();
    let mut looks = Vec::new();
    for looked in &chosen {
        let image = looked.image();
        image.push(&site.registry, &format!("looked-at/{}:1", looked.name));
        for user in looked.users {
            looks.push((*looked, *user, Way::Run));
            if looked.has_shell {
                looks.push((*looked, *user, Way::Job));
            }
            if looked.kernel {
                looks.push((*looked, *user, Way::Terminal));
            }
        }
    }
    let left = Mutex::new(looks);

    // Two at a time: as many as there are places for VMs.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().pop();
                    match next {
                        Some((looked, user, Way::Run)) => site.look_by_run(looked, user),
                        Some((looked, user, Way::Job)) => site.look_by_job(looked, user),
                        Some((looked, user, Way::Terminal)) => site.look_on_terminal(looked, user),
                        None => return,
                    }
                }
            });
        }
    });

    let text = site.unexplained.into_inner().unwrap();
    assert!(text.is_empty(), "differences that are not meant:\n{text}");
    if chosen.len() == LOOKED_AT.len() {
        let used = site.used.into_inner().unwrap();
        let lists = [EVERYWHERE, ON_TERMINALS, IN_JOBS, IN_HOOKS];
        let all = lists.into_iter().flatten();
        let idle: Vec<_> = all.filter(|meant| !used.contains(meant.key)).collect();
        assert!(idle.is_empty(), "differences that are no more: {idle:?}");
    }
}
