//! Entries of directories, and targets of links: questions with many answers, asked ahead
//! by one thread.

use crate::Client;
use crate::client::{succeeded, unexpected};
use crate::codec::{Answer, Attrs, Request, StatusCode};
use crate::error::{Cause, SftpError};
use crate::session::Payload;
use haul_model::Name;

type Result<T> = std::result::Result<T, SftpError>;

/// Entries of one directory, at most: a server that never stops listing is
/// stopped. A name counts once more for each [`LONG_NAME_LEN`] of its bytes.
const ENTRIES_MAX: usize = 4 << 20;

/// Length of a name, in bytes, from which on it takes more memory than the entry
/// that it is of.
const LONG_NAME_LEN: usize = 64;

/// Parts of a listing that are asked for at the beginning: the second answer to
/// a small directory is that there is no more, and comes with the first.
const READS_FIRST: usize = 2;

/// Parts of a listing that are asked for at once, at most. OpenSSH gives 100
/// entries in each, so with a round trip of 50 ms it makes 16,000 entries a
/// second.
const READS_MAX: usize = 8;

/// Paths that are asked about at once, at most. With a round trip of 50 ms it
/// makes 5,000 a second.
const AT_ONCE_MAX: usize = 256;

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name.
    pub name: Name,
    /// Its attributes; a link is not followed.
    pub attrs: Attrs,
}

impl Client {
    /// All entries of a directory but `.` and `..`, in any order. A small
    /// directory takes two round trips.
    ///
    /// # Errors
    /// Besides, [`Cause::EntryName`] when a name in it is none, and
    /// [`Cause::TooManyEntries`].
    pub fn list(&self, path: &[u8]) -> Result<Vec<DirEntry>> {
        let too_many = || {
            let cause = Cause::TooManyEntries(ENTRIES_MAX);
            SftpError::new(&Request::Readdir { handle: &[] }, path, cause)
        };
        self.list_up_to(path, ENTRIES_MAX)?.ok_or_else(too_many)
    }

    fn entries(
        &self,
        handle: &[u8],
        path: &[u8],
        weight_max: usize,
    ) -> Result<Option<Vec<DirEntry>>> {
        let read = Request::Readdir { handle };
        let failed = |cause| SftpError::new(&read, path, cause);
        let mut port = self.port();
        let mut entries = Vec::new();
        let mut seen = 0;
        // Each answer is another part of the directory, whatever the order in
        // which the server does them; behind the end there is only the end.
        let (mut asked, mut asked_max, mut is_at_end) = (0, READS_FIRST, false);
        loop {
            while !is_at_end && asked < asked_max {
                port.send(0, &read, Payload::NONE).map_err(|error| failed(error.into()))?;
                asked += 1;
            }
            let Some((_, answer)) = port.next() else { return Ok(Some(entries)) };
            asked -= 1;
            let names = match answer.map_err(Cause::from).and_then(succeeded) {
                // No names are no more names, as OpenSSH's client takes it too.
                Ok(Answer::Names(names)) if !names.is_empty() => names,
                Ok(Answer::Names(_)) => {
                    is_at_end = true;
                    continue;
                }
                Ok(other) => return Err(unexpected(&read, path, other)),
                Err(Cause::Status(status)) if status.code == StatusCode::Eof => {
                    is_at_end = true;
                    continue;
                }
                Err(cause) => return Err(failed(cause)),
            };
            asked_max = (asked_max + 1).min(READS_MAX);
            seen += names.iter().map(|entry| weight_of(entry.name)).sum::<usize>();
            if seen > weight_max {
                return Ok(None);
            }
            for entry in names.iter().filter(|entry| !matches!(entry.name, b"." | b"..")) {
                let name = Name::new(entry.name).map_err(|e| failed(Cause::EntryName(e)))?;
                entries.push(DirEntry { name, attrs: entry.attrs });
            }
        }
    }

    /// Where each of `count` symbolic links points, whose paths are what `path_of`
    /// says: `each` is told in any order, by their numbers, and says whether more
    /// is wanted. They are asked about at the same time, so that some may be told
    /// behind that.
    pub fn read_links(
        &self,
        count: usize,
        path_of: impl Fn(usize) -> Vec<u8>,
        each: impl FnMut(usize, Result<Box<[u8]>>) -> bool,
    ) {
        let taken = |answer| match answer {
            Answer::Path(target) => Ok(target),
            other => Err(other),
        };
        self.ask_each(count, path_of, |path| Request::Readlink { path }, taken, each);
    }

    /// The attributes at each of `count` paths, links not followed; told as by
    /// [`Self::read_links`].
    pub fn lstat_each(
        &self,
        count: usize,
        path_of: impl Fn(usize) -> Vec<u8>,
        each: impl FnMut(usize, Result<Attrs>) -> bool,
    ) {
        let taken = |answer| match answer {
            Answer::Attrs(attrs) => Ok(attrs),
            other => Err(other),
        };
        self.ask_each(count, path_of, |path| Request::Lstat { path }, taken, each);
    }

    /// Asks about each of `count` paths, about [`AT_ONCE_MAX`] of them at the same time.
    fn ask_each<T>(
        &self,
        count: usize,
        path_of: impl Fn(usize) -> Vec<u8>,
        request: impl for<'p> Fn(&'p [u8]) -> Request<'p>,
        taken: impl Fn(Answer) -> std::result::Result<T, Answer>,
        mut each: impl FnMut(usize, Result<T>) -> bool,
    ) {
        let mut port = self.port();
        let (mut next, mut asked, mut is_wanted) = (0, 0, true);
        loop {
            while is_wanted && next < count && asked < AT_ONCE_MAX {
                let path = path_of(next);
                let request = request(&path);
                let sent = self.check(&request, &path).and_then(|()| {
                    port.send(next as u64, &request, Payload::NONE).map_err(Cause::from)
                });
                match sent {
                    Ok(()) => asked += 1,
                    Err(cause) => {
                        is_wanted = each(next, Err(SftpError::new(&request, &path, cause)))
                    }
                }
                next += 1;
            }
            let Some((number, answer)) = port.next() else { return };
            asked -= 1;
            let failed = |cause: std::result::Result<Answer, Cause>| {
                let path = path_of(number as usize);
                let request = request(&path);
                match cause {
                    Ok(other) => unexpected(&request, &path, other),
                    Err(cause) => SftpError::new(&request, &path, cause),
                }
            };
            let found = match answer.map_err(Cause::from).and_then(succeeded) {
                Ok(answer) => taken(answer).map_err(|other| failed(Ok(other))),
                Err(cause) => Err(failed(Err(cause))),
            };
            is_wanted &= each(number as usize, found);
        }
    }

    /// As [`Self::list`], unless the directory has so many entries, or so long names,
    /// that it takes more memory than `weight_max` short ones: then `None`.
    pub(crate) fn list_up_to(
        &self,
        path: &[u8],
        weight_max: usize,
    ) -> Result<Option<Vec<DirEntry>>> {
        let handle = self.handle(&Request::Opendir { path }, path)?;
        let listed = self.entries(&handle, path, weight_max);
        // The listing is what counts; nothing can be done about the handle.
        let port = self.port();
        let _ = port.tell(&Request::Close { handle: &handle }).and_then(|()| port.flush());
        listed
    }
}

impl DirEntry {
    /// Its share of memory, in entries with a short name.
    pub(crate) fn weight(&self) -> usize {
        weight_of(self.name.as_bytes())
    }
}

fn weight_of(name: &[u8]) -> usize {
    1 + name.len() / LONG_NAME_LEN
}
