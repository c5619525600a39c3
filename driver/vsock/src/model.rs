//! A guest's end of the device, for tests: it keeps the rules, as Linux does, and checks that the device does.

#![allow(clippy::cast_possible_truncation, reason = "small numbers of tests")]

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::LazyLock;

use super::muxer::Key;
use super::packet::{HOST_CID, Header, Op, TYPE_STREAM, shutdown};

pub(super) const CID: u64 = 3;

/// Linux's largest packet.
const MAX_PACKET: usize = 64 * 1024;

/// How many bytes of the pattern differ from each other: a prime, so that no packet size divides it.
const PERIOD: usize = 1_000_003;

/// A piece of endless bytes in which a lost, doubled or displaced one shows.
pub(super) fn pattern(from: usize, len: usize) -> Vec<u8> {
    static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        (0..PERIOD as u64)
            .map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
            .collect()
    });
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let rest = &TABLE[(from + bytes.len()) % PERIOD..];
        bytes.extend(&rest[..rest.len().min(len - bytes.len())]);
    }
    bytes
}

/// A connection as the guest's program sees it.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) open: bool,
    /// Flags of [`shutdown`] that the guest, and the host, sent.
    ended: u32,
    pub(super) host_ended: u32,
    pub(super) reset: bool,

    alloc: u32,
    unread: VecDeque<u8>,
    forwarded: u32,
    told: u32,
    /// All that the program read so far.
    pub(super) received: Vec<u8>,

    peer_alloc: u32,
    peer_forwarded: u32,
    /// Bytes of [`pattern`] that the program wants to write, and that it wrote so far.
    wanted: usize,
    pub(super) sent: usize,
}

impl Socket {
    fn new(alloc: u32) -> Self {
        Self {
            open: false,
            ended: 0,
            host_ended: 0,
            reset: false,
            alloc,
            unread: VecDeque::new(),
            forwarded: 0,
            told: 0,
            received: Vec::new(),
            peer_alloc: 0,
            peer_forwarded: 0,
            wanted: 0,
            sent: 0,
        }
    }

    fn credit(&self) -> usize {
        let under_way = (self.sent as u32).wrapping_sub(self.peer_forwarded);
        assert!(under_way <= self.peer_alloc, "the device took back credit");
        (self.peer_alloc - under_way) as usize
    }

    /// Whether the program closed it or it is over.
    pub(super) fn is_closed(&self) -> bool {
        self.reset || self.ended == shutdown::BOTH
    }
}

#[derive(Debug, Default)]
pub(super) struct Guest {
    pub(super) listens: HashSet<u32>,
    /// Size of the receive buffer of sockets to come.
    pub(super) alloc: u32,
    pub(super) sockets: HashMap<Key, Socket>,
    /// Packets for the device.
    pub(super) queue: VecDeque<(Header, Vec<u8>)>,
}

impl Guest {
    pub(super) fn header(key: Key, op: Op) -> Header {
        Header {
            src_cid: CID,
            dst_cid: HOST_CID,
            src_port: key.guest_port,
            dst_port: key.host_port,
            len: 0,
            kind: TYPE_STREAM,
            op,
            flags: 0,
            buf_alloc: 0,
            fwd_cnt: 0,
        }
    }

    fn send(&mut self, key: Key, op: Op, flags: u32, payload: Vec<u8>) {
        let mut header = Self::header(key, op);
        header.flags = flags;
        header.len = payload.len() as u32;
        if let Some(socket) = self.sockets.get_mut(&key) {
            header.buf_alloc = socket.alloc;
            header.fwd_cnt = socket.forwarded;
            socket.told = socket.forwarded;
        }
        self.queue.push_back((header, payload));
    }

    /// The program calls a port of the host.
    pub(super) fn call(&mut self, key: Key) {
        self.sockets.insert(key, Socket::new(self.alloc));
        self.send(key, Op::Request, 0, Vec::new());
    }

    /// The program wants to write `len` bytes more.
    pub(super) fn write(&mut self, key: Key, len: usize) {
        if let Some(socket) = self.sockets.get_mut(&key)
            && socket.ended & shutdown::SEND == 0
        {
            socket.wanted += len;
        }
        self.push(key);
    }

