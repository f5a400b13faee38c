//! What makes a write atomic: a file is staged under a private name or none,
//! proven to hold what it should, and only then published under its own name.

#![forbid(unsafe_code)]

pub mod journal;
mod stage;
mod verified;

pub use stage::{Placement, Publication, Stage, private_name};
pub use verified::{Mismatch, Verified};
