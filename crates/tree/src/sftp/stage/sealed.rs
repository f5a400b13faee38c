//! A file that the server has confirmed, before it is published.

use super::SftpStage;
use super::open::Open;
use crate::sftp::host::must_stay;
use crate::sftp::source::SftpSource;
use crate::{SealedFile, SourceFile};
use haul_model::Name;
use haul_sftp::{Extension, OpenFlags};
use haul_store::{OnExisting, Publication};
use std::io;
use std::ops::Range;
use std::sync::OnceLock;

/// A complete file on the server that lacks its final name.
pub(super) struct SftpSealed {
    pub(super) stage: SftpStage,
    /// The file open for reading back, once needed.
    pub(super) reading: OnceLock<SftpSource>,
}

impl SftpSealed {
    /// Opens the file for reading: a handle is for reading or for writing.
    fn reading(&self) -> io::Result<&SftpSource> {
        if let Some(reading) = self.reading.get() {
            return Ok(reading);
        }
        let Open { host, path, .. } = &self.stage.open;
        let opened = SftpSource::open(host, path, true)?;
        Ok(self.reading.get_or_init(|| opened))
    }
}

impl SealedFile for SftpSealed {
    fn sync(&self) -> io::Result<()> {
        let Open { host, path, file, .. } = &self.stage.open;
        // If sync is not supported, the start of the job has reported it.
        if !host.client().has(Extension::Fsync) {
            return Ok(());
        }
        host.io(match file {
            Some(file) => file.sync(),
            // The file was closed, since `StagedFile::expect_sync` was not called.
            None => host.client().open(path, OpenFlags::Write, None).and_then(|file| {
                file.sync()?;
                file.close()
            }),
        })
    }

    fn stream(
        &self,
        range: Range<u64>,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Option<io::Result<()>> {
        let mut stream = match self.reading() {
            Ok(reading) => reading.stream(range)?,
            Err(error) => return Some(Err(error)),
        };
        loop {
            match stream.next() {
                Ok(Some(piece)) if take(&piece) => {}
                read => return Some(read.map(drop)),
            }
        }
    }

    fn discard(mut self: Box<Self>) {
        self.stage.give_up();
    }

    fn publish(&mut self, name: &Name, on_existing: OnExisting) -> io::Result<Publication> {
        let stage = &mut self.stage;
        // Some servers report a failed write only when the file is closed.
        if let Err(error) = stage.close() {
            stage.give_up();
            return Err(error);
        }
        let open = &mut stage.open;
        let published = open.host.publish(&open.path, &open.dir, name, on_existing);
        match &published {
            Ok(Publication::Published) => {
                open.is_published = true;
                stage.give_up();
            }
            // The caller may publish it again.
            Ok(Publication::Kept) => {}
            Err(error) => open.keep |= must_stay(error),
        }
        published
    }
}
