//! How large a VM is: what was asked for, within what the host has.

use crate::host::{DEFAULT_MEMORY_MIB, HostLimits, MIN_MEMORY_MIB};

/// vCPUs of a VM when none are asked for, as far as the host has them.
pub(super) const DEFAULT_CPUS: u32 = 2;

/// Fewest processes and threads of commands that a VM may be limited to: a script's shell with a few pipelines.
pub(crate) const MIN_PIDS: u32 = 32;

/// Size of a VM's scratch disk, in bytes. The file is sparse: a job costs what it writes.
pub(crate) const SCRATCH_BYTES: u64 = 16 << 30;

/// Size of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VmSize {
    /// vCPUs, at least 1.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Size of the scratch disk in bytes, at least 16 MiB. Its file is sparse: a job costs what it writes.
    pub scratch_bytes: u64,
    /// Most processes and threads that commands may have together, at least 32; none is one for each 512 KiB of memory. More
    /// than the guest's kernel can have are those that it can have.
    pub pids: Option<u32>,
}

impl VmSize {
    /// The same, if a guest can start with it.
    ///
    /// # Errors
    ///
    /// [`TooSmall`] for less memory or fewer processes than that takes.
    pub(crate) fn checked(self) -> Result<Self, TooSmall> {
        match self {
            Self { memory_mib, .. } if memory_mib < MIN_MEMORY_MIB => {
                Err(TooSmall::Memory(memory_mib))
            }
            Self {
                pids: Some(pids), ..
            } if pids < MIN_PIDS => Err(TooSmall::Pids(pids)),
            _ => Ok(self),
        }
    }

    /// Of so many vCPUs and MiB of memory, with the usual scratch disk of 16 GiB.
    #[must_use]
    pub const fn new(cpus: u32, memory_mib: u32) -> Self {
        Self {
            cpus,
            memory_mib,
            scratch_bytes: SCRATCH_BYTES,
            pids: None,
        }
    }

    /// The same with a scratch disk of `bytes`.
    #[must_use]
    pub const fn with_scratch(self, bytes: u64) -> Self {
        Self {
            scratch_bytes: bytes,
            ..self
        }
    }

    /// The same with at most `pids` processes and threads of commands.
    #[must_use]
    pub const fn with_pids(self, pids: u32) -> Self {
        Self {
            pids: Some(pids),
            ..self
        }
    }
}

/// What a job or a command asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeRequest {
    /// vCPUs.
    pub cpus: Option<u32>,
    /// Memory in MiB.
    pub memory_mib: Option<u32>,
    /// Most processes and threads.
    pub pids: Option<u32>,
}

/// A request for less than a guest can start or work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooSmall {
    /// MiB of memory.
    #[error("{0} MiB of memory are too little for a VM: ask for {MIN_MEMORY_MIB}M or more")]
    Memory(u32),
    /// Processes and threads.
    #[error("{0} processes are too few for a VM: ask for {MIN_PIDS} or more")]
    Pids(u32),
}

impl SizeRequest {
    /// The size within `limits`: what is too much becomes the limit.
    ///
    /// # Errors
    ///
    /// [`TooSmall`] for less memory or fewer processes than a guest starts or works with.
    pub(crate) fn within(self, limits: HostLimits) -> Result<VmSize, TooSmall> {
        let cpus = self.cpus.unwrap_or(DEFAULT_CPUS);
        let memory_mib = self.memory_mib.unwrap_or(DEFAULT_MEMORY_MIB);
        let asked = VmSize {
            pids: self.pids,
            ..VmSize::new(cpus, memory_mib)
        }
        .checked()?;
        Ok(VmSize {
            cpus: asked.cpus.clamp(1, limits.cpus.max(1)),
            memory_mib: asked.memory_mib.min(limits.memory_mib),
            ..asked
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: HostLimits = HostLimits {
        cpus: 8,
        memory_mib: 16_000,
    };

    #[test]
    fn nothing_asked_for_means_the_defaults() {
        let size = SizeRequest::default().within(LIMITS).unwrap();

        assert_eq!(size, VmSize::new(DEFAULT_CPUS, DEFAULT_MEMORY_MIB));
    }

    #[test]
    fn defaults_shrink_on_a_small_host() {
        let small = HostLimits {
            cpus: 1,
            memory_mib: 700,
        };

        let size = SizeRequest::default().within(small).unwrap();

        assert_eq!(size, VmSize::new(1, 700));
    }

    #[test]
    fn more_than_the_host_has_becomes_what_it_has() {
        let request = SizeRequest {
            cpus: Some(64),
            memory_mib: Some(1 << 20),
            pids: None,
        };

        let size = request.within(LIMITS).unwrap();

        assert_eq!(size, VmSize::new(8, 16_000));
    }

    #[test]
    fn too_little_memory_is_refused_with_the_least_that_works() {
        let request = SizeRequest {
            memory_mib: Some(64),
            ..SizeRequest::default()
        };

        let error = request.within(LIMITS).unwrap_err();

        assert_eq!(
            error.to_string(),
            "64 MiB of memory are too little for a VM: ask for 192M or more"
        );
    }

    #[test]
    fn too_few_processes_are_refused_with_the_fewest_that_work() {
        let asking_for = |pids| SizeRequest {
            pids: Some(pids),
            ..SizeRequest::default()
        };

        assert_eq!(asking_for(32).within(LIMITS).unwrap().pids, Some(32));
        assert_eq!(
            asking_for(31).within(LIMITS).unwrap_err().to_string(),
            "31 processes are too few for a VM: ask for 32 or more"
        );
    }
}
