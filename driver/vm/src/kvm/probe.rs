//! A guest of a few instructions, which tells a KVM that runs ordinary code from one that merely opens.
//!
//! There are hosts, guests of another hypervisor themselves, whose `/dev/kvm` interprets ordinary code at a few million
//! instructions a second: slower than QEMU's own emulation by far. So the probe runs 64-bit code and times it.

use std::io;
use std::path::Path;
use std::time::Duration;

use kvm_bindings::{kvm_segment, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};
use nix::time::ClockId;
use tokio::sync::{OnceCell, oneshot};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryError, GuestMemoryMmap};

use crate::sys;

const DEVICE: &str = "/dev/kvm";

/// The version of KVM's interface, the same since Linux 2.6.22 (`KVM_API_VERSION` of linux/kvm.h).
const API_VERSION: i32 = 12;

/// How many times the guest goes round its loop before it tells us.
const LOOPS: u32 = 5_000;
/// Instructions of a loop: `dec` and `jnz`.
const LOOP_INSTRUCTIONS: u32 = 2;

/// How often it must tell us, at most. One quick round is enough: many things can make a round slow (KVM sets itself
/// up, the host is busy), nothing can make it quick but a processor that runs it.
const ROUNDS: u32 = 5;

/// Fewest million instructions a second of processor time that make KVM worth using. Where it merely interprets it
/// reaches two or three; QEMU's emulation reaches a few hundred, and so does KVM inside such an emulation.
const MIN_MIPS: u32 = 20;

/// Time after which the probe is given up, whatever it does.
const LIMIT: Duration = Duration::from_millis(1000);

/// What KVM is good for here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KvmProbe {
    /// It runs guests at full speed.
    Usable,
    /// There is no `/dev/kvm`: no virtualisation in the processor or the firmware, or the module is not loaded.
    Missing,
    /// This user may not open `/dev/kvm`.
    NoPermission,
    /// It runs ordinary code too slowly to be of use.
    TooSlow {
        /// Millions of instructions a second it ran; 0 if it did not come back at all.
        mips: u32,
    },
    /// Something does not work.
    Broken {
        /// What was tried.
        operation: &'static str,
        /// What came of it.
        message: String,
    },
}

impl std::fmt::Display for KvmProbe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usable => write!(f, "{DEVICE} works"),
            Self::Missing => write!(
                f,
                "there is no {DEVICE}: switch virtualisation on in the firmware, or load the module kvm-amd or kvm-intel"
            ),
            Self::NoPermission => write!(
                f,
                "{DEVICE} may not be opened by this user: add the user to the group `kvm`"
            ),
            Self::TooSlow { mips } => write!(
                f,
                "{DEVICE} runs ordinary code at {mips} million instructions a second, which is no better than emulation"
            ),
            Self::Broken { operation, message } => {
                write!(f, "{DEVICE} does not work: cannot {operation}: {message}")
            }
        }
    }
}

/// Finds out what KVM is good for, once a process. It takes some milliseconds, a tenth of a second where KVM is slow; a second
/// where it does not come back.
pub async fn probe_kvm() -> KvmProbe {
    static RESULT: OnceCell<KvmProbe> = OnceCell::const_new();
    RESULT.get_or_init(probe_in_thread).await.clone()
}

/// A thread, since a guest that never leaves the processor cannot be called back. Such a thread dies with the process.
async fn probe_in_thread() -> KvmProbe {
    let (send, receive) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("vk-kvm-probe".into())
        .spawn(move || {
            let _ = send.send(probe(Path::new(DEVICE)));
        });
    if let Err(error) = thread {
        return broken("start a thread")(error);
    }
    match tokio::time::timeout(LIMIT, receive).await {
        Ok(Ok(result)) => result,
        _ => KvmProbe::TooSlow { mips: 0 },
    }
}

fn probe(device: &Path) -> KvmProbe {
    if let Err(error) = std::fs::File::options().read(true).write(true).open(device) {
        return match error.kind() {
            io::ErrorKind::NotFound => KvmProbe::Missing,
            io::ErrorKind::PermissionDenied => KvmProbe::NoPermission,
            _ => broken("open it")(error),
        };
    }
    match run() {
        Ok(result) | Err(result) => result,
    }
}

fn broken<E: Into<io::Error>>(operation: &'static str) -> impl FnOnce(E) -> KvmProbe {
    move |error| KvmProbe::Broken {
        operation,
        message: error.into().to_string(),
    }
}

