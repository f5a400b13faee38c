//! The sessions with a host. A job starts with the first one.

use haul_sftp::Client;
use parking_lot::{Condvar, Mutex};
use std::sync::OnceLock;

/// The sessions with a host: the first one, and others that join during the job. Logins take long,
/// and not all equally long.
pub struct Sessions {
    /// In the order of joining.
    joined: Vec<OnceLock<Client>>,
    /// How many may still join.
    expected: Mutex<usize>,
    changed: Condvar,
}

impl Sessions {
    /// The session `first`, with up to `others` more.
    pub fn new(first: Client, others: usize) -> Self {
        let joined: Vec<_> = (0..=others).map(|_| OnceLock::new()).collect();
        assert!(joined[0].set(first).is_ok(), "it is new");
        Self { joined, expected: Mutex::new(others), changed: Condvar::new() }
    }

    /// The session for all requests except the content of files and small files.
    pub fn first(&self) -> &Client {
        self.joined[0].get().expect("set when this was made")
    }

    /// The number of sessions if all join.
    pub fn max(&self) -> usize {
        self.joined.len()
    }

    /// The sessions that have joined.
    pub fn joined(&self) -> impl Iterator<Item = &Client> {
        self.joined.iter().map_while(OnceLock::get)
    }

    /// A number that changes whenever bytes move in any session; `None` while no request waits for
    /// the server.
    pub fn activity_awaited(&self) -> Option<u64> {
        let awaited = self.joined().filter_map(Client::activity_awaited);
        awaited.reduce(u64::wrapping_add)
    }

    /// True if more may join.
    pub fn expects_more(&self) -> bool {
        *self.expected.lock() > 0
    }

    /// Adds a session. Returns false after [`Self::close`].
    pub fn join(&self, client: Client) -> bool {
        let mut expected = self.expected.lock();
        if *expected == 0 {
            return false;
        }
        let next = self.joined().count();
        assert!(self.joined[next].set(client).is_ok(), "they join one by one");
        *expected -= 1;
        self.changed.notify_all();
        true
    }

    /// Reports that an expected session will not join. Returns true if it was still expected.
    pub fn record_missing(&self) -> bool {
        let mut expected = self.expected.lock();
        let was_expected = *expected > 0;
        *expected = expected.saturating_sub(1);
        self.changed.notify_all();
        was_expected
    }

    /// Lets no more sessions join.
    pub fn close(&self) {
        *self.expected.lock() = 0;
        self.changed.notify_all();
    }

    /// Waits for session number `index`; `None` if it will not join.
    pub fn wait(&self, index: usize) -> Option<&Client> {
        let session = self.joined.get(index)?;
        let is_expected = |expected: &mut usize| session.get().is_none() && *expected > 0;
        self.changed.wait_while(&mut self.expected.lock(), is_expected);
        session.get()
    }
}
