//! Why a server refuses a client.

use crate::ConnectError;

/// Why a server, or an agent in its place, refuses a client. The value is the byte that opens a
/// refusing server's stream; part of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// The client runs as many jobs there as it may.
    Busy = 2,
    /// It can't serve the client. The reason is only in its log.
    Unserved = 3,
    /// It does not know the client's key, or no longer.
    NotEnrolled = 4,
}

impl Refusal {
    const ALL: [Self; 3] = [Self::NotEnrolled, Self::Busy, Self::Unserved];

    /// The exit status of an agent in place of a server: `EX_NOPERM`, `EX_TEMPFAIL` or
    /// `EX_UNAVAILABLE` of sysexits.h.
    pub const fn status(self) -> u8 {
        match self {
            Self::NotEnrolled => 77,
            Self::Busy => 75,
            Self::Unserved => 69,
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| *refusal as u8 == byte)
    }

    pub(crate) fn from_status(status: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| i32::from(refusal.status()) == status)
    }

    /// The client's error for this refusal by `host`.
    pub(crate) fn error(self, host: String) -> ConnectError {
        match self {
            Self::NotEnrolled => ConnectError::NotEnrolled { host },
            Self::Busy => ConnectError::Busy { host },
            Self::Unserved => ConnectError::Unserved { host },
        }
    }
}
