//! The decoder against arbitrary splits and hostile bytes.

use std::io::Cursor;

use proptest::prelude::*;
use vk_agent_proto::frame::{read_frame, write_frame};
use vk_agent_proto::{Decoder, Frame, FrameError, Header, Kind, MAX_CONTROL, MAX_DATA};

const KINDS: [Kind; 12] = [
    Kind::Hello,
    Kind::Request,
    Kind::Reply,
    Kind::Cancel,
    Kind::Kill,
    Kind::StdinEof,
    Kind::TreeEnd,
    Kind::StdinRoom,
    Kind::Stdin,
    Kind::Stdout,
    Kind::Stderr,
    Kind::Tree,
];

fn any_frame() -> impl Strategy<Value = Frame> {
    (
        proptest::sample::select(&KINDS[..]),
        proptest::collection::vec(any::<u8>(), 0..600),
    )
        .prop_map(|(kind, mut payload)| {
            payload.truncate(kind.max_len());
            Frame { kind, payload }
        })
}

fn encoded(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        write_frame(&mut bytes, frame.kind, &frame.payload).unwrap();
    }
    bytes
}

/// All frames that come out when `bytes` go in cut at `cuts`, and the error that ended it.
fn decoded(bytes: &[u8], cuts: &[prop::sample::Index]) -> (Vec<Frame>, Option<String>, bool) {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut decoder = Decoder::new();
    let mut frames = Vec::new();
    let mut start = 0;
    for end in ends {
        decoder.push(&bytes[start..end]);
        start = end;
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error.to_string()), false),
            }
        }
    }
    (frames, None, decoder.at_boundary())
}

proptest! {
    #[test]
    fn frames_survive_any_split(
        frames in proptest::collection::vec(any_frame(), 0..8),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes = encoded(&frames);

        let (out, error, boundary) = decoded(&bytes, &cuts);

        prop_assert_eq!(out, frames);
        prop_assert_eq!(error, None);
        prop_assert!(boundary);
    }

    #[test]
    fn hostile_bytes_read_the_same_blocking_and_split(
        frames in proptest::collection::vec(any_frame(), 0..3),
        noise in proptest::collection::vec(any::<u8>(), 0..64),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut bytes = encoded(&frames);
        bytes.extend(noise);

        let (out, error, boundary) = decoded(&bytes, &cuts);

        let mut reader = Cursor::new(&bytes);
        let mut blocking = Vec::new();
        let end = loop {
            match read_frame(&mut reader) {
                Ok(Some(frame)) => blocking.push(frame),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        prop_assert_eq!(&out, &blocking);
        match end {
            None => prop_assert!(error.is_none() && boundary),
            Some(FrameError::Truncated) => prop_assert!(error.is_none() && !boundary),
            Some(other) => prop_assert_eq!(error, Some(other.to_string())),
        }
    }
}

#[test]
fn a_length_over_the_bound_is_refused_before_its_payload_comes() {
    for (kind, bound) in [
        (Kind::Request, MAX_CONTROL),
        (Kind::Stdout, MAX_DATA),
        (Kind::Cancel, 0),
    ] {
        let mut header = Header::encode(kind, bound).unwrap();
        assert_eq!(
            Header::parse(&header).unwrap(),
            Some(Header { kind, len: bound })
        );
        header[1..].copy_from_slice(&u32::MAX.to_le_bytes());

        let error = Header::parse(&header).unwrap_err();

        assert!(matches!(error, FrameError::TooLong { len, .. } if len == u32::MAX as usize));
        assert!(matches!(
            Header::encode(kind, bound + 1),
            Err(FrameError::TooLong { .. })
        ));
    }
}

#[test]
fn a_stream_that_ends_inside_a_frame_is_truncated() {
    let bytes = encoded(&[Frame {
        kind: Kind::Tree,
        payload: vec![7; 100],
    }]);

    for end in 1..bytes.len() {
        let error = read_frame(&mut Cursor::new(&bytes[..end])).unwrap_err();
        assert!(matches!(error, FrameError::Truncated), "cut at {end}");
    }
    assert_eq!(read_frame(&mut Cursor::new(b"")).unwrap(), None);
}

#[test]
fn a_payload_of_another_kind_is_not_read_as_json() {
    let frame = Frame {
        kind: Kind::Stdout,
        payload: b"1".to_vec(),
    };

    let error = frame.json::<u32>(Kind::Reply).unwrap_err();

    assert!(matches!(
        error,
        FrameError::Unexpected {
            got: Kind::Stdout,
            wanted: Kind::Reply
        }
    ));
}
