//! Content whose length is known only when it was read to its end: what comes out of
//! a FIFO or a device, and files that the kernel makes up as they are read. It is
//! read into a file that nobody else knows, and that one is copied.

use haul_model::Name;
use haul_sys::{Dir, Stat};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

/// The longest content that the kernel makes up, in bytes: it is kept in memory.
const MADE_UP_MAX: u64 = 4 << 20;

/// Bytes that are read at once.
const PART_LEN: usize = 128 << 10;

/// How often is looked whether to go on, while nothing comes.
const STOP_POLL: Duration = Duration::from_millis(50);

/// An open file with the facts that are told of it.
#[derive(Debug)]
pub(super) struct Spooled {
    pub(super) file: File,
    pub(super) stat: Stat,
    /// It is a file that nobody else can change.
    pub(super) fixed: bool,
}

impl Spooled {
    /// Reads what is behind `name` in `dir` to its end, into a file without a name in
    /// the directory `into`, while it `goes_on`. A regular file is only opened.
    ///
    /// # Errors
    /// Those of opening, reading and writing; [`io::ErrorKind::Interrupted`] if it does
    /// not go on.
    pub(super) fn read(
        dir: &Dir,
        name: &Name,
        follow: bool,
        into: &Path,
        goes_on: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let (mut from, stat) = dir.open_any(name, follow)?;
        if stat.is_file() {
            return Ok(Self { file: from, stat, fixed: false });
        }
        let mut to = Dir::open(into)?.create_nameless()?;
        let mut part = vec![0; PART_LEN];
        loop {
            while !haul_sys::is_readable_within(&from, STOP_POLL)? {
                if !goes_on() {
                    return Err(io::ErrorKind::Interrupted.into());
                }
            }
            match from.read(&mut part) {
                Ok(0) => break,
                Ok(len) => to.write_all(&part[..len])?,
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
            if !goes_on() {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        Self::of(to, stat)
    }

    /// Reads a `file` that the kernel makes up.
    ///
    /// # Errors
    /// Those of reading; [`io::ErrorKind::FileTooLarge`].
    pub(super) fn made_up(file: &File, stat: Stat) -> io::Result<Self> {
        let mut kept = haul_sys::memory_file()?;
        let copied = io::copy(&mut file.take(MADE_UP_MAX + 1), &mut kept)?;
        if copied > MADE_UP_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Self::of(kept, stat)
    }

    /// Content that is in `file`, told as `stat` says.
    fn of(file: File, stat: Stat) -> io::Result<Self> {
        let kept = haul_sys::file_stat(&file)?;
        let mtime = if stat.is_file() { stat.mtime } else { kept.mtime };
        let stat = Stat { mode: stat.mode, mtime, ..kept };
        Ok(Self { file, stat, fixed: true })
    }

    /// The same once more.
    ///
    /// # Errors
    /// Those of `dup`.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, stat: self.stat, fixed: self.fixed })
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}
