//! OCI registries, and the images of this host.
//!
//! `registry` speaks with registries, for images and caches. `images` turns a reference into an image that VMs of this
//! host can boot: [`ImageStore::ensure`] is the way in.

#![cfg_attr(
    not(test),
    warn(
        clippy::cast_lossless,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        clippy::indexing_slicing
    )
)]

mod images;
mod registry;

pub use images::*;
pub use registry::*;
pub use vk_http::Count;
