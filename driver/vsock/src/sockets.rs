//! The host's sockets: the listener that host programs dial, the listeners that the guest dials, and who is ready.
//!
//! Both are dialled as [`bridge`] says; a host program that reads the end of the stream instead of `OK` learns that
//! nothing listens at the guest's port. Nothing here blocks.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use vk_agent_proto::bridge;
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

use super::muxer::{Key, MAX_CONNECTIONS};
use super::packet::PORT_ANY;

/// How many dials may be without a complete `CONNECT` line: beyond, the oldest is dropped.
const MAX_DIALS: usize = MAX_CONNECTIONS;

/// How many dials are accepted in one go.
const MAX_ACCEPTS: usize = 32;

/// How many sockets are looked at in one go.
const MAX_EVENTS: usize = 64;

/// The listener's mark. Connections are marked by their ports; the guest's is never [`PORT_ANY`].
const LISTENER: u64 = u64::MAX;

#[derive(Debug)]
pub(super) enum Event {
    /// A host program dials this port of the guest.
    Call { dial: Dial, guest_port: u32 },
    Ready {
        key: Key,
        readable: bool,
        writable: bool,
        /// Neither side can send any more.
        gone: bool,
    },
}

/// A socket that dialled, before it becomes a connection.
#[derive(Debug)]
pub(super) struct Dial {
    socket: UnixStream,
    line: Vec<u8>,
}

pub(super) struct Sockets {
    epoll: Epoll,
    listener: UnixListener,
    path: PathBuf,
    /// Whether the listener is watched: not while the process has no descriptor left to accept with.
    listening: bool,
    dials: BTreeMap<u32, Dial>,
    next_dial: u32,
}

