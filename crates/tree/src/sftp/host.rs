//! State that all directories and files of one host share.

use super::settling::Settling;
use super::{Sessions, found_or_missing, join};
use crate::Capabilities;
use crate::budget::{Budget, Share};
use haul_model::{ContentHash, FileId, MAX_NAME_LEN, Name};
use haul_sftp::{
    Cause, Client, DirEntry, Existing, Extension, FsStats, Lister, SessionError, SftpError,
    StatusCode, Stored,
};
use haul_store::{OnExisting, Publication, Records, old_name, remote_stage_name};
use haul_sys::FreeSpace;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Limit of the content of a host's large files in memory, in bytes. More than most links hold in a
/// round trip.
const STREAMS_LEN: usize = 24 << 20;

/// Limit of the content of small files in memory, in bytes. A separate budget, so that their
/// publishing never waits for large files.
const SMALL_LEN: usize = 8 << 20;

/// Memory for entries of a distant destination, in bytes: more than 100,000 entries. In directories
/// that find no room, each entry is looked up alone.
const CACHED_ENTRIES_LEN: usize = 24 << 20;

/// The memory of a remembered entry besides its name, in bytes.
const NAME_OVERHEAD_LEN: usize = 200;

/// Threads that list directories ahead.
const LISTERS: usize = 8;

/// Free space on a host, in bytes, below which it counts as full after a failed write.
const FULL_LEN: u64 = 1 << 20;

/// The shortest path, in bytes, that is too long for some systems. OpenSSH's server then reports
/// that it did not understand the request. It does the same for a long name.
const LONG_PATH_LEN: usize = 1024;

/// True if `path`, or a name in it, is too long for some systems.
fn is_long(path: &[u8]) -> bool {
    path.len() >= LONG_PATH_LEN || path.split(|byte| *byte == b'/').any(|n| n.len() > MAX_NAME_LEN)
}

/// True if a file could not be renamed into place, and its temporary file must stay because the
/// existing file may have lost its name.
pub(super) fn must_stay(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|error| error.downcast_ref::<Cause>());
    matches!(cause, Some(Cause::OnlyStaged(_)))
}

/// The memory that an entry uses of [`CACHED_ENTRIES_LEN`], in bytes.
pub(super) fn remembered_len(entry: &DirEntry) -> usize {
    NAME_OVERHEAD_LEN + entry.name.as_bytes().len()
}

/// The free space for a user in `stats`.
fn free_space_of(stats: &FsStats) -> FreeSpace {
    let bytes = stats.blocks_available.saturating_mul(stats.block_len);
    FreeSpace::new(bytes, stats.files, stats.files_available)
}

/// Why the session with a host was lost. The first thread that notices records it. No further
/// requests are possible then, and no file is at fault.
#[derive(Debug)]
pub struct SessionLoss {
    host: String,
    reason: OnceLock<SessionError>,
}

impl SessionLoss {
    /// Nothing is lost yet; `host` is safe to show.
    pub fn new(host: &str) -> Arc<Self> {
        Arc::new(Self { host: host.to_owned(), reason: OnceLock::new() })
    }

    /// True if the session was lost.
    pub fn is_lost(&self) -> bool {
        self.reason.get().is_some()
    }

    /// The reason, if the session was lost.
    pub fn reason(&self) -> Option<&SessionError> {
        self.reason.get()
    }

    /// The host, safe to show.
    pub fn host(&self) -> &str {
        &self.host
    }

    fn record_loss(&self, error: &SftpError) {
        if let Some(end) = error.session() {
            // Another thread may have recorded it already, with the same reason.
            let _ = self.reason.set(end.clone());
        }
    }
}

/// The names in one directory, spelled as the server does.
struct Spelled {
    dir: Vec<u8>,
    names: HashSet<Name>,
    _share: Share,
}

/// Attributes that uploads to a host have lost, and content that they keep for a later job.
#[derive(Default)]
pub struct UploadResults {
    /// The server has not kept the time of a file.
    has_lost_times: AtomicBool,
    /// The server has refused to set the attributes of a file of the job.
    has_lost_attributes: AtomicBool,
    /// See [`Self::kept_len`].
    kept_len: AtomicU64,
}

impl UploadResults {
    /// True if the server has reported another time for a file than the one set.
    pub fn has_lost_times(&self) -> bool {
        self.has_lost_times.load(Ordering::Relaxed)
    }

