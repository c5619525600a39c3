//! The few calls that need `unsafe`: everything outside this file is safe code.
#![allow(unsafe_code)]

use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// The processor's time stamp counter.
#[cfg(target_arch = "x86_64")]
pub(crate) fn time_stamp_counter() -> u64 {
    // SAFETY: RDTSC exists on every x86-64 processor and touches registers only.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Lends `memory` to a virtual machine as `region`.
///
/// # Errors
///
/// `region` does not lie within `memory`, or KVM refuses it.
pub(crate) fn set_guest_memory(
    vm: &kvm_ioctls::VmFd,
    region: kvm_bindings::kvm_userspace_memory_region,
    memory: &GuestMemoryMmap,
) -> Result<(), kvm_ioctls::Error> {
    let start = memory.get_host_address(GuestAddress(region.guest_phys_addr));
    let is_within = start.is_ok_and(|start| start as u64 == region.userspace_addr)
        && usize::try_from(region.memory_size)
            .is_ok_and(|size| memory.check_range(GuestAddress(region.guest_phys_addr), size));
    if !is_within {
        return Err(kvm_ioctls::Error::new(libc::EINVAL));
    }
    // SAFETY: the region is mapped memory of `memory`, checked above, which is meant for a guest: nobody holds
    // references into it. A guest that still ran when it is unmapped would fault, not reach other memory: KVM looks
    // addresses up in the page tables of this process at each use.
    unsafe { vm.set_user_memory_region(region) }
}
