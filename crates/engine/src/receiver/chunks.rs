//! Chunks of arriving files that this machine already has.
//!
//! The Sender offers the chunks of a wanted file ahead of its content. A worker looks up each chunk
//! in the index of the cache, reads it from its file, and checks its hash. The answer names the
//! chunks that were found. The Sender leaves these out, and the Receiver reads them from the files.
//! The hash of the whole file covers them, too. Once the file is published, its chunks are added to
//! the index.
//!
//! One worker at a time answers, so that the answers of a file are in the order of its offers.

pub(super) mod chunked;

use super::pending::Part;
use super::{DirState, Ends, JobContext, Pending};
use crate::Job;
use crate::cache::ChunkCache;
use crate::dirs::DirNode;
use chunked::{ChunkedFiles, Found, LISTED_MAX, Listed};
use haul_delta::{Chunk, chunks};
use haul_model::{BLOCK_LEN, Name, Outcome, words};
use haul_proto::{Known, Offer, OfferedChunk, Reuse};
use haul_store::{Cache, Saved, short};
use haul_sys::Dir;
use haul_tree::TreeDir;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Minimum length, in bytes, of a file whose chunks are requested.
pub(super) const FILE_LEN_MIN: u64 = 1 << 20;

/// Maximum number of offers that wait for a worker. Beyond that the reader waits.
const OFFERS_MAX: usize = 64;

/// Maximum number of files with found parts that stay open.
const OPEN_MAX: usize = 64;

/// The chunk lookup of a job.
pub(crate) struct Chunks {
    place: ChunkCache,
    /// The absolute path of the job's directory.
    root: Vec<u8>,
    /// The cache, read at its first use; `Some(None)` if that failed.
    cache: Mutex<Option<Option<Cache>>>,
    waiting: Mutex<Waiting>,
    files: Mutex<ChunkedFiles>,
    /// Open files of the index, by number. The most recently used one is last.
    open: Mutex<VecDeque<(u32, Arc<File>)>>,
    saved: AtomicU64,
    saved_parts: AtomicU64,
}

/// Offers that wait for a worker.
#[derive(Default)]
struct Waiting {
    offers: VecDeque<Offer>,
    /// A worker answers the offers, or is queued to do so.
    has_worker: bool,
}

impl Chunks {
    /// Creates the lookup of `job` in the directory `root`. `None` without a cache, or if no
    /// content arrives over a wire.
    pub(crate) fn of(
        cache: Option<ChunkCache>,
        root: &dyn TreeDir,
        job: &Job,
        ends: &Ends,
    ) -> Option<Self> {
        let place = cache.filter(|_| ends.saves_sending && job.has_contents())?;
        let root = haul_sys::path_to(&root.local_dir().ok()?)?.into_os_string().into_vec();
        Some(Self {
            place,
            root,
            cache: Mutex::default(),
            waiting: Mutex::default(),
            files: Mutex::default(),
            open: Mutex::default(),
            saved: AtomicU64::new(0),
            saved_parts: AtomicU64::new(0),
        })
    }

    /// Calls `with` on the cache; `None` if the cache can't be read.
    fn with_cache<T>(&self, with: impl FnOnce(&mut Cache) -> T) -> Option<T> {
        let mut cache = self.cache.lock();
        let cache = cache.get_or_insert_with(|| {
            let read = self.place.read_for(&self.root);
            if let Err(error) = &read {
                tracing::warn!(%error, "the chunk cache can't be read");
            }
            read.ok()
        });
        cache.as_mut().map(with)
    }

    /// Expects offers for a file.
    pub(super) fn begin(&self, index: u64) {
        self.files.lock().begin(index);
    }

    /// Forgets a file, which is sent whole after all.
    pub(super) fn forget(&self, index: u64) {
        self.files.lock().end(index);
    }

    /// The parts that were found for `reuse`.
    pub(super) fn parts_of(&self, reuse: &Reuse) -> Option<Vec<Part>> {
        let found = self.files.lock().parts(reuse)?;
        let part =
            |Found { len, file, from, .. }| Some(Part { content: self.open(file)?, from, len });
        found.into_iter().map(part).collect()
    }

