//! A file of a host, open for reading, in one session or several.

use super::SftpHost;
use super::attrs::seal_of;
use crate::budget::Share;
use crate::parallel::map_parallel;
use crate::{ContentStream, Seal, SourceFile, TakePart};
use haul_model::BLOCK_LEN;
use haul_sftp::{Attrs, Chunk, Client, OpenFlags, RangeReader, RemoteFile, SftpError};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// Most blocks of a stream that are requested at the same time, per session. The budget may allow
/// fewer.
const BLOCKS_AHEAD: usize = 4;

/// The same while more sessions may join: one block is received while the next is requested.
const BLOCKS_BEFORE: usize = 2;

/// How often a file is opened to wait until the second of its time is over. A file that is written
/// all the time never settles.
const OPENINGS_MAX: usize = 2;

/// A file of a host, open in one session or in all.
pub(super) struct SftpSource {
    host: Arc<SftpHost>,
    path: Box<[u8]>,
    first: RemoteFile,
    /// Its content is read through all sessions.
    is_large: bool,
    /// The file in the sessions after the first, in the order of joining. `None` in sessions that
    /// are not used.
    others: Mutex<Vec<Option<RemoteFile>>>,
    seal: Seal,
    /// A change may not show in its time.
    is_unsettled: bool,
}

impl SftpSource {
    /// Opens the file at `path`, and waits until every later change shows in its time. Otherwise
    /// this job could miss a change during reading, and a later job a change after it.
    pub(super) fn open_settled(host: &Arc<SftpHost>, path: &[u8], large: bool) -> io::Result<Self> {
        let mut source = Self::open(host, path, large)?;
        for _ in 0..OPENINGS_MAX {
            let Some(until) = host.settling.until(source.seal.mtime) else { return Ok(source) };
            thread::sleep(until.saturating_duration_since(Instant::now()));
            let found = host.io(source.first.attrs())?;
            if seal_of(&found)? == source.seal {
                return Ok(source);
            }
            source = Self::open(host, path, large)?;
        }
        source.is_unsettled = host.settling.until(source.seal.mtime).is_some();
        Ok(source)
    }

    /// Opens the file at `path`, in all sessions if it is `large`.
    pub(super) fn open(host: &Arc<SftpHost>, path: &[u8], large: bool) -> io::Result<Self> {
        let lanes = if large { host.sessions.max() } else { 1 };
        let clients = host.sessions.joined().take(lanes).collect();
        let mut opened =
            map_parallel(clients, |client: &Client| client.open_and_stat(path, OpenFlags::Read))
                .into_iter();
        let (first, found) = host.io(opened.next().expect("one session has joined"))?;
        let seal = seal_of(&found)?;
        let others: io::Result<_> = opened.map(|opened| branch(host, opened, Some(seal))).collect();
        Ok(Self {
            host: Arc::clone(host),
            path: path.into(),
            first,
            is_large: large,
            others: Mutex::new(others?),
            seal,
            is_unsettled: false,
        })
    }

    /// How many sessions its content may be read through.
    fn lanes(&self) -> usize {
        if self.is_large { self.host.sessions.max() } else { 1 }
    }

    /// The file in each session where it can be read, and whether more sessions may join.
    fn files(&self) -> io::Result<(Vec<RemoteFile>, bool)> {
        let sessions = &self.host.sessions;
        let mut others = self.others.lock();
        let new = sessions.joined().take(self.lanes()).skip(1 + others.len()).collect();
        let open = |client: &Client| client.open_and_stat(&self.path, OpenFlags::Read);
        for opened in map_parallel(new, open) {
            others.push(branch(&self.host, opened, Some(self.seal))?);
        }
        let files = std::iter::once(&self.first).chain(others.iter().flatten()).cloned().collect();
        Ok((files, self.is_large && sessions.expects_more()))
    }
}

impl SourceFile for SftpSource {
    fn seal(&self) -> Seal {
        self.seal
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.host.io(self.first.read_at(buf, offset))
    }

    fn read_parts(&self, parts: &[Range<u64>], take: &mut TakePart<'_>) -> io::Result<()> {
        let len = |part: &Range<u64>| (part.end - part.start) as usize;
        let _share = self.host.streams.take(parts.iter().map(len).sum());
        let mut readers = Vec::with_capacity(parts.len());
        for part in parts {
            let mut reader = self.first.reader(part.clone(), len(part));
            self.host.io(reader.start())?;
            readers.push(reader);
        }
        for mut reader in readers {
            while let Some(chunk) = self.host.io(reader.next_piece())? {
                take(chunk.offset, &chunk)?;
            }
        }
        Ok(())
    }

