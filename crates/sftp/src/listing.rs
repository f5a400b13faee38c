//! Entries of directories and targets of links: operations with many answers, which one thread
//! requests ahead.

use crate::codec::{Answer, Attrs, Request, StatusCode};
use crate::error::{Cause, SftpError};
use crate::session::{Batch, Payload};
use crate::{Client, Result};
use haul_model::Name;
use std::collections::VecDeque;

/// Most entries of one directory, to stop a server that never ends a listing. A name counts once
/// more for each [`LONG_NAME_LEN`] of its bytes.
const ENTRIES_MAX: usize = 4 << 20;

/// Length of a name, in bytes, from which it takes more memory than the rest of its entry.
const LONG_NAME_LEN: usize = 64;

/// Parts of a listing that are requested at first. For a small directory the second answer is the
/// end, and arrives with the first.
const READS_FIRST: usize = 2;

/// Most parts of a listing that are requested at once. OpenSSH sends 100 entries in each, so with a
/// round trip of 50 ms it lists 16,000 entries a second.
const READS_MAX: usize = 8;

/// Most paths with a request in flight. With a round trip of 50 ms this is 5,000 a second.
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
    /// All entries of a directory except `.` and `..`, in any order. A small directory takes two
    /// round trips.
    ///
    /// # Errors
    /// Also [`Cause::EntryName`] for an invalid name, and [`Cause::TooManyEntries`].
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
        // Each answer is another part of the directory, in whatever order the server handles the
        // requests. After the end, each answer is the end.
        let (mut asked, mut in_flight_max, mut is_at_end) = (0, READS_FIRST, false);
        loop {
            while !is_at_end && asked < in_flight_max {
                port.send(0, &read, Payload::NONE).map_err(|error| failed(error.into()))?;
                asked += 1;
            }
            let Some((_, answer)) = port.next() else { return Ok(Some(entries)) };
            asked -= 1;
            let names = match answer {
                Ok(Answer::Names(names)) if !names.is_empty() => names,
                // An answer without names is the end, as for OpenSSH's client.
                Ok(_) => {
                    is_at_end = true;
                    continue;
                }
                Err(Cause::Status(status)) if status.code == StatusCode::Eof => {
                    is_at_end = true;
                    continue;
                }
                Err(cause) => return Err(failed(cause)),
            };
            in_flight_max = (in_flight_max + 1).min(READS_MAX);
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

    /// Reads the targets of `count` symbolic links. `path_of` returns their paths by number. `each`
    /// receives the number and the target, and returns false to stop.
    pub fn read_links(
        &self,
        count: usize,
        path_of: impl Fn(usize) -> Vec<u8>,
        each: impl FnMut(usize, Result<Box<[u8]>>) -> bool,
    ) {
        self.request_each(count, path_of, |path| Request::Readlink { path }, Answer::path, each);
    }

    /// Reads the attributes at `count` paths, not following links, like [`Self::read_links`].
    pub fn lstat_each(
        &self,
        count: usize,
        path_of: impl Fn(usize) -> Vec<u8>,
        each: impl FnMut(usize, Result<Attrs>) -> bool,
    ) {
        self.request_each(count, path_of, |path| Request::Lstat { path }, Answer::attrs, each);
    }

    /// Sends a request about each of `count` paths, [`AT_ONCE_MAX`] at the same time.
    fn request_each<T>(
        &self,
        count: usize,
        path_of: impl Fn(usize) -> Vec<u8>,
        request: impl for<'p> Fn(&'p [u8]) -> Request<'p>,
        content: impl Fn(Answer) -> Result<T>,
        mut each: impl FnMut(usize, Result<T>) -> bool,
    ) {
        let mut asked = VecDeque::new();
        let mut next = 0;
        loop {
            while next < count && asked.len() < AT_ONCE_MAX {
                let path = path_of(next);
                asked.push_back((next, Batch::of(self, &path, &[request(&path)])));
                next += 1;
            }
            let Some((number, batch)) = asked.pop_front() else { return };
            let [answer] = batch.answers();
            if !each(number, answer.and_then(&content)) {
                return;
            }
        }
    }

    /// Like [`Self::list`], but returns `None` if the entries take more memory than `weight_max`
    /// entries with short names.
    pub(crate) fn list_up_to(
        &self,
        path: &[u8],
        weight_max: usize,
    ) -> Result<Option<Vec<DirEntry>>> {
        let handle = self.ask(Request::Opendir { path }, path)?.handle()?;
        let listed = self.entries(&handle, path, weight_max);
        // The listing is valid even if the handle can't be closed.
        let port = self.port();
        let _ =
            port.send_unanswered(&Request::Close { handle: &handle }).and_then(|()| port.flush());
        listed
    }
}

impl DirEntry {
    /// Its memory, in entries with a short name.
    pub(crate) fn weight(&self) -> usize {
        weight_of(self.name.as_bytes())
    }
}

fn weight_of(name: &[u8]) -> usize {
    1 + name.len() / LONG_NAME_LEN
}
