//! Descriptor chains of a hostile guest: looping, overlapping, out of memory, of any length.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

use proptest::prelude::*;
use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::device::Device;
use super::model::{CID, Guest};
use super::muxer::Key;
use super::packet::{HEADER_LEN, Header, Op};
use super::queues::Copier;

const MEMORY: usize = 0x20000;
const TABLE: u64 = 0x1000;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
const DATA: u64 = 0x8000;
const SIZE: u16 = 16;

/// Descriptor flags (virtio 1.2, section 2.7.5).
const NEXT: u16 = 1;
const WRITE: u16 = 2;

#[derive(Debug, Clone, Copy)]
struct Descriptor {
    address: u64,
    len: u32,
    flags: u16,
    next: u16,
}

struct Ring {
    memory: GuestMemoryMmap,
    queue: Queue,
}

impl Ring {
    fn new(descriptors: &[Descriptor], heads: &[u16]) -> Self {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY)]).unwrap();
        for (index, descriptor) in descriptors.iter().enumerate() {
            let at = |offset| GuestAddress(TABLE + 16 * index as u64 + offset);
            memory.write_obj(descriptor.address, at(0)).unwrap();
            memory.write_obj(descriptor.len, at(8)).unwrap();
            memory.write_obj(descriptor.flags, at(12)).unwrap();
            memory.write_obj(descriptor.next, at(14)).unwrap();
        }
        for (index, head) in heads.iter().enumerate() {
            let at = GuestAddress(AVAILABLE + 4 + 2 * index as u64);
            memory.write_obj(*head, at).unwrap();
        }
        let count = heads.len() as u16;
        memory
            .write_obj(count, GuestAddress(AVAILABLE + 2))
            .unwrap();
        let mut queue = Queue::new(SIZE).unwrap();
        queue.set_size(SIZE);
        queue
            .try_set_desc_table_address(GuestAddress(TABLE))
            .unwrap();
        queue
            .try_set_avail_ring_address(GuestAddress(AVAILABLE))
            .unwrap();
        queue.try_set_used_ring_address(GuestAddress(USED)).unwrap();
        queue.set_ready(true);
        Self { memory, queue }
    }

    fn used(&self) -> u16 {
        self.memory.read_obj(GuestAddress(USED + 2)).unwrap()
    }

    fn header(&self) -> Header {
        let mut bytes = [0; HEADER_LEN];
        self.memory
            .read_slice(&mut bytes, GuestAddress(DATA))
            .unwrap();
        Header::from_bytes(&bytes)
    }
}

fn device() -> (tempfile::TempDir, Device) {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::bind(CID, &folder.path().join("vsock")).unwrap();
    (folder, device)
}

/// A call to a port without a listener, which must be answered with a reset.
fn call() -> Header {
    let key = Key {
        host_port: 4711,
        guest_port: 5000,
    };
    Guest::header(key, Op::Request)
}

fn whole(len: u32, flags: u16) -> Descriptor {
    Descriptor {
        address: DATA,
        len,
        flags,
        next: 0,
    }
}

#[test]
fn header_may_be_cut_into_descriptors_of_any_size() {
    let (_folder, mut device) = device();
    let cut = [1u32, 20, 23];
    let descriptors: Vec<_> = (0..3)
        .map(|index| Descriptor {
            address: DATA + u64::from(cut[..index].iter().sum::<u32>()),
            len: cut[index],
            flags: if index < 2 { NEXT } else { 0 },
            next: index as u16 + 1,
        })
        .collect();
    let mut ring = Ring::new(&descriptors, &[0]);
    ring.memory
        .write_slice(&call().to_bytes(), GuestAddress(DATA))
        .unwrap();

    let progress = Copier::new().transmit(&mut ring.queue, &&ring.memory, &mut device);

    assert!(progress.unwrap().some);
    assert_eq!(device.connections(), (0, 1));
    assert_eq!(ring.used(), 1);
}