    /// Takes an offer from the wire.
    ///
    /// # Errors
    /// The rule of the protocol that it breaks.
    pub(super) fn take_offer(
        self: &Arc<Self>,
        job: &JobContext<'_>,
        offer: Offer,
    ) -> Result<(), &'static str> {
        if !self.files.lock().take(&offer)? {
            return Ok(());
        }
        let mut waiting = self.waiting.lock();
        waiting.offers.push_back(offer);
        if !std::mem::replace(&mut waiting.has_worker, true) {
            drop(waiting);
            let chunks = Arc::clone(self);
            job.enqueue(move |receiver, _| chunks.answer_offers(&receiver.job));
        }
        Ok(())
    }

    /// True if all of `reuse` was found in other files, or if its file has ended.
    pub(super) fn may_have_parts(&self, reuse: &Reuse) -> bool {
        let files = self.files.lock();
        files.parts(reuse).is_some() || !files.has(reuse.index)
    }

    /// Counts a part that was reused and not sent.
    pub(super) fn count_reused(&self, reuse: &Reuse) {
        self.saved.fetch_add(reuse.len.into(), Ordering::Relaxed);
        self.saved_parts.fetch_add(1, Ordering::Relaxed);
    }

    /// True if the reader must wait because too many offers are waiting.
    pub(super) fn has_many_offers(&self) -> bool {
        self.waiting.lock().offers.len() >= OFFERS_MAX
    }

    /// Answers the waiting offers.
    fn answer_offers(&self, job: &JobContext<'_>) {
        let mut content = Vec::new();
        loop {
            let offer = {
                let mut waiting = self.waiting.lock();
                let offer = waiting.offers.pop_front().filter(|_| !job.control.stopped());
                waiting.has_worker = offer.is_some();
                offer
            };
            let Some(offer) = offer else { return };
            job.sender.known(self.answer(&offer, &mut content));
        }
    }

    /// True if parts of a file were found.
    pub(crate) fn has_found(&self, index: u64) -> bool {
        self.files.lock().has_found(index)
    }

    /// The answer to an offer.
    fn answer(&self, offer: &Offer, content: &mut Vec<u8>) -> Known {
        let mut known: Vec<(u16, u16)> = Vec::new();
        let mut at = offer.at;
        for (number, chunk) in offer.chunks.iter().enumerate() {
            let number = number as u16;
            if let Some((file, from)) = self.look_up(chunk, content)
                && self
                    .files
                    .lock()
                    .found(offer.index, Found { at, len: chunk.len.into(), file, from })
            {
                match known.last_mut() {
                    Some((_, end)) if *end == number => *end += 1,
                    _ => known.push((number, number + 1)),
                }
            }
            at += u64::from(chunk.len);
        }
        Known { index: offer.index, at: offer.at, chunks: known }
    }

    /// The file that has the content of a chunk, and the chunk's offset in it.
    fn look_up(&self, chunk: &OfferedChunk, content: &mut Vec<u8>) -> Option<(u32, u64)> {
        let places = self.with_cache(|cache| cache.find(&chunk.hash))?;
        places.iter().filter(|place| place.len == chunk.len).find_map(|place| {
            let file = self.open(place.file())?;
            if place.read(&file, content) == Some(chunk.hash) {
                return Some((place.file(), place.at));
            }
            self.open.lock().retain(|(number, _)| *number != place.file());
            self.with_cache(|cache| cache.forget(place.file()));
            None
        })
    }

    /// The file with this number in the index, if it can be opened and is unchanged.
    fn open(&self, number: u32) -> Option<Arc<File>> {
        let mut open = self.open.lock();
        let at = open.iter().position(|(other, _)| *other == number);
        let file = match at.and_then(|at| open.remove(at)) {
            Some((_, file)) => file,
            None => {
                drop(open);
                let file = Arc::new(self.with_cache(|cache| cache.open_file(number))??);
                open = self.open.lock();
                file
            }
        };
        if open.len() >= OPEN_MAX {
            open.pop_front();
        }
        open.push_back((number, Arc::clone(&file)));
        Some(file)
    }

    /// Ends a file with its outcome. The chunks of a published file are added to the index.
    pub(crate) fn end(&self, job: &JobContext<'_>, file: &Pending, outcome: &Outcome) {
        let listed = file.reused.is_chunked.then(|| self.files.lock().end(file.index)).flatten();
        let Some(listed) = listed else { return };
        let is_published = matches!(outcome, Outcome::Copied) && !job.delays_updates();
        if let (true, DirState::Open(node)) = (is_published && !listed.is_empty(), &file.dir.state)
        {
            let path = words::join(&self.root, &node.path_of(Some(&file.name)));
            let resumed = list_resumed(job, node, file, &listed).unwrap_or_default();
            self.with_cache(|cache| cache.add(&path, resumed.into_iter().chain(listed)));
        }
    }

    /// Stores the content of the entry `name` of `node`, which is about to be lost, if the user
    /// enabled that. A later job may need it again.
    pub(crate) fn save_content(&self, node: &Arc<DirNode>, name: &Name) {
        if !self.place.keeps() {
            return;
        }
        let kept = node.handle().and_then(|dir| self.keep(&dir.local_dir()?, name));
        if let Err(error) = kept {
            tracing::debug!(%error, "the cache does not keep a file");
        }
    }

    /// Copies the file `name` in `dir` into the store, if it is long enough for chunks.
    fn keep(&self, dir: &Dir, name: &Name) -> io::Result<()> {
        let is_file = dir.stat(name)?.is_file();
        let opened = is_file.then(|| dir.open_file(name, false)).transpose()?;
        let Some((file, _)) = opened.filter(|(_, stat)| stat.size >= FILE_LEN_MIN) else {
            return Ok(());
        };
        // Workers that answer offers need not wait for the copy.
        let keeper = self.with_cache(|cache| cache.keeper()).transpose()?.flatten();
        let Some(keeper) = keeper else { return Ok(()) };
        let Some((name, copy)) = keeper.keep(&file)? else { return Ok(()) };
        let listed = list(&copy, &|| false)?;
        self.with_cache(|cache| cache.add_kept((&name, &copy), listed));
        Ok(())
    }

    /// Writes the chunks and statistics of an ended job to the cache.
    pub(crate) fn flush(&self) {
        let saved = Saved {
            parts: self.saved_parts.swap(0, Ordering::Relaxed),
            bytes: self.saved.swap(0, Ordering::Relaxed),
        };
        if let Some(Some(cache)) = &mut *self.cache.lock() {
            cache.count_saved(saved);
            self.place.record_destination(&self.root);
            if let Err(error) = cache.flush() {
                tracing::debug!(%error, "the chunk cache was not written");
            }
        }
    }
}

/// The chunks of the resumed beginning of a published file. They are computed only if the `rest`
/// was offered to its end: then the link is slow, and there is time to read the file.
fn list_resumed(
    job: &JobContext<'_>,
    node: &Arc<DirNode>,
    file: &Pending,
    rest: &[Listed],
) -> io::Result<Vec<Listed>> {
    let end = rest.last().map_or(0, |(at, len, _)| at + u64::from(*len));
    if file.resumed == 0 || end != file.entry.size() {
        return Ok(Vec::new());
    }
    let (content, _) = node.handle()?.local_dir()?.open_file(&file.name, false)?;
    list(content.take(file.resumed * BLOCK_LEN), &|| job.control.stopped())
}

/// The chunks of `content`, as many as the index takes, or until `stopped`.
fn list(content: impl Read, stopped: &dyn Fn() -> bool) -> io::Result<Vec<Listed>> {
    let mut at = 0;
    let chunks = chunks(content).take(LISTED_MAX).take_while(|_| !stopped());
    let listed = chunks.map(|chunk| {
        let Chunk { len, hash } = chunk?;
        let begin = at;
        at += u64::from(len);
        Ok((begin, len, short(&hash)))
    });
    listed.collect()
}
