//! Hosts that have sshd and no haul.

#[path = "../common/mod.rs"]
mod common;

mod requests;
mod without_haul;