    /// Records the losses of a file.
    pub(super) fn record(&self, of: Stored) {
        self.has_lost_times.fetch_or(of.has_lost_time, Ordering::Relaxed);
        self.has_lost_attributes.fetch_or(of.has_lost_attributes, Ordering::Relaxed);
    }

    /// True if the server has refused to set the mode and time of an entry that the job has
    /// written.
    pub fn has_lost_attributes(&self) -> bool {
        self.has_lost_attributes.load(Ordering::Relaxed)
    }

    /// Bytes of an incomplete large upload that the next job can use. Of several uploads, the
    /// largest number.
    pub fn kept_len(&self) -> u64 {
        self.kept_len.load(Ordering::Relaxed)
    }

    pub(super) fn keeps(&self, len: u64) {
        self.kept_len.fetch_max(len, Ordering::Relaxed);
    }
}

/// A host reached through its SFTP server, over one or more sessions.
pub struct SftpHost {
    /// The sessions with it.
    pub sessions: Sessions,
    /// Why the session was lost, if it was.
    pub lost: Arc<SessionLoss>,
    /// Files stay open when they are complete: they are made durable or read back before they are
    /// published.
    pub(super) keeps_open: bool,
    /// Files fail if the server does not keep their times.
    pub(super) needs_times: bool,
    /// The attributes that uploads have lost, and the content that they keep for a later job.
    pub results: UploadResults,
    /// Lists directories before they are needed.
    pub lister: Lister,
    /// Content of large files on its way from the host.
    pub streams: Arc<Budget>,
    /// Content of small files on its way from the host.
    pub small: Arc<Budget>,
    /// The budget of remembered directories at the destination.
    pub(super) remembered: Arc<Budget>,
    /// The records of uploads on this machine, if there is a directory for them.
    pub records: Option<Records>,
    /// The directory whose spelling was asked about last, if its names find room.
    spelled: Mutex<Option<Spelled>>,
    /// Times whose second is not over, so that a file may still change within it.
    pub(super) settling: Settling,
    /// Held while a link replaces an entry: two at once could come to point at each other.
    pub(super) linking: Mutex<()>,
    /// Directories where a listing has removed leftovers of killed jobs.
    pub(super) cleaned: Mutex<HashSet<Vec<u8>>>,
}

