//! Copies and synchronises files, on one machine and between machines: verified, crash-safe and
//! resumable. The program `haul` is built on this library.
//!
//! ```
//! use haul::{Copy, Location, Silent};
//!
//! # let dir = tempfile::tempdir()?;
//! # let [photos, backup] = ["photos", "backup"].map(|name| dir.path().join(name));
//! # std::fs::create_dir(&photos)?;
//! # std::fs::write(photos.join("one"), "1")?;
//! let photos = Location::from(photos); // or "nas:photos".parse()?
//! let summary = Copy::new([photos], backup.clone().into()).run(&Silent::default())?;
//! assert_eq!((summary.copied, summary.failed), (1, 0));
//! # assert_eq!(std::fs::read(backup.join("one"))?, b"1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Requests
//!
//! | to | build | as on the command line |
//! |---|---|---|
//! | copy files and directories | [`struct@Copy`] | `haul copy -r` |
//! | make a directory like another | [`Sync`] | `haul sync -a` |
//! | move files and directories | [`Move`] | `haul move` |
//! | compare without a change | [`Check`] | `haul check -r` |
//!
//! A [`Location`] is a local path (`From<PathBuf>`), or is parsed from text, which may also name a
//! host: `[user@]host:path`, `ssh://[user@]host[:port]/path`, `sftp://...`. haul connects to the
//! host's haul server if this user is enrolled there, else through ssh. A host without haul is used
//! through its SFTP server.
//!
//! Each request has `run`, which blocks until the request ends and returns a [`Summary`]. Then its
//! connections are closed. To use them for several requests, create a [`Session`] and call
//! `run_in`.
//!
//! # Failures
//!
//! A file that can't be read does not end a request: it is reported as an event, and counted in
//! [`Summary::failed`]. An [`Error`] ends the request, or its part for one of several hosts: see
//! [`Error::kind`]. After either, run the same request again: it skips finished files and resumes
//! an unfinished large file.
//!
//! # Events, progress and cancellation
//!
//! `run` takes a [`Monitor`], which serves one request at a time. [`Silent`] ignores all events. A
//! monitor of your own receives each [`Event`], and can read the counters of its [`Progress`] at
//! any time. It cancels the request by returning `true` from [`Monitor::cancelled`]. Several
//! threads of the request call it at once.
//!
//! Five examples are in `examples/`: `copy.rs` (a progress bar), `mirror.rs` (a dry run first),
//! `upload.rs` (one connection for several requests), `verify.rs` and `events.rs`.
//!
//! # Limits
//!
//! - Linux; other systems are only type-checked.
//! - Each process that runs requests raises its limit of open files to the maximum that the system
//!   allows.
//! - The chunk cache, the keys of this user and the journals of uploads are in directories that
//!   environment variables name: see [`state`].
//!
//! Public modules and hidden items serve the program `haul`. They may change in any version.
//!
//! # Rooms
//!
//! - `jobs.rs`: the builders. `request.rs`: the requests that they build, and the jobs of a
//!   request. `mirror.rs`, `moving.rs`: what is special to a mirror and to a move.
//!   `routed_jobs.rs`: runs the jobs. `session.rs`: the connections that they share.
//! - `location.rs`: the forms of a location. `host.rs`: a host, and the settings for connecting to
//!   it.
//! - `endpoint.rs`: chooses an endpoint and connects. `retry.rs`: runs a job again after a lost
//!   connection. `peer.rs`: connections for single requests. `hosts.rs`: runs
//!   jobs, also between two hosts. Both use a host's SFTP server if it has no haul
//!   (`ConnectError::is_haul_missing`).
//! - `servers.rs`: the servers that this user is enrolled at. `files.rs`: files of this user.
//!   `state.rs`: the user's directories.
//! - `deploy.rs`: installs haul on a host over two logins, SFTP and a shell. `deploy/host.rs`: asks
//!   for the host's system, and runs the upload until it greets. `deploy/place.rs`: the directory,
//!   which only the user can change. `deploy/error.rs`: its errors.
//! - `doctor.rs`: measures a host and the connection to it.
//! - `error.rs`: why a request ends early.

#![forbid(unsafe_code)]

pub mod deploy;
pub mod doctor;
mod endpoint;
mod error;
pub mod files;
mod host;
mod hosts;
mod jobs;
mod location;
mod mirror;
mod moving;
mod peer;
mod request;
mod retry;
mod routed_jobs;
pub mod servers;
mod session;
pub mod state;

pub use deploy::DeployError;
pub use error::{Error, ErrorKind};
pub use haul_engine::{
    Change, Event, FaultLocation, JobError, LinkEvent, Monitor, Outcome, Progress, RoutedJob,
    Silent, Skip, Summary,
};
pub use haul_model::{
    Changes, Compression, Conflict, ContentHash, Entry, Fault, FaultKind, FilterError, Kind,
    Naming, Side, Task, escape_bytes,
};
pub use haul_net::{ConnectError, Diagnostics};
pub use host::Host;
pub use jobs::{Check, Copy, Move, Sync};
pub use location::{Location, LocationError, LocationProblem, Machine};
pub use session::Session;

// Items that only the program uses.
#[doc(hidden)]
pub use {
    endpoint::Call,
    host::{RETRIES, UseServer, WithoutHaul},
    hosts::{Hosts, Questions},
    location::parse_host,
    mirror::use_dir_contents,
    peer::{AnsweringHost, HostConnection, Peers},
    request::{DeleteTiming, Ready, Request, TransferOptions, Unmatched},
    retry::{ReportedOnce, WarnOnce, is_stream},
    routed_jobs::{JobObserver, Next, in_parts, run_routed_jobs},
};
