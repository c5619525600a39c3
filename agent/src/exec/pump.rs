//! Moves bytes between host and command, and tells the lifecycle what happens. One thread, nothing blocks but
//! `poll`: a host that reads slowly, or not at all, can still cancel and kill.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use vk_agent_proto::frame::encode_room;
use vk_agent_proto::{Decoder, ExitStatus, Frame, FrameError, Kind, MAX_DATA, TerminalSize};

use super::containment::Containment;
use super::input::Input;
use super::lifecycle::{Effect, Event, Lifecycle};
use super::outbox::Outbox;
use crate::house::Stream;
use crate::processes::Process;
use crate::sys::resize;

/// A running command and its host.
pub(super) struct Pump<'a> {
    host: &'a File,
    process: Process,
    containment: &'a Containment,
    lifecycle: Lifecycle,
    input: Input,
    outputs: [Output; 2],
    /// The agent's own streams, if they are this command's.
    house: &'a mut [Stream],
    terminal: Option<File>,
    outbox: Outbox,
    decoder: Decoder,
    host_gone: bool,
    main_ended: bool,
    draining: bool,
    violation: Option<FrameError>,
    finished: Option<ExitStatus>,
}

/// Where the command's output is read.
pub(super) struct Outputs {
    /// Standard output; all output of a command on a terminal.
    pub(super) stdout: File,
    /// Standard error.
    pub(super) stderr: Option<File>,
    /// The agent's end of the command's terminal, if it has one.
    pub(super) terminal: Option<File>,
}

struct Output {
    kind: Kind,
    pipe: Option<File>,
    /// Bytes that are still read of it.
    left: usize,
}

/// What `poll` found.
struct Ready {
    host_in: bool,
    host_out: bool,
    ended: bool,
    outputs: [bool; 2],
    house: bool,
    /// An output that is not ready is empty: they were looked at.
    outputs_seen: bool,
    input: bool,
}

impl<'a> Pump<'a> {
    /// For a process that just started.
    pub(super) fn new(
        host: &'a File,
        process: Process,
        containment: &'a Containment,
        lifecycle: Lifecycle,
        input: Input,
        outputs: Outputs,
        house: Option<&'a mut [Stream]>,
    ) -> Self {
        let Outputs {
            stdout,
            stderr,
            terminal,
        } = outputs;
        let output = |kind, pipe| Output {
            kind,
            pipe,
            left: usize::MAX,
        };
        Self {
            host,
            process,
            containment,
            lifecycle,
            input,
            outputs: [
                output(Kind::Stdout, Some(stdout)),
                output(Kind::Stderr, stderr),
            ],
            house: house.unwrap_or_default(),
            terminal,
            outbox: Outbox::new(),
            decoder: Decoder::new(),
            host_gone: false,
            main_ended: false,
            draining: false,
            violation: None,
            finished: None,
        }
    }

    /// Until the command is over. Its status, unless the host went away.
    ///
    /// # Errors
    ///
    /// What the kernel says to polling or to our own pipes. The command is killed then.
    pub(super) fn run(&mut self) -> io::Result<Option<ExitStatus>> {
        let result = self.run_to_end();
        if result.is_err() {
            self.containment.kill(&self.process);
        }
        result
    }

    /// What the host did that it may not, if anything.
    pub(super) fn into_violation(self) -> Option<FrameError> {
        self.violation
    }

