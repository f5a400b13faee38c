//! Transfers small files to and from a host's server. One thread transfers many at a time in each
//! session, so that no file costs a round trip of its own.

use super::attrs::attrs_for;
use super::settling::is_near_to_now;
use super::{SftpHost, join};
use crate::TreeDir;
use crate::budget::Share;
use haul_model::{Attributes, Kept, Name, Timestamp};
use haul_sftp::{Cause, Client, Extension, Gets, Got, Puts, SftpError};
use haul_store::{OnExisting, Publication};
use std::io;

/// Budget for a small file besides its content, in bytes.
const OVERHEAD_LEN: usize = 4 << 10;

/// A session with a host, for small files.
pub struct Lane<'h> {
    pub(super) host: &'h SftpHost,
    pub(super) client: &'h Client,
}

/// A small file whose content is in memory.
pub struct SmallFile<'a> {
    /// The file's final name.
    pub name: &'a Name,
    /// The whole content.
    pub content: Vec<u8>,
    /// The file's final attributes.
    pub attributes: &'a Attributes,
    /// The parts of `attributes` to set.
    pub kept: Kept,
    /// How to treat an existing entry of that name.
    pub on_existing: OnExisting,
    /// Makes it durable before it is published, where supported.
    pub sync: bool,
    /// Reads it back before it is published.
    pub verify: bool,
}

/// Why a small file was not sent.
#[derive(Debug)]
pub enum PutError {
    /// The storage has other content than was sent; described in words.
    Corrupt(String),
    /// An operation has failed.
    Failed {
        /// The operation, as in "can't make the file".
        operation: &'static str,
        /// The cause.
        error: io::Error,
    },
}

/// Sends small files through one session, each with a key of its caller. If it is dropped with
/// files in flight, their temporary files are removed while the host is reachable.
pub struct Uploads<'h, K> {
    host: &'h SftpHost,
    /// Each with its directory.
    puts: Puts<(Vec<u8>, K)>,
}

impl<'h, K> Uploads<'h, K> {
    /// Sends files through the session of `lane`.
    pub fn new(lane: Lane<'h>) -> Self {
        Self { host: lane.host, puts: Puts::new(lane.client) }
    }

    /// Starts a file in `dir`. While too many files are in flight, it works on these first.
    ///
    /// # Errors
    /// The key, if the directory could not be created, or is in another tree.
    pub fn push(&mut self, key: K, dir: &dyn TreeDir, file: SmallFile<'_>) -> Result<(), K> {
        let is_ready = dir.pending_creation().is_none_or(|created| created().is_ok());
        let Some(dir) = dir.remote_path().filter(|_| is_ready) else { return Err(key) };
        let SmallFile { name, content, attributes, kept, on_existing, sync, verify } = file;
        let host = self.host;
        self.puts.push(haul_sftp::Put {
            key: (dir.to_vec(), key),
            stage: join(dir, host.stage_name().as_bytes()),
            path: join(dir, name.as_bytes()),
            content,
            attrs: attrs_for(attributes, kept),
            needs_attributes: host.needs_times,
            existing: host.existing(dir, name, on_existing),
            sync: sync && host.client().has(Extension::Fsync),
            verify,
        });
        Ok(())
    }

    /// The next file that has finished or failed, in any order. With `waits`, waits for it, and
    /// returns `None` only if none is in flight. [`Publication::Kept`] means that the name exists.
    pub fn next_done(&mut self, waits: bool) -> Option<(K, Result<Publication, PutError>)> {
        let done = if waits { self.puts.next_done() } else { self.puts.try_next_done() };
        let ((dir, key), stored) = done?;
        let outcome = match stored {
            Ok(stored) => {
                self.host.results.record(stored);
                Ok(Publication::Published)
            }
            Err(SftpError { cause: Cause::NameExists, .. }) => Ok(Publication::Kept),
            Err(SftpError { cause: cause @ (Cause::Differs | Cause::Length { .. }), .. }) => {
                Err(PutError::Corrupt(cause.to_string()))
            }
            Err(error) => {
                let operation = error.operation;
                let failed = self.host.check_write(&dir, Err(error));
                failed.map_err(|error| PutError::Failed { operation, error })
            }
        };
        Some((key, outcome))
    }
}

/// Fetches small files through one session, each with a key of its caller.
pub struct Downloads<'h, K> {
    host: &'h SftpHost,
    /// Each with its length, in bytes, and its room.
    gets: Gets<(u64, Share, K)>,
}

impl<'h, K> Downloads<'h, K> {
    /// Fetches files through the session of `lane`.
    pub fn new(lane: Lane<'h>) -> Self {
        Self { host: lane.host, gets: Gets::new(lane.client) }
    }

    /// Starts the file `name` in `dir`, which must be a directory of the tree, of `len` bytes. If
    /// none is in flight, waits for room until `stopped` returns true. Returns the key if there is
    /// no room.
    pub fn push(
        &mut self,
        key: K,
        (dir, name): (&dyn TreeDir, &Name),
        len: u64,
        stopped: &dyn Fn() -> bool,
    ) -> Option<K> {
        let room = len as usize + OVERHEAD_LEN;
        let share = match self.host.small.try_take(room) {
            Some(share) => Some(share),
            None if self.gets.pending() > 0 => None,
            // This lane holds no share that others wait for. If the job ends early, arrived files
            // are not taken, and their shares are not returned.
            None => self.host.small.take_unless(room, stopped),
        };
        let (Some(share), Some(dir)) = (share, dir.remote_path()) else { return Some(key) };
        let (key, path) = ((len, share, key), join(dir, name.as_bytes()));
        // At least one byte, since an empty file may have grown.
        self.gets.push(haul_sftp::Get { key, path, len: len.max(1) as u32 });
        None
    }

    /// The next file that has arrived, in any order. With `waits`, waits for it, and returns `None`
    /// only if none is in flight. The file is `None` if its length is not `len`, it has changed
    /// meanwhile, or it can't be read. Opening it reports the cause.
    pub fn next_done(&mut self, waits: bool) -> Option<(K, Option<Fetched>)> {
        let done = if waits { self.gets.next_done() } else { self.gets.try_next_done() };
        let ((len, share, key), got) = done?;
        let got = got.inspect_err(|error| self.host.record_loss(error)).ok();
        let fetched = got.and_then(|got| fetched(got, len, share));
        Some((key, fetched.filter(|fetched| self.shows_changes(fetched))))
    }

    /// False if the content was read in parts, between which it may have changed without a change
    /// of its time.
    fn shows_changes(&self, Fetched { content, mtime, .. }: &Fetched) -> bool {
        content.len() <= self.host.client().read_len() || !is_near_to_now(*mtime)
    }
}

/// A small file that has arrived. It occupies its room until it is dropped.
pub struct Fetched {
    /// The whole content.
    pub content: Vec<u8>,
    /// The time when the content last changed.
    pub mtime: Timestamp,
    pub(crate) _share: Share,
}

/// The file, if all `len` bytes have arrived and it has not changed during reading.
fn fetched(got: Got, len: u64, _share: Share) -> Option<Fetched> {
    let modified = |attrs: &haul_sftp::Attrs| attrs.times.map(|times| times.modified);
    let is_complete = got.content.len() as u64 == len
        && !got.has_more
        && [&got.before, &got.after].iter().all(|attrs| attrs.size == Some(len))
        && modified(&got.before) == modified(&got.after);
    let mtime = Timestamp { secs: modified(&got.after).unwrap_or(0).into(), nanos: 0 };
    is_complete.then_some(Fetched { content: got.content, mtime, _share })
}
