//! What vk's HTTP clients share: whom they trust, why a request failed, how its bytes are counted.

mod causes;
mod count;
mod proxies;
mod roots;

pub use causes::root_cause;
pub use count::{Count, Counted};
pub use proxies::Proxies;
pub use roots::roots;
