//! A client of SFTP version 3, for hosts that have an ssh server and no haul.
//!
//! [`Session::start`] greets the server over a [`haul_net::Connection`]. Any number of threads send
//! requests through clones of its [`Client`]. They share the connection, and one window bounds them
//! all. Requests that can be sent together are a batch, which takes one round trip. A thread need
//! not wait for each round trip: [`RangeReader`] and [`RangeWriter`] keep many requests for one
//! file in flight, [`Puts`] and [`Gets`] many small files. [`PendingAnswer`] is an answer that is
//! taken later. [`Lister`] lists directories ahead, with threads of its own.
//!
//! Everything blocks, without a runtime. Each session has a thread that reads replies, and one that
//! ends the session if the server falls silent. Callers write their requests themselves.
//!
//! Replies are checked and bounded before they are used. A reply that breaks the protocol ends the
//! session, and every caller gets the reason.
//!
//! The crate knows files, not trees. It does not decide which files are copied, and does not guard
//! against links on the way to a path.
//!
//! # Rooms
//!
//! - `codec/`: the packets without I/O: requests to bytes, bytes to replies, every bound.
//! - `session/`: a connection, the thread that receives replies, and the one that limits silence.
//!   `outbox.rs` sends requests. `shared.rs`: requests in flight, and the end of the session.
//!   `activity.rs`: signs of progress, and of a local file that delays it. `port.rs`: one caller's
//!   end. `payload.rs`: content from memory, or spliced from a file.
//! - `client.rs`: operations on paths, and requests whose answer is taken later.
//! - `listing.rs`: operations with many answers, requested ahead: entries of a directory, and
//!   targets of links.
//! - `naming.rs`: renames a complete file into place, the only way to replace an existing file.
//! - `file/`: an open file; `RangeReader` and `RangeWriter` keep many requests for it in flight.
//!   `small/`: `Puts` and `Gets` keep many small files in flight from one thread.
//! - `lister.rs`: lists directories ahead, in threads of its own. `lister/plan.rs`: its order and
//!   its bounds, without threads.
//! - `error.rs`: the failure of a request, or the end of the session.
//!
//! `haul_net::connect` starts the server's subsystem. The engine sends single requests through
//! this crate, and `haul_tree::sftp` is a tree over it.

#![forbid(unsafe_code)]

pub mod codec;

mod client;
mod error;
mod file;
mod lister;
mod listing;
mod naming;
mod session;
mod small;

pub use client::{Client, PendingAnswer};
pub use codec::{Attrs, Extension, FileType, FsStats, Limits, OpenFlags, StatusCode, Times};
pub use error::{Cause, OnlyStaged, SessionError, SftpError, StartError};
pub use file::{AttrsSet, Chunk, RangeReader, RangeWriter, RemoteFile};
pub use lister::Lister;
pub use listing::DirEntry;
pub use naming::Existing;
pub use session::{Options, SLOW_FACTOR, Session};
pub use small::{Get, Gets, Got, Put, Puts, Stored};

/// The result of an operation; by default its error names the file.
type Result<T, E = SftpError> = std::result::Result<T, E>;
