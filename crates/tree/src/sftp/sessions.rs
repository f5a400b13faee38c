//! The sessions with a host. A job begins with the first of them.

use haul_sftp::Client;
use parking_lot::{Condvar, Mutex};
use std::sync::OnceLock;

/// The sessions with a host: one, and others that join while the job runs. A login takes
/// long, and some take longer than others.
pub struct Sessions {
    /// In the order in which they have joined.
    joined: Vec<OnceLock<Client>>,
    /// How many may still join.
    left: Mutex<usize>,
    changed: Condvar,
}

impl Sessions {
    /// Those of `first` and up to `others` more.
    pub fn new(first: Client, others: usize) -> Self {
        let joined: Vec<_> = (0..=others).map(|_| OnceLock::new()).collect();
        assert!(joined[0].set(first).is_ok(), "it is new");
        Self { joined, left: Mutex::new(others), changed: Condvar::new() }
    }

    /// The session for all requests except the content of files and small files.
    pub fn first(&self) -> &Client {
        self.joined[0].get().expect("set when this was made")
    }

    /// How many there may be in the end.
    pub fn max(&self) -> usize {
        self.joined.len()
    }

    /// Those that have joined.
    pub fn joined(&self) -> impl Iterator<Item = &Client> {
        self.joined.iter().map_while(OnceLock::get)
    }

    /// A number that changes whenever bytes move in one of them; `None` while no request
    /// waits for the server.
    pub fn signs_awaited(&self) -> Option<u64> {
        let awaited = self.joined().filter_map(Client::signs_awaited);
        awaited.reduce(u64::wrapping_add)
    }

    /// True if more may join.
    pub fn are_coming(&self) -> bool {
        *self.left.lock() > 0
    }

    /// A session joins. False after [`Self::close`].
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

    /// An expected session will not join. True if it was still expected.
    pub fn miss(&self) -> bool {
        let mut left = self.left.lock();
        let was_expected = *left > 0;
        *left = left.saturating_sub(1);
        self.changed.notify_all();
        was_expected
    }

    /// No more may join.
    pub fn close(&self) {
        *self.left.lock() = 0;
        self.changed.notify_all();
    }

    /// Waits for the session of this number; `None` if it will not join.
    pub fn wait(&self, index: usize) -> Option<&Client> {
        let session = self.joined.get(index)?;
        let is_to_come = |left: &mut usize| session.get().is_none() && *left > 0;
        self.changed.wait_while(&mut self.left.lock(), is_to_come);
        session.get()
    }
}
