//! State that all directories and files of one host share.

use super::settling::Settling;
use super::{Sessions, found_or_missing, join};
use crate::budget::{Budget, Share};
use haul_model::{ContentHash, FileId, MAX_NAME_LEN, Name};
use haul_sftp::{
    Cause, Client, DirEntry, Existing, Extension, FsStats, Lister, SessionError, SftpError,
    StatusCode,
};
use haul_store::{DeadSeries, Journals, OnExisting, Publication, StageSeries, old_name, sent_name};
use haul_sys::Room;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Content of a host's large files that may be in memory at the same time, in
/// bytes: more than most links hold in a round trip.
const STREAMS_LEN: usize = 24 << 20;

/// The same of small files. It is another budget, so that those who publish them
/// never wait for it.
const SMALL_LEN: usize = 8 << 20;

/// Memory for entries of a far destination's directories, in bytes: more than 100,000
/// entries. Of those that find no room each entry is asked about by itself.
const REMEMBERED_LEN: usize = 24 << 20;

/// The memory of a remembered entry besides its name, in bytes.
const AROUND_NAME_LEN: usize = 200;

/// Threads that list directories ahead.
const LISTERS: usize = 8;

/// Room on a host, in bytes, below which a write that fails has found it full.
const FULL_LEN: u64 = 1 << 20;

/// The shortest path, in bytes, that some system finds too long. OpenSSH's server
/// then says that it did not understand the request, and the same of a name that
/// is too long.
const LONG_PATH_LEN: usize = 1024;

/// True if some system finds `path` or a name in it too long.
fn is_long(path: &[u8]) -> bool {
    path.len() >= LONG_PATH_LEN || path.split(|byte| *byte == b'/').any(|n| n.len() > MAX_NAME_LEN)
}

/// True if a file could not be given its name, and its stage is needed since the
/// existing file may lack its own.
pub(super) fn must_stay(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|error| error.downcast_ref::<Cause>());
    matches!(cause, Some(Cause::OnlyStaged(_)))
}

/// The share of an entry in [`REMEMBERED_LEN`], in bytes.
pub(super) fn remembered_len(entry: &DirEntry) -> usize {
    AROUND_NAME_LEN + entry.name.as_bytes().len()
}

/// The room that `stats` leave to a user.
fn room_of(stats: &FsStats) -> Room {
    let bytes = stats.blocks_available.saturating_mul(stats.block_len);
    Room::new(bytes, stats.files, stats.files_available)
}

/// Why the session with a host ended before its time. Whoever meets it first puts
/// it down; nothing else can be asked then, and no file is at fault.
#[derive(Debug)]
pub struct Lost {
    host: String,
    reason: OnceLock<SessionError>,
}

impl Lost {
    /// Nothing has ended yet; the host is safe to show.
    pub fn new(host: &str) -> Arc<Self> {
        Arc::new(Self { host: host.to_owned(), reason: OnceLock::new() })
    }

    /// True if the session has ended.
    pub fn happened(&self) -> bool {
        self.reason.get().is_some()
    }

    /// The reason, if it has.
    pub fn reason(&self) -> Option<&SessionError> {
        self.reason.get()
    }

    /// The host, safe to show.
    pub fn host(&self) -> &str {
        &self.host
    }

    fn look_at(&self, error: &SftpError) {
        if let Some(end) = error.session() {
            // Another thread may have met it first, with the same reason.
            let _ = self.reason.set(end.clone());
        }
    }
}

/// The names in one directory, as it spells them.
struct Spelled {
    dir: Vec<u8>,
    names: HashSet<Name>,
    _share: Share,
}