fn run() -> Result<KvmProbe, KvmProbe> {
    let kvm = Kvm::new().map_err(broken("open it"))?;
    if kvm.get_api_version() != API_VERSION {
        let message = format!("its version is {}", kvm.get_api_version());
        return Err(broken("use it")(io::Error::other(message)));
    }
    let memory = memory()
        .map_err(io::Error::other)
        .map_err(broken("set up memory"))?;
    let vm = kvm.create_vm().map_err(broken("create a VM"))?;
    give_memory(&vm, &memory)?;
    let mut vcpu = vm.create_vcpu(0).map_err(broken("create a processor"))?;
    set_registers(&vcpu)?;

    let mut best = 0;
    for _ in 0..ROUNDS {
        let start = processor_time();
        match vcpu.run().map_err(broken("run a guest"))? {
            VcpuExit::IoOut(port, _) if port == u16::from(PORT) => {}
            exit => {
                let message = format!("it left with {exit:?}");
                return Err(broken("run a guest")(io::Error::other(message)));
            }
        }
        let spent = processor_time().saturating_sub(start).as_micros().max(1);
        best = best.max(u128::from(LOOPS * LOOP_INSTRUCTIONS) / spent);
        if best >= u128::from(MIN_MIPS) {
            return Ok(KvmProbe::Usable);
        }
    }
    Ok(KvmProbe::TooSlow {
        mips: u32::try_from(best).unwrap_or(u32::MAX),
    })
}

/// What this thread, guest included, has had of the processor.
fn processor_time() -> Duration {
    ClockId::CLOCK_THREAD_CPUTIME_ID
        .now()
        .map(Duration::from)
        .unwrap_or_default()
}

const MEMORY: usize = 0x10000;
const CODE: u64 = 0x1000;
const PAGE_MAP: u64 = 0x2000;
const PAGE_POINTERS: u64 = 0x3000;
const PAGE_DIRECTORY: u64 = 0x4000;

/// The I/O port that the guest reports at.
const PORT: u8 = 0x10;

/// Page table entries: present and writable; and a large page (AMD64 manual, volume 2, section 5.3).
const PRESENT: u64 = 0b11;
const LARGE: u64 = 1 << 7;

/// The guest: its code, and page tables that map the first 2 MiB to themselves.
fn memory() -> Result<GuestMemoryMmap, GuestMemoryError> {
    let memory = GuestMemoryMmap::<()>::from_ranges(&[(GuestAddress(0), MEMORY)])
        .map_err(|error| GuestMemoryError::IOError(io::Error::other(error)))?;
    let mut code = vec![0xb9]; // again: mov ecx, LOOPS
    code.extend(LOOPS.to_le_bytes());
    code.extend([0xff, 0xc9]); //   next: dec ecx
    code.extend([0x75, 0xfc]); //         jnz next
    code.extend([0xe6, PORT]); //   out PORT, al
    code.extend([0xeb, 0xf3]); //         jmp again
    memory.write_slice(&code, GuestAddress(CODE))?;
    memory.write_obj(PAGE_POINTERS | PRESENT, GuestAddress(PAGE_MAP))?;
    memory.write_obj(PAGE_DIRECTORY | PRESENT, GuestAddress(PAGE_POINTERS))?;
    memory.write_obj(PRESENT | LARGE, GuestAddress(PAGE_DIRECTORY))?;
    Ok(memory)
}

fn give_memory(vm: &VmFd, memory: &GuestMemoryMmap) -> Result<(), KvmProbe> {
    let host = memory
        .get_host_address(GuestAddress(0))
        .map_err(io::Error::other)
        .map_err(broken("set up memory"))?;
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: 0,
        memory_size: MEMORY as u64,
        userspace_addr: host as u64,
    };
    sys::set_guest_memory(vm, region, memory).map_err(broken("set up memory"))
}

/// 64-bit mode at the start of the code (AMD64 manual, volume 2, section 14.6).
fn set_registers(vcpu: &VcpuFd) -> Result<(), KvmProbe> {
    let mut special = vcpu.get_sregs().map_err(broken("read registers"))?;
    let segment = kvm_segment {
        limit: u32::MAX,
        selector: 8,
        type_: 0b1011,
        present: 1,
        s: 1,
        g: 1,
        ..kvm_segment::default()
    };
    special.cs = kvm_segment { l: 1, ..segment };
    let data = kvm_segment {
        type_: 0b0011,
        selector: 16,
        db: 1,
        ..segment
    };
    (special.ds, special.es, special.ss) = (data, data, data);
    special.cr0 = 1 << 31 | 1 << 4 | 1; // paging, the extension type that is always set, protection
    special.cr3 = PAGE_MAP;
    special.cr4 = 1 << 5; // physical address extension
    special.efer = 1 << 10 | 1 << 8; // long mode active, enabled
    vcpu.set_sregs(&special).map_err(broken("set registers"))?;

    let mut registers = vcpu.get_regs().map_err(broken("read registers"))?;
    registers.rip = CODE;
    registers.rflags = 1 << 1; // always set
    vcpu.set_regs(&registers).map_err(broken("set registers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_device_is_told_apart() {
        assert_eq!(probe(Path::new("/no/such/kvm")), KvmProbe::Missing);
    }

    #[test]
    fn probe_of_this_host_ends_with_a_verdict_on_its_kvm() {
        let start = std::time::Instant::now();
        let result = probe(Path::new(DEVICE));
        println!("{result}, in {:?}", start.elapsed());

        assert!(!matches!(result, KvmProbe::Broken { .. }), "{result}");
    }
}
