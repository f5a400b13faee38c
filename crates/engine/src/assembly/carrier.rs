//! A connection that carries a lane: a direct connection or a login.

use crate::link::wire::READ_AHEAD;
use crate::watchdog::{Watchdog, WatchedReader};
use haul_net::{Closer, Connection, Direct, Killer, Timeouts, Writer};
use haul_sys::{Giver, HandedOver};
use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;
use std::time::Duration;

/// A connection, before content goes over it.
pub(super) enum Carrier {
    /// A connection that bypasses ssh.
    Direct(Box<Direct>),
    /// A connection through ssh.
    Login(Box<Login>),
}

/// A login for one lane, as either side has it.
pub(super) struct Login {
    pub(super) input: PeerInput,
    pub(super) output: Writer,
    /// Notices that the peer is silent.
    pub(super) watchdog: Arc<Watchdog>,
    /// Somebody polls `watchdog` already.
    pub(super) is_watched: bool,
    pub(super) closer: Closer,
    /// The process that handed over the streams.
    pub(super) giver: Option<Giver>,
}

/// The rest of a connection, which is kept until its lane has ended.
#[derive(Default)]
#[expect(dead_code, reason = "they end when they are dropped, in this order")]
pub(super) struct LaneRemainder {
    /// Nothing is read from it, but ssh would end if it could not write.
    input: Option<PeerInput>,
    output: Option<Writer>,
    closer: Option<Closer>,
    giver: Option<Giver>,
}

/// A lane that receives content.
pub(super) struct LaneInput {
    pub(super) input: PeerInput,
    pub(super) watchdog: Arc<Watchdog>,
    pub(super) is_watched: bool,
    pub(super) rest: LaneRemainder,
}

impl Carrier {
    /// A login that another process has handed over.
    ///
    /// # Errors
    /// The errors of `fcntl` and `pipe`.
    pub(super) fn given(given: HandedOver, silence_max: Option<Duration>) -> io::Result<Self> {
        let HandedOver { input, output, giver, .. } = given;
        let Connection { reader, writer, closer } = Connection::from_streams(input, output)?;
        let watchdog = Watchdog::new(Timeouts::default());
        watchdog.greeted(silence_max);
        let input = watch_reader(reader, &watchdog);
        let (is_watched, giver) = (false, Some(giver));
        let login = Login { input, output: writer, watchdog, is_watched, closer, giver };
        Ok(Self::Login(Box::new(login)))
    }

    /// A handle that ends the connection from another thread.
    ///
    /// # Errors
    /// When the descriptor can't be duplicated.
    pub(super) fn killer(&self) -> io::Result<Killer> {
        match self {
            Self::Direct(direct) => direct.killer(),
            Self::Login(login) => Ok(login.closer.killer()),
        }
    }

    /// True if the connection bypasses ssh.
    pub(super) fn is_direct(&self) -> bool {
        matches!(self, Self::Direct(_))
    }

    /// The round trip of a direct connection. `None` for a login, which is of the same kind as the
    /// job's first connection.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        match self {
            Self::Direct(direct) => Some(direct.round_trip()),
            Self::Login(_) => None,
        }
    }

    /// Turns the connection into its output.
    pub(super) fn into_output(self) -> (Writer, LaneRemainder) {
        match self {
            Self::Direct(direct) => (direct.into_writer(), LaneRemainder::default()),
            Self::Login(login) => {
                let Login { input, output, closer, giver, .. } = *login;
                let (input, closer) = (Some(input), Some(closer));
                (output, LaneRemainder { input, output: None, closer, giver })
            }
        }
    }

    /// Turns the connection into its input, after sending `greeting`.
    ///
    /// # Errors
    /// When the greeting can't be sent.
    pub(super) fn into_input(
        self,
        greeting: &[u8],
        silence_max: Option<Duration>,
    ) -> io::Result<LaneInput> {
        match self {
            Self::Direct(mut direct) => {
                direct.write_all(greeting)?;
                let watchdog = Watchdog::new(Timeouts::default());
                watchdog.greeted(silence_max);
                let input = watch_reader(direct, &watchdog);
                Ok(LaneInput { input, watchdog, is_watched: false, rest: LaneRemainder::default() })
            }
            Self::Login(login) => {
                let Login { input, mut output, watchdog, is_watched, closer, giver } = *login;
                output.write_all(greeting)?;
                output.flush()?;
                let (output, closer) = (Some(output), Some(closer));
                let rest = LaneRemainder { input: None, output, closer, giver };
                Ok(LaneInput { input, watchdog, is_watched, rest })
            }
        }
    }
}

/// A stream from a peer.
pub(crate) type PeerInput = BufReader<WatchedReader<Box<dyn Read + Send>>>;

/// Buffers `reader`; `watchdog` notices its silence.
pub(crate) fn watch_reader(reader: Box<dyn Read + Send>, watchdog: &Arc<Watchdog>) -> PeerInput {
    BufReader::with_capacity(READ_AHEAD, watchdog.watch_reader(reader))
}
