//! A file of a host, for reading.

use super::SftpHost;
use super::attrs::meta_of;
use crate::budget::Share;
use crate::tree::{ContentStream, MetaKind, Seal, SourceFile};
use haul_model::BLOCK_LEN;
use haul_sftp::{Attrs, Chunk, Client, OpenFlags, RangeReader, RemoteFile};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Blocks of a stream that are asked for at the same time, at most, for each
/// session; the budget may allow less.
const BLOCKS_AHEAD: usize = 4;

/// A file of a host, open in each session that its content is to come through.
pub(super) struct SftpSource {
    host: Arc<SftpHost>,
    files: Vec<RemoteFile>,
    seal: Seal,
}

impl SftpSource {
    /// Opens the file at `path`; in all sessions if it is `large`.
    pub(super) fn open(host: &Arc<SftpHost>, path: &[u8], large: bool) -> io::Result<Self> {
        let open = |client: &Client| {
            let file = client.open(path, OpenFlags::Read, None)?;
            Ok((file.attrs()?, file))
        };
        let opened = match large {
            true => host.in_each(host.clients(), open)?,
            false => vec![host.io(open(host.client()))?],
        };
        let mut seals = opened.iter().map(|(attrs, _)| seal_of(attrs));
        let seal = seals.next().unwrap_or(Err(io::ErrorKind::NotFound.into()))?;
        for other in seals {
            if other? != seal {
                return Err(io::Error::other("it changes while it is opened"));
            }
        }
        let files = opened.into_iter().map(|(_, file)| file).collect();
        Ok(Self { host: Arc::clone(host), files, seal })
    }
}

/// What is compared to see whether the file changed.
fn seal_of(attrs: &Attrs) -> io::Result<Seal> {
    let meta = meta_of(attrs)?;
    match meta.kind {
        MetaKind::File { size } => Ok(Seal { size, mtime: meta.mtime }),
        MetaKind::Dir => Err(io::ErrorKind::IsADirectory.into()),
        MetaKind::Symlink | MetaKind::Special => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
        }
    }
}

impl SourceFile for SftpSource {
    fn seal(&self) -> Seal {
        self.seal
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.host.io(self.files[0].read_at(buf, offset))
    }

    /// Where holes are is not told through this protocol.
    fn next_data(&self, from: u64) -> io::Result<Option<Range<u64>>> {
        Ok((from < self.seal.size).then_some(from..self.seal.size))
    }

    fn is_mostly_holes(&self) -> bool {
        false
    }

    fn seal_now(&self) -> io::Result<Seal> {
        seal_of(&self.host.io(self.files[0].attrs())?)
    }

    fn release(&self, _end: u64) {}

    fn local(&self) -> Option<&File> {
        None
    }

    fn stream(&self, range: Range<u64>) -> Option<Box<dyn ContentStream + '_>> {
        Some(Box::new(SftpStream::new(&self.host, &self.files, range)))
    }
}

/// A range of a file on its way here, in order: several blocks of it are asked
/// for at the same time, in turn through each session.
pub(super) struct SftpStream<'f> {
    host: &'f Arc<SftpHost>,
    files: &'f [RemoteFile],
    /// Blocks that were asked for, in order.
    ahead: VecDeque<(RangeReader, Share)>,
    /// Where the next one begins.
    next: u64,
    end: u64,
}

impl<'f> SftpStream<'f> {
    pub(super) fn new(host: &'f Arc<SftpHost>, files: &'f [RemoteFile], range: Range<u64>) -> Self {
        let Range { start: next, end } = range;
        Self { host, files, ahead: VecDeque::new(), next, end }
    }

    /// Asks for blocks ahead, and for one at least.
    fn ask(&mut self) -> io::Result<()> {
        while self.next < self.end && self.ahead.len() < BLOCKS_AHEAD * self.files.len() {
            let block = self.next / BLOCK_LEN;
            let end = self.end.min((block + 1) * BLOCK_LEN);
            let len = (end - self.next) as usize;
            let share = match self.ahead.is_empty() {
                true => self.host.streams.take(len),
                false => match self.host.streams.try_take(len) {
                    Some(share) => share,
                    None => return Ok(()),
                },
            };
            let file = &self.files[(block % self.files.len() as u64) as usize];
            let mut reader = file.reader(self.next..end, len);
            self.host.io(reader.start())?;
            self.ahead.push_back((reader, share));
            self.next = end;
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
            if let Some(chunk) = self.host.io(reader.next_in_order())? {
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
