//! What a job sets through variables: the settings of GitLab Runner and the size of the machine.

mod duration;
mod job;
mod machine;
mod parse;
mod timeouts;

pub use duration::{format_duration, parse_duration};
pub use job::{GitStrategy, Settings, SubmoduleStrategy};
pub use machine::{MachineSize, MachineSizeError, memory_mib};
pub use timeouts::StageTimeouts;
