//! The children of a server: the clients they serve, their reports, and their end.

use super::audit::{Audit, ClientInfo, Event};
use super::child::{CLIENT_LOST, REPORT_LEN_MAX, Report};
use super::control::JobStatus;
use super::records::Client;
use super::slots::Slot;
use haul_engine::Child;
use haul_model::escape_text;
use haul_net::{Forwarder, PublicKey};
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum time for the jobs of a revoked client to end.
pub(super) const REVOKED_MAX: Duration = Duration::from_millis(500);

/// Maximum lifetime of a child that refuses a client or enrolls a guest.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Maximum time for a child to exit after it closed its report pipe.
const EXIT_MAX: Duration = Duration::from_millis(100);

/// Maximum time for a killed child to exit.
const KILLED_MAX: Duration = Duration::from_millis(1);

/// Maximum length of a child's text that is logged, in characters.
const TEXT_CHARS_MAX: usize = 400;

pub(super) struct Job {
    child: Child,
    client_info: ClientInfo,
    /// The client when the job began, and its slot; `None` for guests and refused clients.
    served: Option<(Client, Slot)>,
    /// The key that authenticated the connection.
    pub(super) key: PublicKey,
    since: Instant,
    reports: PipeReader,
    /// Held while connections are forwarded to the child; `None` through ssh.
    _forwarder: Option<Arc<Forwarder>>,
    /// The start of an incomplete line.
    unread: Vec<u8>,
    is_ready: bool,
    /// The time at which the child is killed.
    ends_at: Option<Instant>,
    /// The outcome for the audit log; final once the child has ended.
    pub(super) outcome: &'static str,
}

impl Job {
    pub(super) fn new(
        child: Child,
        client_info: ClientInfo,
        served: Option<(Client, Slot)>,
        key: PublicKey,
        (reports, forwarder): (PipeReader, Option<Arc<Forwarder>>),
        audit: &mut Audit,
    ) -> Self {
        audit.log(&client_info, Event::Connected { pid: child.id() });
        let since = Instant::now();
        let ends_at = served.is_none().then(|| since + IDLE_MAX);
        Self {
            child,
            client_info,
            served,
            key,
            since,
            reports,
            _forwarder: forwarder,
            unread: Vec::new(),
            is_ready: false,
            ends_at,
            outcome: "done",
        }
    }

    /// Asks the child to end, and kills it after `timeout` at the latest.
    pub(super) fn end_within(&mut self, timeout: Duration, outcome: &'static str) {
        let at = Instant::now() + timeout;
        if self.ends_at.is_none_or(|before| at < before) {
            self.ends_at = Some(at);
        }
        self.outcome = outcome;
        // Before the child is ready, the signal could reach the main process instead.
        if self.is_ready {
            let _ = self.child.terminate();
        }
    }

    /// Ends the job soon if the client's record is removed or has other rights.
    pub(super) fn end_if_outdated(&mut self, clients: &[Client]) {
        if let Some((client, _)) = &self.served
            && !clients.iter().any(|known| known.has_same_rights(client))
        {
            self.end_within(REVOKED_MAX, "revoked");
        }
    }
}

#[derive(Default)]
pub(super) struct Jobs(pub(super) Vec<Job>);

impl Jobs {
    /// The number of children for this key. `serving`: those that serve the client, else those that
    /// refuse it or enroll a guest.
    pub(super) fn count(&self, key: &PublicKey, serving: bool) -> usize {
        self.0.iter().filter(|job| job.key == *key && job.served.is_some() == serving).count()
    }

    /// Reads the reports of children whose pipes are `ready`, and kills children whose time is
    /// over.
    pub(super) fn poll(&mut self, ready: &[bool], audit: &mut Audit) {
        let mut ready = ready.iter();
        self.0.retain_mut(|job| job.poll(ready.next().is_some_and(|ready| *ready), audit));
    }