    fn run_to_end(&mut self) -> io::Result<Option<ExitStatus>> {
        set_blocking(self.host, false)?;
        for output in self
            .outputs
            .iter()
            .filter_map(|output| output.pipe.as_ref())
        {
            fcntl(output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        let status = loop {
            if let Some(status) = self.finished {
                break status;
            }
            let draining = self.draining;
            let ready = self.poll()?;
            let outputs_seen = ready.outputs_seen;
            if ready.host_in {
                self.read_host();
            }
            if ready.host_out {
                self.flush();
            }
            if ready.ended {
                let status = self.process.wait()?;
                self.main_ended = true;
                self.event(Event::MainEnded(status));
            }
            if ready.input {
                self.input.write();
            }
            self.grant();
            for (index, ready) in ready.outputs.into_iter().enumerate() {
                if ready {
                    self.forward(index);
                } else if outputs_seen && draining {
                    self.close(index);
                }
            }
            if ready.house {
                self.forward_house();
            }
            // The other goes first next time.
            self.outputs.swap(0, 1);
            self.event(Event::Tick);
        };
        self.flush_all()?;
        // What was written to the agent's streams until now: at most what they hold.
        for _ in 0..2 * self.house.len() {
            self.forward_house();
            self.flush_all()?;
        }
        if self.host_gone {
            return Ok(None);
        }
        set_blocking(self.host, true)?;
        Ok(Some(status))
    }

    /// Sends what waits for the host.
    fn flush_all(&mut self) -> io::Result<()> {
        while !self.outbox.is_empty() && !self.host_gone {
            let mut fds = [PollFd::new(self.host.as_fd(), PollFlags::POLLOUT)];
            poll(&mut fds, PollTimeout::NONE)?;
            self.flush();
        }
        Ok(())
    }

    fn poll(&self) -> io::Result<Ready> {
        let flushed = self.outbox.is_empty();
        let mut host_events = PollFlags::empty();
        if self.violation.is_none() {
            host_events |= PollFlags::POLLIN;
        }
        if !flushed {
            host_events |= PollFlags::POLLOUT;
        }
        let host = (!self.host_gone && !host_events.is_empty()).then_some(self.host.as_fd());
        let [first, second] = &self.outputs;
        let sources = [
            host.map(|fd| (fd, host_events)),
            (!self.main_ended).then(|| (self.process.ended().as_fd(), PollFlags::POLLIN)),
            first.readable(flushed),
            second.readable(flushed),
            self.input
                .waiting()
                .map(|pipe| (pipe.as_fd(), PollFlags::POLLOUT)),
        ];
        let house = self.house.iter().filter(|_| flushed && !self.host_gone);
        let house = house.map(|stream| PollFd::new(stream.pipe.as_fd(), PollFlags::POLLIN));
        let mut fds: Vec<PollFd<'_>> = sources
            .iter()
            .flatten()
            .map(|(fd, events)| PollFd::new(*fd, *events))
            .chain(house)
            .collect();
        let timeout = if self.draining && flushed {
            PollTimeout::ZERO
        } else {
            self.timeout()
        };
        let seen = match poll(&mut fds, timeout) {
            Ok(_) => true,
            Err(Errno::EINTR) => false,
            Err(errno) => return Err(errno.into()),
        };
        let mut found = fds
            .iter()
            .map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
        let [host, ended, first, second, input] = sources.map(|source| {
            source
                .and_then(|_| found.next())
                .unwrap_or(PollFlags::empty())
        });
        let house = found.any(|events| !events.is_empty());
        Ok(Ready {
            house,
            host_in: host.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR),
            host_out: host.intersects(PollFlags::POLLOUT),
            ended: !ended.is_empty(),
            outputs: [!first.is_empty(), !second.is_empty()],
            outputs_seen: seen && flushed,
            input: !input.is_empty(),
        })
    }

    fn timeout(&self) -> PollTimeout {
        let Some(deadline) = self.lifecycle.deadline() else {
            return PollTimeout::NONE;
        };
        // Rounded up: waking a moment early would spin.
        let left = deadline.saturating_duration_since(Instant::now());
        let ms = left.as_micros().div_ceil(1000);
        PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX)
    }

    fn event(&mut self, event: Event) {
        for effect in self.lifecycle.handle(Instant::now(), event) {
            match effect {
                Effect::Terminate => self.process.signal_group(Signal::SIGTERM),
                Effect::KillAll => self.containment.kill(&self.process),
                Effect::DrainPipes => self.drain_pipes(),
                Effect::Finish(status) => self.finished = Some(status),
            }
        }
    }

    /// What the pipes hold now is still owed to the host: at most their capacity.
    fn drain_pipes(&mut self) {
        self.draining = true;
        for output in &mut self.outputs {
            let capacity = output
                .pipe
                .as_ref()
                .and_then(|pipe| fcntl(pipe, FcntlArg::F_GETPIPE_SZ).ok());
            output.left = capacity
                .and_then(|bytes| usize::try_from(bytes).ok())
                .unwrap_or(MAX_DATA);
        }
    }

