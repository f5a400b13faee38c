//! Further connections of a job, which carry contents alone: its lanes.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The most connections of a job besides its first, which is lane 0.
pub const LANES_MAX: u8 = 7;

/// The public key of one side of direct connections, made for one job (Ed25519, RFC 8032).
pub type DirectKey = [u8; 32];

/// The client's wish for direct connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectWish {
    /// The key of the client, the only one that is let in.
    pub key: DirectKey,
    /// No content may go another way.
    pub is_required: bool,
    /// The first and the last port that may be opened; any if there are none.
    pub ports: Option<(u16, u16)>,
}

/// How the agent of a job is reached directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectOffer {
    /// The agent listens there, for this job alone.
    pub address: SocketAddr,
    /// The key by which it is known.
    pub key: DirectKey,
}

/// The client has an agent call another host, which receives what this one sends in the job
/// that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// No content may go another way.
    pub is_required: bool,
    /// How many connections there shall be, at most [`LANES_MAX`]; 0 leaves it to the agent.
    pub connections: u8,
}

/// The agent's answer to a [`Call`], and news of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Called {
    /// Before the job: by this key the other host knows the caller.
    Key(DirectKey),
    /// So many connections stand.
    Connected(u8),
    /// There is none, or contents go another way from now on: why.
    Failed(String),
    /// Those that stood were lost, and contents must go no other way: why.
    Lost(String),
}

/// Content that has come to a receiver from another host than that of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// Its bytes, at most [`ARRIVED_MAX`].
    pub bytes: u64,
    /// The file that travels in pieces to which the last of them belong, if they do.
    pub index: Option<u64>,
    /// Whole blocks of it.
    pub blocks: u8,
    /// Its length in bytes, where it is not what was listed; told before its outcome.
    pub size: Option<u64>,
}

/// Bytes of content that are told in one [`Arrived`], at most.
pub const ARRIVED_MAX: u64 = 16 << 20;

/// Bytes of a [`JoinSecret`].
pub const JOIN_SECRET_LEN: usize = 16;

/// The secret of one run of a job, by which further logins find it. A client makes a new one
/// for each run, and tells it over connections to the host alone.
pub type JoinSecret = [u8; JOIN_SECRET_LEN];

/// The client's first word on a further connection. On one that is a login of its own the
/// agent of the job repeats it, without the secret, when the lane has joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// The number of the lane that it is: 1 to [`LANES_MAX`], each once.
    pub lane: u8,
    /// The job that it joins, where the connection does not say that.
    pub secret: Option<JoinSecret>,
}

/// How much of a lane has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The number of the lane.
    pub lane: u8,
    /// Frames that were taken from it, but for Alive.
    pub frames: u64,
    /// Nothing more is taken from it: what else was sent over it has to be sent again.
    pub is_over: bool,
}

/// Nothing more can be sent over this lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneOver {
    /// Its number.
    pub lane: u8,
}
