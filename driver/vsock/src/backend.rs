//! The vsock device behind a vhost-user socket. The framework's thread calls; nothing here blocks.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use vhost::vhost_user::message::{VhostUserProtocolFeatures, VhostUserVirtioFeatures};
use vhost_user_backend::{VhostUserBackendMut, VringMutex, VringT};
use virtio_bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use virtio_queue::QueueT;
use vm_memory::{GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{
    EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier,
};

use super::cpu::CpuTime;
use super::device::Device;
use super::queues::{Copier, Progress, QueueError};

/// Queue of packets for the guest (virtio 1.2, section 5.10.2). The event queue is QEMU's own.
const RECEIVE: usize = 0;
/// Queue of packets from the guest.
const TRANSMIT: usize = 1;
const QUEUES: usize = 2;

/// Largest ring served, which bounds a descriptor chain too; QEMU asks for 128.
const MAX_QUEUE_SIZE: usize = 1024;

/// Mark of the device's poll descriptor. Up to [`QUEUES`], marks are the framework's.
pub(super) const SOCKETS: u64 = QUEUES as u64 + 1;
/// Mark of the backend's reminder to itself.
pub(super) const AGAIN: u64 = QUEUES as u64 + 2;

/// How many rounds over both queues are made before the framework gets a chance to stop the thread.
const ROUNDS: usize = 256;

pub(super) struct Backend {
    guest_cid: u64,
    device: Device,
    copier: Copier,
    memory: GuestMemoryAtomic<GuestMemoryMmap>,
    again: (EventConsumer, EventNotifier),
    /// Where the first fault goes. After it the device does nothing more.
    fault: Option<mpsc::Sender<QueueError>>,
    /// What the thread of this device has used.
    cpu: CpuTime,
}

impl Backend {
    pub(super) fn new(
        guest_cid: u64,
        device: Device,
        memory: GuestMemoryAtomic<GuestMemoryMmap>,
        fault: mpsc::Sender<QueueError>,
        cpu: CpuTime,
    ) -> io::Result<Self> {
        Ok(Self {
            guest_cid,
            device,
            copier: Copier::new(),
            memory,
            again: new_event_consumer_and_notifier(EventFlag::NONBLOCK | EventFlag::CLOEXEC)?,
            fault: Some(fault),
            cpu,
        })
    }

    pub(super) fn sockets_fd(&self) -> RawFd {
        self.device.poll_fd()
    }

    pub(super) fn again_fd(&self) -> RawFd {
        self.again.0.as_raw_fd()
    }

    /// Moves packets both ways until neither side has more, or for long enough.
    fn process(&mut self, vrings: &[VringMutex]) -> Result<(), QueueError> {
        for _ in 0..ROUNDS {
            let sent = self.turn(vrings.get(TRANSMIT), Copier::transmit)?;
            let received = self.turn(vrings.get(RECEIVE), Copier::receive)?;
            if !sent && !received {
                return Ok(());
            }
        }
        if let Err(error) = self.again.1.notify() {
            tracing::warn!(%error, "vsock may stall");
        }
        Ok(())
    }

    /// One turn at a queue, if the guest has set it up; whether it did anything.
    fn turn(
        &mut self,
        vring: Option<&VringMutex>,
        copy: fn(
            &mut Copier,
            &mut virtio_queue::Queue,
            &Memory,
            &mut Device,
        ) -> Result<Progress, QueueError>,
    ) -> Result<bool, QueueError> {
        let Some(vring) = vring else {
            return Ok(false);
        };
        let mut vring = vring.get_mut();
        if !vring.is_enabled() || !vring.get_queue().ready() {
            return Ok(false);
        }
        let memory = self.memory.memory();
        let queue = vring.get_queue_mut();
        let progress = copy(&mut self.copier, queue, &memory, &mut self.device)?;
        if progress.notify
            && let Err(error) = vring.signal_used_queue()
        {
            tracing::warn!(%error, "vsock may stall");
        }
        Ok(progress.some)
    }
}

type Memory = <GuestMemoryAtomic<GuestMemoryMmap> as GuestAddressSpace>::T;

impl VhostUserBackendMut for Backend {
    type Bitmap = ();
    type Vring = VringMutex;

    fn num_queues(&self) -> usize {
        QUEUES
    }

    fn max_queue_size(&self) -> usize {
        MAX_QUEUE_SIZE
    }

    fn features(&self) -> u64 {
        1 << VIRTIO_F_VERSION_1
            | 1 << VIRTIO_RING_F_EVENT_IDX
            | 1 << VIRTIO_RING_F_INDIRECT_DESC
            | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits()
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        VhostUserProtocolFeatures::CONFIG
    }

    fn reset_device(&mut self) {
        self.device.reset();
    }

    /// The queues know themselves.
    fn set_event_idx(&mut self, _enabled: bool) {}

    /// The guest's address, 64 bits, is all there is (virtio 1.2, section 5.10.4).
    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        let config = self.guest_cid.to_le_bytes();
        let from = offset as usize;
        let to = from.saturating_add(size as usize);
        config.get(from..to).map(<[u8]>::to_vec).unwrap_or_default()
    }

    fn update_memory(&mut self, memory: GuestMemoryAtomic<GuestMemoryMmap>) -> io::Result<()> {
        self.memory = memory;
        Ok(())
    }

    fn exit_event(&self, _thread: usize) -> Option<(EventConsumer, EventNotifier)> {
        let flags = EventFlag::NONBLOCK | EventFlag::CLOEXEC;
        new_event_consumer_and_notifier(flags)
            .inspect_err(|error| tracing::warn!(%error, "the vsock thread cannot be stopped"))
            .ok()
    }

    fn handle_event(
        &mut self,
        event: u16,
        _set: EventSet,
        vrings: &[VringMutex],
        _thread: usize,
    ) -> io::Result<()> {
        match u64::from(event) {
            SOCKETS => self.device.poll(),
            // Empty already if two reminders became one.
            AGAIN => drop(self.again.0.consume()),
            _ => {}
        }
        if self.fault.is_none() {
            return Ok(());
        }
        if let Err(error) = self.process(vrings)
            && let Some(fault) = self.fault.take()
        {
            self.device.reset();
            let _ = fault.try_send(error);
        }
        self.cpu.note();
        Ok(())
    }
}

/// What the framework wants: shared, and locked.
pub(super) type Shared = Arc<Mutex<Backend>>;
