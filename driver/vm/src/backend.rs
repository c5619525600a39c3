//! Which of the backends runs a machine.

use std::sync::Once;
use std::time::Duration;

use super::config::MachineConfig;
use super::kvm::{KvmProbe, probe_kvm};
use super::machine::Machine;
use super::qemu::{self, Accelerator, QemuError};

/// What runs machines: `--backend auto|kvm|qemu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// KVM where it is usable, else software emulation.
    #[default]
    Auto,
    /// KVM or nothing.
    Kvm,
    /// QEMU's software emulation, even where KVM is usable.
    Qemu,
}

/// A machine could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// KVM was asked for and cannot be used.
    #[error("the backend `kvm` cannot be used: {0}; `auto` and `qemu` can do without it")]
    Kvm(KvmProbe),
    /// The machine could not be started with QEMU.
    #[error(transparent)]
    Qemu(#[from] QemuError),
}

/// Starts a machine. The guest begins to boot as this returns; must be called within a tokio runtime, whose end is the
/// machine's as well.
///
/// # Errors
///
/// See [`StartError`].
pub async fn start(
    backend: Backend,
    config: &MachineConfig,
) -> Result<Box<dyn Machine>, StartError> {
    let accelerator = accelerator(backend).await?;
    Ok(qemu::start(config, accelerator).await?)
}

/// How long a guest of `backend` may take from its start until its agent calls, on a host that is busy with others:
/// some ten times what it takes on an idle one (about 1.5 s and 4 s).
pub async fn boot_limit(backend: Backend) -> Duration {
    match accelerator(backend).await {
        Ok(Accelerator::Kvm) => Duration::from_secs(30),
        Ok(Accelerator::Tcg) | Err(_) => Duration::from_secs(120),
    }
}

/// Whether guests of `backend` run in software emulation.
pub async fn is_emulated(backend: Backend) -> bool {
    matches!(accelerator(backend).await, Ok(Accelerator::Tcg))
}

async fn accelerator(backend: Backend) -> Result<Accelerator, StartError> {
    static TOLD: Once = Once::new();

    if backend == Backend::Qemu {
        return Ok(Accelerator::Tcg);
    }
    match probe_kvm().await {
        KvmProbe::Usable => Ok(Accelerator::Kvm),
        unusable if backend == Backend::Kvm => Err(StartError::Kvm(unusable)),
        unusable => {
            TOLD.call_once(|| {
                tracing::warn!("VMs are emulated in software, which is slow: {unusable}");
            });
            Ok(Accelerator::Tcg)
        }
    }
}
