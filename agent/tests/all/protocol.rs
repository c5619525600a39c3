//! Peers that do not keep to the protocol, on either side.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use crate::kit::{Rehearsal, WAIT_LIMIT, bash, command};
use vk_agent_client::{
    AgentClient, AgentError, ExecEvent, ExecRequest, ExitStatus, ReadyListener, Stdin,
};
use vk_agent_proto::frame::{read_frame, write_frame, write_json};
use vk_agent_proto::{
    Exec, Failed, FailureKind, Frame, Header, Hello, Kind, Reply, Request, STDIN_WINDOW, bridge,
};

/// A connection to the agent, by hand.
fn connect(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
        .write_all(bridge::connect_line(vk_agent_proto::AGENT_PORT).as_bytes())
        .unwrap();
    let mut line = [0; 8];
    stream.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"OK 1025\n");
    stream
}

/// One that is past the agent's hello and has sent ours.
fn greeted(socket: &Path) -> UnixStream {
    let mut stream = connect(socket);
    write_json(&mut stream, Kind::Hello, &Hello::ours()).unwrap();
    let hello: Hello = next(&mut stream).json(Kind::Hello).unwrap();
    assert_eq!(hello, Hello::ours());
    stream
}

fn next(stream: &mut UnixStream) -> Frame {
    read_frame(stream).unwrap().unwrap()
}

fn reply(stream: &mut UnixStream) -> Reply {
    next(stream).json(Kind::Reply).unwrap()
}

fn failed(stream: &mut UnixStream) -> Failed {
    match reply(stream) {
        Reply::Failed(failed) => failed,
        other => panic!("{other:?}"),
    }
}

fn start_sleep(socket: &Path, stdin: bool) -> UnixStream {
    let mut stream = greeted(socket);
    let request = Request::Exec(Exec {
        stdin,
        ..command(&["sleep", "3600"])
    });
    write_json(&mut stream, Kind::Request, &request).unwrap();
    stream
}

#[tokio::test]
async fn another_port_is_refused() {
    let rehearsal = Rehearsal::start().await;
    let mut stream = UnixStream::connect(&rehearsal.socket).unwrap();
    stream.write_all(b"CONNECT 22\n").unwrap();

    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
}

#[tokio::test]
async fn a_host_of_another_version_is_hung_up_on_after_our_hello() {
    let rehearsal = Rehearsal::start().await;
    let mut stream = connect(&rehearsal.socket);
    let other = Hello {
        protocol: 99,
        ..Hello::ours()
    };
    write_json(&mut stream, Kind::Hello, &other).unwrap();

    assert_eq!(next(&mut stream).kind, Kind::Hello);
    assert!(read_frame(&mut stream).unwrap().is_none());
}

#[tokio::test]
async fn rubbish_for_a_request_is_a_bad_request() {
    let rehearsal = Rehearsal::start().await;
    let unknown_kind = b"\xee\0\0\0\0".to_vec();
    let too_long = [&[Kind::Request as u8][..], &u32::MAX.to_le_bytes()].concat();
    let no_json = [&Header::encode(Kind::Request, 3).unwrap()[..], b"{}}"].concat();
    let unknown = [
        &Header::encode(Kind::Request, 9).unwrap()[..],
        b"\"reboot?\"",
    ]
    .concat();
    let misplaced = Header::encode(Kind::Cancel, 0).unwrap().to_vec();

    for bytes in [unknown_kind, too_long, no_json, unknown, misplaced] {
        let mut stream = greeted(&rehearsal.socket);
        stream.write_all(&bytes).unwrap();
        assert_eq!(
            failed(&mut stream).kind,
            FailureKind::BadRequest,
            "{bytes:?}"
        );
    }
}

#[tokio::test]
async fn a_violation_kills_the_command_and_says_what_it_was() {
    let rehearsal = Rehearsal::start().await;
    let huge = [&[Kind::Stdin as u8][..], &u32::MAX.to_le_bytes()].concat();
    let misplaced = Header::encode(Kind::TreeEnd, 0).unwrap().to_vec();

    for bytes in [huge, misplaced, b"\0\0\0\0\0".to_vec()] {
        let mut stream = start_sleep(&rehearsal.socket, true);
        stream.write_all(&bytes).unwrap();
        let failed = failed(&mut stream);
        assert_eq!(failed.kind, FailureKind::BadRequest);
        assert!(failed.message.contains("killed"), "{failed:?}");
    }
}

