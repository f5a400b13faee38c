//! The engine: one Sender and one Receiver for every kind of job.

#![forbid(unsafe_code)]

mod job;
mod monitor;
mod request;

pub use job::{CopyJob, JobError, Placement, run};
pub use haul_model::{Outcome, Skip, Summary};
pub use monitor::{Event, Monitor, Progress};
pub use request::{RequestError, Requests, serve};