impl Sockets {
    /// Listens at `path`.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let mut sockets = Self {
            epoll: Epoll::new()?,
            listener,
            path: path.to_owned(),
            listening: false,
            dials: BTreeMap::new(),
            next_dial: 0,
        };
        sockets.listen(true)?;
        Ok(sockets)
    }

    fn listen(&mut self, on: bool) -> io::Result<()> {
        if self.listening == on {
            return Ok(());
        }
        let operation = if on {
            ControlOperation::Add
        } else {
            ControlOperation::Delete
        };
        let event = EpollEvent::new(EventSet::IN, LISTENER);
        self.epoll
            .ctl(operation, self.listener.as_raw_fd(), event)?;
        self.listening = on;
        Ok(())
    }

    /// A socket was closed: there may be a descriptor again to accept with.
    pub(super) fn closed_one(&mut self) {
        if let Err(error) = self.listen(true) {
            tracing::warn!(%error, "cannot watch for connections to the guest");
        }
    }

    /// Readable when [`Sockets::poll`] has something.
    pub(super) fn poll_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// What happened. More may be waiting: the poll descriptor tells.
    pub(super) fn poll(&mut self) -> Vec<Event> {
        let mut ready = [EpollEvent::default(); MAX_EVENTS];
        // Nothing is lost by an error (a signal came): what is ready stays ready.
        let count = self.epoll.wait(0, &mut ready).unwrap_or(0);
        let mut events = Vec::with_capacity(count);
        for event in ready.iter().take(count) {
            let set = event.event_set();
            match event.data() {
                LISTENER => self.accept(),
                mark if halves(mark).0 == PORT_ANY => {
                    events.extend(self.read_line(halves(mark).1));
                }
                mark => events.push(Event::Ready {
                    key: unmark(mark),
                    readable: set.intersects(EventSet::IN | EventSet::READ_HANG_UP),
                    writable: set.contains(EventSet::OUT),
                    gone: set.intersects(EventSet::HANG_UP | EventSet::ERROR),
                }),
            }
        }
        events
    }

    /// Makes a connection of a dial.
    pub(super) fn adopt(&mut self, dial: Dial, key: Key) -> io::Result<UnixStream> {
        self.control(ControlOperation::Modify, &dial.socket, mark(key), false)?;
        Ok(dial.socket)
    }

    /// Connects to whoever listens for the guest on `key`'s host port, if something does and can accept it at once: a
    /// Unix socket whose backlog is full says so rather than let a non-blocking caller wait.
    pub(super) fn connect(&mut self, key: Key) -> Option<UnixStream> {
        let path = bridge::listener_path(&self.path, key.host_port);
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let result = UnixAddr::new(&path).and_then(|address| {
            let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
            connect(socket.as_raw_fd(), &address)?;
            Ok(socket)
        });
        let socket = match result {
            Ok(socket) => UnixStream::from(socket),
            Err(error) => {
                tracing::debug!(port = key.host_port, %error, "refused a call of the guest");
                return None;
            }
        };
        self.control(ControlOperation::Add, &socket, mark(key), false)
            .ok()?;
        Some(socket)
    }

    /// Asks to be told, or not, when `socket` has room for more bytes.
    pub(super) fn watch_room(&self, key: Key, socket: &impl AsFd, room: bool) -> io::Result<()> {
        self.control(ControlOperation::Modify, socket, mark(key), room)
    }

    /// Events are told once, when they come (edge-triggered): the muxer remembers what is readable.
    fn control(
        &self,
        operation: ControlOperation,
        socket: &impl AsFd,
        mark: u64,
        room: bool,
    ) -> io::Result<()> {
        let mut set = EventSet::IN | EventSet::READ_HANG_UP | EventSet::EDGE_TRIGGERED;
        if room {
            set |= EventSet::OUT;
        }
        let event = EpollEvent::new(set, mark);
        self.epoll.ctl(operation, socket.as_fd().as_raw_fd(), event)
    }

    fn accept(&mut self) {
        for _ in 0..MAX_ACCEPTS {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection to the guest");
                    // The next attempt is made when a connection ends.
                    let _ = self.listen(false);
                    return;
                }
            };
            let id = self.next_dial;
            self.next_dial = id.wrapping_add(1) & (u32::MAX >> 1);
            let mark = u64::from(PORT_ANY) << 32 | u64::from(id);
            let set = EventSet::IN | EventSet::READ_HANG_UP;
            let watched = socket.set_nonblocking(true).and_then(|()| {
                let event = EpollEvent::new(set, mark);
                self.epoll
                    .ctl(ControlOperation::Add, socket.as_raw_fd(), event)
            });
            if let Err(error) = watched {
                tracing::warn!(%error, "cannot watch a connection to the guest");
                continue;
            }
            if self.dials.len() >= MAX_DIALS {
                self.dials.pop_first();
            }
            let line = Vec::with_capacity(bridge::MAX_LINE);
            self.dials.insert(id, Dial { socket, line });
        }
    }

    /// Reads on in a dial's line, byte by byte so that nothing behind it is taken. A line that is none ends the dial.
    fn read_line(&mut self, id: u32) -> Option<Event> {
        let dial = self.dials.get_mut(&id)?;
        let mut byte = [0];
        loop {
            match dial.socket.read(&mut byte) {
                Ok(1) if dial.line.len() < bridge::MAX_LINE => {
                    dial.line.extend(byte);
                    if byte == *b"\n" {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => {
                    self.dials.remove(&id);
                    self.closed_one();
                    return None;
                }
            }
        }
        let dial = self.dials.remove(&id)?;
        let guest_port = bridge::parse_connect(&dial.line).filter(|port| *port != PORT_ANY);
        if guest_port.is_none() {
            tracing::debug!("dropped a connection to the guest that asked for no port");
            self.closed_one();
        }
        Some(Event::Call {
            dial,
            guest_port: guest_port?,
        })
    }
}

fn mark(key: Key) -> u64 {
    u64::from(key.guest_port) << 32 | u64::from(key.host_port)
}

fn unmark(mark: u64) -> Key {
    let (guest_port, host_port) = halves(mark);
    Key {
        guest_port,
        host_port,
    }
}

/// The upper and the lower 32 bits.
fn halves(mark: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = mark.to_be_bytes();
    (
        u32::from_be_bytes([a, b, c, d]),
        u32::from_be_bytes([e, f, g, h]),
    )
}
