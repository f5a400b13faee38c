//! Transfers small files to and from a host's server. One thread transfers many at a time in each
//! session, so that no file costs a round trip of its own.

use super::settling::is_near_to_now;
use super::{SftpDir, SftpHost, times_of};
use crate::budget::Share;
use haul_model::{Attributes, Kept, Name, Timestamp};
use haul_sftp::{Cause, Client, Extension, Gets, Got, Puts, SftpError};
use haul_store::{OnExisting, Publication};
use std::collections::HashMap;
use std::io;

/// Budget for a small file besides its content, in bytes.
const OVERHEAD_LEN: usize = 4 << 10;

/// A small file whose content is in memory.
pub struct SmallFile<'a> {
    /// The file's final name.
    pub name: &'a Name,
    /// The whole content.
    pub content: Vec<u8>,
    /// The file's final attributes.
    pub attributes: &'a Attributes,
    /// How to treat an existing entry of that name.
    pub on_existing: OnExisting,
    /// Makes it durable before it is published, where supported.
    pub sync: bool,
    /// Reads it back before it is published.
    pub verify: bool,
}

/// A small file, ready for [`Uploads`].
pub struct Put {
    /// The directory, as the storage names it.
    dir: Vec<u8>,
    put: haul_sftp::Put<Vec<u8>>,
}

/// A small file, ready for [`Downloads`].
pub struct Get {
    pub(crate) path: Vec<u8>,
    pub(crate) len: u64,
}

impl Put {
    /// Prepares `file`, which belongs in `dir`.
    pub(super) fn of(dir: &SftpDir, file: SmallFile<'_>) -> Self {
        let SmallFile { name, content, attributes, on_existing, sync, verify } = file;
        let Attributes { mode, mtime, .. } = attributes.over(0, Kept::OF_COPIES);
        let put = haul_sftp::Put {
            key: 0,
            stage: dir.path_of(dir.host.records.stage_name().as_bytes()),
            path: dir.path_of(name.as_bytes()),
            content,
            mode,
            times: times_of(mtime),
            needs_attributes: dir.host.needs_times,
            existing: dir.host.existing(&dir.path, name, on_existing),
            sync: sync && dir.host.client().has(Extension::Fsync),
            verify,
        };
        Self { dir: dir.path_of(b"."), put }
    }
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

/// Sends small files through one session. If it is dropped with files in flight, their temporary
/// files are removed while the host is reachable.
pub struct Uploads<'h> {
    host: &'h SftpHost,
    puts: Puts<Vec<u8>>,
    /// The directories of the files in flight.
    dirs: HashMap<u64, Vec<u8>>,
}

impl<'h> Uploads<'h> {
    pub(super) fn new(host: &'h SftpHost, client: &Client) -> Self {
        Self { host, puts: Puts::new(client), dirs: HashMap::new() }
    }

    fn outcome(
        &mut self,
        (key, result): (u64, Result<(), SftpError>),
    ) -> (u64, Result<Publication, PutError>) {
        let dir = self.dirs.remove(&key).unwrap_or_default();
        if self.puts.has_lost_time {
            self.host.results.record_lost_times();
        }
        if self.puts.has_lost_attributes {
            self.host.results.record_lost_attributes();
        }
        let outcome = match result {
            Ok(()) => Ok(Publication::Published),
            Err(SftpError { cause: Cause::NameExists, .. }) => Ok(Publication::Kept),
            Err(SftpError { cause: cause @ (Cause::Differs | Cause::Length { .. }), .. }) => {
                Err(PutError::Corrupt(cause.to_string()))
            }
            Err(error) => {
                let operation = error.operation;
                let failed = |error| PutError::Failed { operation, error };
                self.host
                    .check_write(&dir, Err(error))
                    .map(|()| Publication::Published)
                    .map_err(failed)
            }
        };
        (key, outcome)
    }

    /// Starts a file, which the caller calls `key`. While too many files are in flight, it works on
    /// these first.
    pub fn push(&mut self, key: u64, Put { dir, put }: Put) {
        self.dirs.insert(key, dir);
        self.puts.push(haul_sftp::Put { key, ..put });
    }

    /// Waits for the next file that has finished or failed, in any order. `None` if none is in
    /// flight. [`Publication::Kept`] means that the name exists.
    pub fn next_done(&mut self) -> Option<(u64, Result<Publication, PutError>)> {
        let done = self.puts.next_done()?;
        Some(self.outcome(done))
    }

    /// Like [`Self::next_done`], without waiting.
    pub fn try_next_done(&mut self) -> Option<(u64, Result<Publication, PutError>)> {
        let done = self.puts.try_next_done()?;
        Some(self.outcome(done))
    }
}

/// Fetches small files through one session.
pub struct Downloads<'h> {
    host: &'h SftpHost,
    gets: Gets,
    asked: HashMap<u64, (u64, Share)>,
}

impl<'h> Downloads<'h> {
    pub(super) fn new(host: &'h SftpHost, client: &Client) -> Self {
        Self { host, gets: Gets::new(client), asked: HashMap::new() }
    }

    fn outcome(&mut self, (key, result): (u64, Result<Got, SftpError>)) -> (u64, Option<Fetched>) {
        let asked = self.asked.remove(&key);
        let got = result.inspect_err(|error| self.host.record_loss(error)).ok();
        let fetched = got.zip(asked).and_then(|(got, (len, share))| fetched(got, len, share));
        (key, fetched.filter(|fetched| self.shows_changes(fetched)))
    }

    /// False if the content was read in parts, between which it may have changed without a change
    /// of its time.
    fn shows_changes(&self, Fetched { content, mtime, .. }: &Fetched) -> bool {
        content.len() <= self.host.client().read_len() || !is_near_to_now(*mtime)
    }

    /// Starts a file, which the caller calls `key`. If none is in flight, waits for room until
    /// `stopped` returns true. Returns false if there is no room.
    pub fn push(&mut self, key: u64, Get { path, len }: Get, stopped: &dyn Fn() -> bool) -> bool {
        let room = len as usize + OVERHEAD_LEN;
        let share = match self.host.small.try_take(room) {
            Some(share) => Some(share),
            None if self.gets.pending() > 0 => None,
            // This lane holds no share that others wait for. If the job ends early, arrived files
            // are not taken, and their shares are not returned.
            None => self.host.small.take_unless(room, stopped),
        };
        let Some(share) = share else { return false };
        // At least one byte, since an empty file may have grown.
        self.gets.push(haul_sftp::Get { key, path, len: len.max(1) as u32 });
        self.asked.insert(key, (len, share));
        true
    }

    /// Waits for the next file that has arrived, in any order. `None` if none is in flight. The
    /// file is `None` if its length is not `len`, it has changed meanwhile, or it can't be read.
    /// Opening it reports the cause.
    pub fn next_done(&mut self) -> Option<(u64, Option<Fetched>)> {
        let done = self.gets.next_done()?;
        Some(self.outcome(done))
    }

    /// Like [`Self::next_done`], without waiting.
    pub fn try_next_done(&mut self) -> Option<(u64, Option<Fetched>)> {
        let done = self.gets.try_next_done()?;
        Some(self.outcome(done))
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
        && [&got.before, &got.after].iter().all(|attrs| attrs.size == Some(len))
        && modified(&got.before) == modified(&got.after);
    let mtime = Timestamp { secs: modified(&got.after).unwrap_or(0).into(), nanos: 0 };
    is_complete.then_some(Fetched { content: got.content, mtime, _share })
}
