//! Standard input on its way to the command.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use vk_agent_proto::{FrameError, STDIN_WINDOW};

/// Room is granted anew once this much of it was used up: half the window, so that the host can send on while
/// the grant travels.
const GRANT: usize = STDIN_WINDOW / 2;

/// What Ctrl-D types: the end of input for who reads lines from a terminal (termios(3), VEOF).
const END_OF_TRANSMISSION: u8 = 4;

/// What the host sent and the command has not read.
pub(super) struct Input {
    pipe: Option<File>,
    /// What tells the reader that no more comes, where closing does not.
    end_mark: Option<u8>,
    held: VecDeque<u8>,
    ended: bool,
    /// What the host may still send.
    window: usize,
    /// What left `held` and was not granted to the host anew.
    owed: usize,
}

impl Input {
    /// For a command whose input is `/dev/null`.
    pub(super) fn none() -> Self {
        Self {
            pipe: None,
            end_mark: None,
            held: VecDeque::new(),
            ended: true,
            window: 0,
            owed: 0,
        }
    }

    /// Through `master`, the agent's end of a terminal: what reads there sees an end of input as one typed.
    ///
    /// # Errors
    ///
    /// What the kernel says to making it not block.
    pub(super) fn terminal(master: File) -> io::Result<Self> {
        Ok(Self {
            end_mark: Some(END_OF_TRANSMISSION),
            ..Self::new(master)?
        })
    }

    /// Through `pipe`.
    ///
    /// # Errors
    ///
    /// What the kernel says to making our end not block.
    pub(super) fn new(pipe: File) -> io::Result<Self> {
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(Self {
            pipe: Some(pipe),
            window: STDIN_WINDOW,
            ended: false,
            ..Self::none()
        })
    }

    /// Takes in what the host sent.
    ///
    /// # Errors
    ///
    /// [`FrameError::Room`] if it may not have sent that much, or anything.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        if self.ended || bytes.len() > self.window {
            return Err(FrameError::Room);
        }
        self.window -= bytes.len();
        if self.pipe.is_some() {
            self.held.extend(bytes);
        } else {
            self.owed += bytes.len();
        }
        Ok(())
    }

    /// The host has no more.
    pub(super) fn end(&mut self) {
        self.ended = true;
        self.held.extend(self.end_mark.take());
        self.close_if_done();
    }

    /// The pipe, while there is something to write into it.
    pub(super) fn waiting(&self) -> Option<&File> {
        self.pipe.as_ref().filter(|_| !self.held.is_empty())
    }

    /// Writes what the pipe takes. A command that closed its input never gets the rest.
    pub(super) fn write(&mut self) {
        let Some(pipe) = &mut self.pipe else {
            return;
        };
        let (front, _) = self.held.as_slices();
        match pipe.write(front) {
            Ok(written) => {
                self.held.drain(..written);
                self.owed += written;
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Err(_) => {
                self.pipe = None;
                self.owed += self.held.len();
                self.held = VecDeque::new();
            }
        }
        self.close_if_done();
    }

    fn close_if_done(&mut self) {
        if self.ended && self.held.is_empty() {
            self.pipe = None;
        }
    }

    /// Room to grant to the host now; zero if that can wait.
    pub(super) fn grant(&mut self) -> usize {
        if self.owed < GRANT || self.ended {
            return 0;
        }
        self.window += self.owed;
        std::mem::take(&mut self.owed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeWriter, Read};
    use std::os::fd::OwnedFd;

    fn file(pipe: PipeWriter) -> File {
        OwnedFd::from(pipe).into()
    }

    #[test]
    fn input_beyond_the_window_is_refused() {
        let (_reader, writer) = io::pipe().unwrap();
        let mut input = Input::new(file(writer)).unwrap();
        input.take(&vec![1; STDIN_WINDOW]).unwrap();

        assert!(matches!(input.take(b"x"), Err(FrameError::Room)));
    }

    #[test]
    fn input_that_was_not_asked_for_is_refused() {
        assert!(matches!(Input::none().take(b"x"), Err(FrameError::Room)));
    }

    #[test]
    fn what_was_written_is_granted_anew() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut input = Input::new(file(writer)).unwrap();
        input.take(&vec![1; GRANT]).unwrap();
        let mut read = 0;
        while input.waiting().is_some() {
            input.write();
            let mut buffer = vec![0; GRANT];
            read += reader.read(&mut buffer).unwrap();
        }

        assert_eq!((read, input.grant(), input.grant()), (GRANT, GRANT, 0));
        assert!(input.take(&vec![1; STDIN_WINDOW]).is_ok());
    }

    #[test]
    fn a_command_that_closed_its_input_takes_the_rest_and_drops_it() {
        let (reader, writer) = io::pipe().unwrap();
        let mut input = Input::new(file(writer)).unwrap();
        drop(reader);

        input.take(&vec![1; GRANT]).unwrap();
        input.write();

        assert!(input.waiting().is_none());
        assert_eq!(input.grant(), GRANT);
        assert!(input.take(b"more").is_ok());
    }

    #[test]
    fn the_pipe_closes_when_all_is_written() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut input = Input::new(file(writer)).unwrap();
        input.take(b"script").unwrap();
        input.end();
        input.write();

        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();

        assert_eq!(text, "script");
    }

    #[test]
    fn the_end_of_a_terminals_input_is_typed() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut input = Input::terminal(file(writer)).unwrap();
        input.take(b"exit").unwrap();
        input.end();
        input.write();

        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();

        assert_eq!(text, "exit\u{4}");
    }
}