#[test]
fn answer_is_written_to_the_guests_buffer() {
    let (_folder, mut device) = device();
    device.transmit(&call(), &[]);
    let mut ring = Ring::new(&[whole(4096, WRITE)], &[0]);

    Copier::new()
        .receive(&mut ring.queue, &&ring.memory, &mut device)
        .unwrap();

    assert_eq!(ring.header().op, Op::Reset);
    assert_eq!(
        (ring.header().src_port, ring.header().dst_port),
        (4711, 5000)
    );
    assert_eq!(ring.used(), 1);
}

#[test]
fn buffers_without_room_are_given_back_and_the_packet_waits_for_a_better_one() {
    let (_folder, mut device) = device();
    device.transmit(&call(), &[]);
    let descriptors = [
        whole(HEADER_LEN as u32, WRITE),
        whole(0, WRITE),
        whole(64, WRITE),
    ];
    let mut ring = Ring::new(&descriptors, &[0, 1, 2]);

    Copier::new()
        .receive(&mut ring.queue, &&ring.memory, &mut device)
        .unwrap();

    assert_eq!(ring.header().op, Op::Reset);
    assert_eq!(ring.used(), 3);
}

#[test]
fn buffer_is_kept_while_there_is_nothing_to_send() {
    let (_folder, mut device) = device();
    let mut ring = Ring::new(&[whole(4096, WRITE)], &[0]);

    let progress = Copier::new().receive(&mut ring.queue, &&ring.memory, &mut device);

    assert!(!progress.unwrap().some);
    assert_eq!((ring.used(), ring.queue.next_avail()), (0, 0));
}

#[test]
fn length_beyond_the_chain_resets() {
    let (_folder, mut device) = device();
    let mut header = call();
    header.op = Op::Data;
    header.len = u32::MAX;
    let mut ring = Ring::new(&[whole(100, 0)], &[0]);
    ring.memory
        .write_slice(&header.to_bytes(), GuestAddress(DATA))
        .unwrap();

    Copier::new()
        .transmit(&mut ring.queue, &&ring.memory, &mut device)
        .unwrap();

    assert_eq!(device.connections(), (0, 1));
}

#[test]
fn available_index_that_runs_ahead_is_an_error() {
    let (_folder, mut device) = device();
    let mut ring = Ring::new(&[whole(100, 0)], &[0]);
    ring.memory
        .write_obj(SIZE + 1, GuestAddress(AVAILABLE + 2))
        .unwrap();

    let error = Copier::new()
        .transmit(&mut ring.queue, &&ring.memory, &mut device)
        .unwrap_err();

    assert_eq!(
        error.to_string(),
        "the guest broke the vsock device's transmit queue"
    );
}

fn descriptor() -> impl Strategy<Value = Descriptor> {
    let address = prop_oneof![
        DATA..DATA + 0x100,
        TABLE..USED + 0x100,
        MEMORY as u64 - 64..MEMORY as u64 + 64,
        any::<u64>(),
    ];
    let len = prop_oneof![0u32..100, Just(4096), any::<u32>()];
    let next = prop_oneof![9 => 0..SIZE, 1 => any::<u16>()];
    let flags = prop_oneof![9 => 0u16..4, 1 => any::<u16>()];
    (address, len, flags, next).prop_map(|(address, len, flags, next)| Descriptor {
        address,
        len,
        flags,
        next,
    })
}

proptest! {
    #[test]
    fn any_chains_are_survived(
        descriptors in proptest::collection::vec(descriptor(), SIZE as usize),
        heads in proptest::collection::vec(prop_oneof![9 => 0..SIZE, 1 => any::<u16>()], 1..=SIZE as usize),
        data in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let (_folder, mut device) = device();
        let mut copier = Copier::new();
        for _ in 0..4 {
            device.transmit(&call(), &[]);
        }
        let mut ring = Ring::new(&descriptors, &heads);
        ring.memory.write_slice(&call().to_bytes(), GuestAddress(DATA)).unwrap();
        ring.memory.write_slice(&data, GuestAddress(DATA + 20)).unwrap();
        let _ = copier.transmit(&mut ring.queue, &&ring.memory, &mut device);

        let mut ring = Ring::new(&descriptors, &heads);
        let _ = copier.receive(&mut ring.queue, &&ring.memory, &mut device);

        prop_assert!(device.connections().0 == 0);
    }
}
