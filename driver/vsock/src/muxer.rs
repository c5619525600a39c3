//! Many connections over one pair of queues: which connection a packet belongs to, and whose turn it is.
//!
//! The muxer sees headers and counts only. Its caller owns the host's streams and the payload, and does what each
//! [`Effect`] says. Everything a guest can make it remember is bounded: connections by [`MAX_CONNECTIONS`] and
//! [`MAX_CALLS_BY_GUEST`], control packets by one of each kind a connection, resets by [`MAX_RESETS`], beyond which
//! the caller is asked to take no more packets until the guest has received some.

use std::collections::{HashMap, VecDeque};

use super::connection::{Connection, Next, Reaction};
use super::packet::{HOST_CID, Header, Op, PORT_ANY, TYPE_STREAM, shutdown};

/// How many connections may be open at once.
pub(crate) const MAX_CONNECTIONS: usize = 1024;

/// How many of them the guest may have made. With `BUF_ALLOC` it bounds what a guest can make us hold for host
/// programs that do not read: 32 MiB.
pub(crate) const MAX_CALLS_BY_GUEST: usize = 128;

/// How many resets may wait for the guest to receive them.
pub(crate) const MAX_RESETS: usize = 256;

/// Ports given to the host's end of a call to the guest: from here up to [`LAST_PORT`], round and round. Host programs
/// listen below.
const FIRST_PORT: u32 = 1 << 30;
/// See [`FIRST_PORT`].
const LAST_PORT: u32 = (1 << 31) - 1;

/// A connection's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) host_port: u32,
    pub(crate) guest_port: u32,
}

/// What the caller must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The guest calls the host: connect, then [`Muxer::accept`] or [`Muxer::refuse`].
    Connect(Key),
    /// The guest took the call made with [`Muxer::call`].
    Opened(Key),
    /// Write the payload to the host's stream, in order, and report with [`Muxer::forwarded`].
    Deliver(Key),
    /// The guest receives no more: stop reading the host's stream.
    EndReading(Key),
    /// The guest sends no more and the host's stream has it all: close it for writing.
    EndWriting(Key),
    /// The host's stream is of no further use: drop it.
    Close(Key),
}

/// What goes to the guest next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outgoing {
    /// This header alone.
    Packet(Header),
    /// 1 to `max` bytes from the host's stream: read them, then call [`Muxer::sent`] for the header, or
    /// [`Muxer::host_drained`] or [`Muxer::host_ended`] if there are none.
    Data { key: Key, max: u32 },
}

/// There are [`MAX_CONNECTIONS`] already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

#[derive(Debug)]
struct Entry {
    connection: Connection,
    by_guest: bool,
    /// It stands in the `ready` line.
    queued: bool,
    /// The caller was told to drop the host's stream.
    closed: bool,
    /// It stands in the `lingering` line.
    lingering: bool,
}

#[derive(Debug)]
pub(crate) struct Muxer {
    guest_cid: u64,
    entries: HashMap<Key, Entry>,
    calls_by_guest: usize,
    /// Connections with something to send, in turn.
    ready: VecDeque<Key>,
    resets: VecDeque<Key>,
    /// Connections that only lack the guest's last word, oldest first: the first to go when room is needed.
    lingering: VecDeque<Key>,
    next_port: u32,
}

impl Muxer {
    pub(crate) fn new(guest_cid: u64) -> Self {
        Self {
            guest_cid,
            entries: HashMap::new(),
            calls_by_guest: 0,
            ready: VecDeque::new(),
            resets: VecDeque::new(),
            lingering: VecDeque::new(),
            next_port: FIRST_PORT,
        }
    }