impl SftpHost {
    /// The host of `lost`. With `keeps_open`, written files are made durable or read back. With
    /// `needs_times`, they fail if the server does not keep their times.
    pub fn new(
        sessions: Sessions,
        lost: &Arc<SessionLoss>,
        records: Option<Records>,
        keeps_open: bool,
        needs_times: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            lister: Lister::new(sessions.first(), LISTERS),
            sessions,
            lost: Arc::clone(lost),
            keeps_open,
            needs_times,
            results: UploadResults::default(),
            streams: Budget::new(STREAMS_LEN),
            small: Budget::new(SMALL_LEN),
            remembered: Budget::new(CACHED_ENTRIES_LEN),
            linking: Mutex::default(),
            records,
            spelled: Mutex::default(),
            settling: Settling::default(),
            cleaned: Mutex::default(),
        })
    }

    /// The first session's client; see [`Sessions::first`].
    pub fn client(&self) -> &Client {
        self.sessions.first()
    }

    /// The capabilities of its trees.
    pub(super) fn capabilities(&self, is_destination: bool) -> Capabilities {
        // No server reports hard links of a source.
        let links = is_destination && self.client().has(Extension::HardLink);
        Capabilities::sftp(self.sessions.max(), links)
    }

    /// A new private name for a temporary file that is never continued.
    pub fn stage_name(&self) -> String {
        let recorded = self.records.as_ref().and_then(Records::stage_name);
        recorded.unwrap_or_else(remote_stage_name)
    }

    /// A text that identifies the directory at `path` among all directories of all hosts.
    pub fn place(&self, path: &[u8]) -> Vec<u8> {
        [self.lost.host.as_bytes(), b":", path].concat()
    }

    /// The ID of the entry at `path`, which must be free of links. The protocol has no file IDs.
    pub fn id_of(&self, path: &[u8]) -> FileId {
        let of = |bytes: &[u8]| {
            let hash = ContentHash::of(bytes);
            u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
        };
        FileId { dev: of(self.lost.host.as_bytes()).max(1), ino: of(path).max(1) }
    }

    /// The free space on the file system of `dir`, if the server reports it.
    pub fn free_space(&self, dir: &[u8]) -> Option<FreeSpace> {
        self.fs_stats(dir).map(|stats| free_space_of(&stats))
    }

    fn fs_stats(&self, dir: &[u8]) -> Option<FsStats> {
        if !self.client().has(Extension::Statvfs) {
            return None;
        }
        self.io(self.client().fs_stats(dir)).ok()
    }

    /// The result of a write in the directory `dir`. The protocol has no status for a full or
    /// read-only disk, so a failed write asks the server about its file system, if it can report
    /// that.
    pub fn check_write<T>(&self, dir: &[u8], result: Result<T, SftpError>) -> io::Result<T> {
        // The paths of files without their final names are more important than the cause.
        let failed = |error: &SftpError| {
            error.status() == Some(StatusCode::Failure)
                && !matches!(error.cause, Cause::OnlyStaged(_))
        };
        let stats = match &result {
            Err(error) if failed(error) && !self.client().has(Extension::Statvfs) => {
                let message = format!("{}; it does not report the free space", error.cause);
                return Err(io::Error::new(error.io_kind(), message));
            }
            Err(error) if failed(error) => self.fs_stats(dir),
            _ => None,
        };
        let Some(stats) = stats else { return self.io(result) };
        if stats.read_only {
            let message = "the file system there is mounted read-only";
            return Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, message));
        }
        let free_space = free_space_of(&stats);
        if free_space.bytes < FULL_LEN || free_space.is_out_of_inodes() {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no space is left on the host"));
        }
        self.io(result)
    }

    /// True if the directory `dir` has an entry spelled `name` now.
    pub fn has_spelling(&self, dir: &[u8], name: &[u8]) -> io::Result<bool> {
        let Ok(name) = Name::new(name) else { return Ok(true) };
        let has_it = |last: &Spelled| last.dir == dir && last.names.contains(&name);
        if self.spelled.lock().as_ref().is_some_and(has_it) {
            return Ok(true);
        }
        let listed = self.io(self.client().list(dir))?;
        let len = listed.iter().map(remembered_len).sum();
        let names: HashSet<_> = listed.into_iter().map(|entry| entry.name).collect();
        let is_there = names.contains(&name);
        let mut spelled = self.spelled.lock();
        // Frees the memory of the previous directory first.
        *spelled = None;
        let share = self.remembered.try_take(len);
        *spelled = share.map(|share| Spelled { dir: dir.to_vec(), names, _share: share });
        Ok(is_there)
    }

    /// How to treat an existing `name` in the directory `dir`.
    pub fn existing(&self, dir: &[u8], name: &Name, on_existing: OnExisting) -> Existing {
        match on_existing {
            OnExisting::Keep => Existing::Keep,
            OnExisting::Replace => {
                let needs_backup = !self.client().has(Extension::PosixRename);
                let backup = || join(dir, old_name(name).as_bytes());
                Existing::Replace { backup: if needs_backup { backup() } else { Vec::new() } }
            }
        }
    }

    /// Renames the file or link `stage` in the directory `dir` to `name`.
    ///
    /// # Errors
    /// The stage can be removed, unless the error says that it must stay.
    pub fn publish(
        &self,
        stage: &[u8],
        dir: &[u8],
        name: &Name,
        on_existing: OnExisting,
    ) -> io::Result<Publication> {
        let existing = self.existing(dir, name, on_existing);
        match self.client().name_file(stage, &join(dir, name.as_bytes()), &existing) {
            Err(SftpError { cause: Cause::NameExists, .. }) => Ok(Publication::Kept),
            named => self.check_write(dir, named).map(|()| Publication::Published),
        }
    }

    /// True if `path` exists. A link is not followed.
    pub fn has_name(&self, path: &[u8]) -> io::Result<bool> {
        let looked = found_or_missing(self.client().lstat(path));
        self.io(looked).map(|found| found.is_some())
    }

    /// Converts the server's answer to the storage's result. Records the loss of the session.
    pub fn io<T>(&self, result: Result<T, SftpError>) -> io::Result<T> {
        result.map_err(|error| {
            self.record_loss(&error);
            if error.status() == Some(StatusCode::BadMessage) && is_long(error.path.as_bytes()) {
                let message = "the path is too long for the host";
                return io::Error::new(io::ErrorKind::InvalidFilename, message);
            }
            io::Error::new(error.io_kind(), error.cause)
        })
    }

    /// Records `error` if it is the loss of the session.
    pub fn record_loss(&self, error: &SftpError) {
        self.lost.record_loss(error);
    }
}
