//! `haul server`: the agent with long-lived keys. One process accepts clients, and serves each in a
//! child process. The child becomes the client's user and confines itself to the client's root.
//!
//! # Rooms
//!
//! - `paths.rs`: the paths of the server's files.
//! - `settings.rs`: `server.toml`. `records.rs`: clients and invitations. `keys.rs`: the server's
//!   own keys.
//! - `cache.rs`: the chunk caches of clients. `slots.rs`: limits the jobs of a client.
//! - `run.rs`: the main process. `live_records.rs`: its records. `jobs.rs`: its children.
//!   `child.rs`: the code of one child.
//! - `guest.rs`: both sides of accepting an invitation.
//! - `control.rs`: requests to a running server, over a Unix socket. `audit.rs`: the log.
//!   `system.rs`: systemd. `listening.rs`: addresses and sockets.
//! - `through_ssh.rs`: serves a client that connects through ssh because the server does not
//!   answer.

mod audit;
pub(crate) mod cache;
mod child;
mod control;
mod guest;
mod jobs;
mod keys;
mod listening;
mod live_records;
mod paths;
mod records;
mod run;
mod settings;
pub(crate) mod slots;
mod system;
mod through_ssh;

pub(crate) use self::control::{JobStatus, Request, Status, ask, is_running};
pub(crate) use self::guest::join;
pub(crate) use self::keys::Keys;
pub(crate) use self::listening::{PORT, is_reachable, shown as listens_on};
pub(crate) use self::paths::ServerPaths;
pub(crate) use self::records::{
    Client, INVITATION_SPAN, InvitationRecord, Records, Right, timestamp_now,
};
pub(crate) use self::run::run;
pub(crate) use self::settings::Settings;
pub(crate) use self::system::unit_files;
pub(crate) use self::through_ssh::serve as serve_through_ssh;