    /// Forgets everything, as when the guest's driver starts anew. The caller drops all streams.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.guest_cid);
    }

    /// Whether packets of the guest may be handled now.
    pub(crate) fn takes_packets(&self) -> bool {
        self.resets.len() < MAX_RESETS
    }

    /// Connections, and waiting resets.
    #[cfg(test)]
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.entries.len(), self.resets.len())
    }

    /// Whether [`Muxer::next`] may have something.
    pub(crate) fn has_work(&self) -> bool {
        !self.resets.is_empty() || !self.ready.is_empty()
    }

    /// Handles a packet of the guest that came with at least `header.len` bytes of payload.
    pub(crate) fn handle(&mut self, header: &Header) -> Option<Effect> {
        let key = self.key(header)?;
        if header.kind != TYPE_STREAM || key.host_port == PORT_ANY || key.guest_port == PORT_ANY {
            return self.violation(key, header.op);
        }
        let Some(entry) = self.entries.get_mut(&key) else {
            return match header.op {
                Op::Request => self.called(key),
                // Answering a reset with a reset could go on for ever.
                Op::Reset => None,
                _ => self.violation(key, header.op),
            };
        };
        let reaction = entry.connection.handle(header);
        self.after(key, reaction)
    }

    /// Handles a packet whose payload is shorter than its header says.
    pub(crate) fn malformed(&mut self, header: &Header) -> Option<Effect> {
        let key = self.key(header)?;
        self.violation(key, header.op)
    }

    /// The connection a guest's packet is for; none if it is not from the guest to the host.
    fn key(&self, header: &Header) -> Option<Key> {
        (header.src_cid == self.guest_cid && header.dst_cid == HOST_CID).then_some(Key {
            host_port: header.dst_port,
            guest_port: header.src_port,
        })
    }

    fn called(&mut self, key: Key) -> Option<Effect> {
        if self.calls_by_guest >= MAX_CALLS_BY_GUEST {
            self.evict(true);
        }
        if self.entries.len() >= MAX_CONNECTIONS {
            self.evict(false);
        }
        if self.calls_by_guest >= MAX_CALLS_BY_GUEST || self.entries.len() >= MAX_CONNECTIONS {
            self.refuse(key);
            return None;
        }
        Some(Effect::Connect(key))
    }

    /// The host took the guest's call, which `request` made.
    pub(crate) fn accept(&mut self, key: Key, request: &Header) {
        self.insert(key, Connection::answering(request), true);
    }

    /// The host does not take the guest's call.
    pub(crate) fn refuse(&mut self, key: Key) {
        self.resets.push_back(key);
    }

    /// Calls `guest_port`.
    pub(crate) fn call(&mut self, guest_port: u32) -> Result<Key, Full> {
        if self.entries.len() >= MAX_CONNECTIONS {
            self.evict(false);
        }
        if self.entries.len() >= MAX_CONNECTIONS {
            return Err(Full);
        }
        // Ends: there are more ports than connections.
        let key = loop {
            let key = Key {
                host_port: self.next_port,
                guest_port,
            };
            self.next_port = match self.next_port {
                LAST_PORT => FIRST_PORT,
                port => port + 1,
            };
            if !self.entries.contains_key(&key) {
                break key;
            }
        };
        self.insert(key, Connection::calling(), false);
        Ok(key)
    }

    fn insert(&mut self, key: Key, connection: Connection, by_guest: bool) {
        let entry = Entry {
            connection,
            by_guest,
            queued: false,
            closed: false,
            lingering: false,
        };
        self.calls_by_guest += usize::from(by_guest);
        self.entries.insert(key, entry);
        self.queue(key);
    }

    /// `len` bytes of the guest's are in the host's stream.
    pub(crate) fn forwarded(&mut self, key: Key, len: u32) -> Option<Effect> {
        let entry = self.entries.get_mut(&key)?;
        let reaction = entry.connection.forwarded(len);
        self.after(key, reaction)
    }

    /// The host's stream may have bytes to read.
    pub(crate) fn host_readable(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.connection.host_readable();
            self.queue(key);
        }
    }

    /// The host's stream has nothing to read for now.
    pub(crate) fn host_drained(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.connection.host_drained();
        }
    }

    /// The host's stream was read to its end.
    pub(crate) fn host_sent_all(&mut self, key: Key) -> Option<Effect> {
        self.host_ended(key, shutdown::SEND)
    }

    /// The host's stream takes no more.
    pub(crate) fn host_takes_no_more(&mut self, key: Key) -> Option<Effect> {
        self.host_ended(key, shutdown::RECEIVE)
    }

    /// The host's stream is gone.
    pub(crate) fn host_gone(&mut self, key: Key) -> Option<Effect> {
        self.host_ended(key, shutdown::BOTH)
    }

    fn host_ended(&mut self, key: Key, flags: u32) -> Option<Effect> {
        let entry = self.entries.get_mut(&key)?;
        let reaction = entry.connection.host_ended(flags);
        self.after(key, reaction)
    }

    /// What goes to the guest next. Connections take turns, a packet each.
    pub(crate) fn next(&mut self) -> Option<Outgoing> {
        if let Some(key) = self.resets.pop_front() {
            return Some(Outgoing::Packet(self.header(key, Op::Reset)));
        }
        while let Some(key) = self.ready.pop_front() {
            let Some(entry) = self.entries.get_mut(&key) else {
                continue;
            };
            entry.queued = false;
            match entry.connection.next() {
                None => {}
                Some(Next::Data { max }) => {
                    self.queue(key);
                    return Some(Outgoing::Data { key, max });
                }
                Some(Next::Packet { op, flags }) => {
                    let credit = entry.connection.tell_credit();
                    if entry.connection.is_lingering() && !entry.lingering {
                        entry.lingering = true;
                        self.lingering.push_back(key);
                    }
                    self.queue(key);
                    let mut header = self.header(key, op);
                    header.flags = flags;
                    (header.buf_alloc, header.fwd_cnt) = credit;
                    return Some(Outgoing::Packet(header));
                }
            }
        }
        None
    }

    /// `len` bytes of the host's stream go to the guest, under this header.
    pub(crate) fn sent(&mut self, key: Key, len: u32) -> Header {
        let mut header = self.header(key, Op::Data);
        header.len = len;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.connection.sent(len);
            (header.buf_alloc, header.fwd_cnt) = entry.connection.tell_credit();
        }
        header
    }

    fn header(&self, key: Key, op: Op) -> Header {
        Header {
            src_cid: HOST_CID,
            dst_cid: self.guest_cid,
            src_port: key.host_port,
            dst_port: key.guest_port,
            len: 0,
            kind: TYPE_STREAM,
            op,
            flags: 0,
            buf_alloc: 0,
            fwd_cnt: 0,
        }
    }

    /// Follows a connection's step: removes it if it is over, else lets it stand in line if it has something to send.
    fn after(&mut self, key: Key, reaction: Reaction) -> Option<Effect> {
        let effect = match reaction {
            Reaction::Nothing => None,
            Reaction::Opened => Some(Effect::Opened(key)),
            Reaction::Deliver => Some(Effect::Deliver(key)),
            Reaction::EndReading => Some(Effect::EndReading(key)),
            Reaction::EndWriting => Some(Effect::EndWriting(key)),
            Reaction::Over { reset } => return self.remove(key, reset),
            Reaction::Violation => return self.remove(key, true),
        };
        self.queue(key);
        let entry = self.entries.get_mut(&key)?;
        if entry.connection.host_is_done() && !entry.closed {
            entry.closed = true;
            return Some(Effect::Close(key));
        }
        effect
    }

    fn queue(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(&key)
            && !entry.queued
            && entry.connection.has_work()
        {
            entry.queued = true;
            self.ready.push_back(key);
        }
    }

    fn violation(&mut self, key: Key, op: Op) -> Option<Effect> {
        if self.entries.contains_key(&key) {
            return self.remove(key, true);
        }
        if op != Op::Reset {
            self.refuse(key);
        }
        None
    }

    fn remove(&mut self, key: Key, reset: bool) -> Option<Effect> {
        let entry = self.entries.remove(&key)?;
        self.calls_by_guest -= usize::from(entry.by_guest);
        if entry.queued {
            self.ready.retain(|ready| *ready != key);
        }
        if entry.lingering {
            self.lingering.retain(|lingering| *lingering != key);
        }
        if reset {
            self.refuse(key);
        }
        (!entry.closed).then_some(Effect::Close(key))
    }

    /// Resets the connection that has waited longest for the guest's last word; its stream is gone already.
    fn evict(&mut self, by_guest: bool) {
        let oldest = self.lingering.iter().copied().find(|key| {
            let entry = self.entries.get(key);
            entry.is_some_and(|entry| entry.by_guest || !by_guest)
        });
        if let Some(key) = oldest {
            self.remove(key, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::BUF_ALLOC;
    use super::*;

    const CID: u64 = 3;

    fn packet(key: Key, op: Op, len: u32) -> Header {
        Header {
            src_cid: CID,
            dst_cid: HOST_CID,
            src_port: key.guest_port,
            dst_port: key.host_port,
            len,
            kind: TYPE_STREAM,
            op,
            flags: 0,
            buf_alloc: 1 << 20,
            fwd_cnt: 0,
        }
    }

    /// A connection that the host called and the guest took.
    fn open(muxer: &mut Muxer) -> Key {
        let key = muxer.call(1025).unwrap();
        let Some(Outgoing::Packet(request)) = muxer.next() else {
            panic!("no request");
        };
        assert_eq!((request.op, request.src_port), (Op::Request, key.host_port));
        let effect = muxer.handle(&packet(key, Op::Response, 0));
        assert_eq!(effect, Some(Effect::Opened(key)));
        key
    }

    #[test]
    fn connections_take_turns() {
        let mut muxer = Muxer::new(CID);
        let keys = [open(&mut muxer), open(&mut muxer), open(&mut muxer)];
        for key in keys {
            muxer.host_readable(key);
        }

        let turns: Vec<_> = (0..6)
            .map(|_| match muxer.next() {
                Some(Outgoing::Data { key, .. }) => {
                    muxer.sent(key, 100);
                    key
                }
                other => panic!("{other:?}"),
            })
            .collect();

        assert_eq!(turns, [keys, keys].concat());
    }

    #[test]
    fn credit_is_asked_for_once_and_data_flows_when_it_comes() {
        let mut muxer = Muxer::new(CID);
        let key = open(&mut muxer);
        muxer.host_readable(key);
        let Some(Outgoing::Data { max, .. }) = muxer.next() else {
            panic!("no data");
        };
        assert_eq!(max, 1 << 20);
        muxer.sent(key, max);

        let Some(Outgoing::Packet(asked)) = muxer.next() else {
            panic!("not asked");
        };
        assert_eq!(asked.op, Op::CreditRequest);
        assert_eq!(muxer.next(), None);
        let mut credit = packet(key, Op::CreditUpdate, 0);
        muxer.handle(&credit);
        assert_eq!(muxer.next(), None);
        credit.fwd_cnt = 10;
        muxer.handle(&credit);

        assert_eq!(muxer.next(), Some(Outgoing::Data { key, max: 10 }));
    }

    #[test]
    fn counts_of_a_stream_longer_than_32_bits_wrap() {
        let mut muxer = Muxer::new(CID);
        let key = open(&mut muxer);
        let mut told = 0;
        let total = (1u64 << 32) + 12 * u64::from(BUF_ALLOC);

        for _ in 0..total / u64::from(BUF_ALLOC) {
            let data = packet(key, Op::Data, BUF_ALLOC);
            assert_eq!(muxer.handle(&data), Some(Effect::Deliver(key)));
            assert_eq!(muxer.forwarded(key, BUF_ALLOC), None);
            let Some(Outgoing::Packet(update)) = muxer.next() else {
                panic!("no credit");
            };
            assert_eq!(update.op, Op::CreditUpdate);
            told = update.fwd_cnt;
        }

        assert_eq!(u64::from(told), total & u64::from(u32::MAX));
    }

    #[test]
    fn packets_from_or_to_others_are_ignored() {
        let mut muxer = Muxer::new(CID);
        let key = open(&mut muxer);
        let reset = packet(key, Op::Reset, 0);

        let from_another = Header {
            src_cid: 4,
            ..reset
        };
        let to_another = Header {
            dst_cid: 1,
            ..reset
        };

        assert_eq!(muxer.handle(&from_another), None);
        assert_eq!(muxer.handle(&to_another), None);
        assert_eq!(muxer.next(), None);
        assert_eq!(muxer.handle(&reset), Some(Effect::Close(key)));
    }

    #[test]
    fn other_types_than_streams_are_refused() {
        let mut muxer = Muxer::new(CID);
        let key = Key {
            host_port: 1024,
            guest_port: 5000,
        };
        let request = Header {
            kind: 2,
            ..packet(key, Op::Request, 0)
        };

        assert_eq!(muxer.handle(&request), None);

        let Some(Outgoing::Packet(answer)) = muxer.next() else {
            panic!("no answer");
        };
        assert_eq!(answer.op, Op::Reset);
    }
}
