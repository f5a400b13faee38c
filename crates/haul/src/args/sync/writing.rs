//! The words about how files are written, as rules: those that contradict each other are
//! refused.

use super::{When, Wish};
use crate::error::CommandError;
use haul_model::{Backup, Bases, Sameness, Updating};
use std::os::unix::ffi::OsStrExt;

impl Wish {
    /// The backups, with the suffix that rsync gives them.
    pub(super) fn backup(&self) -> Result<Option<Backup>, CommandError> {
        if !self.backup && self.backup_dir.is_none() {
            return Ok(None);
        }
        let dir = self.backup_dir.as_ref().map(|dir| dir.as_bytes().to_vec());
        let usual: &[u8] = if dir.is_some() { b"" } else { b"~" };
        let suffix = self.suffix.as_ref().map_or(usual, |suffix| suffix.as_bytes()).to_vec();
        if suffix.contains(&b'/') {
            return Err(CommandError::usage("--suffix must have no \"/\""));
        }
        if suffix.is_empty() && dir.is_none() {
            return Err(CommandError::usage("--suffix must not be empty without --backup-dir"));
        }
        Ok(Some(Backup { dir, suffix }))
    }

    /// The proof that a file of the destination is that of a source.
    pub(super) fn sameness(&self) -> Sameness {
        match self.mirror.sameness {
            _ if self.checksum => Sameness::Content,
            Sameness::SizeAndTime if self.ignore_times => Sameness::None,
            given => given,
        }
    }

    pub(super) fn updating(&self) -> Result<Updating, CommandError> {
        let (word, updating) = match (self.appends, self.in_place) {
            (true, _) => ("--append", Updating::Appends),
            (false, true) => ("--inplace", Updating::InPlace),
            (false, false) => return Ok(Updating::Replaces),
        };
        let other = match (self.has_partial_dir, self.whole_file && self.appends) {
            _ if self.mirror.delays => "--delay-updates",
            (true, _) => "--partial-dir",
            (_, true) => "--whole-file (-W)",
            _ => return Ok(updating),
        };
        Err(CommandError::usage(format!("{word} can't be used with {other}")))
    }

    /// True if files may get their new names in the destination: not where what is removed
    /// makes room on the way, or may stay.
    pub(super) fn renames(&self) -> Result<bool, CommandError> {
        let waits = matches!(self.when, None | Some(When::After));
        let stays = self.backup || self.backup_dir.is_some() || self.mirror.delete_max.is_some();
        let replaces = self.updating()? == Updating::Replaces;
        Ok(self.deletes && waits && !stays && replaces && !self.dry_run && !self.sends_moved)
    }

    pub(super) fn how_bases_are_used(&self) -> Result<Option<Bases>, CommandError> {
        let Some((first, _)) = self.bases.first() else { return Ok(None) };
        if self.bases.iter().any(|(how, _)| how != first) {
            let message = "--compare-dest, --copy-dest and --link-dest exclude each other";
            return Err(CommandError::usage(message));
        }
        if self.bases.len() > Bases::MAX {
            let message = format!("there may be {} directories to look into", Bases::MAX);
            return Err(CommandError::usage(message));
        }
        Ok(Some(*first))
    }
}
