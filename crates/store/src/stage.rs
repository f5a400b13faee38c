//! A file on its way: staged in the directory where it is to appear, so that
//! publishing it is one step inside of one file system.
//!
//! 1. Until it is published, nothing under the final name changes.
//! 2. A stage without a name vanishes with the process; a stage with a private
//!    name is removed when it is dropped.
//! 3. Publishing needs a [`Verified`]; mode and time are set before, through
//!    the open file, so that the name never shows a file without them.

use crate::Verified;
use haul_model::{Name, Timestamp};
use haul_sys::Dir;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// How often a private name is drawn anew when it is taken.
const NAME_ATTEMPTS_MAX: usize = 8;

/// What a publication does with a file that has the name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Nothing is known to have the name; what appeared meanwhile is replaced.
    New,
    /// Something has the name and is replaced.
    Replace,
    /// What has the name stays.
    Keep,
}

/// What a publication came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    /// The file has its name.
    Published,
    /// [`Placement::Keep`] met an existing file, and left it.
    Kept,
}

/// A file that is being written and has no name of its own yet.
#[derive(Debug)]
pub struct Stage {
    dir: Arc<Dir>,
    file: File,
    /// The private name, where the file system knows no files without one.
    temp: Option<PrivateName>,
}

impl Stage {
    /// Begins a file in `dir`.
    ///
    /// # Errors
    /// Those of creating a file.
    pub fn create(dir: Arc<Dir>) -> io::Result<Self> {
        if let Some(file) = dir.create_unnamed()? {
            return Ok(Self { dir, file, temp: None });
        }
        Self::create_named(dir)
    }

    /// Begins a file under a private name.
    fn create_named(dir: Arc<Dir>) -> io::Result<Self> {
        let (temp, file) = with_private_name(&dir, |name| dir.create_private(name))?;
        Ok(Self { dir, file, temp: Some(temp) })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// Those of `pwrite`.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Cuts or extends the file; what is added is a hole.
    ///
    /// # Errors
    /// Those of `ftruncate`.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    /// Gives the file its mode, its time and, last, its name.
    ///
    /// # Errors
    /// Those of the operations; the old file is untouched then, the stage gone.
    pub fn publish(
        self,
        _proof: Verified,
        name: &Name,
        mode: u32,
        mtime: Timestamp,
        placement: Placement,
    ) -> io::Result<Publication> {
        haul_sys::set_mode(&self.file, mode)?;
        haul_sys::set_mtime(&self.file, mtime)?;
        match self.temp {
            None => publish_unnamed(&self.dir, &self.file, name, placement),
            Some(temp) => temp.publish(name, placement),
        }
    }
}

fn publish_unnamed(
    dir: &Arc<Dir>,
    file: &File,
    name: &Name,
    placement: Placement,
) -> io::Result<Publication> {
    if placement != Placement::Replace {
        match dir.link_unnamed(file, name.as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if placement == Placement::Keep {
                    return Ok(Publication::Kept);
                }
            }
            linked => return linked.map(|()| Publication::Published),
        }
    }
    let (temp, ()) = with_private_name(dir, |temp| dir.link_unnamed(file, temp.as_bytes()))?;
    temp.publish(name, Placement::Replace)
}

/// A private name that exists in a directory; removed on drop.
#[derive(Debug)]
struct PrivateName {
    dir: Arc<Dir>,
    name: String,
    published: bool,
}

impl PrivateName {
    fn publish(mut self, name: &Name, placement: Placement) -> io::Result<Publication> {
        let done = match placement {
            Placement::Replace => self.dir.publish_replacing(&self.name, name),
            Placement::New | Placement::Keep => self.dir.publish_new(&self.name, name),
        };
        match done {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match placement {
                Placement::Keep => Ok(Publication::Kept),
                Placement::New => self.publish(name, Placement::Replace),
                Placement::Replace => Err(error),
            },
            done => {
                done?;
                self.published = true;
                Ok(Publication::Published)
            }
        }
    }
}

impl Drop for PrivateName {
    fn drop(&mut self) {
        if !self.published {
            // Nothing more can be done about a name that can't be removed; it
            // is recognisable as haul's own.
            let _ = self.dir.remove_private(&self.name);
        }
    }
}

impl Publication {
    /// Makes a symbolic link `name` in `dir` that points to `target`, with its
    /// time set, in one step.
    ///
    /// # Errors
    /// Those of `symlinkat` and `renameat`.
    pub fn of_symlink(
        dir: &Arc<Dir>,
        target: &[u8],
        name: &Name,
        mtime: Timestamp,
        placement: Placement,
    ) -> io::Result<Self> {
        let (temp, ()) = with_private_name(dir, |temp| dir.make_symlink(target, temp, mtime))?;
        temp.publish(name, placement)
    }
}

fn with_private_name<T>(
    dir: &Arc<Dir>,
    create: impl Fn(&str) -> io::Result<T>,
) -> io::Result<(PrivateName, T)> {
    for _ in 0..NAME_ATTEMPTS_MAX {
        let name = private_name();
        match create(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(made) => {
                return Ok((PrivateName { dir: Arc::clone(dir), name, published: false }, made));
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "every private name that was tried is taken"))
}

/// A fresh private name: `.haul-` and 16 random hexadecimal digits.
pub fn private_name() -> String {
    // RandomState is seeded by the operating system and differs at each call.
    format!(".haul-{:016x}", RandomState::new().hash_one(std::process::id()))
}

#[cfg(test)]
#[path = "stage_tests.rs"]
mod tests;
