//! OCI registries, and the images of this host.
//!
//! `registry` speaks with registries, for images and caches. `images` turns a reference into an image that VMs of this
//! host can boot: [`ImageStore::ensure`] is the way in.

mod images;
mod registry;

pub use images::*;
pub use registry::*;
pub use vk_http::Count;
