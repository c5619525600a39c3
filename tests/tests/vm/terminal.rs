//! A user at a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use vk_tests::vk::Vk;

/// The terminal, and the command on it.
pub(crate) struct TerminalUser {
    terminal: File,
    vk: Child,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl TerminalUser {
    /// Starts `vk` with `args` on a new terminal.
    pub(crate) fn on_terminal(vk: &Vk, args: &[&str]) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        set_size(&terminal, 100, 30);
        if args.first() == Some(&"run") {
            vk.wait_for_place();
        }
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let other = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let stream = || OwnedFd::from(File::from(other.try_clone().unwrap()));
        let child = vk
            .command()
            .args(args)
            .env("TERM", "vt220")
            .stdin(stream())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .unwrap();
        let terminal = File::from(terminal);
        let mut reader = terminal.try_clone().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..len].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            terminal,
            vk: child,
            output,
            seen: String::new(),
        }
    }

    pub(crate) fn resizes(&self, columns: u16, rows: u16) {
        set_size(&self.terminal, columns, rows);
        // The kernel tells only those whose controlling terminal it is.
        let pid = Pid::from_raw(i32::try_from(self.vk.id()).unwrap()).unwrap();
        kill_process(pid, Signal::WINCH).unwrap();
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until `text` was on the terminal, and forgets what came up to it.
    pub(crate) fn sees(&mut self, text: &str) {
        loop {
            if let Some((_, rest)) = self.seen.split_once(text) {
                self.seen = rest.to_owned();
                return;
            }
            let Ok(bytes) = self.output.recv_timeout(Duration::from_secs(120)) else {
                panic!("no {text:?} in {:?}", self.seen);
            };
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    /// All that comes until the command ends.
    pub(crate) fn sees_the_end(mut self) -> String {
        while let Ok(bytes) = self.output.recv_timeout(Duration::from_secs(120)) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        self.vk.wait().unwrap();
        self.seen
    }

    pub(crate) fn leaves(mut self) -> Option<i32> {
        self.vk.wait().unwrap().code()
    }
}

fn set_size(terminal: impl AsFd, columns: u16, rows: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).unwrap();
}
