//! One stream between guest and host, as a state machine that holds counts, not bytes.
//!
//! Virtio 1.2, section 5.10.6.3: each side tells the other how much it can buffer (`buf_alloc`) and how much has left
//! that buffer (`fwd_cnt`); what is under way is never more than the difference. Here `received` and `forwarded` count
//! what came from the guest and what the host's stream took of it; `sent` counts what went to the guest, which answers
//! with its own forwarded count. All are modulo 2^32, as on the wire.

use super::packet::{Header, Op, shutdown};

/// How much the guest may send on one connection before the host's stream takes it, in bytes. Four of Linux's largest
/// packets (64 KiB): enough that guest and host work at the same time. It bounds what a guest makes us hold.
pub(crate) const BUF_ALLOC: u32 = 256 * 1024;

/// What a packet of the guest means for the host's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    Nothing,
    /// The guest took the call.
    Opened,
    /// The payload is for the host's stream.
    Deliver,
    /// The guest takes no more.
    EndReading,
    /// The guest sent all it had to send, and the host's stream took it.
    EndWriting,
    /// Over, and everything delivered. `reset`: the guest waits for the last word.
    Over {
        reset: bool,
    },
    /// The packet breaks the rules: the connection must be reset.
    Violation,
}

/// What to send to the guest next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Packet {
        op: Op,
        flags: u32,
    },
    /// At most so many bytes from the host's stream.
    Data {
        max: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// We called the guest, which has not answered.
    Calling,
    Open,
    /// The guest is done; the host's stream has yet to take the rest.
    Draining {
        reset: bool,
    },
}

/// Control packets that wait to be sent. Each kind waits at most once, so that they cannot pile up.
#[derive(Debug, Default)]
struct PendingControl {
    request: bool,
    response: bool,
    credit_update: bool,
    credit_request: bool,
    /// Flags of [`shutdown`].
    shutdown: u32,
}

#[derive(Debug)]
pub(super) struct Connection {
    phase: Phase,
    pending: PendingControl,

    peer_alloc: u32,
    peer_forwarded: u32,
    sent: u32,

    received: u32,
    forwarded: u32,
    /// The last `forwarded` that the guest was told.
    told: u32,

    /// A credit request is under way: asked once until credit comes.
    asked: bool,
    /// Flags of [`shutdown`] that the guest sent.
    guest_ended: u32,
    /// Flags of [`shutdown`] for what the host's end no longer does.
    host_ended: u32,
    /// The host's stream may have bytes to read.
    readable: bool,
}

impl Connection {
    /// We call the guest.
    pub(super) fn calling() -> Self {
        let pending = PendingControl {
            request: true,
            ..PendingControl::default()
        };
        Self::new(Phase::Calling, pending)
    }

    /// The guest called, with `request`, and the host's stream is there.
    pub(super) fn answering(request: &Header) -> Self {
        let pending = PendingControl {
            response: true,
            ..PendingControl::default()
        };
        let mut connection = Self::new(Phase::Open, pending);
        connection.take_credit(request);
        connection
    }

    fn new(phase: Phase, pending: PendingControl) -> Self {
        Self {
            phase,
            pending,
            peer_alloc: 0,
            peer_forwarded: 0,
            sent: 0,
            received: 0,
            forwarded: 0,
            told: 0,
            asked: false,
            guest_ended: 0,
            host_ended: 0,
            readable: false,
        }
    }

    /// Handles a packet of the guest, whose `len` the caller has checked against the payload that came.
    pub(super) fn handle(&mut self, header: &Header) -> Reaction {
        self.take_credit(header);
        match (self.phase, header.op) {
            (Phase::Calling, Op::Response) => {
                self.phase = Phase::Open;
                Reaction::Opened
            }
            (Phase::Calling, Op::Reset) => Reaction::Over { reset: false },
            (Phase::Draining { .. }, Op::Reset) => {
                self.phase = Phase::Draining { reset: false };
                Reaction::Nothing
            }
            (Phase::Open, Op::Data) => self.data(header.len),
            (Phase::Open, Op::Shutdown) => self.shutdown(header.flags),
            (Phase::Open, Op::Reset) => self.drain(false),
            (Phase::Open, Op::CreditUpdate)
            | (Phase::Draining { .. }, Op::CreditUpdate | Op::CreditRequest | Op::Shutdown) => {
                Reaction::Nothing
            }
            (Phase::Open, Op::CreditRequest) => {
                self.pending.credit_update = true;
                Reaction::Nothing
            }
            _ => Reaction::Violation,
        }
    }

    fn data(&mut self, len: u32) -> Reaction {
        if self.guest_ended & shutdown::SEND != 0 || len > self.room() {
            return Reaction::Violation;
        }
        self.received = self.received.wrapping_add(len);
        if self.host_ended & shutdown::RECEIVE != 0 {
            // Sent before the guest knew that it is no longer read.
            self.forwarded = self.received;
            self.consider_credit_update();
            return Reaction::Nothing;
        }
        Reaction::Deliver
    }

    fn shutdown(&mut self, flags: u32) -> Reaction {
        let before = self.guest_ended;
        self.guest_ended |= flags & shutdown::BOTH;
        if self.guest_ended == shutdown::BOTH {
            return self.drain(true);
        }
        let news = self.guest_ended & !before;
        if news & shutdown::RECEIVE != 0 {
            // With no way left in either direction, what the host may still say is of no interest.
            if self.host_ended & shutdown::RECEIVE != 0 {
                return self.host_ended(shutdown::BOTH);
            }
            Reaction::EndReading
        } else if news & shutdown::SEND != 0 {
            self.written()
        } else {
            Reaction::Nothing
        }
    }

