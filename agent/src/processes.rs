//! The processes we started, and the orphans that fall to us as PID 1.
//!
//! One thread reaps everything. Children are started and registered under the lock that it reaps under, so
//! that no status can come before its owner is known.

use std::collections::HashMap;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::Pid;
use vk_agent_proto::ExitStatus;

use crate::sys::{self, ChildSpec};

/// All running main processes of execs.
#[derive(Clone)]
pub(crate) struct Processes {
    running: Arc<Mutex<HashMap<Pid, PipeWriter>>>,
}

impl Processes {
    /// Starts the reaper. Call it before any other thread is started: they must inherit that SIGCHLD is
    /// blocked.
    ///
    /// # Errors
    ///
    /// What the kernel says to a mask or a thread.
    pub(crate) fn start() -> io::Result<Self> {
        let mut child = SigSet::empty();
        child.add(Signal::SIGCHLD);
        child.thread_block()?;
        let processes = Self {
            running: Arc::default(),
        };
        let reaper = processes.clone();
        thread::Builder::new()
            .name("reaper".into())
            .stack_size(crate::STACK)
            .spawn(move || {
                loop {
                    reaper.reap();
                    if child.wait().is_err() {
                        thread::yield_now();
                    }
                }
            })?;
        Ok(processes)
    }

    /// Starts a process as leader of its own session and process group.
    ///
    /// # Errors
    ///
    /// What the kernel says to the clone or a pipe.
    pub(crate) fn spawn(&self, spec: &ChildSpec<'_>) -> io::Result<(Process, PipeReader)> {
        let (status, status_writer) = io::pipe()?;
        let (report, report_writer) = io::pipe()?;
        let mut running = self.lock();
        let pid = sys::spawn(spec, &report_writer)?;
        running.insert(pid, status_writer);
        drop(running);
        let process = Process {
            pid,
            status,
            processes: self.clone(),
        };
        Ok((process, report))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Pid, PipeWriter>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in every child that has ended.
    fn reap(&self) {
        let mut running = self.lock();
        while let Some((pid, status)) = sys::reap() {
            if let Some(mut owner) = running.remove(&pid) {
                // Nobody may be left to read it.
                let _ = owner.write_all(&encode(status));
            }
        }
    }
}

fn encode(status: ExitStatus) -> [u8; 5] {
    let (kind, number) = match status {
        ExitStatus::Code(code) => (0, code),
        ExitStatus::Signal(signal) => (1, signal),
    };
    let [a, b, c, d] = number.to_ne_bytes();
    [kind, a, b, c, d]
}

/// A main process.
pub(crate) struct Process {
    pid: Pid,
    status: PipeReader,
    processes: Processes,
}

impl Process {
    /// Its number, and that of its session and process group.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Becomes readable when the process has ended.
    pub(crate) fn ended(&self) -> &PipeReader {
        &self.status
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    ///
    /// What the kernel says to a read of our own pipe.
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        let mut bytes = [0; 5];
        self.status.read_exact(&mut bytes)?;
        let [kind, a, b, c, d] = bytes;
        let number = i32::from_ne_bytes([a, b, c, d]);
        Ok(match kind {
            0 => ExitStatus::Code(number),
            _ => ExitStatus::Signal(number),
        })
    }

    /// Signals the process group, unless the main process has ended: its number may be another's by then.
    pub(crate) fn signal_group(&self, signal: Signal) {
        let running = self.processes.lock();
        if running.contains_key(&self.pid) {
            // It may be a zombie that the reaper waits for the lock to take in; that is no trouble.
            let _ = killpg(self.pid, signal);
        }
    }
}
