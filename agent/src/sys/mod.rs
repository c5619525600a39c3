//! System calls that neither std nor nix wraps safely. All `unsafe` of this crate is here.

#![allow(unsafe_code)]

mod child;
mod net;
mod reap;
mod terminal;
mod vsock;

pub(crate) use child::{ChildError, ChildSpec, Ids, Step, await_exec, spawn};
pub(crate) use net::loopback_up;
pub(crate) use reap::reap;
pub(crate) use terminal::{Terminal, open_terminal, resize};
pub(crate) use vsock::{accept_host, connect_host, listen};
