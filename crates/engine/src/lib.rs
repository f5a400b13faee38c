//! The engine: one Sender and one Receiver for every kind of job.

#![forbid(unsafe_code)]

mod job;
mod monitor;
mod request;

pub use job::{CopyJob, JobError, Placement, run};
pub use monitor::{Event, Monitor, Outcome, Progress, Skip, Summary};
pub use request::{RequestError, Requests, serve};
