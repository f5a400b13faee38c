//! Content that this machine already has.

pub(crate) mod bases;
pub(crate) mod begun;
pub(crate) mod chunks;
mod renamed;
mod similar;
mod versions;

pub(crate) use begun::Begun;
pub(crate) use chunks::Chunks;
pub(crate) use renamed::{Old, Renames};
pub(crate) use versions::Signing;
