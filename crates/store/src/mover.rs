//! Content that is written in order and not hashed.

use crate::content::runs;
use crate::{Moved, StagedFile};
use std::io;

/// A stage that gets its content in order and without hashing: from the kernel, or from a local
/// file.
#[derive(Debug)]
pub struct Mover {
    stage: Box<dyn StagedFile>,
    /// Length of the content so far in bytes, with holes.
    at: u64,
    data_end: u64,
}

impl Mover {
    /// Creates a mover into the empty `stage`.
    pub fn new(stage: Box<dyn StagedFile>) -> Self {
        Self { stage, at: 0, data_end: 0 }
    }

    /// The stage.
    pub fn stage(&self) -> &dyn StagedFile {
        &*self.stage
    }

    /// Gives up the content, and returns the stage.
    pub fn into_stage(self) -> Box<dyn StagedFile> {
        self.stage
    }

    /// Length of the content so far in bytes, with holes.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Writes the next bytes; see `StagedFile::writes_sparse`.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.stage.writes_sparse() {
            return self.write_all(bytes);
        }
        runs(bytes, self.at).try_for_each(|(run, is_zeros)| match is_zeros {
            true => {
                self.skip_hole(run.len() as u64);
                Ok(())
            }
            false => self.write_all(run),
        })
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.put(|stage, at| stage.write_at(bytes, at).map(|()| bytes.len() as u64)).map(drop)
    }

    /// Calls `put` to move the next bytes into the stage at the given offset. `put` returns their
    /// number, which is returned.
    ///
    /// # Errors
    /// Errors of `put`.
    pub fn put<E>(
        &mut self,
        put: impl FnOnce(&dyn StagedFile, u64) -> Result<u64, E>,
    ) -> Result<u64, E> {
        let len = put(&*self.stage, self.at)?;
        self.at += len;
        if len > 0 {
            self.data_end = self.at;
        }
        Ok(len)
    }

    /// Adds a hole of `len` bytes.
    pub fn skip_hole(&mut self, len: u64) {
        self.at += len;
    }

    /// Ends the content.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn finish(self) -> io::Result<Moved> {
        if self.data_end < self.at {
            self.stage.set_len(self.at)?;
        }
        Ok(Moved::new(self.stage, self.at))
    }
}
