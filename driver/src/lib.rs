//! Runs one CI job, or one command, in a fresh microVM.
//!
//! A [`Host`] says where things are on this machine and what its operator allows. [`run`] takes a [`Job`] to its
//! [`JobResult`], [`run_command`] a [`Command`] to its exit code; both end their VM before they return. [`check()`] tells
//! what the host lacks. Everything needs a tokio runtime; nothing reads the process's environment.
//!
//! A job is described by [`spec::CiJob`], the dispatch protocol's job spec, and runs exactly as under GitLab Runner. Who
//! embeds this crate in an executor decides, for each [`Job`], on its [`VmSize`], its [`Slot`] among the jobs of the host and
//! more secrets to hide, and may plug in where artifacts go ([`ArtifactStore`]), where caches are ([`CacheStore`]) and who
//! watches ([`JobObserver`]). The traits' own types are those of the crate `vk-transfer`, what images of registries need
//! (`vk image`) those of `vk-oci`.
//!
//! ```no_run
//! use vk_driver::{Cancel, Host, Job, JobEvent, run, spec};
//!
//! # async fn example() {
//! let host = Host::builder("/var/lib/vk", "/usr/lib/vk/images").build();
//! let job = spec::CiJob {
//!     steps: vec![spec::Step {
//!         name: "script".into(),
//!         script: vec!["uname -a".into()],
//!         ..spec::Step::default()
//!     }],
//!     ..spec::CiJob::default()
//! };
//! let mut trace = Vec::new();
//! let cancel = Cancel::new();
//! let mut observer = |event: JobEvent| println!("{event:?}");
//! let result = run(&host, Job::new(job), &mut trace, &cancel, &mut observer).await;
//! assert_eq!(result.failure, None);
//! # }
//! ```

mod command;
mod guest;
mod host;
mod job;

pub use command::{Command, CommandEnd, CommandError, CommandIo, run_command};
pub use guest::{LimitMet, SizeRequest, VmSize};
pub use host::{Check, Config, ConfigError, Host, HostBuilder, HostLimits, Verdict, check};
pub use job::{Cancel, CancelMode, Job, JobEvent, JobObserver, Slot, Stage, refuse, run};
pub use vk_agent_client::{Stdin, TerminalSize};
pub use vk_http::Proxies;
pub use vk_hub_proto::job as spec;
pub use vk_hub_proto::job::{Failure, JobResult};
pub use vk_transfer::{ArtifactStore, CacheStore};
pub use vk_vm::Backend;
