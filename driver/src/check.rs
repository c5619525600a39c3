//! What a host can do, for people and scripts that ask before they run jobs.

use std::path::Path;

use crate::host::Host;
use crate::images::DEFAULT_IMAGE;
use crate::report::chain;
use crate::vm::{Backend, KvmProbe, probe_kvm};

/// The programs that jobs need on the host, and the Debian packages that bring them.
const PROGRAMS: [(&str, &str); 3] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("mke2fs", "e2fsprogs"),
    ("git", "git"),
];

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was looked at, in a word.
    pub subject: &'static str,
    /// How it is.
    pub verdict: Verdict,
    /// More about it; what to do where something is to be done.
    pub detail: String,
}

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// Jobs run without it, worse.
    Slow,
    /// Jobs do not run without it.
    Missing,
}

impl Verdict {
    /// The verdict in a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Slow => "slow",
            Self::Missing => "missing",
        }
    }
}

/// Looks at everything that jobs on `host` need.
pub async fn check_host(host: &Host) -> Vec<Check> {
    let mut checks = vec![kvm(host.backend()).await];
    checks.extend(PROGRAMS.map(|(program, package)| self::program(program, package)));
    checks.push(images(host));
    checks.push(state(host));
    let limits = host.limits();
    checks.push(Check {
        subject: "size",
        verdict: Verdict::Ok,
        detail: format!(
            "VMs of up to {} vCPUs and {} MiB",
            limits.cpus, limits.memory_mib
        ),
    });
    checks
}

async fn kvm(backend: Backend) -> Check {
    let (verdict, detail) = match probe_kvm().await {
        KvmProbe::Usable => (Verdict::Ok, "guests run at full speed".to_owned()),
        unusable if backend == Backend::Kvm => (Verdict::Missing, unusable.to_string()),
        unusable => (
            Verdict::Slow,
            format!("{unusable}; VMs are emulated in software"),
        ),
    };
    Check {
        subject: "kvm",
        verdict,
        detail,
    }
}

fn program(program: &'static str, package: &str) -> Check {
    let found = std::env::var_os("PATH").and_then(|path| {
        std::env::split_paths(&path)
            // Where Debian keeps mke2fs, outside of a plain user's PATH.
            .chain(["/usr/sbin".into(), "/sbin".into()])
            .map(|dir| dir.join(program))
            .find(|file| file.is_file())
    });
    match found {
        Some(file) => Check {
            subject: program,
            verdict: Verdict::Ok,
            detail: file.display().to_string(),
        },
        None => Check {
            subject: program,
            verdict: Verdict::Missing,
            detail: format!("not found: install the package `{package}`"),
        },
    }
}

fn images(host: &Host) -> Check {
    let found = host
        .images()
        .map_err(|error| chain(&error))
        .and_then(|images| images.resolve(DEFAULT_IMAGE).map_err(|error| chain(&error)));
    judged("images", found.map(|image| shown(&image)))
}

fn state(host: &Host) -> Check {
    judged(
        "state",
        host.state()
            .map(|state| shown(state.path()))
            .map_err(|error| chain(&error)),
    )
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn judged(subject: &'static str, result: Result<String, String>) -> Check {
    match result {
        Ok(detail) => Check {
            subject,
            verdict: Verdict::Ok,
            detail,
        },
        Err(detail) => Check {
            subject,
            verdict: Verdict::Missing,
            detail,
        },
    }
}
