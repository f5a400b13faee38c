//! Authenticated byte streams to other machines. This crate knows no messages: callers give the
//! bytes their meaning and do the greeting.
//!
//! [`connect`] starts the system's `ssh` with `haul serve` as its remote command. It returns a
//! [`Connection`] at once, before the login. The caller greets the peer over it. If the stream ends
//! instead, [`Closer::explain`] returns the cause as a [`ConnectError`]. Other [`Service`]s are the
//! host's SFTP server, for hosts without haul, and a shell that helps to install haul.
//!
//! # Rooms
//!
//! - `ssh.rs`: starts the program.
//! - `target.rs`: checks user, host and `--rsh` before they enter an argument list.
//! - `remote_command.rs`: the line that the remote shell runs, to find haul or to help deploy it.
//!   It consists of constants and the quoted `--remote-haul`.
//! - `cipher.rs`: puts AES-GCM first unless `ssh -G` shows that the user chose ciphers. ssh is
//!   asked once per host, and only before file contents are sent.
//! - `pipe.rs`: the streams to ssh. The outgoing one is a pipe, since content is spliced into it.
//!   The incoming one is a socket, which costs both sides half as much.
//! - `connection.rs`, `process.rs`: end and reap the child.
//! - `interrupt.rs`: releases streams whose other ends another process may hold: those to a program
//!   in place of ssh, and those that were given to this process.
//! - `kept.rs`: connections kept between commands. `kept/holder.rs`: the process that holds one.
//!   `ssh_configuration.rs`: the files of ssh's configuration, which must not change between the
//!   commands, and the hosts that they name.
//! - `identity.rs`: keys. `tls.rs`: TLS settings that all connections share, and the check of the
//!   other side's pinned key.
//! - `direct.rs`: TLS over TCP, past ssh, in one direction at a time. `encryption_rate.rs`:
//!   measures its encryption. `duplex.rs`: TLS in both directions at once. `listen_target.rs`: the
//!   port for direct connections, which may be that of a server.
//! - `gate.rs`: the port of a server and the handshakes of its callers. `server.rs`: how a client
//!   reaches a server. `refusal.rs`: why a server refuses a client. `invitation.rs`: the invitation
//!   line.
//! - `quic.rs`: the same connections to a server by QUIC.
//! - `host_addresses.rs`: which addresses a host may claim as its own.
//! - `stderr.rs`: reads the child's standard error. `timeouts.rs`: timeouts for a peer.
//! - `diagnosis.rs`: turns the child's end into an error (`error.rs`).

#![forbid(unsafe_code)]

mod cipher;
mod connection;
mod diagnosis;
mod direct;
mod duplex;
mod encryption_rate;
mod error;
mod gate;
mod host_addresses;
mod identity;
mod interrupt;
mod invitation;
mod kept;
mod listen_target;
mod pipe;
mod process;
mod quic;
mod refusal;
mod remote_command;
mod server;
mod ssh;
mod ssh_configuration;
mod stderr;
mod target;
mod timeouts;
mod tls;

pub use connection::{Closer, Connection, Killer, SshProcess, Writer, write_both};
pub use diagnosis::CLIENT_LOST_STATUS;
pub use direct::{Direct, DirectCaller, DirectListener};
pub use encryption_rate::DirectCipher;
pub use error::{ConnectError, NO_LOGIN};
pub use gate::{Caller, Gate, GateLimits, Turn, listen_on};
pub use haul_sys::{PacketStats, wait_for_input};
pub use host_addresses::{HostAddresses, check_host_address, check_route_between};
pub use identity::{Identity, InvalidKey, PublicKey, random_seed};
pub use invitation::{Enrolment, InvalidInvitation, Invitation, is_client_name};
pub use kept::{Held, IdleConnections, Keep, connect_kept, hold, list, stop};
pub use listen_target::{Forwarded, Forwarder, ListenTarget};
pub use pipe::enlarge_pipe;
pub use quic::{
    Congestion, QUIC_SOCKETS_MAX, QuicChild, QuicGate, UnknownCongestion, bind_udp,
    check_quic_messages,
};
pub use refusal::Refusal;
pub use remote_command::{DEPLOY_DIR, DEPLOY_MARKER, DEPLOYED_NAME, STAGED_PREFIX, Service};
pub use server::{ConnectOptions, ServerAddress, ServerVia, connect_server};
pub use ssh::{connect, connect_over_shared};
pub use ssh_configuration::configured_hosts;
pub use stderr::Diagnostics;
pub use target::{ExtraLogins, SshTarget};
pub use timeouts::{SILENCE_SECONDS, Timeouts};
