//! Large files that incomplete uploads have left. The stages are on the host, the journals on this
//! machine.

use super::dir::SftpDir;
use super::stage::SftpStage;
use crate::{ResumablePart, StagedFile, Unfinished};
use haul_model::{BLOCK_LEN, BlockHash, Name};
use haul_sftp::Extension;
use haul_store::{Earlier, RemoteJournal, RemoteNames, SourceId, StaleStages};
use haul_sys::Dir;
use std::io;
use std::sync::{Arc, OnceLock};

impl SftpDir {
    /// The directory of a copy's journal, and the names of journal and stage. `None` without a
    /// directory for journals.
    fn journal_of(&self, name: &Name, source: &SourceId) -> Option<(&Arc<Dir>, RemoteNames)> {
        let journals = self.host.journals.as_ref()?;
        let place = self.host.place(&self.path);
        Some((journals.dir(), RemoteNames::of(journals, &place, name, source)))
    }

    fn remove_stage(&self, stage: &str) {
        // It may have been removed already.
        let _ = self.host.client().remove_file(&self.path_of(stage.as_bytes()));
    }
}

impl Unfinished for SftpDir {
    fn earlier(&self, name: &Name, source: &SourceId) -> Earlier {
        self.journal_of(name, source).map_or(Earlier::Nothing, |(journals, names)| {
            RemoteJournal::earlier(journals, &names, source)
        })
    }

    fn resume(
        &self,
        name: &Name,
        source: &SourceId,
    ) -> io::Result<(Box<dyn StagedFile>, Vec<BlockHash>)> {
        self.ready()?;
        let (journals, names) = self.journal_of(name, source).ok_or(io::ErrorKind::Unsupported)?;
        let (stage, blocks) = SftpStage::resume(&self.host, &self.path, journals, &names, source)?;
        Ok((Box::new(stage), blocks))
    }

    fn kept(&self, name: &Name, source: &SourceId) -> Option<ResumablePart> {
        let part = self.journal_of(name, source).map(|(journals, names)| {
            let keeps_durable = self.host.client().has(Extension::Fsync);
            let blocks = RemoteJournal::kept(journals, &names, source, keeps_durable);
            let path = self.path_of(names.stage.as_bytes());
            ResumablePart { len: blocks * BLOCK_LEN, path }
        });
        Some(part.unwrap_or_default())
    }

    fn remove_leftovers(&self, name: &Name, source: &SourceId) -> bool {
        let Some((journals, names)) = self.journal_of(name, source) else { return false };
        if RemoteJournal::earlier(journals, &names, source) == Earlier::Nothing {
            return false;
        }
        self.remove_stage(&names.stage);
        RemoteJournal::remove(journals, &names);
        true
    }

    fn remove_stale(&self, name: &Name, _seen: &OnceLock<StaleStages>) {
        let Some(journals) = &self.host.journals else { return };
        let all = self.host.earlier_journals.get_or_init(|| RemoteJournal::all(journals.dir()));
        let place = self.host.place(&self.path);
        RemoteJournal::remove_stale(journals.dir(), all, &place, name, |stage| {
            self.remove_stage(stage);
        });
    }
}
