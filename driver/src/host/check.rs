//! What a host can do, for people and scripts that ask before they run jobs.

use std::ffi::OsStr;
use std::path::Path;

use vk_process::find_program;

use super::{DEFAULT_IMAGE, Host};
use vk_text::chain;
use vk_vm::{Backend, KvmProbe, probe_kvm};

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
pub async fn check(host: &Host) -> Vec<Check> {
    let mut checks = vec![kvm(host.backend()).await];
    let path = host.search_path();
    checks.extend(PROGRAMS.map(|(program, package)| self::program(program, package, path)));
    checks.push(images(host));
    checks.push(state(host).await);
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

fn program(program: &'static str, package: &str, search_path: &OsStr) -> Check {
    // Where Debian keeps mke2fs, outside of a plain user's PATH.
    let found = [search_path, OsStr::new("/usr/sbin:/sbin")]
        .into_iter()
        .find_map(|path| find_program(program, path));
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
        .boot_files()
        .map_err(|error| chain(&error))
        .and_then(|images| images.resolve(DEFAULT_IMAGE).map_err(|error| chain(&error)));
    judged("images", found.map(|image| shown(&image)))
}

async fn state(host: &Host) -> Check {
    let host = host.clone();
    let state = tokio::task::spawn_blocking(move || {
        let state = host.state().map_err(|error| chain(&error))?;
        Ok(shown(state.path()))
    });
    let state = state.await.unwrap_or_else(|error| Err(error.to_string()));
    judged("state", state)
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
