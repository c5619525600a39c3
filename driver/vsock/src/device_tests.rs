//! The device between real sockets and a model guest: no byte is lost, doubled or displaced, and nothing grows.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "small numbers of tests"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tempfile::TempDir;

use super::connection::BUF_ALLOC;
use super::device::Device;
use super::model::{CID, Guest, pattern};
use super::muxer::{Key, MAX_CALLS_BY_GUEST, MAX_CONNECTIONS, MAX_RESETS};
use super::packet::{HOST_CID, Header, Op, shutdown};

const GUEST_PORT: u32 = 1025;
const HOST_PORT: u32 = 1024;

/// A host program's end of a connection.
struct Program {
    socket: Option<UnixStream>,
    key: Key,
    /// Bytes of [`pattern`] that it wants to write, and that it wrote so far.
    wanted: usize,
    sent: usize,
    received: Vec<u8>,
    /// It read the end of the stream.
    at_end: bool,
}

impl Program {
    fn new(socket: UnixStream, key: Key) -> Self {
        socket.set_nonblocking(true).unwrap();
        Self {
            socket: Some(socket),
            key,
            wanted: 0,
            sent: 0,
            received: Vec::new(),
            at_end: false,
        }
    }

    fn write(&mut self, len: usize) {
        self.wanted += len;
        if let Some(socket) = &mut self.socket {
            let bytes = pattern(self.sent, self.wanted - self.sent);
            match socket.write(&bytes) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The guest, or this program itself, ended it.
                Err(_) => self.wanted = self.sent,
            }
        }
    }

    fn read(&mut self, len: usize) {
        let mut buffer = vec![0; len];
        if let Some(socket) = &mut self.socket {
            match socket.read(&mut buffer) {
                Ok(0) => self.at_end = true,
                Ok(count) => self.received.extend(&buffer[..count]),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }
}

struct World {
    folder: TempDir,
    device: Device,
    guest: Guest,
    listener: UnixListener,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vsock");
        let listener = UnixListener::bind(folder.path().join("vsock_1024")).unwrap();
        listener.set_nonblocking(true).unwrap();
        let guest = Guest {
            listens: [GUEST_PORT].into(),
            alloc: 64 * 1024,
            ..Guest::default()
        };
        Self {
            device: Device::bind(CID, &path).unwrap(),
            folder,
            guest,
            listener,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("vsock")
    }

    fn transmit(&mut self, packets: usize) {
        for _ in 0..packets {
            if !self.device.takes_packets() {
                return;
            }
            let Some((header, payload)) = self.guest.queue.pop_front() else {
                return;
            };
            self.device.transmit(&header, &payload);
        }
    }

    fn receive(&mut self, packets: usize, room: usize) -> usize {
        let mut buffer = vec![0; room];
        for count in 0..packets {
            let Some(header) = self.device.receive(&mut buffer) else {
                return count;
            };
            self.guest.receive(&header, &buffer[..header.len as usize]);
        }
        packets
    }

    /// The device looks after the host's sockets until it has seen all: a dial is accepted, then read.
    fn look(&mut self) {
        for _ in 0..3 {
            self.device.poll();
        }
    }

    /// Everything that can move without a program's doing moves.
    fn settle(&mut self) {
        let mut idle = 0;
        for _ in 0..10_000 {
            self.device.poll();
            let queued = self.guest.queue.len();
            self.transmit(usize::MAX);
            let received = self.receive(1024, 4096);
            self.guest.settle();
            let is_idle = queued == 0 && received == 0 && self.guest.queue.is_empty();
            idle = if is_idle { idle + 1 } else { 0 };
            if idle == 3 {
                return;
            }
        }
        panic!("packets go round for ever");
    }

    /// A host program dials, writes its line, and maybe waits for the answer.
    fn dial(&mut self, port: u32) -> UnixStream {
        let mut socket = self.connect();
        writeln!(socket, "CONNECT {port}").unwrap();
        socket
    }

    /// A socket whose reads fail rather than hang.
    fn connect(&self) -> UnixStream {
        let socket = UnixStream::connect(self.path()).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        socket
    }

    fn host_call(&mut self) -> Program {
        let mut socket = self.dial(GUEST_PORT);
        self.settle();
        let mut line = [0; 14];
        socket.read_exact(&mut line).unwrap();
        let host_port = std::str::from_utf8(&line[3..13]).unwrap().parse().unwrap();
        let key = Key {
            host_port,
            guest_port: GUEST_PORT,
        };
        Program::new(socket, key)
    }

    fn guest_call(&mut self, guest_port: u32) -> Program {
        let key = Key {
            host_port: HOST_PORT,
            guest_port,
        };
        self.guest.call(key);
        self.settle();
        Program::new(self.listener.accept().unwrap().0, key)
    }

    fn is_reset(&self, key: Key) -> bool {
        self.guest.sockets[&key].reset
    }
}

#[derive(Debug, Clone)]
enum Step {
    HostWrites(usize, usize),
    HostReads(usize, usize),
    HostEndsWriting(usize),
    HostCloses(usize),
    GuestWrites(usize, usize),
    GuestReads(usize, usize),
    GuestEndsWriting(usize),
    GuestCloses(usize),
    Poll,
    Transmit(usize),
    Receive(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    let which = 0usize..3;
    let size = prop_oneof![4 => 1usize..100, 4 => 1usize..50_000, 1 => 1usize..800_000];
    prop_oneof![
        6 => (which.clone(), size.clone()).prop_map(|(which, len)| HostWrites(which, len)),
        6 => (which.clone(), size.clone()).prop_map(|(which, len)| HostReads(which, len)),
        6 => (which.clone(), size.clone()).prop_map(|(which, len)| GuestWrites(which, len)),
        6 => (which.clone(), size).prop_map(|(which, len)| GuestReads(which, len)),
        1 => which.clone().prop_map(HostEndsWriting),
        1 => which.clone().prop_map(HostCloses),
        1 => which.clone().prop_map(GuestEndsWriting),
        1 => which.prop_map(GuestCloses),
        6 => Just(Poll),
        6 => (1usize..20).prop_map(Transmit),
        6 => (1usize..20, prop_oneof![Just(4096usize), 1usize..70_000])
            .prop_map(|(packets, room)| Receive(packets, room)),
    ]
}

impl World {
    fn take(&mut self, step: &Step, programs: &mut [Program]) {
        match *step {
            // A guest with a tiny buffer would take for ever to read much.
            Step::HostWrites(which, len) => {
                programs[which].write(len.min(self.guest.alloc as usize * 8));
            }
            Step::HostReads(which, len) => programs[which].read(len),
            Step::HostEndsWriting(which) => {
                if let Some(socket) = &programs[which].socket {
                    let _ = socket.shutdown(Shutdown::Write);
                    programs[which].wanted = programs[which].sent;
                }
            }
            Step::HostCloses(which) => programs[which].socket = None,
            Step::GuestWrites(which, len) => self.guest.write(programs[which].key, len),
            Step::GuestReads(which, len) => self.guest.read(programs[which].key, len),
            Step::GuestEndsWriting(which) => self.guest.end(programs[which].key, shutdown::SEND),
            Step::GuestCloses(which) => self.guest.end(programs[which].key, shutdown::BOTH),
            Step::Poll => self.device.poll(),
            Step::Transmit(packets) => self.transmit(packets),
            Step::Receive(packets, room) => {
                self.receive(packets, room);
                self.guest.settle();
            }
        }
    }

    /// All programs that still can read what is left.
    fn finish(&mut self, programs: &mut [Program]) {
        let mut before = None;
        loop {
            self.settle();
            for program in programs.iter_mut() {
                program.write(0);
                program.read(1 << 20);
                self.guest.read(program.key, 1 << 20);
            }
            let read = |program: &Program| program.received.len();
            let counts: usize = programs.iter().map(read).sum();
            let guest = self.guest.sockets.values();
            let counts = (
                counts,
                guest.map(|socket| socket.received.len()).sum::<usize>(),
            );
            if before.replace(counts) == Some(counts) && self.guest.queue.is_empty() {
                self.settle();
                return;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_byte_is_lost_doubled_or_displaced_whoever_ends_when(
        alloc in prop_oneof![1u32..5000, Just(65_536), Just(262_144)],
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let mut world = World::new();
        world.guest.alloc = alloc;
        let mut programs = vec![world.host_call(), world.guest_call(5001), world.guest_call(5002)];

        for step in &steps {
            world.take(step, &mut programs);
        }
        world.finish(&mut programs);

        for (which, program) in programs.iter().enumerate() {
            let socket = &world.guest.sockets[&program.key];
            // What arrives is always a piece, from the start, of what was sent;
            prop_assert!(program.received == pattern(0, program.received.len()));
            prop_assert!(socket.received == pattern(0, socket.received.len()));
            // all of it, if the receiver did not close: the sender may have.
            let guest_closed = steps.iter().any(|step| matches!(step, Step::GuestCloses(w) if *w == which));
            if program.socket.is_some() {
                prop_assert_eq!(program.received.len(), socket.sent);
                prop_assert_eq!(world.guest.stuck(program.key), 0);
            }
            if !guest_closed {
                prop_assert_eq!(socket.received.len(), program.sent);
                prop_assert!(program.sent == program.wanted || program.socket.is_none());
            }
            // Whoever is still there knows of the other's end.
            if program.socket.is_none() && !guest_closed {
                prop_assert!(world.is_reset(program.key));
            }
            if guest_closed {
                prop_assert!(world.is_reset(program.key));
            }
            let guest_ended = guest_closed || steps.iter().any(|step| matches!(step, Step::GuestEndsWriting(w) if *w == which));
            prop_assert!(program.at_end == guest_ended || program.socket.is_none());
            let host_ended = program.socket.is_none() || steps.iter().any(|step| matches!(step, Step::HostEndsWriting(w) if *w == which));
            prop_assert!(!host_ended || guest_closed || socket.host_ended & shutdown::SEND != 0);
        }
        if programs.iter().all(|program| world.is_reset(program.key)) {
            prop_assert_eq!(world.device.connections(), (0, 0));
        }
    }

    #[test]
    fn hostile_packets_neither_panic_nor_pile_up(
        packets in proptest::collection::vec(hostile_packet(), 1..600),
        receive_every in 1usize..50,
    ) {
        let mut world = World::new();
        let _program = world.host_call();
        let mut buffer = vec![0; 4096];

        for (index, (header, payload)) in packets.iter().enumerate() {
            if world.device.takes_packets() {
                world.device.transmit(header, payload);
            }
            if index % receive_every == 0 {
                world.device.poll();
                world.device.receive(&mut buffer);
            }
            let (connections, resets) = world.device.connections();
            prop_assert!(connections <= MAX_CALLS_BY_GUEST + 1);
            prop_assert!(resets <= MAX_RESETS + 1);
        }
    }
}

/// Whether the other end is gone; what it had not read of ours makes that an error.
fn is_closed(socket: &mut UnixStream) -> bool {
    match socket.read(&mut [0; 16]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

fn hostile_packet() -> impl Strategy<Value = (Header, Vec<u8>)> {
    let cid = prop_oneof![9 => Just(CID), 1 => any::<u64>()];
    let host = prop_oneof![9 => Just(HOST_CID), 1 => any::<u64>()];
    let guest_port = prop_oneof![
        Just(GUEST_PORT),
        5000u32..5300,
        any::<u32>(),
        Just(u32::MAX)
    ];
    let host_port = prop_oneof![Just(HOST_PORT), Just(1 << 30), any::<u32>(), Just(u32::MAX)];
    let kind = prop_oneof![9 => Just(1u16), 1 => any::<u16>()];
    let op = prop_oneof![9 => 0u16..9, 1 => any::<u16>()];
    let len = prop_oneof![0u32..10, Just(BUF_ALLOC), any::<u32>()];
    let payload = proptest::collection::vec(any::<u8>(), 0..10);
    let header = (
        cid,
        host,
        guest_port,
        host_port,
        kind,
        op,
        len,
        any::<u32>(),
        any::<u32>(),
        any::<u32>(),
    );
    (header, payload, any::<bool>()).prop_map(|(fields, payload, honest)| {
        let (src_cid, dst_cid, src_port, dst_port, kind, op, len, flags, buf_alloc, fwd_cnt) =
            fields;
        let len = if honest { payload.len() as u32 } else { len };
        let header = Header {
            src_cid,
            dst_cid,
            src_port,
            dst_port,
            len,
            kind,
            op: Op::from(op),
            flags,
            buf_alloc,
            fwd_cnt,
        };
        (header, payload)
    })
}

#[test]
fn call_to_a_port_without_listener_is_reset() {
    let mut world = World::new();
    let key = Key {
        host_port: 4711,
        guest_port: 5000,
    };

    world.guest.call(key);
    world.settle();

    assert!(world.is_reset(key));
    assert_eq!(world.device.connections(), (0, 0));
}

#[test]
fn dial_of_a_port_that_the_guest_does_not_serve_reads_the_end() {
    let mut world = World::new();
    let mut socket = world.dial(9);

    world.settle();

    assert_eq!(socket.read(&mut [0; 16]).unwrap(), 0);
    assert_eq!(world.device.connections(), (0, 0));
}

#[test]
fn dial_given_up_before_the_guest_answers_leaves_nothing() {
    let mut world = World::new();
    let before_the_guest_knows = world.dial(GUEST_PORT);
    world.look();
    assert_eq!(world.device.connections(), (1, 0));
    drop(before_the_guest_knows);
    world.look();
    assert_eq!(world.device.connections(), (0, 0));

    let after = world.dial(GUEST_PORT);
    world.look();
    world.receive(1, 4096);
    drop(after);
    world.settle();

    assert_eq!(world.device.connections(), (0, 0));
    assert!(world.guest.sockets.values().all(|socket| socket.reset));
}

#[test]
fn dials_that_ask_for_nothing_sensible_are_dropped() {
    for line in [
        "CONNECT\n",
        "CONNECT x\n",
        "GET / HTTP/1.1\n",
        "CONNECT 4294967295\n",
        "CONNECT 99999999999999999\n",
    ] {
        let mut world = World::new();
        let mut socket = world.connect();
        socket.write_all(line.as_bytes()).unwrap();

        world.settle();

        assert!(is_closed(&mut socket), "{line}");
        assert_eq!(world.device.connections(), (0, 0));
    }
}

#[test]
fn bytes_sent_right_behind_the_dial_arrive() {
    let mut world = World::new();
    let mut socket = world.connect();
    let mut text = format!("CONNECT {GUEST_PORT}\n").into_bytes();
    text.extend(pattern(0, 1000));
    socket.write_all(&text).unwrap();

    world.settle();

    let key = *world.guest.sockets.keys().next().unwrap();
    world.guest.read(key, 2000);
    assert!(world.guest.sockets[&key].received == pattern(0, 1000));
}

#[test]
fn line_that_comes_in_pieces_is_put_together() {
    let mut world = World::new();
    let mut socket = world.connect();
    for piece in ["CONN", "ECT 10", "25", "\n"] {
        socket.write_all(piece.as_bytes()).unwrap();
        world.settle();
    }

    let mut answer = [0; 3];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"OK ");
}

#[test]
fn guest_that_sends_beyond_its_credit_is_reset() {
    let mut world = World::new();
    let program = world.guest_call(5000);
    let payload = vec![0; BUF_ALLOC as usize];
    let mut header = Guest::header(program.key, Op::Data);
    header.len = BUF_ALLOC;
    // The program does not read: its socket takes some, the rest stays within the credit until it is used up.
    for _ in 0..8 {
        world.guest.queue.push_back((header, payload.clone()));
    }

    world.settle();

    assert!(world.is_reset(program.key));
    assert_eq!(world.device.connections(), (0, 0));
}

#[test]
fn guest_cannot_fill_the_device_with_calls_nor_keep_the_host_out() {
    let mut world = World::new();
    // The host's listener accepts none of them.
    for guest_port in 0..2 * MAX_CALLS_BY_GUEST as u32 {
        let key = Key {
            host_port: HOST_PORT,
            guest_port: 10_000 + guest_port,
        };
        world.guest.call(key);
        world.settle();
    }

    assert_eq!(world.device.connections().0, MAX_CALLS_BY_GUEST);
    let refused = world.guest.sockets.values().filter(|socket| socket.reset);
    assert_eq!(refused.count(), MAX_CALLS_BY_GUEST);
    world.host_call();
}

#[test]
fn connections_that_only_lack_the_guests_last_word_make_room() {
    let mut world = World::new();
    let mut first = None;
    for _ in 0..MAX_CONNECTIONS {
        let program = world.host_call();
        // Unread, so that the guest does not end it by itself.
        let mut socket = program.socket.as_ref().unwrap();
        socket.write_all(b"x").unwrap();
        first.get_or_insert(program.key);
    }
    world.settle();
    assert_eq!(world.device.connections().0, MAX_CONNECTIONS);

    let _last = world.host_call();

    assert_eq!(world.device.connections().0, MAX_CONNECTIONS);
    assert!(world.is_reset(first.unwrap()));
}

#[test]
fn guest_that_never_receives_stops_being_served_instead_of_growing() {
    let mut world = World::new();
    let key = Key {
        host_port: 4711,
        guest_port: 5000,
    };
    for _ in 0..10 * MAX_RESETS {
        world
            .guest
            .queue
            .push_back((Guest::header(key, Op::Request), Vec::new()));
    }

    world.transmit(usize::MAX);

    assert_eq!(world.device.connections(), (0, MAX_RESETS));
    assert!(!world.guest.queue.is_empty());
    world.settle();
    assert!(world.guest.queue.is_empty());
}

/// A measurement: run it optimised, with `--ignored --nocapture`.
#[test]
#[ignore = "measures, asserts nothing about time"]
fn throughput_without_a_guest() {
    const SIZE: usize = 1 << 30;
    let mut world = World::new();
    let report = |way: &str, start: Instant| {
        let rate = SIZE as f64 / start.elapsed().as_secs_f64() / 1e6;
        println!("{way}: {rate:.0} MB/s");
    };

    let mut program = world.guest_call(5000);
    let mut socket = program.socket.take().unwrap();
    socket.set_nonblocking(false).unwrap();
    let reader = std::thread::spawn(move || std::io::copy(&mut socket, &mut std::io::sink()));
    let start = Instant::now();
    let payload = vec![0; 64 << 10];
    let mut header = Guest::header(program.key, Op::Data);
    header.len = payload.len() as u32;
    let mut buffer = vec![0; 4096];
    let (mut sent, mut taken) = (0u32, 0u32);
    for _ in 0..SIZE / payload.len() {
        while sent.wrapping_sub(taken) + header.len > BUF_ALLOC {
            world.device.poll();
            if let Some(header) = world.device.receive(&mut buffer) {
                taken = header.fwd_cnt;
            }
        }
        world.device.transmit(&header, &payload);
        sent = sent.wrapping_add(header.len);
    }
    report("guest to host, 64 KiB packets", start);
    drop(world);
    reader.join().unwrap().unwrap();

    let mut world = World::new();
    world.guest.alloc = u32::MAX;
    let program = world.guest_call(5000);
    let mut socket = program.socket.unwrap();
    socket.set_nonblocking(false).unwrap();
    let writer = std::thread::spawn(move || {
        for _ in 0..SIZE >> 16 {
            socket.write_all(&[0; 1 << 16]).unwrap();
        }
        socket
    });
    let start = Instant::now();
    let mut left = SIZE;
    while left > 0 {
        match world.device.receive(&mut buffer) {
            Some(header) => left -= header.len as usize,
            None => world.device.poll(),
        }
    }
    report("host to guest, 4 KiB packets", start);
    writer.join().unwrap();
}
