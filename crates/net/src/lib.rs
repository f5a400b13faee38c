//! Authenticated byte streams to other machines. Knows no messages: what the
//! bytes mean, and how the two ends greet each other, is the caller's.
//!
//! [`connect`] starts the system's `ssh` with `haul serve` as its remote
//! command and hands back a [`Connection`] at once, before anyone has logged
//! in. The caller greets the peer over it. If that ends in an end of file,
//! [`Closer::explain`] tells why, as a [`ConnectError`], which says what the
//! user can act on. [`connect_sftp`] does the same with the SFTP server
//! that most ssh servers have, for hosts without haul, and [`connect_deploy`]
//! with a shell that helps to put haul there.
//!
//! # Rooms
//!
//! - `ssh.rs`: starts the program.
//! - `target.rs`: checks user, host and `--rsh` before they stand in an argument list.
//! - `remote_command.rs`: the one line that the other machine's shell sees, to find haul
//!   or to help to deploy it: constants, and `--remote-haul` quoted.
//! - `cipher.rs`: puts AES-GCM first unless `ssh -G` shows that the user chose ciphers. It
//!   is asked once for each host, and only before contents of files go there.
//! - `pipe.rs`: the stream between: a pipe to ssh, since content is spliced into it, and
//!   a socket from ssh, which costs both sides half as much.
//! - `connection.rs`, `process.rs`: end and reap the child.
//! - `cut.rs`: lets go of streams whose other ends somebody else may hold: those to a
//!   program in place of ssh, and those that were given to this process.
//! - `kept.rs`: connections that stay between commands; `kept/holder.rs`: the process that
//!   holds one. `ssh_configuration.rs`: the files of ssh's configuration, which must be the same
//!   for the next command, and the hosts that they name.
//! - `identity.rs`: keys. `tls.rs`: what all connections over TLS have in common;
//!   `tls/pinned.rs`: the other side's key is known before.
//! - `direct.rs`: TLS over TCP, past ssh, in one direction at a time; `sealing.rs`: how fast it
//!   can be encrypted. `duplex.rs`: TLS in both directions at once. `doorway.rs`: the port on
//!   which direct connections come, which may be that of a server.
//! - `gate.rs`: the port of a server, and the handshakes of all who call it. `server.rs`: how a
//!   client reaches a server; `refusal.rs`: why it is not served. `invitation.rs`: the line that
//!   invites one.
//! - `quic.rs`: the same connections to a server by QUIC.
//! - `whereabouts.rs`: which addresses a host may name as its own.
//! - `stderr.rs`: listens to the child. `patience.rs`: how long a peer is waited for.
//! - `diagnosis.rs`: turns how the child ended into an error (`error.rs`).

#![forbid(unsafe_code)]

mod cipher;
mod connection;
mod cut;
mod diagnosis;
mod direct;
mod doorway;
mod duplex;
mod error;
mod gate;
mod identity;
mod invitation;
mod kept;
mod patience;
mod pipe;
mod process;
mod quic;
mod refusal;
mod remote_command;
mod sealing;
mod server;
mod ssh;
mod ssh_configuration;
mod stderr;
mod target;
mod tls;
mod whereabouts;

pub use connection::{Closer, Connection, Killer, Onlooker, Writer, await_input};
pub use diagnosis::CLIENT_LOST_STATUS;
pub use direct::{Direct, DirectCaller, DirectListener};
pub use doorway::{Doorway, Forwarded, Forwarder};
pub use error::{ConnectError, NO_LOGIN};
pub use gate::{Caller, Gate, GateLimits, Turn, listen_on};
pub use haul_sys::Measured;
pub use identity::{Identity, NotAKey, PublicKey, fresh_seed};
pub use invitation::{BadInvitation, Enrolment, Invitation, is_client_name};
pub use kept::{Held, Keep, Resting, hold, list, stop};
pub use patience::{Patience, SILENCE_SECONDS};
pub use pipe::enlarge_pipe;
pub use quic::{
    Congestion, NotACongestion, QUIC_SOCKETS_MAX, QuicChild, bind_udp, check_quic_messages,
};
pub use refusal::Refusal;
pub use remote_command::{DEPLOY_DIR, DEPLOY_MARKER, DEPLOYED_NAME, STAGED_PREFIX};
pub use sealing::DirectCipher;
pub use server::{Reaching, ServerAddress, ServerVia, connect_server};
pub use ssh::{
    Further, connect, connect_briefly, connect_deploy, connect_kept, connect_over_shared,
    connect_server_command, connect_sftp,
};
pub use ssh_configuration::configured_hosts;
pub use stderr::Diagnostics;
pub use target::SshTarget;
pub use whereabouts::{Whereabouts, check_call_between, check_plain};
