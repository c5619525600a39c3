//! What the server does wrong, and when.

use std::collections::HashMap;
use std::time::Duration;

use super::Answer;
use crate::http::Request;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// An artifact comes.
    Upload,
    /// An artifact goes.
    Download,
    /// Something of the object storage.
    Storage,
}

impl Call {
    pub(super) fn of(request: &Request) -> Option<Self> {
        if request.path.starts_with("/storage/") {
            return Some(Self::Storage);
        }
        let is_artifacts = request.path.ends_with("/artifacts");
        match request.method.as_str() {
            "POST" if is_artifacts => Some(Self::Upload),
            "GET" if is_artifacts => Some(Self::Download),
            _ => None,
        }
    }
}

/// What happens instead of a proper answer.
#[derive(Clone, Debug)]
pub enum Fault {
    /// This answer, after the request was read.
    Answer(Answer),
    /// This status, before the request's content was read.
    AnswerUnread(u16),
    /// The connection is closed after the request was read.
    Drop,
    /// The connection is closed after so many bytes of the request's content.
    DropAfterReading(u64),
    /// The connection is closed after so many bytes of the answer's content.
    DropAfterSending(usize),
    /// The request is read with that pause before each piece.
    ReadSlowly(Duration),
    /// The answer is sent in pieces of so many bytes, with that pause before each.
    SendSlowly(usize, Duration),
}

impl Fault {
    /// A status alone.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self::Answer(Answer::status(status))
    }

    /// A redirect.
    #[must_use]
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::Answer(Answer::status(status).header("Location", location))
    }
}

/// The faults that are to come.
#[derive(Debug, Default)]
pub(super) struct Faults {
    rules: Vec<(Call, std::ops::Range<usize>, Fault)>,
    seen: HashMap<Call, usize>,
}

impl Faults {
    pub(super) fn inject(&mut self, call: Call, from: usize, times: usize, fault: Fault) {
        self.rules.push((call, from..from + times, fault));
    }

    /// Counts a call; what it meets.
    pub(super) fn next(&mut self, call: Call) -> Option<Fault> {
        let seen = self.seen.entry(call).or_default();
        *seen += 1;
        let number = *seen;
        self.rules
            .iter()
            .find(|(of, range, _)| *of == call && range.contains(&number))
            .map(|(_, _, fault)| fault.clone())
    }
}
