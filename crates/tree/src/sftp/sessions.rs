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
    left: Mutex<usize>,
    changed: Condvar,
}

impl Sessions {
    /// The session `first`, with up to `others` more.
    pub fn new(first: Client, others: usize) -> Self {
        let joined: Vec<_> = (0..=others).map(|_| OnceLock::new()).collect();
        assert!(joined[0].set(first).is_ok(), "it is new");
        Self { joined, left: Mutex::new(others), changed: Condvar::new() }
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
    pub fn signs_awaited(&self) -> Option<u64> {
        let awaited = self.joined().filter_map(Client::signs_awaited);
        awaited.reduce(u64::wrapping_add)
    }

    /// True if more may join.
    pub fn are_coming(&self) -> bool {
        *self.left.lock() > 0
    }

    /// Adds a session. Returns false after [`Self::close`].
    pub fn join(&self, client: Client) -> bool {
        let mut left = self.left.lock();
        if *left == 0 {
            return false;
        }
        let next = self.joined().count();
        assert!(self.joined[next].set(client).is_ok(), "they join one by one");
        *left -= 1;
        self.changed.notify_all();
        true
    }

    /// Reports that an expected session will not join. Returns true if it was still expected.
    pub fn miss(&self) -> bool {
        let mut left = self.left.lock();
        let was_expected = *left > 0;
        *left = left.saturating_sub(1);
        self.changed.notify_all();
        was_expected
    }

    /// Lets no more sessions join.
    pub fn close(&self) {
        *self.left.lock() = 0;
        self.changed.notify_all();
    }

    /// Waits for session number `index`; `None` if it will not join.
    pub fn wait(&self, index: usize) -> Option<&Client> {
        let session = self.joined.get(index)?;
        let is_to_come = |left: &mut usize| session.get().is_none() && *left > 0;
        self.changed.wait_while(&mut self.left.lock(), is_to_come);
        session.get()
    }
}
