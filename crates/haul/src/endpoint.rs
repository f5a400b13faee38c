//! The endpoints at which the haul of a host is reached, and the choice between them.
//!
//! [`Call::connect`] alone chooses. It takes the first [`Endpoint`] of this table, and the second
//! only if the first does not answer:
//!
//! | the user                                    | first              | second               |
//! |---------------------------------------------|--------------------|----------------------|
//! | is enrolled at a server through ssh         | the server         | ssh in its place     |
//! | is enrolled at a server by an invitation    | the server         |                      |
//! | asks for a server (`--via server`)          | the server         |                      |
//! | is enrolled nowhere, or asks for ssh        | a kept connection  | ssh                  |
//!
//! A server that has another key, or refuses this client, has answered: haul then tries nothing
//! weaker. An agent that ssh starts in place of a server serves the client as the server would. If
//! it fails, that counts as a failure of the server, so that haul does not fall back to SFTP
//! ([`haul_net::Connection::as_fallback`]).

use crate::error::Error;
use crate::host::{Host, UseServer};
use crate::servers::{self, EnrolledServer, Login};
use haul_engine::{Greeted, JobError, LinkEvent, OpenConnection, Requests, Session};
use haul_net::{
    ConnectError, ConnectOptions, Diagnostics, ServerVia, Service, SshTarget, Timeouts,
};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum duration of a login after a lost connection. The user may have to enter a password
/// again.
const RELOGIN_MAX: Duration = Duration::from_secs(60);

/// Maximum time in which the agent of a kept connection must greet. If it takes longer, haul opens
/// a new connection.
const GREETING_MAX: Duration = Duration::from_secs(2);

/// A call to a host: its parameters, and who is notified.
pub struct Call<'c> {
    /// The host.
    pub host: &'c Host,
    /// A connection that an earlier command left open may be used.
    pub may_be_kept: bool,
    /// An earlier connection was lost. The login has a short timeout, so that there are further
    /// attempts. The messages of ssh are part of the error if it fails.
    pub is_reconnect: bool,
    /// Contents of files are sent over the connection.
    pub has_content: bool,
    /// Receives the lines of ssh's standard error.
    pub diagnostics: &'c Diagnostics,
    /// Notified if a server is used, or ssh in its place.
    pub on_event: &'c dyn Fn(LinkEvent<'_>),
    /// The server did not greet in an earlier job of this command: ssh is used in its place if
    /// possible.
    pub server_is_silent: bool,
    /// Returns true once the user has cancelled. It is called often.
    pub cancelled: &'c dyn Fn() -> bool,
}

/// An endpoint of a host's haul.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Endpoint {
    /// The agent of an earlier command, whose connection was kept.
    Kept,
    /// An agent that ssh starts.
    Ssh,
    /// A server whose key is known, over this protocol, or the one that serves best.
    Server(EnrolledServer, Option<ServerVia>),
    /// An agent that ssh starts in place of a server.
    SshFallback(Login),
}

/// The first endpoint, and the second if the first does not answer. `None` if a server is required
/// and none is `known`.
fn endpoints(
    server: UseServer,
    known: Option<EnrolledServer>,
    may_be_kept: bool,
) -> Option<(Endpoint, Option<Endpoint>)> {
    Some(match (server, known) {
        (UseServer::Always(via), known) => (Endpoint::Server(known?, via), None),
        (UseServer::IfKnown, Some(known)) => {
            let instead = known.login.clone().map(Endpoint::SshFallback);
            (Endpoint::Server(known, None), instead)
        }
        _ if may_be_kept => (Endpoint::Kept, Some(Endpoint::Ssh)),
        _ => (Endpoint::Ssh, None),
    })
}

impl Endpoint {
    /// True if `error`, of an attempt to connect, means that this endpoint does not answer.
    fn is_silent(&self, error: &Error) -> bool {
        match self {
            Self::Kept => true,
            Self::Server(..) => {
                use ConnectError::{NoServer, Unanswered};
                matches!(error.connection(), Some(NoServer { .. } | Unanswered { .. }))
            }
            Self::Ssh | Self::SshFallback(_) => false,
        }
    }
}

