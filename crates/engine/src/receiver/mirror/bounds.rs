//! The part of the destination that a mirror leaves alone, since the sources were not
//! walked there, and the sources that are not there at all.

use crate::receiver::Receiver;
use crate::receiver::listing::Broken;
use haul_model::{Missing, Name, Part};

impl Receiver<'_> {
    /// Nothing in the directory was looked at: nothing there is an extra.
    pub(in crate::receiver) fn close_dir(&self, dir: u64) -> Result<(), Broken> {
        let dir = self.open_dir_of(dir)?;
        if !self.job.task.finds_extras() || dir.parent.is_none() {
            return Err(Broken("it closed a directory unexpectedly"));
        }
        *dir.unlisted.lock() = None;
        Ok(())
    }

    /// Removes what has the name of a source that is not there.
    pub(in crate::receiver) fn take_missing(&self, dir: u64, name: &Name) -> Result<(), Broken> {
        let dir = self.open_dir_of(dir)?;
        if self.publisher.removals.walking().missing != Missing::Removed {
            return Err(Broken("it reported a missing source unexpectedly"));
        }
        if let Some(asked) = &self.asked {
            asked.lock().take_missing(&dir, name)?;
        }
        let is_own = |part| matches!(part, Part::All | Part::AllElse);
        if self.job.rename.is_none() && self.job.plan.is_mirror && is_own(self.job.plan.part) {
            let mut told = Vec::new();
            let removed = self.publisher.removals.remove_missing(&dir, name, &mut told);
            self.job.tell_deleted(told);
            if let Err(error) = removed {
                self.publisher.removals.not_removed(&dir.path_of(Some(name)), &error);
            }
        }
        Ok(())
    }
}
