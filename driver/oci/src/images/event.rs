//! What a pull tells of itself.

use super::error::PullCause;
use super::policy::PullPolicy;
use crate::registry::{Digest, Reference};

/// Something happened during a pull. In this order, though not all of it happens in each.
#[derive(Debug)]
#[non_exhaustive]
pub enum PullEvent<'a> {
    /// The policies that will be tried.
    Policies(&'a [PullPolicy]),
    /// A policy is tried; told of the second and later ones.
    Attempt {
        /// Counted from 1.
        number: usize,
        /// Which.
        policy: PullPolicy,
    },
    /// A login was found and is used.
    Login {
        /// Where it is from.
        source: &'a str,
    },
    /// Something is wrong that may not matter.
    Warning(&'a str),
    /// The registry is asked.
    Pulling {
        /// The full reference.
        reference: &'a Reference,
        /// The platform that the job asks for, if it does.
        platform: Option<&'a str>,
    },
    /// The reference means this. All that follows is about this digest.
    Resolved(Digest),
    /// This host has an image of that name, and the policy asks for no more.
    Found(PullPolicy),
    /// This host has the image that the registry means.
    Present,
    /// Another process pulls the image; its work is waited for.
    Waiting,
    /// The download begins: the layers' digests and sizes in bytes, compressed.
    Layers(&'a [(Digest, u64)]),
    /// So much of a layer has come by now.
    Received {
        /// Its place in [`PullEvent::Layers`].
        layer: usize,
        /// Bytes, compressed.
        bytes: u64,
    },
    /// All layers are unpacked; the image is written to disk.
    Storing,
    /// A policy did not lead to the image.
    Failed {
        /// Which.
        policy: PullPolicy,
        /// Why.
        cause: &'a PullCause,
    },
}