impl Call<'_> {
    /// Connects to the haul of the host, by the table above.
    ///
    /// # Errors
    /// If the host can't be reached, or its server has another key. Two failures show only at the
    /// first read: ssh found no haul ([`ConnectError::is_haul_missing`]), or the server does not
    /// greet ([`ConnectError::Unanswered`]).
    pub fn connect(&self) -> Result<Session, Error> {
        self.try_endpoints(&|endpoint| self.connect_to(endpoint))
    }

    /// Connects, and waits until the haul has greeted.
    ///
    /// # Errors
    /// The errors of [`Self::connect`], and of the greeting.
    pub fn greet(&self) -> Result<Requests, Error> {
        self.try_endpoints(&|endpoint| {
            Ok(Requests::remote_unless(self.connect_to(endpoint)?, self.cancelled)?)
        })
    }

    fn try_endpoints<T>(
        &self,
        attempt: &dyn Fn(&Endpoint) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let server = self.host.server;
        let known = match server {
            UseServer::Never => None,
            _ => servers::find(self.host.name())?,
        };
        let host = &*self.host.to_string();
        let unknown = || Error::usage(format!("{host}: no server of this host is known"));
        let may_be_kept = self.may_be_kept && !self.is_reconnect;
        let (first, second) = endpoints(server, known, may_be_kept).ok_or_else(unknown)?;
        let done = match (&first, &second) {
            (Endpoint::Server(..), Some(_)) if self.server_is_silent => {
                let detail = "it does not greet".to_owned();
                Err(ConnectError::NoServer { host: host.to_owned(), detail }.into())
            }
            _ => attempt(&first),
        };
        let error = done.as_ref().err().and_then(Error::connection);
        if let (Endpoint::Server(..), Some(ConnectError::Unanswered { .. })) = (&first, error) {
            servers::record_availability(self.host.name(), true);
        }
        match (done, second) {
            (Err(away), Some(second)) if first.is_silent(&away) => {
                match first {
                    Endpoint::Server(..) => {
                        (self.on_event)(LinkEvent::ServerUnavailable {
                            host,
                            reason: &away.to_string(),
                        });
                    }
                    _ => tracing::debug!(error = %away, "no kept connection is used"),
                }
                attempt(&second)
            }
            (done, _) => done,
        }
    }

    fn connect_to(&self, endpoint: &Endpoint) -> Result<Session, Error> {
        let host = self.host;
        Ok(match endpoint {
            Endpoint::Kept => {
                let none = || lost(host, "no connection is kept");
                let kept = haul_net::connect_kept(host.ssh(), Arc::clone(self.diagnostics));
                let begun = Instant::now();
                let takes_long = || begun.elapsed() > GREETING_MAX;
                let requests = Requests::remote_unless(kept.ok_or_else(none)?, &takes_long)?;
                greeted(requests, host)?.into()
            }
            Endpoint::Ssh => {
                let (target, diagnostics) = self.login();
                let service = if self.has_content { Service::Agent } else { Service::BriefAgent };
                haul_net::connect(&target, service, diagnostics)?.into()
            }
            Endpoint::Server(known, via) => {
                let identity = servers::identity()?;
                let via = via.unwrap_or_else(|| known.usual_via());
                let (timeouts, congestion) = (host.timeouts(), host.congestion);
                let options =
                    ConnectOptions { timeouts, via, congestion, ..ConnectOptions::default() };
                let connection = known.connect(&identity, options)?;
                let is_quic = connection.closer.is_quic();
                (self.on_event)(LinkEvent::Server { host: &host.to_string(), is_quic });
                connection.into()
            }
            Endpoint::SshFallback(login) => {
                let client = servers::identity()?.key();
                let (target, diagnostics) = self.login();
                login.connect(&target, client, diagnostics)?.into()
            }
        })
    }

    /// The target for ssh, and the receiver of ssh's messages.
    fn login(&self) -> (Cow<'_, SshTarget>, Diagnostics) {
        if !self.is_reconnect {
            // This target remembers ssh's settings.
            return (Cow::Borrowed(self.host.ssh()), Arc::clone(self.diagnostics));
        }
        let silence_max = self.host.timeouts().silence_max;
        let login_max = silence_max.map(|silence| silence.max(RELOGIN_MAX));
        let target = self.host.ssh().clone().with_timeouts(Timeouts { silence_max, login_max });
        (Cow::Owned(target), Arc::new(|_: &[u8]| {}))
    }
}

