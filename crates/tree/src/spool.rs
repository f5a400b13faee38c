//! Content whose length is known only after reading it: that of FIFOs and devices, and files that
//! the kernel generates. It is read into a private file, and that one is copied.

use haul_model::Name;
use haul_sys::{Dir, Stat};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

/// The longest content of a generated file, in bytes. It is kept in memory.
const GENERATED_LEN_MAX: u64 = 4 << 20;

/// Bytes per read.
const PART_LEN: usize = 128 << 10;

/// How often `should_continue` is checked while no data arrives.
const STOP_POLL: Duration = Duration::from_millis(50);

/// An open file with its metadata.
#[derive(Debug)]
pub(super) struct Spooled {
    pub(super) file: File,
    pub(super) stat: Stat,
    /// No other process can change the file.
    pub(super) fixed: bool,
}

impl Spooled {
    /// Reads `name` in `dir` to its end into a nameless file in the directory `into`, while
    /// `should_continue` returns true. A regular file is only opened.
    ///
    /// # Errors
    /// Errors of opening, reading and writing; [`io::ErrorKind::Interrupted`] if `should_continue`
    /// returns false.
    pub(super) fn read(
        dir: &Dir,
        name: &Name,
        follow: bool,
        into: &Path,
        should_continue: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let (mut from, stat) = dir.open_any(name, follow)?;
        if stat.is_file() {
            return Ok(Self { file: from, stat, fixed: false });
        }
        let mut to = Dir::open(into)?.create_nameless()?;
        let mut part = vec![0; PART_LEN];
        loop {
            while !haul_sys::wait_for_input(&from, STOP_POLL)? {
                if !should_continue() {
                    return Err(io::ErrorKind::Interrupted.into());
                }
            }
            match from.read(&mut part) {
                Ok(0) => break,
                Ok(len) => to.write_all(&part[..len])?,
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => {}
                    _ => return Err(error),
                },
            }
            if !should_continue() {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        Self::of(to, stat)
    }

    /// Reads a `file` that the kernel generates into memory.
    ///
    /// # Errors
    /// Errors of reading; [`io::ErrorKind::FileTooLarge`].
    pub(super) fn generated(file: &File, stat: Stat) -> io::Result<Self> {
        let mut kept = haul_sys::memory_file()?;
        let copied = io::copy(&mut file.take(GENERATED_LEN_MAX + 1), &mut kept)?;
        if copied > GENERATED_LEN_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Self::of(kept, stat)
    }

    /// The content in `file`, with mode and time from `stat`.
    fn of(file: File, stat: Stat) -> io::Result<Self> {
        let kept = haul_sys::file_stat(&file)?;
        let mtime = if stat.is_file() { stat.mtime } else { kept.mtime };
        let stat = Stat { mode: stat.mode, mtime, ..kept };
        Ok(Self { file, stat, fixed: true })
    }

    /// Duplicates the handle.
    ///
    /// # Errors
    /// Errors of `dup`.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, stat: self.stat, fixed: self.fixed })
    }
}
