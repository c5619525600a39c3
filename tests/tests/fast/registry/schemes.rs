//! Who is spoken to by TLS, who by plain HTTP.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use super::*;

/// A way to `upstream` that treats each new connection as `rule` says, which is told its number, from 1, and
/// whether it begins with TLS: `false` hangs up.
fn gate(upstream: &str, rule: impl Fn(usize, bool) -> bool + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let upstream = upstream.to_owned();
    std::thread::spawn(move || {
        for (number, stream) in (1..).zip(listener.incoming()) {
            let stream = stream.unwrap();
            let mut first = [0];
            if !matches!(stream.peek(&mut first), Ok(1)) {
                continue;
            }
            let is_tls = first == [0x16];
            if rule(number, is_tls) {
                join(stream, TcpStream::connect(&upstream).unwrap());
            }
        }
    });
    host
}

fn join(one: TcpStream, other: TcpStream) {
    let (from, to) = (one.try_clone().unwrap(), other.try_clone().unwrap());
    for (mut from, mut to) in [(from, to), (other, one)] {
        std::thread::spawn(move || {
            let mut buffer = [0; 16 << 10];
            while let Ok(size @ 1..) = from.read(&mut buffer) {
                if to.write_all(&buffer[..size]).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

fn insecure(host: &str) -> RegistryClient {
    client(RegistryOptions {
        insecure: BTreeSet::from([host.to_owned()]),
        ..RegistryOptions::default()
    })
}

#[tokio::test]
async fn a_registry_that_hangs_up_on_tls_is_spoken_to_by_http() {
    let registry = Registry::start();
    Image::new().push(&registry, "a:1");
    let host = gate(registry.host(), |_, is_tls| !is_tls);

    let manifest = quick_client()
        .manifest(&reference(&format!("{host}/a:1")))
        .await;

    assert!(manifest.is_ok(), "{manifest:?}");
}

#[tokio::test]
async fn a_registry_that_hangs_up_once_is_still_spoken_to_by_tls() {
    let registry = Registry::with(Demands {
        tls: true,
        login: false,
    });
    Image::new().push(&registry, "a:1");
    let host = gate(registry.host(), |number, _| number > 1);

    let manifest = insecure(&host)
        .manifest(&reference(&format!("{host}/a:1")))
        .await;

    assert!(manifest.is_ok(), "{manifest:?}");
}
