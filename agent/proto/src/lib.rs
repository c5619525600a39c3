//! What driver and guest agent say to each other over vsock.
