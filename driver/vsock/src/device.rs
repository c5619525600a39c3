//! The vsock device without its queues: packets in, packets out, the host's sockets behind.

use std::collections::HashMap;
use std::io;
use std::os::fd::RawFd;
use std::path::Path;

use vk_agent_proto::bridge;

use super::muxer::{Effect, Key, Muxer, Outgoing};
use super::packet::Header;
use super::sockets::{Event, Sockets};
use super::stream::{HostStream, ReadEnd};

pub(crate) struct Device {
    muxer: Muxer,
    streams: HashMap<Key, HostStream>,
    sockets: Sockets,
}

impl Device {
    /// A device for the guest with this address, dialled by host programs at `path`.
    pub(crate) fn bind(guest_cid: u64, path: &Path) -> io::Result<Self> {
        Ok(Self {
            muxer: Muxer::new(guest_cid),
            streams: HashMap::new(),
            sockets: Sockets::bind(path)?,
        })
    }

    /// Readable when [`Device::poll`] should be called.
    pub(crate) fn poll_fd(&self) -> RawFd {
        self.sockets.poll_fd()
    }

    /// Drops all connections.
    pub(crate) fn reset(&mut self) {
        self.muxer.reset();
        for (_, stream) in self.streams.drain() {
            stream.close();
        }
    }

    /// Whether [`Device::transmit`] may be called: not while too many answers wait for the guest.
    pub(crate) fn takes_packets(&self) -> bool {
        self.muxer.takes_packets()
    }

    /// How many connections there are, and how many resets wait.
    #[cfg(test)]
    pub(super) fn connections(&self) -> (usize, usize) {
        self.muxer.counts()
    }

    /// Whether [`Device::receive`] may have a packet.
    pub(crate) fn has_packets(&self) -> bool {
        self.muxer.has_work()
    }

    /// Takes a packet from the guest. `payload` is what came with it, at most `header.len` bytes.
    pub(crate) fn transmit(&mut self, header: &Header, payload: &[u8]) {
        let effect = if u64::from(header.len) == payload.len() as u64 {
            self.muxer.handle(header)
        } else {
            self.muxer.malformed(header)
        };
        match effect {
            Some(Effect::Connect(key)) => self.connect(key, header),
            Some(Effect::Deliver(key)) => {
                let Some(stream) = self.streams.get_mut(&key) else {
                    return;
                };
                let taken = stream.write(payload);
                self.written(key, taken);
            }
            effect => self.apply(effect),
        }
    }

    /// The next packet for the guest. Its payload is written to `buffer`, which must not be empty; the header's `len`
    /// tells how much.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Option<Header> {
        loop {
            let (key, max) = match self.muxer.next()? {
                Outgoing::Packet(header) => return Some(header),
                Outgoing::Data { key, max } => (key, max as usize),
            };
            let room = buffer.len().min(max);
            let read = match (self.streams.get_mut(&key), buffer.get_mut(..room)) {
                (Some(stream), Some(buffer)) => stream.read(buffer),
                _ => ReadEnd::End,
            };
            match read {
                ReadEnd::Bytes(count) => {
                    // No more than `max`, which has 32 bits.
                    let count = u32::try_from(count).unwrap_or(u32::MAX);
                    return Some(self.muxer.sent(key, count));
                }
                ReadEnd::Empty => self.muxer.host_drained(key),
                ReadEnd::End => {
                    let effect = self.muxer.host_sent_all(key);
                    self.apply(effect);
                }
            }
        }
    }

    /// Looks after the host's sockets.
    pub(crate) fn poll(&mut self) {
        for event in self.sockets.poll() {
            match event {
                Event::Call { dial, guest_port } => {
                    let Ok(key) = self.muxer.call(guest_port) else {
                        tracing::warn!(guest_port, "too many connections to the guest");
                        continue;
                    };
                    match self.sockets.adopt(dial, key) {
                        Ok(socket) => {
                            self.streams.insert(key, HostStream::new(socket));
                        }
                        Err(_) => {
                            let effect = self.muxer.host_gone(key);
                            self.apply(effect);
                        }
                    }
                }
                Event::Ready {
                    key,
                    readable,
                    writable,
                    gone,
                } => {
                    if writable && let Some(stream) = self.streams.get_mut(&key) {
                        let taken = stream.flush();
                        self.written(key, taken);
                    }
                    if gone {
                        let effect = self.muxer.host_takes_no_more(key);
                        self.apply(effect);
                    }
                    if readable || gone {
                        self.muxer.host_readable(key);
                    }
                }
            }
        }
    }

    fn connect(&mut self, key: Key, request: &Header) {
        match self.sockets.connect(key) {
            Some(socket) => {
                self.streams.insert(key, HostStream::new(socket));
                self.muxer.accept(key, request);
            }
            None => self.muxer.refuse(key),
        }
    }

    /// Follows a write to `key`'s stream.
    fn written(&mut self, key: Key, taken: Result<u32, super::stream::Gone>) {
        let effect = match taken {
            Ok(count) => {
                self.watch_room(key);
                self.muxer.forwarded(key, count)
            }
            Err(_) => self.muxer.host_takes_no_more(key),
        };
        self.apply(effect);
    }

    fn watch_room(&mut self, key: Key) {
        if let Some(stream) = self.streams.get_mut(&key)
            && stream.needs_room() != stream.waits_for_room
        {
            stream.waits_for_room = stream.needs_room();
            if let Err(error) = self.sockets.watch_room(key, stream, stream.waits_for_room) {
                tracing::warn!(%error, "cannot watch a connection to the guest");
            }
        }
    }

    fn apply(&mut self, mut effect: Option<Effect>) {
        while let Some(now) = effect.take() {
            match now {
                Effect::Opened(key) => {
                    let line = bridge::ok_line(key.host_port);
                    let stream = self.streams.get_mut(&key);
                    // The socket is fresh: it takes a line whole, unless its peer is gone.
                    let taken = stream.map(|stream| stream.write(line.as_bytes()));
                    if !matches!(taken, Some(Ok(count)) if count as usize == line.len()) {
                        effect = self.muxer.host_gone(key);
                    }
                }
                Effect::EndReading(key) => {
                    if let Some(stream) = self.streams.get(&key) {
                        stream.end_reading();
                    }
                }
                Effect::EndWriting(key) => {
                    if let Some(stream) = self.streams.get(&key) {
                        stream.end_writing();
                    }
                }
                Effect::Close(key) => {
                    if let Some(stream) = self.streams.remove(&key) {
                        stream.close();
                        self.sockets.closed_one();
                    }
                }
                // Both come from packets only, and `transmit` keeps them for itself.
                Effect::Connect(_) | Effect::Deliver(_) => {}
            }
        }
    }
}
