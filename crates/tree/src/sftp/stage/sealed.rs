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

impl SftpStage {
    /// Opens the file for reading: a handle is for reading or for writing.
    fn reading(&self) -> io::Result<&SftpSource> {
        if let Some(reading) = self.reading.get() {
            return Ok(reading);
        }
        let Open { host, path, .. } = &self.open;
        let opened = SftpSource::open(host, path, true)?;
        Ok(self.reading.get_or_init(|| opened))
    }
}

/// Once it is complete and only lacks its final name.
impl SealedFile for SftpStage {
    fn sync(&self) -> io::Result<()> {
        let Open { host, path, file, .. } = &self.open;
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
        self.give_up();
    }

    fn publish(&mut self, name: &Name, on_existing: OnExisting) -> io::Result<Publication> {
        // Some servers report a failed write only when the file is closed.
        if let Err(error) = self.close() {
            self.give_up();
            return Err(error);
        }
        let open = &mut self.open;
        let published = open.host.publish(&open.path, &open.dir, name, on_existing);
        match &published {
            Ok(Publication::Published) => {
                open.is_published = true;
                self.give_up();
            }
            // The caller may publish it again.
            Ok(Publication::Kept) => {}
            Err(error) => open.keep |= must_stay(error),
        }
        published
    }
}
