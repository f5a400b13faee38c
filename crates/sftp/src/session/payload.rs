//! The content after a packet, from memory or from a file.

use super::activity::Activity;
use haul_net::Writer;
use haul_sys::splice_to_pipe;
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// Content below this length is copied into the queue, so that it leaves in one write with queued
/// packets.
const DIRECT_LEN: usize = 16 << 10;

/// Bytes per read of a file that can't be spliced.
const COPY_LEN: usize = 64 << 10;

/// The content after a packet.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    /// Bytes in memory.
    Bytes(&'a [u8]),
    /// A range of a file of this machine.
    File(&'a FileRange<'a>),
}

/// A range of a file to send.
pub(crate) struct FileRange<'a> {
    file: &'a File,
    /// Its offset, in bytes.
    offset: u64,
    /// Its length, in bytes.
    len: usize,
    /// Why a part was sent as zeros.
    pub(crate) failed: RefCell<Option<io::Error>>,
}

impl<'a> Payload<'a> {
    /// No content.
    pub(crate) const NONE: Self = Self::Bytes(&[]);

    /// The content, if it is small enough to queue.
    pub(super) fn queueable(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) if bytes.len() < DIRECT_LEN => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn is_empty(self) -> bool {
        matches!(self, Self::Bytes([]))
    }
}

impl<'a> FileRange<'a> {
    pub(crate) fn new(file: &'a File, offset: u64, len: usize) -> Self {
        Self { file, offset, len, failed: RefCell::new(None) }
    }

    /// Sends the range: spliced if `out` is a pipe and the system can do that, else by reading and
    /// writing. The packet before it has announced its length, so unreadable parts are sent as
    /// zeros.
    ///
    /// # Errors
    /// Errors of writing.
    pub(super) fn send(&self, out: &mut Writer, activity: &Activity) -> io::Result<()> {
        let mut sent = self.splice(out, activity)?;
        let mut buffer = vec![0; (self.len - sent).min(COPY_LEN)];
        while sent < self.len {
            let piece = &mut buffer[..(self.len - sent).min(COPY_LEN)];
            let at = self.offset + sent as u64;
            if self.failed.borrow().is_none()
                && let Err(error) = activity.reading_file(|| self.file.read_exact_at(piece, at))
            {
                *self.failed.borrow_mut() = Some(error);
            }
            if self.failed.borrow().is_some() {
                piece.fill(0);
            }
            out.write_all(piece)?;
            activity.count();
            sent += piece.len();
        }
        Ok(())
    }

    /// Splices the range and returns how many bytes were sent. Reading the rest reports the error.
    fn splice(&self, out: &mut Writer, activity: &Activity) -> io::Result<usize> {
        let Some(pipe) = out.pipe() else { return Ok(0) };
        let mut sent = 0;
        while sent < self.len {
            // A full pipe is the server's delay. What follows is the disk's.
            out.wait_writable()?;
            let (at, len) = (self.offset + sent as u64, self.len - sent);
            match activity.reading_file(|| splice_to_pipe(self.file, at, pipe, len)) {
                Ok(Some(len @ 1..)) => {
                    activity.count();
                    sent += len;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(error),
                Ok(Some(0) | None) | Err(_) => break,
            }
        }
        Ok(sent)
    }
}
