//! A connection to an agent, which answers requests and then takes a job.

use super::Greeted;
use haul_net::{Closer, Connection};

/// A connection to an agent.
pub enum Session {
    /// The agent has not greeted. It greets with its first answer, which saves a round trip.
    New(Connection),
    /// The agent has greeted, and answered all requests.
    Greeted(Greeted),
}

impl Session {
    pub(crate) fn closer(&self) -> &Closer {
        match self {
            Self::New(connection) => &connection.closer,
            Self::Greeted(greeted) => &greeted.closer,
        }
    }
}

impl From<Connection> for Session {
    fn from(connection: Connection) -> Self {
        Self::New(connection)
    }
}

impl From<Greeted> for Session {
    fn from(greeted: Greeted) -> Self {
        Self::Greeted(greeted)
    }
}