#[tokio::test]
async fn input_beyond_the_window_is_a_violation() {
    let rehearsal = Rehearsal::start().await;
    let mut stream = start_sleep(&rehearsal.socket, true);
    // What the pipe takes is granted anew; this is more than both.
    for _ in 0..4 {
        // The agent may have hung up before the last.
        let _ = write_frame(&mut stream, Kind::Stdin, &vec![b'x'; STDIN_WINDOW]);
    }

    let kind = loop {
        let frame = next(&mut stream);
        if frame.kind == Kind::Reply {
            break frame.json(Kind::Reply).unwrap();
        }
        assert_eq!(frame.kind, Kind::StdinRoom);
    };

    assert!(
        matches!(&kind, Reply::Failed(failed) if failed.kind == FailureKind::BadRequest),
        "{kind:?}"
    );
}

#[tokio::test]
async fn input_that_was_not_announced_is_a_violation() {
    let rehearsal = Rehearsal::start().await;
    let mut stream = start_sleep(&rehearsal.socket, false);
    write_frame(&mut stream, Kind::Stdin, b"x").unwrap();

    assert_eq!(failed(&mut stream).kind, FailureKind::BadRequest);
}

#[tokio::test]
async fn two_hundred_dials_in_a_row_all_succeed() {
    let rehearsal = Rehearsal::start().await;

    for _ in 0..200 {
        greeted(&rehearsal.socket);
    }
    assert_eq!(rehearsal.bash("exit 3").await.status, ExitStatus::Code(3));
}