    fn drain(&mut self, reset: bool) -> Reaction {
        self.phase = Phase::Draining { reset };
        self.pending = PendingControl::default();
        self.readable = false;
        self.written()
    }

    /// `len` bytes that the guest sent are in the host's stream.
    pub(super) fn forwarded(&mut self, len: u32) -> Reaction {
        self.forwarded = self.forwarded.wrapping_add(len);
        self.consider_credit_update();
        self.written()
    }

    /// What follows once the host's stream has all that the guest sent.
    fn written(&self) -> Reaction {
        match self.phase {
            _ if self.forwarded != self.received => Reaction::Nothing,
            Phase::Draining { reset } => Reaction::Over { reset },
            _ if self.guest_ended & shutdown::SEND != 0 => Reaction::EndWriting,
            _ => Reaction::Nothing,
        }
    }

    /// The host's stream may have something to read.
    pub(super) fn host_readable(&mut self) {
        self.readable = self.host_ended & shutdown::SEND == 0;
    }

    /// The host's stream has nothing more to read for now.
    pub(super) fn host_drained(&mut self) {
        self.readable = false;
    }

    /// The host's end stops doing what `flags` of [`shutdown`] name: its last byte to the guest was read, or it takes
    /// no more, and what it has not taken is lost.
    pub(super) fn host_ended(&mut self, mut flags: u32) -> Reaction {
        if flags & self.guest_ended & shutdown::RECEIVE != 0 {
            // No way left in either direction.
            flags = shutdown::BOTH;
        }
        let news = flags & !self.host_ended;
        self.host_ended |= flags;
        if news & shutdown::SEND != 0 {
            self.readable = false;
        }
        if news & shutdown::RECEIVE != 0 {
            self.forwarded = self.received;
        }
        match self.phase {
            // The caller is gone, whether or not the guest accepts.
            Phase::Calling if self.host_ended & shutdown::RECEIVE != 0 => Reaction::Over {
                reset: !self.pending.request,
            },
            Phase::Draining { .. } => self.written(),
            _ => {
                self.pending.shutdown |= news;
                Reaction::Nothing
            }
        }
    }

    /// Whether the host's stream is of no further use.
    pub(super) fn host_is_done(&self) -> bool {
        self.host_ended == shutdown::BOTH
    }

    /// Whether the guest was told of the end and only its last word is missing.
    pub(super) fn is_lingering(&self) -> bool {
        self.phase == Phase::Open && self.host_is_done() && self.pending.shutdown == 0
    }

    /// Whether there is something to send to the guest.
    pub(super) fn has_work(&self) -> bool {
        let pending = &self.pending;
        pending.request
            || self.phase == Phase::Open
                && (pending.response
                    || pending.credit_update
                    || pending.credit_request
                    || pending.shutdown != 0
                    || self.may_send_data() && (self.credit() > 0 || !self.asked))
    }

    /// What to send to the guest next. Data must be answered by [`Connection::sent`], [`Connection::host_drained`] or
    /// [`Connection::host_ended`].
    pub(super) fn next(&mut self) -> Option<Next> {
        let packet = |op, flags| Some(Next::Packet { op, flags });
        if std::mem::take(&mut self.pending.request) {
            return packet(Op::Request, 0);
        }
        if self.phase != Phase::Open {
            return None;
        }
        if std::mem::take(&mut self.pending.response) {
            return packet(Op::Response, 0);
        }
        if self.pending.shutdown != 0 {
            let flags = std::mem::take(&mut self.pending.shutdown);
            return packet(Op::Shutdown, flags);
        }
        if self.may_send_data() {
            let max = self.credit();
            if max > 0 {
                return Some(Next::Data { max });
            }
            if !self.asked {
                self.asked = true;
                return packet(Op::CreditRequest, 0);
            }
        }
        if std::mem::take(&mut self.pending.credit_update) {
            return packet(Op::CreditUpdate, 0);
        }
        None
    }

    /// `len` bytes of the host's stream go to the guest.
    pub(super) fn sent(&mut self, len: u32) {
        self.sent = self.sent.wrapping_add(len);
    }

    /// The credit that every packet to the guest carries: `buf_alloc` and `fwd_cnt`.
    pub(super) fn tell_credit(&mut self) -> (u32, u32) {
        self.told = self.forwarded;
        self.pending.credit_update = false;
        (BUF_ALLOC, self.forwarded)
    }

    fn may_send_data(&self) -> bool {
        self.readable && self.guest_ended & shutdown::RECEIVE == 0
    }

    /// How much the guest can take. A count that makes no sense gives none.
    fn credit(&self) -> u32 {
        let under_way = self.sent.wrapping_sub(self.peer_forwarded);
        self.peer_alloc.saturating_sub(under_way)
    }

    fn take_credit(&mut self, header: &Header) {
        self.peer_alloc = header.buf_alloc;
        self.peer_forwarded = header.fwd_cnt;
        if self.credit() > 0 {
            self.asked = false;
        }
    }

    /// How much the guest may still send.
    fn room(&self) -> u32 {
        BUF_ALLOC.saturating_sub(self.received.wrapping_sub(self.forwarded))
    }

    /// Tells the guest of freed room before it runs out of it, yet not with every packet.
    fn consider_credit_update(&mut self) {
        let in_guests_eyes = BUF_ALLOC.saturating_sub(self.received.wrapping_sub(self.told));
        if in_guests_eyes < BUF_ALLOC / 2 && self.forwarded != self.told {
            self.pending.credit_update = true;
        }
    }
}
