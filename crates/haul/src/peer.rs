//! Connections to the places that locations name.

use crate::error::CommandError;
use crate::location::Place;
use crate::progress::Screen;
use crate::report::{Report, remote_line};
use haul_engine::{JobError, Requests};
use haul_net::{ConnectError, Connection, Diagnostics, SshTarget};
use std::sync::Arc;

/// What is done where a host turns out to have no haul.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithoutHaul {
    /// It fails.
    Fail,
    /// It goes on through the host's SFTP server, and that is told.
    GoOn,
    /// It goes on, and nothing is said of it.
    GoOnQuietly,
}

/// Connects to `target`; what ssh has to say is shown on `screen`.
pub(crate) fn connect(target: &SshTarget, screen: &Screen) -> Result<Connection, ConnectError> {
    haul_net::connect(target, diagnostics(screen))
}

/// Connects to the SFTP server of `target`.
pub(crate) fn connect_sftp(
    target: &SshTarget,
    screen: &Screen,
) -> Result<Connection, ConnectError> {
    haul_net::connect_sftp(target, diagnostics(screen))
}

/// Shows on `screen` what ssh has to say.
pub(crate) fn diagnostics(screen: &Screen) -> Diagnostics {
    let screen = screen.clone();
    Arc::new(move |line: &[u8]| screen.line(&remote_line(line)))
}

/// The places that single requests have gone to, one connection for each.
pub(crate) struct Peers {
    screen: Screen,
    without_haul: WithoutHaul,
    open: Vec<(Place, Requests)>,
}

impl Peers {
    /// No connection yet.
    pub(crate) fn new(screen: Screen, without_haul: WithoutHaul) -> Self {
        Self { screen, without_haul, open: Vec::new() }
    }

    /// Requests to `place`, over the connection that stands or a new one.
    pub(crate) fn at(
        &mut self,
        place: &Place,
        report: &mut Report,
    ) -> Result<&mut Requests, CommandError> {
        let index = match self.open.iter().position(|(open, _)| open == place) {
            Some(index) => index,
            None => {
                let requests = match place {
                    Place::Here => Requests::local(),
                    Place::There(target) => self.agent(target, report)?,
                    Place::Sftp(target) => self.sftp(target)?,
                };
                self.open.push((place.clone(), requests));
                self.open.len() - 1
            }
        };
        Ok(&mut self.open[index].1)
    }

    /// Requests to the haul of a host, or to its SFTP server if it has none.
    fn agent(&self, target: &SshTarget, report: &mut Report) -> Result<Requests, CommandError> {
        let missing = match connect(target, &self.screen)
            .map_err(JobError::from)
            .and_then(Requests::remote)
        {
            Err(JobError::Connection(error)) if error.lacks_haul() => error,
            answer => return Ok(answer?),
        };
        if self.without_haul == WithoutHaul::Fail {
            return Err(missing.into());
        }
        match self.sftp(target) {
            Ok(requests) => {
                if self.without_haul == WithoutHaul::GoOn {
                    let host = target.display();
                    report.warning(host.as_bytes(), "no haul there: going on through SFTP");
                }
                Ok(requests)
            }
            // That would have been of help; it is not what is wrong.
            Err(neither) => {
                let error = CommandError::from(missing);
                Err(error.with_hint(format!("SFTP is of no help either: {neither}")))
            }
        }
    }

    fn sftp(&self, target: &SshTarget) -> Result<Requests, JobError> {
        Requests::sftp(connect_sftp(target, &self.screen)?)
    }
}
