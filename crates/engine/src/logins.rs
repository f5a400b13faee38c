//! Several sessions with one host, which begin at the same time.

use crate::control::CANCEL_POLL;
use crate::dirs::lock;
use crate::tree::sftp::SftpHost;
use crate::{Event, JobError, Monitor};
use crossbeam_channel::{Receiver, Sender};
use haul_net::{Connection, Killer};
use haul_sftp::{Options, Session, StartError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How long ssh may take to end after it was told to. Nothing depends on it.
const KILLED_WAIT_MAX: Duration = Duration::from_millis(500);

/// Sessions with one host that are on their way. A login takes many round trips,
/// and some take longer than others.
pub(crate) struct Logins {
    news: Receiver<News>,
    /// Those that have failed, and that nobody was told of.
    failed: Vec<StartError>,
    /// How many there were in the beginning.
    count: usize,
    shared: Arc<Shared>,
}

enum News {
    Begun(Result<Session, StartError>),
    /// No more are wanted.
    Over,
}

/// What the threads of the logins have in common.
struct Shared {
    /// What ends those that are still on their way.
    killers: Mutex<Vec<Option<Killer>>>,
    tell: Sender<News>,
}

/// Ends the logins that are still on their way when it is dropped.
pub(crate) struct LoginsEnd(Arc<Shared>);

impl Drop for LoginsEnd {
    fn drop(&mut self) {
        let killers = lock(&self.0.killers);
        killers.iter().flatten().for_each(Killer::kill);
        // ssh gives the terminal back if it was asking for a password.
        for killer in killers.iter().flatten() {
            killer.ends_within(KILLED_WAIT_MAX);
        }
        // Nobody may want to know.
        let _ = self.0.tell.send(News::Over);
    }
}

impl Logins {
    /// Begins a session over each of `connections`, of which there is one at least.
    pub(crate) fn begin(connections: Vec<Connection>, options: Options) -> Self {
        let count = connections.len();
        let killers = connections.iter().map(|it| Some(it.closer.killer())).collect();
        let (tell, news) = crossbeam_channel::unbounded();
        let shared = Arc::new(Shared { killers: Mutex::new(killers), tell });
        for (index, connection) in connections.into_iter().enumerate() {
            let shared = Arc::clone(&shared);
            // Nobody waits for the thread of one that can't be ended.
            thread::spawn(move || {
                let session = Session::start(connection, options);
                lock(&shared.killers)[index] = None;
                // It is dropped, and so ended, if nobody wants it any more.
                let _ = shared.tell.send(News::Begun(session));
            });
        }
        Self { news, failed: Vec::new(), count, shared }
    }

    /// What ends those that are still on their way.
    pub(crate) fn end(&self) -> LoginsEnd {
        LoginsEnd(Arc::clone(&self.shared))
    }

    /// Waits for the session that begins first.
    ///
    /// # Errors
    /// Why none has begun: what the first failure says; [`JobError::Interrupted`].
    pub(crate) fn first(&mut self, monitor: &dyn Monitor) -> Result<Session, JobError> {
        while self.failed.len() < self.count {
            match self.news.recv_timeout(CANCEL_POLL) {
                Ok(News::Begun(Ok(session))) => return Ok(session),
                Ok(News::Begun(Err(error))) => self.failed.push(error),
                _ if monitor.cancelled() => return Err(JobError::Interrupted),
                _ => {}
            }
        }
        Err(self.failed.swap_remove(0).into())
    }

    /// How many may follow the first.
    pub(crate) fn left(&self) -> usize {
        self.count - 1 - self.failed.len()
    }

    /// Lets those that follow join `host` as they begin, until the end comes; gives
    /// those that have joined. The job goes on without those that fail, which is
    /// told.
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
        while let Ok(News::Begun(begun)) = self.news.recv() {
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
