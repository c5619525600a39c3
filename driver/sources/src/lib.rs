//! Sources: the checkout on the host.
//!
//! The guest never sees the network or the job token: git runs here, in a private folder, and the tree it
//! leaves is streamed into the guest. What the job and its repository decide (flags, refs, URLs, file
//! names, attributes, submodules) is hostile; [`checkout`] says what is done about that.
//!
//! It takes a host with git, and git-lfs for files of LFS, a folder that only this user can enter, and a tokio runtime.
//! What a checkout may take of the disk and of memory, and how long a transfer may stand still, is in the
//! [`CheckoutRequest`]. git sees no variable of this process but those that the request names.

mod cache;
mod checkout;
mod credential;
mod error;
mod flags;
mod folder;
mod git;
mod group;
mod guest;
mod kept;
mod lfs;
mod lines;
mod local;
mod plan;
mod request;
mod settings;
mod size;
mod submodules;
mod tree;
mod watch;

pub use cache::SourceCache;
pub use checkout::{Checkout, checkout};
pub use error::{CheckoutError, GitFailure};
pub use guest::{GUEST_CONFIG, GUEST_CREDENTIAL, guest_files};
pub use lines::{SourceLine, Stream};
pub use request::{CheckoutRequest, SshServer, Strategy, Submodules};
pub use tree::{TreeStream, tar_stream};
