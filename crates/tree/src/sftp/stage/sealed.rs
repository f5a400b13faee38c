//! A file that the server has confirmed, until it has its name.

use super::SftpStage;
use super::open::Open;
use crate::sftp::host::must_stay;
use crate::sftp::source::SftpSource;
use crate::{ContentStream, SealedFile, SourceFile};
use haul_model::Name;
use haul_sftp::{Extension, OpenFlags};
use haul_store::{OnExisting, Publication};
use std::io;
use std::ops::Range;
use std::sync::OnceLock;

/// A file that is whole on the server, and lacks its name.
pub(super) struct SftpSealed {
    pub(super) stage: SftpStage,
    /// Open for reading back, once that was asked for.
    pub(super) reading: OnceLock<SftpSource>,
}

impl SftpSealed {
    /// The file once more: a handle is for reading or for writing.
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
    fn start_write_back(&self) {}

    fn sync(&self) -> io::Result<()> {
        let Open { host, path, file, .. } = &self.stage.open;
        // Where it can't be done, that was told when the job began, if it was asked for.
        if !host.client().has(Extension::Fsync) {
            return Ok(());
        }
        host.io(match file {
            Some(file) => file.sync(),
            // Nobody had told that it would be needed.
            None => host.client().open(path, OpenFlags::Write, None).and_then(|file| {
                file.sync()?;
                file.close()
            }),
        })
    }

    /// The server alone decides from where it reads.
    fn forget_cached(&self) {}

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.reading()?.read_at(buf, offset)
    }

    fn stream(&self, range: Range<u64>) -> Option<Box<dyn ContentStream + '_>> {
        // What is wrong with it shows where it is read at an offset.
        self.reading().ok()?.stream(range)
    }

    fn discard(mut self: Box<Self>) {
        self.stage.give_up();
    }

    fn publish(&mut self, name: &Name, on_existing: OnExisting) -> io::Result<Publication> {
        let stage = &mut self.stage;
        // Some servers say only now that a write has failed, or end it only now.
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
            // It may be asked again.
            Ok(Publication::Kept) => {}
            Err(error) => open.keep |= must_stay(error),
        }
        published
    }
}
