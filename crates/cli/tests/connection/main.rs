//! The connection to a host: how it is made, why there may be none, and what
//! is left when it breaks.

#[path = "../common/mod.rs"]
mod common;

mod beside;
mod broken;
mod chunks;
mod compressed;
mod direct;
mod doctor;
mod interrupted;
mod kept;
mod lanes;
mod refused;
mod remote_haul;
mod silence;
mod ssh;
mod strangers;
mod to_all;
mod transfer;
mod unhashed;
