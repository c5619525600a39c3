//! What vk's HTTP clients share, so that each rule stands once: whom they trust ([`tls`]), which proxies they use
//! ([`Proxies`]), where redirects lead ([`next_hop`]), how long a server wants to be left alone ([`RetryAfter`]), why a
//! request failed ([`root_cause`]) and how its bytes are counted ([`Count`]).
//!
//! There is no client in here: each crate makes its own requests, and decides what is tried again and who sees a login.
//! Nothing reads the environment. TLS is rustls with ring's cryptography and the host's roots.

mod causes;
mod count;
mod proxies;
mod redirect;
mod retry_after;
mod tls;

pub use causes::root_cause;
pub use count::{Count, Counted};
pub use proxies::Proxies;
pub use redirect::{Hop, MAX_REDIRECTS, RedirectError, locate, next_hop};
pub use retry_after::RetryAfter;
pub use tls::{TlsError, Trust, is_loopback, tls};