    /// The protocol does not report holes.
    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        Ok((from < self.seal.size).then_some(from..self.seal.size))
    }

    /// Checks the file in all sessions. Each answer is from its own moment, so for a growing file
    /// one may still have the old size.
    fn seal_now(&self) -> io::Result<(Seal, bool)> {
        let others = self.others.lock().iter().flatten().cloned().collect();
        let ask = |file: RemoteFile| file.attrs_and_more(self.seal.size);
        let found = in_each(self.first.clone(), others, ask);
        let mut seals = Vec::new();
        for (found, has_more) in self.host.io(found)? {
            let seal = seal_of(&found)?;
            // A size of 0 may mean that it is unknown.
            if has_more && seal.size == self.seal.size && seal.size > 0 {
                return Err(io::Error::other(
                    "the server has more content than the size it reports",
                ));
            }
            seals.push(seal);
        }
        let others = seals.into_iter().filter(|seal| *seal != self.seal);
        // Changes other than growth take precedence.
        Ok((others.min_by_key(|seal| seal.size).unwrap_or(self.seal), self.is_unsettled))
    }

    fn stream(&self, range: Range<u64>) -> Option<Box<dyn ContentStream + '_>> {
        Some(Box::new(SftpStream::new(self, range)))
    }
}

/// Reads a range of a file in order. Several blocks are requested at the same time, by turns
/// through all sessions.
pub(super) struct SftpStream<'f> {
    file: &'f SftpSource,
    /// The requested blocks, in order.
    ahead: VecDeque<(RangeReader, Share)>,
    /// The offset of the next block.
    next: u64,
    end: u64,
    /// Counts the turns of the sessions.
    turn: usize,
}

impl<'f> SftpStream<'f> {
    fn new(file: &'f SftpSource, range: Range<u64>) -> Self {
        let Range { start: next, end } = range;
        Self { file, ahead: VecDeque::new(), next, end, turn: 0 }
    }

    /// Requests blocks ahead, and at least one.
    fn ask(&mut self) -> io::Result<()> {
        while self.next < self.end && self.ahead.len() < BLOCKS_AHEAD * self.file.lanes() {
            let (files, more) = self.file.files()?;
            // Content is taken in order. Requests left for later sessions are not made through the
            // present ones.
            let each = if more { BLOCKS_BEFORE } else { BLOCKS_AHEAD };
            if self.ahead.len() >= each * files.len() {
                return Ok(());
            }
            let end = self.end.min((self.next / BLOCK_LEN + 1) * BLOCK_LEN);
            let len = (end - self.next) as usize;
            let host = &self.file.host;
            let share = match self.ahead.is_empty() {
                true => host.streams.take(len),
                false => match host.streams.try_take(len) {
                    Some(share) => share,
                    None => return Ok(()),
                },
            };
            let mut reader = files[self.turn % files.len()].reader(self.next..end, len);
            host.io(reader.start())?;
            self.ahead.push_back((reader, share));
            self.next = end;
            self.turn += 1;
        }
        Ok(())
    }
}

impl ContentStream for SftpStream<'_> {
    fn next(&mut self) -> io::Result<Option<Chunk>> {
        loop {
            self.ask()?;
            let Some((reader, _)) = self.ahead.front_mut() else { return Ok(None) };
            let expected = reader.end();
            if let Some(chunk) = self.file.host.io(reader.next_piece())? {
                return Ok(Some(chunk));
            }
            if reader.end() < expected {
                // The file ends within the range.
                return Ok(None);
            }
            self.ahead.pop_front();
        }
    }
}

/// The file that was `opened` in a session other than the first, if it is a regular file with this
/// `seal`. `None` if the server refuses to open it in this session, or reports another seal because
/// the file grows or was replaced. The job then does not use the session for this file.
///
/// # Errors
/// The end of the session; an entry that is not a regular file.
pub(super) fn branch(
    host: &SftpHost,
    opened: Result<(RemoteFile, Attrs), SftpError>,
    seal: Option<Seal>,
) -> io::Result<Option<RemoteFile>> {
    let (file, found) = match opened {
        Err(error) if error.session().is_none() => {
            tracing::debug!(%error, "a session is done without");
            return Ok(None);
        }
        opened => host.io(opened)?,
    };
    // Writing follows a link: no link may have replaced the file.
    let found = seal_of(&found)?;
    Ok(seal.is_none_or(|seal| seal == found).then_some(file))
}

/// Sends requests about one file in all its sessions, at the same time.
pub(super) fn in_each<T: Send>(
    first: RemoteFile,
    others: Vec<RemoteFile>,
    ask: impl Fn(RemoteFile) -> Result<T, SftpError> + Sync,
) -> Result<Vec<T>, SftpError> {
    let files = std::iter::once(first).chain(others).collect();
    map_parallel(files, ask).into_iter().collect()
}