    fn read_host(&mut self) {
        let mut buffer = [0; 16 << 10];
        match (&mut &*self.host).read(&mut buffer) {
            Ok(0) => self.host_lost(),
            Ok(len) => {
                self.decoder.push(buffer.get(..len).unwrap_or_default());
                self.take_frames();
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(_) => self.host_lost(),
        }
    }

    fn take_frames(&mut self) {
        loop {
            let result = match self.decoder.next_frame() {
                Ok(Some(frame)) => self.take_frame(&frame),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(violation) = result {
                self.violation = Some(violation);
                self.event(Event::Kill);
                return;
            }
        }
    }

    fn take_frame(&mut self, frame: &Frame) -> Result<(), FrameError> {
        match frame.kind {
            Kind::Stdin => self.input.take(&frame.payload)?,
            Kind::StdinEof => self.input.end(),
            Kind::Resize => self.resize(&frame.payload)?,
            Kind::Cancel => self.event(Event::Cancel),
            Kind::Kill => self.event(Event::Kill),
            got => {
                return Err(FrameError::Unexpected {
                    got,
                    wanted: Kind::Stdin,
                });
            }
        }
        Ok(())
    }

    fn resize(&self, payload: &[u8]) -> Result<(), FrameError> {
        let TerminalSize { columns, rows } = TerminalSize::decode(payload)?;
        if let Some(terminal) = &self.terminal {
            // A command that hung up its terminal needs no size.
            let _ = resize(terminal, columns, rows);
        }
        Ok(())
    }

    fn host_lost(&mut self) {
        self.host_gone = true;
        self.outbox.clear();
        for output in &mut self.outputs {
            output.pipe = None;
        }
        self.event(Event::HostGone);
    }

    fn flush(&mut self) {
        if self.outbox.flush(&mut &*self.host).is_err() {
            self.host_lost();
        }
    }

    fn grant(&mut self) {
        if !self.outbox.is_empty() || self.host_gone {
            return;
        }
        let room = self.input.grant();
        if room == 0 {
            return;
        }
        let put = encode_room(room).and_then(|frame| self.outbox.put(Kind::StdinRoom, &frame));
        match put {
            Ok(()) => self.flush(),
            Err(_) => self.host_lost(),
        }
    }

    /// Sends what one of the outputs has, unless something still waits for the host.
    fn forward(&mut self, index: usize) {
        if !self.outbox.is_empty() {
            return;
        }
        let Some(output) = self.outputs.get_mut(index) else {
            return;
        };
        let Some(pipe) = &mut output.pipe else {
            return;
        };
        match self.outbox.fill(output.kind, pipe) {
            Ok(len @ 1..) => {
                output.left = output.left.saturating_sub(len);
                let last = output.left == 0;
                self.flush();
                if last {
                    self.close(index);
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Ok(0) | Err(_) => self.close(index),
        }
    }

    /// Sends what one of the agent's streams has, unless something still waits for the host.
    fn forward_house(&mut self) {
        if self.host_gone {
            return;
        }
        for stream in &mut *self.house {
            if !self.outbox.is_empty() {
                break;
            }
            // It has no end, and what cannot be read is nothing yet.
            if let Ok(1..) = self.outbox.fill(stream.kind, &mut stream.pipe)
                && self.outbox.flush(&mut &*self.host).is_err()
            {
                self.host_lost();
                return;
            }
        }
        // The other goes first next time.
        self.house.reverse();
    }

    /// Reads no more of one of the outputs.
    fn close(&mut self, index: usize) {
        let output = self.outputs.get_mut(index);
        if output.and_then(|output| output.pipe.take()).is_none() {
            return;
        }
        if self.outputs.iter().all(|output| output.pipe.is_none()) {
            self.event(Event::StreamsEnded);
        }
    }
}

impl Output {
    fn readable(&self, flushed: bool) -> Option<(std::os::fd::BorrowedFd<'_>, PollFlags)> {
        let pipe = self.pipe.as_ref().filter(|_| flushed)?;
        Some((pipe.as_fd(), PollFlags::POLLIN))
    }
}

fn set_blocking(file: &File, blocking: bool) -> io::Result<()> {
    let flags = OFlag::from_bits_truncate(fcntl(file, FcntlArg::F_GETFL)?);
    let wanted = if blocking {
        flags & !OFlag::O_NONBLOCK
    } else {
        flags | OFlag::O_NONBLOCK
    };
    fcntl(file, FcntlArg::F_SETFL(wanted))?;
    Ok(())
}
