//! Why a server does not serve a client that it talks to.

use crate::ConnectError;

/// Why a server, or an agent in its place, does not serve a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It does not know the client's key, or not any more.
    NotEnrolled,
    /// The client has as many jobs there as it may.
    Busy,
    /// It can't serve the client. Only its log has the reason.
    Unserved,
}

impl Refusal {
    const ALL: [Self; 3] = [Self::NotEnrolled, Self::Busy, Self::Unserved];

    /// The opening of a server that refuses; part of the protocol.
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Busy => 2,
            Self::Unserved => 3,
            Self::NotEnrolled => 4,
        }
    }

    /// The status of an agent in place of a server: `EX_NOPERM`, `EX_TEMPFAIL` or
    /// `EX_UNAVAILABLE` of sysexits.h.
    pub const fn status(self) -> u8 {
        match self {
            Self::NotEnrolled => 77,
            Self::Busy => 75,
            Self::Unserved => 69,
        }
    }

    pub(crate) fn of_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.byte() == byte)
    }

    pub(crate) fn of_status(status: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| i32::from(refusal.status()) == status)
    }

    /// The error of a client that `host` refuses.
    pub(crate) fn error(self, host: String) -> ConnectError {
        match self {
            Self::NotEnrolled => ConnectError::NotEnrolled { host },
            Self::Busy => ConnectError::Busy { host },
            Self::Unserved => ConnectError::Unserved { host },
        }
    }
}
