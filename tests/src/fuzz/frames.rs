//! Any bytes where the agent's frames belong.

use std::io::Cursor;

use serde::Serialize;
use serde::de::DeserializeOwned;
use vk_agent_proto::frame::{
    decode_json, decode_room, encode_json, encode_room, read_frame, write_frame,
};
use vk_agent_proto::{Decoder, Frame, FrameError, Hello, Kind, Reply, Request, bridge};

use super::input::Input;

/// Reads `bytes` as frames, at once and cut in pieces, and what is in the frames.
///
/// Both ways give the same frames and the same end, no frame is over its kind's bound, frames written again are
/// the bytes that they were read from, and what is read of a request, reply or hello survives the wire.
pub fn frames(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let sizes = [(); 3].map(|()| 1 + input.below(256));
    let stream = input.rest();
    let _ = bridge::parse_connect(stream);
    let _ = bridge::parse_ok(stream);

    let (whole, end) = read_blocking(stream);
    let (pieces, error, at_boundary) = read_in_pieces(stream, &sizes);
    assert_eq!(whole, pieces);
    match end {
        None => assert!(error.is_none() && at_boundary),
        Some(FrameError::Truncated) => assert!(error.is_none() && !at_boundary),
        Some(end) => assert_eq!(Some(end.to_string()), error),
    }

    let mut again = Vec::new();
    for frame in &whole {
        assert!(frame.payload.len() <= frame.kind.max_len());
        assert!(write_frame(&mut again, frame.kind, &frame.payload).is_ok());
        check_payload(frame);
    }
    assert!(stream.starts_with(&again));
}

fn read_blocking(stream: &[u8]) -> (Vec<Frame>, Option<FrameError>) {
    let mut reader = Cursor::new(stream);
    let mut frames = Vec::new();
    loop {
        match read_frame(&mut reader) {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return (frames, None),
            Err(error) => return (frames, Some(error)),
        }
    }
}

/// The frames, the error that ended them, and whether the stream may end where it does.
fn read_in_pieces(mut stream: &[u8], sizes: &[usize]) -> (Vec<Frame>, Option<String>, bool) {
    let mut decoder = Decoder::new();
    let mut frames = Vec::new();
    for size in sizes.iter().cycle() {
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => {
                    decoder.push(b"\x20\0\0\0\0");
                    let again = decoder.next_frame().err().map(|error| error.to_string());
                    assert_eq!(again, Some(error.to_string()), "a broken stream stays so");
                    return (frames, again, false);
                }
            }
        }
        if stream.is_empty() {
            break;
        }
        let (piece, rest) = stream.split_at((*size).min(stream.len()));
        decoder.push(piece);
        stream = rest;
    }
    (frames, None, decoder.at_boundary())
}

fn check_payload(frame: &Frame) {
    match frame.kind {
        Kind::Hello => {
            if let Some(hello) = survives_the_wire::<Hello>(frame)
                && let Err(error) = hello.check()
            {
                assert!(error.to_string().len() < 400, "{error}");
            }
        }
        Kind::Request => {
            survives_the_wire::<Request>(frame);
        }
        Kind::Reply => {
            survives_the_wire::<Reply>(frame);
        }
        Kind::StdinRoom => {
            if let Ok(room) = decode_room(&frame.payload) {
                let written = encode_room(room).unwrap_or_default();
                assert!(written.ends_with(&frame.payload));
            }
        }
        _ => {}
    }
}

/// The frame's content, if it has one of this type; written and read again it is the same, unless it no longer
/// fits into a frame.
fn survives_the_wire<T: Serialize + DeserializeOwned + PartialEq>(frame: &Frame) -> Option<T> {
    let value = frame.json::<T>(frame.kind).ok()?;
    match encode_json(frame.kind, &value) {
        Ok(written) => {
            let payload = written.get(5..).unwrap_or_default();
            let read = decode_json::<T>(frame.kind, payload);
            assert!(read.is_ok_and(|read| read == value));
        }
        Err(error) => assert!(matches!(error, FrameError::TooLong { .. }), "{error}"),
    }
    Some(value)
}
