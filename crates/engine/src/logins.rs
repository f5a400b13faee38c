//! Several sessions with one host, which begin at the same time.

use crate::dirs::lock;
use crate::tree::sftp::SftpHost;
use crate::{Event, JobError, Monitor};
use crossbeam_channel::Receiver;
use haul_net::{Connection, Killer};
use haul_sftp::{Options, Session, StartError};
use std::sync::{Arc, Mutex};
use std::thread::Scope;

/// Sessions with one host that are on their way. A login takes many round trips,
/// and some take longer than others.
pub(crate) struct Logins {
    begun: Receiver<Result<Session, StartError>>,
    /// Those that have failed, and that nobody was told of.
    failed: Vec<StartError>,
    /// How many there were in the beginning.
    count: usize,
    killers: Arc<Killers>,
}

/// What ends the logins that are still on their way.
pub(crate) struct Killers(Mutex<Vec<Option<Killer>>>);

impl Killers {
    /// Ends them.
    pub(crate) fn kill(&self) {
        lock(&self.0).iter().flatten().for_each(Killer::kill);
    }
}

impl Logins {
    /// Begins a session over each of `connections`.
    pub(crate) fn begin<'scope>(
        scope: &'scope Scope<'scope, '_>,
        connections: Vec<Connection>,
        options: Options,
    ) -> Self {
        let count = connections.len();
        let killers = connections.iter().map(|it| Some(it.closer.killer())).collect();
        let killers = Arc::new(Killers(Mutex::new(killers)));
        let (tell, begun) = crossbeam_channel::bounded(count);
        for (index, connection) in connections.into_iter().enumerate() {
            let (tell, killers) = (tell.clone(), Arc::clone(&killers));
            scope.spawn(move || {
                let session = Session::start(connection, options);
                lock(&killers.0)[index] = None;
                // There is room for all.
                let _ = tell.send(session);
            });
        }
        Self { begun, failed: Vec::new(), count, killers }
    }

    /// What ends those that are still on their way.
    pub(crate) fn killers(&self) -> Arc<Killers> {
        Arc::clone(&self.killers)
    }

    /// Waits for the session that begins first.
    ///
    /// # Errors
    /// Why none has begun: what the first failure says.
    pub(crate) fn first(&mut self) -> Result<Session, JobError> {
        for begun in &self.begun {
            match begun {
                Ok(session) => return Ok(session),
                Err(error) => self.failed.push(error),
            }
        }
        Err(self.failed.swap_remove(0).into())
    }

    /// How many may follow the first.
    pub(crate) fn left(&self) -> usize {
        self.count - 1 - self.failed.len()
    }

    /// Lets those that follow join `host` as they begin, until it takes no more of
    /// them; gives those that have joined. The job goes on without those that
    /// fail, which is told.
    pub(crate) fn join(self, host: &SftpHost, monitor: &dyn Monitor) -> Vec<Session> {
        let tell = |error: &StartError| {
            let message = format!(
                "one of {} connections could not be made, and the job goes on without it: {error}",
                self.count
            );
            monitor.event(Event::Warning { path: host.name(), message: &message });
        };
        self.failed.iter().for_each(tell);
        let mut joined = Vec::new();
        for begun in self.begun {
            match begun {
                Ok(session) if host.sessions().join(session.client().clone()) => {
                    joined.push(session);
                }
                Err(error) if host.sessions().miss() => tell(&error),
                // The job is over.
                _ => {}
            }
        }
        joined
    }
}
