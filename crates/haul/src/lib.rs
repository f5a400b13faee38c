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
//! A [`Location`] is a path here (`From<PathBuf>`), or is read from text, which may also name a
//! host: `[user@]host:path`, `ssh://[user@]host[:port]/path`, `sftp://...`. The host is reached
//! by its haul server if this user is enrolled there, else through ssh. Where there is no haul,
//! its SFTP server serves.
//!
//! Each request has `run`, which blocks until all is done and gives a [`Summary`]. Its
//! connections are closed then; to use them for several requests, make a [`Session`] and call
//! `run_in`.
//!
//! # Failures
//!
//! One file that can't be read does not end a request: it is an event, and counts in
//! [`Summary::failed`]. An [`Error`] ends it, or the part of it that goes to one of several
//! hosts: see [`Error::kind`]. Run the same request again after any of them. Finished files are
//! skipped, and an unfinished large file is continued.
//!
//! # Events, progress and cancellation
//!
//! `run` takes a [`Monitor`], which serves one request at a time. [`Silent`] ignores all events. One of your own has a [`Progress`] whose
//! counters it may read at any time, gets each [`Event`], and cancels the request by answering
//! [`Monitor::cancelled`] with `true`. Several threads of the request call it at once.
//!
//! Five examples are in `examples/`: `copy.rs` (a progress bar), `mirror.rs` (a dry run first),
//! `upload.rs` (one connection for several requests), `verify.rs` and `events.rs`.
//!
//! # Limits
//!
//! - Linux; other systems are only type-checked.
//! - Each process that runs requests raises its limit of open files to what the system allows.
//! - The chunk cache, the keys of this user and the journals of uploads are in the directories
//!   that the environment names: see [`state`].
//!
//! Modules and hidden items are what the program needs besides: they may change in any version.
//!
//! # Rooms
//!
//! - `jobs.rs`: the builders; `request.rs`: what they build, and the jobs that it becomes;
//!   `mirror.rs`, `moving.rs`: of a mirror, of a move; `missing.rs`: sources that are not there.
//!   `legs.rs`: runs the jobs. `session.rs`: the connections that they share.
//! - `location.rs`: the forms of a place. `host.rs`: a host, and all that is said about the way
//!   there.
//! - `endpoint.rs`: connects, and chooses how; `retry.rs`: again, when a connection was lost;
//!   `peer.rs`: the hosts that single requests go to, and their connections. `hosts.rs`: runs
//!   jobs (`hosts/between.rs`: between two hosts), and turns to a host's SFTP server when
//!   there is no haul (`ConnectError::lacks_haul`), as `peer.rs` does for single requests.
//! - `servers.rs`: the servers that this user is enrolled at. `files.rs`: files of this user.
//!   `state.rs`: the user's directories.
//! - `deploy.rs`: puts haul onto a host, through an SFTP session and a shell that becomes
//!   what was uploaded; `deploy/program.rs`: the upload; `deploy/host.rs`: asks the host
//!   what it is, and the upload for its greeting; `deploy/place.rs`: the directory, which
//!   must be the user's alone; `deploy/error.rs`: why it failed.
//! - `doctor.rs`: measures a host, and the connection to it; `doctor/lanes.rs`: the direct
//!   connections.
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
mod legs;
mod location;
mod mirror;
mod missing;
mod moving;
mod peer;
mod request;
mod retry;
pub mod servers;
mod session;
pub mod state;

pub use deploy::DeployError;
pub use error::{Error, ErrorKind};
pub use haul_engine::{
    At, Change, Event, JobError, Leg, LinkEvent, Monitor, Outcome, Progress, Silent, Skip, Summary,
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

// What the program needs besides.
#[doc(hidden)]
pub use {
    endpoint::{Call, UseServer},
    host::{RETRIES, WithoutHaul},
    hosts::{Hosts, Questions},
    legs::{Course, Next, in_parts, run_legs},
    location::parse_host,
    mirror::take_what_is_in,
    missing::left_out,
    peer::{Answering, Peers, WayThere},
    request::{Passage, Ready, Request, Unmatched, When},
    retry::{Once, ToldOnce, is_stream},
};
