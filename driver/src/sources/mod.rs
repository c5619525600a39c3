//! Sources: the checkout on the host.
