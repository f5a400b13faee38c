//! Large files that uploads which ended early have left on a host: the stages are there,
//! their journals here.

use super::dir::SftpDir;
use super::stage::{self, SftpStage};
use crate::{KeptPart, StagedFile, Unfinished};
use haul_model::{BlockHash, Name};
use haul_store::{Earlier, SourceId, StaleStages};
use std::io;
use std::sync::OnceLock;

impl Unfinished for SftpDir {
    fn earlier(&self, name: &Name, source: &SourceId) -> Earlier {
        stage::earlier(&self.host, &self.path, name, source)
    }

    fn resume(
        &self,
        name: &Name,
        source: &SourceId,
    ) -> io::Result<(Box<dyn StagedFile>, Vec<BlockHash>)> {
        self.ready()?;
        let (stage, blocks) = SftpStage::resume(&self.host, &self.path, name, source)?;
        Ok((Box::new(stage), blocks))
    }

    fn kept(&self, name: &Name, source: &SourceId) -> Option<KeptPart> {
        // Without a place for journals nothing is.
        Some(stage::kept(&self.host, &self.path, name, source).unwrap_or_default())
    }

    fn remove_leftovers(&self, name: &Name, source: &SourceId) -> bool {
        stage::remove_leftovers(&self.host, &self.path, name, source)
    }

    fn remove_stale(&self, name: &Name, _seen: &OnceLock<StaleStages>) {
        stage::remove_stale(&self.host, &self.path, name);
    }
}
