//! Connections to the places that locations name.

use crate::error::CommandError;
use crate::location::Place;
use crate::progress::Screen;
use crate::report::remote_line;
use haul_engine::Requests;
use haul_net::{ConnectError, Connection, SshTarget};
use std::sync::Arc;

/// Connects to `target`; what ssh has to say is shown on `screen`.
pub(crate) fn connect(target: &SshTarget, screen: &Screen) -> Result<Connection, ConnectError> {
    let screen = screen.clone();
    haul_net::connect(target, Arc::new(move |line: &[u8]| screen.line(&remote_line(line))))
}

/// The places that single requests have gone to, one connection for each.
#[derive(Default)]
pub(crate) struct Peers {
    screen: Screen,
    open: Vec<(Place, Requests)>,
}

impl Peers {
    /// No connection yet.
    pub(crate) fn new(screen: Screen) -> Self {
        Self { screen, open: Vec::new() }
    }

    /// Requests to `place`, over the connection that stands or a new one.
    pub(crate) fn at(&mut self, place: &Place) -> Result<&mut Requests, CommandError> {
        let index = match self.open.iter().position(|(open, _)| open == place) {
            Some(index) => index,
            None => {
                let requests = match place {
                    Place::Here => Requests::local(),
                    Place::There(target) => Requests::remote(connect(target, &self.screen)?)?,
                };
                self.open.push((place.clone(), requests));
                self.open.len() - 1
            }
        };
        Ok(&mut self.open[index].1)
    }
}