/// A host that is reached through its SFTP server, over one session or several.
pub struct SftpHost {
    /// The sessions with it.
    pub sessions: Sessions,
    /// Its name, which is a part of the identities of its files.
    pub name: Vec<u8>,
    /// Why its session ended, if it has.
    pub lost: Arc<Lost>,
    /// Files stay open when they are whole: they are made durable or read back before they
    /// get their names.
    pub(super) holds: bool,
    /// Files fail if the server does not store their times.
    pub(super) needs_times: bool,
    /// The server has not stored the time of a file.
    has_lost_times: AtomicBool,
    /// The server has refused to set the attributes of a file of the job.
    has_lost_attributes: AtomicBool,
    /// See [`Self::kept_len`].
    kept_len: AtomicU64,
    /// Lists directories before they are needed.
    pub lister: Lister,
    /// Content of large files on its way from the host.
    pub streams: Arc<Budget>,
    /// Content of small files on its way from the host.
    pub small: Arc<Budget>,
    /// The budget of remembered directories at the destination.
    pub(super) remembered: Arc<Budget>,
    /// Where the journals of uploads are kept on this machine.
    pub journals: Option<Journals>,
    /// Those that earlier jobs have left, once that was looked at.
    pub left: OnceLock<Vec<String>>,
    /// The names of this job's small stages, where they are on record.
    series: OnceLock<StageSeries>,
    /// Those of jobs that were killed, once that was looked at.
    dead: OnceLock<DeadSeries>,
    /// The directory whose spellings were asked for last, if they find room.
    spelled: Mutex<Option<Spelled>>,
    /// Times within whose second files may still change.
    pub(super) settling: Settling,
    /// Held while a link takes the place of something: two at once could lead to each other.
    pub(super) linking: Mutex<()>,
    /// Directories in which leftovers of killed jobs were removed when they were listed.
    pub(super) tidied: Mutex<HashSet<Vec<u8>>>,
}