    pub(super) fn kill(&mut self, audit: &mut Audit) {
        // All are killed before any is waited for.
        self.0.iter_mut().for_each(|job| drop(job.child.kill()));
        for mut job in self.0.drain(..) {
            job.outcome = "killed";
            job.reap(audit);
        }
    }
}

impl Job {
    /// Describes the job in the client's slot, which other processes may read.
    pub(super) fn describe(&mut self) {
        let status = self.status();
        if let Some((_, slot)) = &mut self.served {
            // If this fails, the job is served but not listed.
            let _ = slot.describe(&status);
        }
    }

    pub(super) fn status(&self) -> JobStatus {
        JobStatus {
            client: self.client_info.client.clone(),
            from: self.client_info.from,
            pid: self.child.id(),
            seconds: self.since.elapsed().as_secs(),
        }
    }

    /// The report pipe.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }

    /// The time until the child is killed.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.ends_at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Kills the child if its time is over, and reads its reports if the pipe is ready. Returns
    /// false once it has ended.
    pub(super) fn poll(&mut self, is_ready: bool, audit: &mut Audit) -> bool {
        if self.ends_at.take_if(|at| *at <= Instant::now()).is_some() {
            let _ = self.child.kill();
        }
        !is_ready || self.read_reports(audit)
    }

    /// Reads reports. Returns false once the child has ended.
    fn read_reports(&mut self, audit: &mut Audit) -> bool {
        let mut bytes = [0; 4096];
        match self.reports.read(&mut bytes) {
            Ok(len @ 1..) => self.unread.extend_from_slice(&bytes[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Ok(0) | Err(_) => {
                self.reap(audit);
                return false;
            }
        }
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            match serde_json::from_slice(&line) {
                Ok(report) => self.take(report, audit),
                Err(_) => self.outcome = "invalid report",
            }
        }
        if self.unread.len() > REPORT_LEN_MAX {
            self.unread.clear();
            let _ = self.child.kill();
        }
        true
    }

    fn take(&mut self, report: Report, audit: &mut Audit) {
        let shown =
            |text: &str| -> String { escape_text(text).chars().take(TEXT_CHARS_MAX).collect() };
        match report {
            Report::Ready => {
                self.is_ready = true;
                if self.ends_at.is_some() {
                    let _ = self.child.terminate();
                }
            }
            Report::Refused(reason) => {
                self.outcome = "refused";
                self.ends_at.get_or_insert_with(|| Instant::now() + IDLE_MAX);
                audit.log(&self.client_info, Event::Refused { reason: &shown(&reason) });
            }
            Report::Job(mut job) => {
                for text in [&mut job.task, &mut job.role, &mut job.outcome] {
                    *text = shown(text);
                }
                audit.log(&self.client_info, Event::Job(&job));
            }
            Report::Requests(count) => audit.log(&self.client_info, Event::Requests { count }),
            Report::Enrolled(name) => {
                audit.log(&self.client_info, Event::Enrolled { name: &shown(&name) });
            }
        }
    }

    /// Waits for the child, which is about to exit, and logs the end.
    fn reap(&mut self, audit: &mut Audit) {
        let status = match self.child.wait_within(EXIT_MAX) {
            Ok(Some(status)) => status,
            // The child closed its pipe but still runs, or waiting failed.
            Ok(None) | Err(_) => {
                let _ = self.child.kill();
                self.child.wait_within(KILLED_MAX).ok().flatten().flatten()
            }
        };
        self.outcome = match (self.outcome, status) {
            ("done", Some(0)) => "done",
            ("done", Some(CLIENT_LOST)) => "lost",
            ("done", Some(_)) => "failed",
            ("done", None) => "crashed",
            (outcome, _) => outcome,
        };
        let seconds = self.since.elapsed().as_secs();
        audit.log(&self.client_info, Event::Disconnected { seconds, outcome: self.outcome });
    }
}
