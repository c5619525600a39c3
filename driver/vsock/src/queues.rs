//! Packets to and from the virtqueues. A hostile guest's chains come through here: everything is copied out of guest
//! memory once, and only what the copy says is used.

use std::io::{Read, Write};
use std::ops::Deref;

use virtio_queue::{DescriptorChain, Queue, QueueOwnedT, QueueT, Reader, Writer};
use vm_memory::GuestMemoryMmap;

use super::connection::BUF_ALLOC;
use super::device::Device;
use super::packet::{HEADER_LEN, Header};

/// How many packets are handled before the other direction gets its turn.
const BATCH: usize = 64;

/// Largest payload of a packet to the guest, in bytes: Linux's own bound (`VIRTIO_VSOCK_MAX_PKT_BUF_SIZE`).
const MAX_TO_GUEST: usize = 64 * 1024;

/// The guest broke a queue beyond use.
#[derive(Debug, thiserror::Error)]
#[error("the guest broke the vsock device's {queue} queue")]
pub struct QueueError {
    queue: &'static str,
    #[source]
    source: virtio_queue::Error,
}

fn broken(queue: &'static str) -> impl FnOnce(virtio_queue::Error) -> QueueError {
    move |source| QueueError { queue, source }
}

/// What one go at a queue did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Chains were used up.
    pub(super) some: bool,
    /// The guest wants to be told.
    pub(super) notify: bool,
}

/// Copies packets between queues and device.
pub(super) struct Copier {
    buffer: Vec<u8>,
}

impl Copier {
    pub(super) fn new() -> Self {
        Self {
            buffer: vec![0; BUF_ALLOC as usize],
        }
    }

    /// Takes up to a batch of the guest's packets.
    pub(super) fn transmit<M>(
        &mut self,
        queue: &mut Queue,
        memory: &M,
        device: &mut Device,
    ) -> Result<Progress, QueueError>
    where
        M: Deref<Target = GuestMemoryMmap> + Clone,
    {
        let mut some = false;
        for _ in 0..BATCH {
            if !device.takes_packets() {
                break;
            }
            let Some(chain) = pop(queue, memory).map_err(broken("transmit"))? else {
                break;
            };
            let head = chain.head_index();
            self.read(chain, memory, device);
            queue
                .add_used(memory.deref(), head, 0)
                .map_err(broken("transmit"))?;
            some = true;
        }
        progress(queue, memory, some).map_err(broken("transmit"))
    }

    /// A chain that holds no packet is dropped.
    fn read<M>(&mut self, chain: DescriptorChain<M>, memory: &M, device: &mut Device)
    where
        M: Deref<Target = GuestMemoryMmap> + Clone,
    {
        let mut bytes = [0; HEADER_LEN];
        let Ok(mut reader) = Reader::new(memory.deref(), chain) else {
            return;
        };
        if reader.read_exact(&mut bytes).is_err() {
            return;
        }
        let header = Header::from_bytes(&bytes);
        // A length beyond the buffer is beyond the credit too: the device sees that bytes are missing.
        let len = self.buffer.len().min(header.len as usize);
        let payload = self.buffer.get_mut(..len).unwrap_or_default();
        match reader.read_exact(payload) {
            Ok(()) => device.transmit(&header, payload),
            Err(_) => device.transmit(&header, &[]),
        }
    }

    /// Gives the guest up to a batch of packets, as far as it has buffers for them.
    pub(super) fn receive<M>(
        &mut self,
        queue: &mut Queue,
        memory: &M,
        device: &mut Device,
    ) -> Result<Progress, QueueError>
    where
        M: Deref<Target = GuestMemoryMmap> + Clone,
    {
        let mut some = false;
        for _ in 0..BATCH {
            if !device.has_packets() {
                break;
            }
            let Some(chain) = pop(queue, memory).map_err(broken("receive"))? else {
                break;
            };
            let head = chain.head_index();
            let Some(used) = self.write(chain, memory, device) else {
                queue.go_to_previous_position();
                break;
            };
            queue
                .add_used(memory.deref(), head, used)
                .map_err(broken("receive"))?;
            some = true;
        }
        progress(queue, memory, some).map_err(broken("receive"))
    }

    /// Fills `chain` with a packet and returns its length; none if there is no packet. A chain that cannot hold one is
    /// given back empty.
    fn write<M>(
        &mut self,
        chain: DescriptorChain<M>,
        memory: &M,
        device: &mut Device,
    ) -> Option<u32>
    where
        M: Deref<Target = GuestMemoryMmap> + Clone,
    {
        let Ok(mut writer) = Writer::new(memory.deref(), chain) else {
            return Some(0);
        };
        let room = writer.available_bytes().saturating_sub(HEADER_LEN);
        if room == 0 {
            return Some(0);
        }
        let payload = self.buffer.get_mut(..room.min(MAX_TO_GUEST))?;
        let header = device.receive(payload)?;
        let payload = payload.get(..header.len as usize).unwrap_or_default();
        // Neither can fail: the writer has room for both.
        let written = writer
            .write_all(&header.to_bytes())
            .and_then(|()| writer.write_all(payload));
        if let Err(error) = written {
            tracing::warn!(%error, "lost a vsock packet for the guest");
        }
        u32::try_from(HEADER_LEN + payload.len()).ok()
    }
}

fn pop<M>(queue: &mut Queue, memory: &M) -> Result<Option<DescriptorChain<M>>, virtio_queue::Error>
where
    M: Deref<Target = GuestMemoryMmap> + Clone,
{
    loop {
        if let Some(chain) = queue.iter(memory.clone())?.next() {
            queue.disable_notification(memory.deref())?;
            return Ok(Some(chain));
        }
        // Ask for a notification, then look again: the guest may have been faster.
        if !queue.enable_notification(memory.deref())? {
            return Ok(None);
        }
    }
}

fn progress<M>(queue: &mut Queue, memory: &M, some: bool) -> Result<Progress, virtio_queue::Error>
where
    M: Deref<Target = GuestMemoryMmap> + Clone,
{
    let notify = some && queue.needs_notification(memory.deref())?;
    Ok(Progress { some, notify })
}
