//! Several sessions with one host, started at the same time.

use crate::control::CANCEL_POLL;
use crate::{Event, JobError, Monitor};
use crossbeam_channel::{Receiver, Sender};
use haul_net::{Connection, Killer};
use haul_sftp::{Options, Session, SessionError, StartError};
use haul_tree::sftp::SftpHost;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// How long a finished job waits for unfinished logins. Some servers treat an aborted login as an
/// attack: OpenSSH 9.8 and later block an address after many of those (`PerSourcePenalties`).
const LOGIN_WAIT_MAX: Duration = Duration::from_secs(1);

/// How long ssh may take to end after it was asked to, and then after it was killed.
const KILLED_WAIT_MAX: Duration = Duration::from_millis(500);

/// Sessions with one host that are being opened. A login takes many round trips, and some take
/// longer than others.
pub(crate) struct SftpLogins {
    events: Receiver<LoginEvent>,
    /// Failures that were not reported yet.
    failed: Vec<StartError>,
    /// The number of logins at the start.
    count: usize,
    shared: Arc<PendingLogins>,
}

enum LoginEvent {
    Begun(Box<Result<Session, StartError>>),
    /// No more sessions are wanted.
    Over,
}

/// State that the threads of the logins share.
struct PendingLogins {
    /// Handles that end the unfinished logins.
    killers: Mutex<Vec<Option<Killer>>>,
    /// Notified when a login has finished.
    changed: Condvar,
    notify: Sender<LoginEvent>,
}

/// Ends the unfinished logins when it is dropped.
pub(crate) struct LoginsEnd(Arc<PendingLogins>);

impl LoginsEnd {
    /// Gives the logins a moment after a successful job, then ends them.
    pub(crate) fn end_after_grace(self) {
        let mut killers = self.0.killers.lock();
        let on_their_way = |killers: &mut Vec<_>| killers.iter().any(Option::is_some);
        self.0.changed.wait_while_for(&mut killers, on_their_way, LOGIN_WAIT_MAX);
    }
}

impl Drop for LoginsEnd {
    fn drop(&mut self) {
        let killers: Vec<Killer> = self.0.killers.lock().iter().flatten().cloned().collect();
        // First ssh is asked to end, so that it restores the terminal after a password prompt. Then
        // it is killed.
        for _ in 0..2 {
            killers.iter().for_each(Killer::kill);
            let deadline = Instant::now() + KILLED_WAIT_MAX;
            let left = || deadline.saturating_duration_since(Instant::now());
            if killers.iter().filter(|killer| !killer.wait_for_exit(left())).count() == 0 {
                break;
            }
        }
        // The receiving end may be closed.
        let _ = self.0.notify.send(LoginEvent::Over);
    }
}

impl PendingLogins {
    /// Records that login `index` has finished.
    fn begun(&self, index: usize, session: Result<Session, StartError>) {
        self.killers.lock()[index] = None;
        self.changed.notify_all();
        // If the receiving end is closed, the session is dropped and ends.
        let _ = self.notify.send(LoginEvent::Begun(Box::new(session)));
    }
}

impl SftpLogins {
    /// Starts a session over each of `connections`. There is at least one, unless `open_session` is
    /// set.
    pub(crate) fn begin(
        open_session: Option<Session>,
        connections: Vec<Connection>,
        options: Options,
    ) -> Self {
        let count = connections.len() + usize::from(open_session.is_some());
        let killers = connections.iter().map(|it| Some(it.closer.killer())).collect();
        let (notify, events) = crossbeam_channel::unbounded();
        let shared = Arc::new(PendingLogins {
            killers: Mutex::new(killers),
            changed: Condvar::new(),
            notify,
        });
        if let Some(session) = open_session {
            let _ = shared.notify.send(LoginEvent::Begun(Box::new(Ok(session))));
        }
        for (index, connection) in connections.into_iter().enumerate() {
            let host = connection.closer.peer().to_owned();
            let starting = Arc::clone(&shared);
            let start = move || starting.begun(index, Session::start(connection, options));
            // Nobody waits for a thread that can't be ended. Without a thread, the connection ends
            // with its closure.
            let begun = thread::Builder::new().name("login".to_owned()).spawn(start);
            if let Err(error) = begun {
                let cause = SessionError::from(error);
                shared.begun(index, Err(StartError::Session { host, cause }));
            }
        }
        Self { events, failed: Vec::new(), count, shared }
    }

    /// Ends the unfinished logins when the result is dropped.
    pub(crate) fn end_on_drop(&self) -> LoginsEnd {
        LoginsEnd(Arc::clone(&self.shared))
    }

    /// Waits for the first session.
    ///
    /// # Errors
    /// The first failure if all logins failed; [`JobError::Interrupted`].
    pub(crate) fn first(&mut self, monitor: &dyn Monitor) -> Result<Session, JobError> {
        while self.failed.len() < self.count {
            match self.events.recv_timeout(CANCEL_POLL) {
                Ok(LoginEvent::Begun(begun)) => match *begun {
                    Ok(session) => return Ok(session),
                    Err(error) => self.failed.push(error),
                },
                _ if monitor.cancelled() => return Err(JobError::Interrupted),
                _ => {}
            }
        }
        Err(self.failed.swap_remove(0).into())
    }

    /// The number of sessions that may follow the first.
    pub(crate) fn left(&self) -> usize {
        self.count - 1 - self.failed.len()
    }

    /// Adds further sessions to `host` as they are opened, until the end. Returns those that have
    /// joined. The job continues without failed ones, which are reported.
    pub(crate) fn join(self, host: &SftpHost, monitor: &dyn Monitor) -> Vec<Session> {
        let asking = &monitor.progress().peer.asking;
        let notify = |error: &StartError| {
            // An interrupted ssh is not reported.
            if monitor.cancelled() {
                return;
            }
            let message =
                format!("one of {} connections failed: continuing without it: {error}", self.count);
            monitor.event(Event::Warning {
                side: None,
                path: host.lost.host().as_bytes(),
                message: &message,
            });
        };
        self.failed.iter().for_each(notify);
        let mut joined = Vec::new();
        loop {
            asking.store(host.sessions.expects_more(), Ordering::Relaxed);
            let Ok(LoginEvent::Begun(begun)) = self.events.recv() else { break };
            match *begun {
                Ok(session) if host.sessions.join(session.client().clone()) => {
                    joined.push(session);
                }
                Err(error) if host.sessions.record_missing() => notify(&error),
                // The job has ended.
                Ok(session) => session.finish(),
                Err(_) => {}
            }
        }
        asking.store(false, Ordering::Relaxed);
        joined
    }
}