#[tokio::test]
async fn shutdown_ends_the_agent() {
    let rehearsal = Rehearsal::start().await;

    rehearsal.client.shutdown().await.unwrap();

    let error = loop {
        match rehearsal.client.stats().await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(
            error,
            AgentError::Connect { .. }
                | AgentError::Refused { .. }
                | AgentError::Closed { .. }
                | AgentError::Broken { .. }
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn stats_tell_of_a_living_system() {
    let rehearsal = Rehearsal::start().await;

    let stats = rehearsal.client.stats().await.unwrap();

    assert!(stats.mem_total >= stats.mem_available && stats.mem_available > 0);
    assert!(stats.disk_total >= stats.disk_free && stats.disk_total > 0);
    assert!(stats.uptime_ms > 0 && stats.cpu_busy_ms > 0 && stats.load_1m >= 0.0);
}

/// A guest that says what `talk` makes it say on its next connection.
fn fake_guest(
    folder: &Path,
    talk: impl FnOnce(UnixStream) + Send + 'static,
) -> (AgentClient, std::thread::JoinHandle<()>) {
    let socket = folder.join("vsock");
    let listener = UnixListener::bind(&socket).unwrap();
    let guest = std::thread::spawn(move || talk(listener.accept().unwrap().0));
    let client = AgentClient::new(socket).with_handshake(Duration::from_secs(2));
    (client, guest)
}

/// The same, past the bridge's lines and hellos.
fn fake_agent(
    folder: &Path,
    talk: impl FnOnce(UnixStream) + Send + 'static,
) -> (AgentClient, std::thread::JoinHandle<()>) {
    fake_guest(folder, |mut stream| {
        let mut line = [0; 13];
        stream.read_exact(&mut line).unwrap();
        stream.write_all(b"OK 1\n").unwrap();
        write_json(&mut stream, Kind::Hello, &Hello::ours()).unwrap();
        assert_eq!(next(&mut stream).kind, Kind::Hello);
        assert_eq!(next(&mut stream).kind, Kind::Request);
        talk(stream);
    })
}

#[tokio::test]
async fn a_guest_that_never_answers_is_a_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let (client, guest) = fake_guest(folder.path(), |mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let client = client.with_handshake(Duration::from_millis(100));

    let error = client.stats().await.unwrap_err();

    assert!(matches!(error, AgentError::Timeout { .. }), "{error:?}");
    guest.join().unwrap();
}

#[tokio::test]
async fn a_vsock_that_refuses_is_told_from_one_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (client, guest) = fake_guest(folder.path(), drop);

    let refused = client.stats().await.unwrap_err();
    guest.join().unwrap();
    let gone = client.stats().await.unwrap_err();

    assert!(matches!(refused, AgentError::Refused { .. }), "{refused:?}");
    assert!(matches!(gone, AgentError::Connect { .. }), "{gone:?}");
}

#[tokio::test]
async fn an_agent_of_another_version_is_named_with_ours() {
    let folder = tempfile::tempdir().unwrap();
    let (client, guest) = fake_guest(folder.path(), |mut stream| {
        let mut line = [0; 13];
        stream.read_exact(&mut line).unwrap();
        stream.write_all(b"OK 1\n").unwrap();
        let other = Hello {
            protocol: 77,
            ..Hello::ours()
        };
        write_json(&mut stream, Kind::Hello, &other).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });

    let error = client.stats().await.unwrap_err();

    let AgentError::Hello { source, .. } = &error else {
        panic!("{error:?}");
    };
    let text = source.to_string();
    assert!(
        text.contains("version 77")
            && text.contains(&format!("version {} ", Hello::ours().protocol)),
        "{text}"
    );
    drop(client);
    guest.join().unwrap();
}

#[tokio::test]
async fn hostile_replies_end_the_operation_alone() {
    let huge = [&[Kind::Stdout as u8][..], &u32::MAX.to_le_bytes()].concat();
    let room = [&Header::encode(Kind::StdinRoom, 4).unwrap()[..], &[0xff; 4]].concat();
    let early_room = [
        &Header::encode(Kind::StdinRoom, 4).unwrap()[..],
        &1_u32.to_le_bytes(),
    ]
    .concat();
    let wrong_reply = vk_agent_proto::frame::encode_json(
        Kind::Reply,
        &Reply::Done(vk_agent_proto::TreeSummary::default()),
    )
    .unwrap();
    let misplaced = Header::encode(Kind::Tree, 0).unwrap().to_vec();
    let cut = vec![Kind::Stdout as u8, 9, 0];

    for bytes in [huge, room, early_room, wrong_reply, misplaced, cut] {
        let folder = tempfile::tempdir().unwrap();
        let sent = bytes.clone();
        let (client, guest) = fake_agent(folder.path(), move |mut stream| {
            stream.write_all(&sent).unwrap();
        });
        let mut handle = client.exec(bash(":"), Stdin::None).await.unwrap();

        let error = handle.next_event().await.unwrap_err();

        assert!(
            matches!(error, AgentError::Broken { .. }),
            "{bytes:?}: {error:?}"
        );
        guest.join().unwrap();
    }
}

#[tokio::test]
async fn the_death_of_a_guest_ends_its_command() {
    let folder = tempfile::tempdir().unwrap();
    let (client, guest) = fake_agent(folder.path(), |mut stream| {
        write_frame(&mut stream, Kind::Stdout, b"so far").unwrap();
    });
    let mut handle = client.exec(bash(":"), Stdin::None).await.unwrap();

    let first = handle.next_event().await.unwrap();
    let error = handle.next_event().await.unwrap_err();

    assert_eq!(first, ExecEvent::Stdout("so far".into()));
    assert!(matches!(error, AgentError::Closed { .. }), "{error:?}");
    guest.join().unwrap();
}

#[tokio::test]
async fn a_guest_that_never_calls_is_a_timeout_and_its_socket_goes() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("vsock");
    let listener = ReadyListener::bind(&socket).unwrap();

    let error = listener.ready(Duration::from_millis(50)).await.unwrap_err();

    assert!(matches!(error, AgentError::Timeout { .. }), "{error:?}");
    assert!(!folder.path().join("vsock_1024").exists());
}

#[tokio::test]
async fn a_guest_that_calls_with_another_version_still_gets_our_hello() {
    let folder = tempfile::tempdir().unwrap();
    let listener = ReadyListener::bind(&folder.path().join("vsock")).unwrap();
    let path = folder.path().join("vsock_1024");
    let guest = std::thread::spawn(move || {
        let mut stream = UnixStream::connect(path).unwrap();
        let other = Hello {
            protocol: Hello::ours().protocol + 1,
            ..Hello::ours()
        };
        write_json(&mut stream, Kind::Hello, &other).unwrap();
        next(&mut stream).json::<Hello>(Kind::Hello).unwrap()
    });

    let error = listener.ready(WAIT_LIMIT).await.unwrap_err();

    assert!(matches!(error, AgentError::Hello { .. }), "{error:?}");
    assert!(guest.join().unwrap().epoch_ns.is_some());
}

#[tokio::test]
async fn a_request_too_long_for_a_frame_is_refused_here() {
    let rehearsal = Rehearsal::start().await;
    let request = ExecRequest {
        env: vec![("A".into(), "x".repeat(2 << 20).into())],
        ..bash(":")
    };

    let error = rehearsal
        .client
        .exec(request, Stdin::None)
        .await
        .unwrap_err();

    assert!(matches!(error, AgentError::Broken { .. }), "{error:?}");
}
