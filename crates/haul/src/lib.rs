//! Copies and synchronises files, on one machine and between machines.

#![forbid(unsafe_code)]

mod endpoint;
mod error;
pub mod files;
mod host;
mod hosts;
mod location;
mod peer;
mod retry;
pub mod servers;
pub mod state;

pub use endpoint::{Call, UseServer};
pub use error::{Error, ErrorKind};
pub use haul_engine::Summary;
pub use host::{Host, WithoutHaul};
pub use hosts::{Hosts, Questions};
pub use location::{Location, LocationError, LocationProblem, Machine, parse_host};
pub use peer::{Answering, Peers, WayThere};
pub use retry::{Once, ToldOnce, is_stream};
