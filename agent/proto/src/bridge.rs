//! The text line that opens a guest's port through the host's unix socket, as Firecracker does it.
//!
//! The host connects to the socket, writes `CONNECT <port>\n` and reads `OK <host port>\n`; what follows is
//! the byte stream. A guest that connects to host port `P` reaches the unix listener at `<socket>_<P>`.

use std::path::{Path, PathBuf};

/// Longest line either side may send, newline included: `CONNECT ` and ten digits fit well.
pub const MAX_LINE: usize = 32;

/// The line that asks for the guest's `port`.
#[must_use]
pub fn connect_line(port: u32) -> String {
    format!("CONNECT {port}\n")
}

/// The line that grants a connection, seen by the guest as coming from `host_port`.
#[must_use]
pub fn ok_line(host_port: u32) -> String {
    format!("OK {host_port}\n")
}

/// The port that a line asks for; none if it is not such a line.
#[must_use]
pub fn parse_connect(line: &[u8]) -> Option<u32> {
    parse(line, "CONNECT ")
}

/// The host port that a line grants; none if it is not such a line.
#[must_use]
pub fn parse_ok(line: &[u8]) -> Option<u32> {
    parse(line, "OK ")
}

fn parse(line: &[u8], word: &str) -> Option<u32> {
    let text = std::str::from_utf8(line).ok()?;
    let number = text.strip_suffix('\n')?.strip_prefix(word)?;
    let digits = number.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| number.parse().ok()).flatten()
}

/// Where the host listens for guest connections to host port `port`.
#[must_use]
pub fn listener_path(socket: &Path, port: u32) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(format!("_{port}"));
    PathBuf::from(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back() {
        assert_eq!(parse_connect(connect_line(1025).as_bytes()), Some(1025));
        assert_eq!(parse_ok(ok_line(u32::MAX).as_bytes()), Some(u32::MAX));
        assert!(connect_line(u32::MAX).len() <= MAX_LINE);
    }

    #[test]
    fn odd_lines_are_refused() {
        for line in [
            "CONNECT 1025",
            "CONNECT +1\n",
            "CONNECT \n",
            "CONNECT 4294967296\n",
            "connect 1\n",
            "OK 1\n",
        ] {
            assert_eq!(parse_connect(line.as_bytes()), None, "{line:?}");
        }
    }

    #[test]
    fn listener_stands_beside_the_socket() {
        let path = listener_path(Path::new("/run/vm/vsock"), 1024);

        assert_eq!(path, Path::new("/run/vm/vsock_1024"));
    }
}