/// The connection of `requests` to the agent of `host`, for a job.
///
/// # Errors
/// If the agent was lost.
pub(crate) fn greeted(requests: Requests, host: &Host) -> Result<Greeted, JobError> {
    match requests.into_connection() {
        Some(OpenConnection::Agent(greeted)) => Ok(greeted),
        _ => Err(lost(host, "it accepts nothing")),
    }
}

fn lost(host: &Host, detail: &str) -> JobError {
    ConnectError::Lost { host: host.to_string(), detail: detail.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use haul_net::Identity;

    fn known(is_through_ssh: bool) -> EnrolledServer {
        let host = Host::new(Some("ann"), "nas").expect("a host");
        let login = is_through_ssh.then(|| Login::of(&host));
        let key = Identity::new().expect("a key").key();
        EnrolledServer { host: "nas".into(), addresses: Vec::new(), key, login }
    }

    /// The names of the endpoints that are chosen.
    fn chosen(server: UseServer, known: &Option<EnrolledServer>, may_be_kept: bool) -> String {
        let name = |endpoint: Endpoint| match endpoint {
            Endpoint::Kept => "kept".to_owned(),
            Endpoint::Ssh => "ssh".to_owned(),
            Endpoint::Server(_, via) => via.map_or("server".into(), |via| format!("{via:?}")),
            Endpoint::SshFallback(_) => "stand-in".to_owned(),
        };
        match endpoints(server, known.clone(), may_be_kept) {
            None => "refused".to_owned(),
            Some((first, None)) => name(first),
            Some((first, Some(second))) => format!("{}, {}", name(first), name(second)),
        }
    }

    #[test]
    fn a_server_is_taken_if_one_is_known_and_ssh_is_not_asked_for() {
        use UseServer::{Always, IfKnown, Never};
        let (through_ssh, invited) = (Some(known(true)), Some(known(false)));
        for (server, known, wanted) in [
            (Never, &None, "kept, ssh"),
            (Never, &through_ssh, "kept, ssh"),
            (IfKnown, &None, "kept, ssh"),
            (IfKnown, &through_ssh, "server, stand-in"),
            (IfKnown, &invited, "server"),
            (Always(None), &None, "refused"),
            (Always(None), &through_ssh, "server"),
            (Always(Some(ServerVia::Quic)), &through_ssh, "Quic"),
            (Always(Some(ServerVia::Tcp)), &invited, "Tcp"),
        ] {
            assert_eq!(chosen(server, known, true), wanted, "{server:?} {known:?}");
            let new = wanted.strip_prefix("kept, ").unwrap_or(wanted);
            assert_eq!(chosen(server, known, false), new, "{server:?} {known:?}");
        }
    }

    #[test]
    fn nothing_weaker_is_tried_once_a_server_has_answered() {
        let host = || "nas".to_owned();
        let no_server = ConnectError::NoServer { host: host(), detail: String::new() };
        let stored = Identity::new().expect("a key").key().fingerprint();
        let errors: [(Error, bool); 6] = [
            (no_server.into(), true),
            (ConnectError::Unanswered { host: host(), seconds: 15 }.into(), true),
            (ConnectError::ServerKey { host: host(), stored }.into(), false),
            (ConnectError::NotEnrolled { host: host() }.into(), false),
            (ConnectError::Lost { host: host(), detail: String::new() }.into(), false),
            (Error::usage("no key"), false),
        ];
        for (error, is_silent) in errors {
            let server = Endpoint::Server(known(true), None);
            assert_eq!(server.is_silent(&error), is_silent, "{error}");
            assert!(Endpoint::Kept.is_silent(&error), "{error}");
            assert!(!Endpoint::Ssh.is_silent(&error), "{error}");
            assert!(!Endpoint::SshFallback(known(true).login.expect("one")).is_silent(&error));
        }
    }
}
