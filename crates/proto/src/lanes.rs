//! Lanes: further connections of a job, which carry only contents.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Maximum number of connections of a job besides the first, which is lane 0.
pub const LANES_MAX: u8 = 7;

/// The public key of one side of direct connections, created for one job (Ed25519, RFC 8032).
pub type DirectKey = [u8; 32];

/// The client's request for direct connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectWish {
    /// The key of the client, the only one that is accepted.
    pub key: DirectKey,
    /// Contents must not be sent over other connections.
    pub is_required: bool,
    /// The first and the last port that may be opened. `None` allows any.
    pub ports: Option<(u16, u16)>,
}

/// The address and key for direct connections to the agent of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectOffer {
    /// The address where the agent listens, for this job only.
    pub address: SocketAddr,
    /// The key of the agent.
    pub key: DirectKey,
}

/// The client's request that an agent call another host. That host receives what this agent sends
/// in the next job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Contents must not be sent over other connections.
    pub is_required: bool,
    /// Number of connections, at most [`LANES_MAX`]. 0 lets the agent choose.
    pub connections: u8,
}

/// The agent's answer to a [`Call`], and later reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Called {
    /// Before the job: the key by which the other host recognises the caller.
    Key(DirectKey),
    /// This number of connections is open.
    Connected(u8),
    /// There is no connection, or contents are sent over others from now on. With the reason.
    Failed(String),
    /// All connections were lost, and contents must not be sent over others. With the reason.
    Lost(String),
}

/// Content that a Receiver got from another host than the client's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// Number of bytes, at most [`ARRIVED_MAX`].
    pub bytes: u64,
    /// The file of the last bytes, if they are pieces of one.
    pub index: Option<u64>,
    /// Number of whole blocks of it.
    pub blocks: u8,
    /// Its length in bytes if it differs from the listing. Sent before its outcome.
    pub size: Option<u64>,
}

/// Maximum number of files that have begun in pieces and not ended.
pub const INCOMING_MAX: usize = 64;

/// Maximum number of content bytes in one [`Arrived`].
pub const ARRIVED_MAX: u64 = 16 << 20;

/// Length of a [`JoinSecret`] in bytes.
pub const JOIN_SECRET_LEN: usize = 16;

/// The secret of one run of a job, by which further logins find it. A client creates a new one for
/// each run, and sends it only over connections to the host.
pub type JoinSecret = [u8; JOIN_SECRET_LEN];

/// The client's first message on a further connection. If the connection is a login of its own, the
/// job's agent repeats the message, without the secret, when the lane has joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// The number of the lane: 1 to [`LANES_MAX`], each once.
    pub lane: u8,
    /// The secret of the job, if the connection does not identify it.
    pub secret: Option<JoinSecret>,
}

/// The amount that arrived over a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The number of the lane.
    pub lane: u8,
    /// Number of frames that were received, without Alive.
    pub frames: u64,
    /// Nothing more is received: everything else that was sent over the lane must be sent again.
    pub is_over: bool,
}

/// A lane over which nothing more can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneOver {
    /// The number of the lane.
    pub lane: u8,
}
