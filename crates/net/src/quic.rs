//! QUIC (RFC 9000) between a client and a server, with the keys and settings of their TLS
//! connections. One bidirectional stream of a QUIC connection carries the bytes of a job.
//!
//! The state machine does no I/O. One thread of the client's process, and one process of the
//! server, move datagrams between it and the UDP sockets, and bytes between its stream and a pair
//! of Unix sockets. The job has the other ends of the pair, as an ordinary [`crate::Connection`].
//!
//! - `config.rs`: windows, timeouts and congestion control.
//! - `udp.rs`: a UDP socket. `driver.rs`: the loop over sockets and connections.
//! - `link.rs`: moves bytes between a stream and the pair. `ends.rs`: the job's ends.
//! - `client.rs`: the client's thread.
//! - `host.rs`: the server's process. `messages.rs`: messages between it and the main process.
//! - `gate.rs`: the main process's side.

mod client;
mod config;
mod driver;
mod ends;
mod gate;
mod host;
mod link;
mod messages;
mod udp;

pub(crate) use self::client::call;
pub use self::config::{Congestion, UnknownCongestion};
pub(crate) use self::ends::Ends;
pub use self::gate::{QuicChild, QuicGate};
pub(crate) use self::messages::Setup;
pub use self::messages::{SOCKETS_MAX as QUIC_SOCKETS_MAX, check_quic_messages};
pub use self::udp::bind_udp;

#[cfg(test)]
pub(crate) mod tests;
