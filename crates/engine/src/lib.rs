//! The engine: one Sender and one Receiver for every kind of job.

#![forbid(unsafe_code)]

mod agent;
mod aside;
mod clean;
mod control;
mod copy;
mod crew;
mod deploy;
mod digest;
mod dirs;
mod itself;
mod job;
mod link;
mod logins;
mod mark;
mod monitor;
mod origin;
mod pool;
mod receiver;
mod relocate;
mod remote;
mod request;
mod roles;
mod run;
mod sender;
mod sftp;
mod vigil;
mod walk;
mod workers;

pub use agent::{Rights, serve, serve_with, stay_below};
pub use clean::{CleanEvent, CleanRules, clean};
pub use deploy::{Change, DeployError, Deployed, Program, Suspect, Undeployed, deploy, undeploy};
pub use haul_model::{Outcome, Skip, Summary};
pub use haul_store::{Cleaned, Fate, remove_unpublished};
pub use haul_sys::{Memory, spare_address_space};
pub use itself::{Near, is_onto_itself};
pub use job::{CopyJob, JobError, Placement};
pub use monitor::{Event, Monitor, Progress};
pub use origin::origin;
pub use relocate::{Relocated, find_source, relocate};
pub use request::{ListedEntry, RequestError, Requests};
pub use run::run;
pub use sftp::SftpRoute;