    /// Sends what the program wants to write, as far as the device can take it.
    fn push(&mut self, key: Key) {
        while let Some(socket) = self.sockets.get_mut(&key) {
            let may_send = socket.open
                && !socket.reset
                && socket.ended & shutdown::SEND == 0
                && socket.host_ended & shutdown::RECEIVE == 0;
            let wanted = socket.wanted - socket.sent;
            let len = wanted.min(socket.credit()).min(MAX_PACKET);
            if !may_send || len == 0 {
                return;
            }
            let payload = pattern(socket.sent, len);
            socket.sent += len;
            self.send(key, Op::Data, 0, payload);
        }
    }

    /// Bytes that the program wants to write, could still write, and has not.
    pub(super) fn stuck(&self, key: Key) -> usize {
        let socket = &self.sockets[&key];
        let is_over = socket.is_closed()
            || socket.ended & shutdown::SEND != 0
            || socket.host_ended & shutdown::RECEIVE != 0;
        if is_over {
            0
        } else {
            socket.wanted - socket.sent
        }
    }

    /// The program reads up to `len` bytes. Like Linux, tells the device of the room when little is left of it.
    pub(super) fn read(&mut self, key: Key, len: usize) {
        let Some(socket) = self.sockets.get_mut(&key) else {
            return;
        };
        let len = len.min(socket.unread.len());
        socket.received.extend(socket.unread.drain(..len));
        socket.forwarded = socket.forwarded.wrapping_add(len as u32);
        let unsaid = socket.forwarded.wrapping_sub(socket.told);
        if socket.open && !socket.is_closed() && unsaid > socket.alloc / 4 {
            self.send(key, Op::CreditUpdate, 0, Vec::new());
        }
    }

    /// The program ends one direction, or both by closing.
    pub(super) fn end(&mut self, key: Key, flags: u32) {
        let Some(socket) = self.sockets.get_mut(&key) else {
            return;
        };
        if socket.open && !socket.is_closed() {
            socket.ended |= flags;
            let flags = socket.ended;
            self.send(key, Op::Shutdown, flags, Vec::new());
        }
    }

    /// A packet of the device arrives.
    pub(super) fn receive(&mut self, header: &Header, payload: &[u8]) {
        assert_eq!((header.src_cid, header.dst_cid), (HOST_CID, CID));
        assert_eq!(header.kind, TYPE_STREAM);
        let key = Key {
            host_port: header.src_port,
            guest_port: header.dst_port,
        };
        if header.op == Op::Request {
            let listens = self.listens.contains(&key.guest_port);
            if listens {
                self.sockets.insert(key, Socket::new(self.alloc));
            } else {
                self.send(key, Op::Reset, 0, Vec::new());
                return;
            }
        }
        let Some(socket) = self.sockets.get_mut(&key) else {
            assert_eq!(header.op, Op::Reset, "a packet for no connection");
            return;
        };
        if header.op != Op::Reset {
            socket.peer_alloc = header.buf_alloc;
            socket.peer_forwarded = header.fwd_cnt;
            socket.credit();
        }
        match header.op {
            Op::Request => {
                socket.open = true;
                self.send(key, Op::Response, 0, Vec::new());
            }
            Op::Response => {
                assert!(!socket.open, "a second answer");
                socket.open = true;
            }
            Op::Data => {
                assert!(socket.open, "data before the connection");
                assert_eq!(header.len as usize, payload.len());
                assert_eq!(socket.host_ended & shutdown::SEND, 0, "data after its end");
                socket.unread.extend(payload);
                let room = socket.alloc as usize;
                assert!(socket.unread.len() <= room, "more than the credit");
            }
            Op::Shutdown => {
                assert_ne!(header.flags & shutdown::BOTH, 0);
                socket.host_ended |= header.flags;
            }
            Op::CreditRequest => self.send(key, Op::CreditUpdate, 0, Vec::new()),
            Op::CreditUpdate => {}
            Op::Reset => socket.reset = true,
            Op::Unknown(op) => panic!("unknown operation {op}"),
        }
        self.push(key);
    }

    /// Closes, as Linux does, what the host has ended and the program has read to the end.
    pub(super) fn settle(&mut self) {
        let over: Vec<_> = self
            .sockets
            .iter()
            .filter(|(_, socket)| {
                socket.host_ended == shutdown::BOTH
                    && socket.unread.is_empty()
                    && !socket.is_closed()
            })
            .map(|(key, _)| *key)
            .collect();
        for key in over {
            self.send(key, Op::Reset, 0, Vec::new());
            if let Some(socket) = self.sockets.get_mut(&key) {
                socket.reset = true;
            }
        }
    }
}
