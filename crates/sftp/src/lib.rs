//! A client of SFTP version 3, for hosts that have an ssh server and no haul.
//!
//! [`Session::start`] greets the server over a [`haul_net::Connection`]; its
//! [`Client`], which can be cloned, asks. Any number of threads can ask at once:
//! their requests share the connection, and replies find their way back in
//! whatever order they come. So what costs a round trip costs it only to the
//! thread that waits, and where one thread has much to ask, it need not wait
//! either: [`RangeReader`] and [`RangeWriter`] keep many requests for one file
//! in flight, [`Puts`] and [`Gets`] many small files. [`Later`] is an answer that
//! is on its way, and [`Opening`] a file that is. [`Lister`] lists directories
//! before they are needed, with threads of its own.
//!
//! Blocking, without a runtime: each session has a thread that reads replies
//! and one that sees to it that the server does not fall silent. Requests are
//! written by the threads that make them.
//!
//! What a server sends is checked and bounded before it is believed; what no
//! server may send ends the session, and everyone who waits in it is told.
//!
//! The crate knows files, not trees: nothing here decides what is copied, or
//! guards against links on the way to a path.
//!
//! # Rooms
//!
//! - `codec/`: the packets without I/O: requests to bytes, bytes to replies, every bound.
//! - `session/`: a connection and its requests in flight:
//!   - `outbox.rs`: requests on their way out. `reader.rs`: replies on their way in.
//!   - `shared.rs`: requests in flight, and the end of the session.
//!   - `watch.rs`: silence. `signs.rs`: signs of movement, and of a file of this machine
//!     that holds it up.
//!   - `port.rs`: one asker's end. `payload.rs`: content from memory, or spliced from a
//!     file.
//! - `client.rs`: operations on paths.
//! - `listing.rs`: operations with many answers, asked ahead: entries of a directory, and
//!   targets of links.
//! - `naming.rs`: gives a whole file its name; the one way to replace an existing file.
//! - `later.rs`: requests whose answer is taken later. `opening.rs`: files that are opened
//!   without anybody waiting.
//! - `file/`: an open file; `RangeReader` and `RangeWriter` keep many requests for it in
//!   flight. `small/`: `Puts` and `Gets` keep many small files in flight from one thread.
//! - `lister.rs`: directories that are listed before they are needed, by threads of its
//!   own; `lister/plan.rs`: the order and the bounds, without threads.
//! - `error.rs`: one request's failure, or the session's end.
//!
//! `haul_net::connect_sftp` starts the server's subsystem. The engine asks single requests
//! through this crate, and `haul_tree::sftp` is a tree over it.

#![forbid(unsafe_code)]

pub mod codec;

mod client;
mod error;
mod file;
mod later;
mod lister;
mod listing;
mod naming;
mod opening;
mod session;
mod small;

pub use client::Client;
pub use codec::{Attrs, Extension, FileType, FsStats, Limits, OpenFlags, StatusCode, Times};
pub use error::{Cause, OnlyStaged, SessionError, SftpError, StartError};
pub use file::{AttrsSet, Chunk, RangeReader, RangeWriter, RemoteFile};
pub use later::Later;
pub use lister::Lister;
pub use listing::DirEntry;
pub use naming::Existing;
pub use opening::Opening;
pub use session::{Options, SLOW_FACTOR, Session};
pub use small::{Get, Gets, Got, Put, Puts};
