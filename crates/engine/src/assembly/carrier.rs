//! A connection that carries a lane: a direct one, or a login of its own.

use super::wire::{FromPeer, listen};
use crate::vigil::Vigil;
use haul_net::{Closer, Connection, Direct, Killer, Patience, Writer};
use haul_sys::{Giver, HandedOver};
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// A connection, before content goes over it.
pub(super) enum Carrier {
    /// Past ssh.
    Direct(Box<Direct>),
    /// Through ssh.
    Login(Box<Login>),
}

/// A login of its own, as either side has it.
pub(super) struct Login {
    pub(super) input: FromPeer,
    pub(super) output: Writer,
    /// Notices that the peer is silent.
    pub(super) vigil: Arc<Vigil>,
    /// Somebody looks at that already.
    pub(super) is_watched: bool,
    pub(super) closer: Closer,
    /// The process that has handed it over.
    pub(super) giver: Option<Giver>,
}

/// The rest of a connection, which stays until its lane has ended.
#[derive(Default)]
#[expect(dead_code, reason = "they end when they are dropped, in this order")]
pub(super) struct Rest {
    /// Nothing is read from it, and ssh would end if it had nowhere to write.
    input: Option<FromPeer>,
    output: Option<Writer>,
    closer: Option<Closer>,
    giver: Option<Giver>,
}

/// A lane by which content comes.
pub(super) struct Inlet {
    pub(super) input: FromPeer,
    pub(super) vigil: Arc<Vigil>,
    pub(super) is_watched: bool,
    pub(super) rest: Rest,
}

impl Carrier {
    /// A login that another process has handed over.
    ///
    /// # Errors
    /// Those of `fcntl` and `pipe`.
    pub(super) fn given(given: HandedOver, silence_max: Option<Duration>) -> io::Result<Self> {
        let HandedOver { input, output, giver, .. } = given;
        let Connection { reader, writer, closer } = Connection::of_streams(input, output)?;
        let vigil = Vigil::new(Patience::default());
        vigil.greeted(silence_max);
        let input = listen(reader, &vigil);
        let (is_watched, giver) = (false, Some(giver));
        let login = Login { input, output: writer, vigil, is_watched, closer, giver };
        Ok(Self::Login(Box::new(login)))
    }

    /// Ends it from another thread.
    ///
    /// # Errors
    /// When no second descriptor can be had.
    pub(super) fn killer(&self) -> io::Result<Killer> {
        match self {
            Self::Direct(direct) => direct.killer(),
            Self::Login(login) => Ok(login.closer.killer()),
        }
    }

    /// True if it does not go through ssh.
    pub(super) fn is_direct(&self) -> bool {
        matches!(self, Self::Direct(_))
    }

    /// The time in which the other side answers, where the connection is of another kind than
    /// the first of the job.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        match self {
            Self::Direct(direct) => Some(direct.round_trip()),
            Self::Login(_) => None,
        }
    }

    /// The way out.
    pub(super) fn into_output(self) -> (Writer, Rest) {
        match self {
            Self::Direct(direct) => (direct.into_writer(), Rest::default()),
            Self::Login(login) => {
                let Login { input, output, closer, giver, .. } = *login;
                let (input, closer) = (Some(input), Some(closer));
                (output, Rest { input, output: None, closer, giver })
            }
        }
    }

    /// The way in, when `greeting` was said.
    ///
    /// # Errors
    /// When it can't be said.
    pub(super) fn into_input(
        self,
        greeting: &[u8],
        silence_max: Option<Duration>,
    ) -> io::Result<Inlet> {
        match self {
            Self::Direct(mut direct) => {
                direct.write_all(greeting)?;
                let vigil = Vigil::new(Patience::default());
                vigil.greeted(silence_max);
                let input = listen(direct, &vigil);
                Ok(Inlet { input, vigil, is_watched: false, rest: Rest::default() })
            }
            Self::Login(login) => {
                let Login { input, mut output, vigil, is_watched, closer, giver } = *login;
                output.write_all(greeting)?;
                output.flush()?;
                let (output, closer) = (Some(output), Some(closer));
                let rest = Rest { input: None, output, closer, giver };
                Ok(Inlet { input, vigil, is_watched, rest })
            }
        }
    }
}