impl SftpHost {
    /// The host of `lost`. With `holds` files that were written are made durable or read
    /// back, with `needs_times` they fail if the server does not take their times.
    pub fn new(
        sessions: Sessions,
        lost: &Arc<Lost>,
        journals: Option<Journals>,
        holds: bool,
        needs_times: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            lister: Lister::new(sessions.first(), LISTERS),
            sessions,
            name: lost.host.as_bytes().to_vec(),
            lost: Arc::clone(lost),
            holds,
            needs_times,
            has_lost_times: AtomicBool::new(false),
            has_lost_attributes: AtomicBool::new(false),
            kept_len: AtomicU64::new(0),
            streams: Budget::new(STREAMS_LEN),
            small: Budget::new(SMALL_LEN),
            remembered: Budget::new(REMEMBERED_LEN),
            linking: Mutex::default(),
            journals,
            left: OnceLock::new(),
            series: OnceLock::new(),
            dead: OnceLock::new(),
            spelled: Mutex::default(),
            settling: Settling::default(),
            tidied: Mutex::default(),
        })
    }

    /// True if the server has shown another time of a file than it was given.
    pub fn has_lost_times(&self) -> bool {
        self.has_lost_times.load(Ordering::Relaxed)
    }

    pub(super) fn lose_times(&self) {
        self.has_lost_times.store(true, Ordering::Relaxed);
    }

    /// True if the server has refused to set the mode and time of what the job has
    /// written.
    pub fn has_lost_attributes(&self) -> bool {
        self.has_lost_attributes.load(Ordering::Relaxed)
    }

    pub(super) fn lose_attributes(&self) {
        self.has_lost_attributes.store(true, Ordering::Relaxed);
    }

    /// Bytes of a large upload that ended early with which the next one goes on; of several,
    /// those of the one that has most.
    pub fn kept_len(&self) -> u64 {
        self.kept_len.load(Ordering::Relaxed)
    }

    pub(super) fn keeps(&self, len: u64) {
        self.kept_len.fetch_max(len, Ordering::Relaxed);
    }

    /// A job begins that goes to the directories with these `places`
    /// ([`crate::Origin::place_on_record`]): what its stages are
    /// called is put on record, where the journals are, so that a later job knows
    /// of them if this one is killed.
    ///
    /// # Errors
    /// Those of writing the record; the job can go on without it.
    pub fn begin_stages(&self, places: &[Vec<u8>]) -> io::Result<()> {
        let Some(journals) = self.journals.as_ref() else { return Ok(()) };
        let series = StageSeries::begin(journals, &self.name, places)?;
        self.series.set(series).expect("a host has one job");
        Ok(())
    }

    /// A fresh private name for a stage that is not continued.
    pub fn stage_name(&self) -> String {
        self.series.get().map_or_else(sent_name, StageSeries::name)
    }

    /// The stages that jobs of this machine may have left, which were killed.
    pub fn dead(&self) -> &DeadSeries {
        let find = |journals| DeadSeries::find(journals, &self.name);
        self.dead.get_or_init(|| self.journals.as_ref().map(find).unwrap_or_default())
    }

    /// The job has ended, and the server has done all that it was asked: none of
    /// its stages is left.
    pub fn forget_stages(&self) {
        if let Some(series) = self.series.get() {
            series.finish();
        }
    }

    /// The first session's; see [`Sessions::first`].
    pub fn client(&self) -> &Client {
        self.sessions.first()
    }

    /// The mark of the directory at `path`, by which it is told from others of this host and
    /// others.
    pub fn place(&self, path: &[u8]) -> Vec<u8> {
        [&*self.name, b":", path].concat()
    }

    /// The identity of what has this path, which must be free of links. Through
    /// this protocol there are no numbers of files.
    pub fn id_of(&self, path: &[u8]) -> FileId {
        let of = |bytes: &[u8]| {
            let hash = ContentHash::of(bytes);
            u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
        };
        FileId { dev: of(&self.name).max(1), ino: of(path).max(1) }
    }

    /// The room on the file system of the directory `dir`, where the server reports it.
    pub fn room(&self, dir: &[u8]) -> Option<Room> {
        self.fs_stats(dir).map(|stats| room_of(&stats))
    }

    fn fs_stats(&self, dir: &[u8]) -> Option<FsStats> {
        if !self.client().has(Extension::Statvfs) {
            return None;
        }
        self.io(self.client().fs_stats(dir)).ok()
    }

    /// The outcome of a writing in the directory `dir`. The protocol has no word for
    /// a disk that is full or read-only, but a server often tells of its file
    /// system.
    pub fn wrote<T>(&self, dir: &[u8], result: Result<T, SftpError>) -> io::Result<T> {
        // Where the files are that lack their names is more than why.
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
        let room = room_of(&stats);
        if room.bytes < FULL_LEN || room.lacks_inodes() {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no space is left on the host"));
        }
        self.io(result)
    }

    /// True if the directory `dir` has an entry that is spelled `name`, now.
    pub fn spells(&self, dir: &[u8], name: &[u8]) -> io::Result<bool> {
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
        // The room of the last directory is free for this one.
        *spelled = None;
        let share = self.remembered.try_take(len);
        *spelled = share.map(|share| Spelled { dir: dir.to_vec(), names, _share: share });
        Ok(is_there)
    }

    /// The fate of an existing `name` in the directory `dir`.
    pub fn existing(&self, dir: &[u8], name: &Name, on_existing: OnExisting) -> Existing {
        match on_existing {
            OnExisting::Keep => Existing::Keep,
            OnExisting::Replace => {
                let needs_aside = !self.client().has(Extension::PosixRename);
                let aside = || join(dir, old_name(name).as_bytes());
                Existing::Replace { aside: if needs_aside { aside() } else { Vec::new() } }
            }
        }
    }

    /// Gives the file or link `stage`, which is in the directory `dir`, the name
    /// `name` there.
    ///
    /// # Errors
    /// The stage is of no more use, unless the error says that it has to stay.
    pub fn publish(
        &self,
        stage: &[u8],
        dir: &[u8],
        name: &Name,
        on_existing: OnExisting,
    ) -> io::Result<Publication> {
        let existing = self.existing(dir, name, on_existing);
        match self.client().name_file(stage, &join(dir, name.as_bytes()), &existing) {
            Err(SftpError { cause: Cause::Taken, .. }) => Ok(Publication::Kept),
            named => self.wrote(dir, named).map(|()| Publication::Published),
        }
    }

    /// True if something is at `path`; a link is not followed.
    pub fn has_name(&self, path: &[u8]) -> io::Result<bool> {
        let looked = found_or_missing(self.client().lstat(path));
        self.io(looked).map(|found| found.is_some())
    }

    /// The server's answer, as the storage's own result. The end of the session is put
    /// down.
    pub fn io<T>(&self, result: Result<T, SftpError>) -> io::Result<T> {
        result.map_err(|error| {
            self.look_at(&error);
            if error.status() == Some(StatusCode::BadMessage) && is_long(error.path.as_bytes()) {
                let message = "the path is too long for the host";
                return io::Error::new(io::ErrorKind::InvalidFilename, message);
            }
            io::Error::new(error.io_kind(), error.cause)
        })
    }

    /// Puts it down if `error` is the session's end.
    pub fn look_at(&self, error: &SftpError) {
        self.lost.look_at(error);
    }
}
