//! Converts options about writing files to rules, and refuses contradictions.

use super::{DeleteTiming, SyncOptions};
use crate::error::CommandError;
use haul_model::{Action, Backup, Bases, Filter, Pattern, Rule, Sameness, Sides, Updating};
use std::env;
use std::ffi::OsStr;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;

impl SyncOptions {
    /// The backups. The default suffix is rsync's.
    pub(super) fn backup(&self) -> Result<Option<Backup>, CommandError> {
        let dir = self.backup_dir().map(<[u8]>::to_vec);
        let default_suffix: &[u8] = if self.backup_dir.is_some() { b"" } else { b"~" };
        let suffix =
            self.suffix.as_ref().map_or(default_suffix, |suffix| suffix.as_bytes()).to_vec();
        if suffix.contains(&b'/') {
            return Err(CommandError::usage("--suffix must have no \"/\""));
        }
        if suffix.is_empty() && dir.is_none() {
            return Err(CommandError::usage("--suffix must not be empty without --backup-dir"));
        }
        let is_enabled = self.backup || self.backup_dir.is_some();
        Ok(is_enabled.then_some(Backup { dir, suffix }))
    }

    /// The directory of backups; `None` if they are beside their files, as with DEST itself.
    fn backup_dir(&self) -> Option<&[u8]> {
        let given = self.backup_dir.as_ref()?.as_bytes();
        let mut dir = given;
        while let Some(rest) = dir.strip_prefix(b"./") {
            dir = rest;
        }
        (!matches!(dir, b"" | b".")).then_some(given)
    }

    /// True if backups are beside their files.
    pub(super) fn has_sibling_backups(&self) -> bool {
        (self.backup || self.backup_dir.is_some()) && self.backup_dir().is_none()
    }

    /// Appends the rules that rsync adds to `filter`: partial files, and backups beside their
    /// files, are neither sent nor removed.
    pub(super) fn with_implied_rules(&self, mut filter: Filter) -> Result<Filter, CommandError> {
        let mut add = |pattern: &[u8], sides, perishable| {
            let wrong = |why: &dyn Display| CommandError::usage(why.to_string());
            let pattern = Pattern::new(pattern).map_err(|why| wrong(&why))?;
            let rule = Rule { sides, perishable, ..Rule::new(Action::Exclude, pattern) };
            filter.push(rule).map_err(|why| wrong(&why))
        };
        if let Some(dir) = self.partial_dir() {
            add(&[&*dir, b"/"].concat(), self.style().plain, true)?;
        }
        if self.deletes
            && !self.deletes_excluded
            && self.has_sibling_backups()
            && let Some(Backup { suffix, .. }) = self.backup()?
        {
            add(&[b"*", &*suffix].concat(), Sides::Receiver, false)?;
        }
        Ok(filter)
    }

    /// The directory beside each file in which rsync keeps partial or delayed files.
    fn partial_dir(&self) -> Option<Vec<u8>> {
        const DELAYED_DIR: &[u8] = b".~tmp~";
        /// Sets the directory for `--partial` if no option does.
        const VARIABLE: &str = "RSYNC_PARTIAL_DIR";
        let is_requested = self.partial && !self.in_place;
        let of_environment = || env::var_os(VARIABLE).filter(|_| is_requested);
        let dir = match &self.partial_dir {
            Some(dir) => dir.clone(),
            None if self.mirror.delays_updates => OsStr::from_bytes(DELAYED_DIR).to_owned(),
            None => of_environment().filter(|dir| !dir.is_empty())?,
        };
        let dir = dir.as_bytes();
        if dir.starts_with(b"/") {
            return None;
        }
        let mut names: Vec<&[u8]> = Vec::new();
        let mut left = dir.split(|byte| *byte == b'/').peekable();
        while let Some(name) = left.next() {
            match name {
                b"" => {}
                b"." if left.peek().is_some() => {}
                b".." if names.last().is_some_and(|above| *above != b"..") => drop(names.pop()),
                name => names.push(name),
            }
        }
        (!matches!(&*names, [] | [b"."])).then(|| names.join(&b'/'))
    }

    /// The criterion by which a destination file equals its source.
    pub(super) fn sameness(&self) -> Sameness {
        match self.mirror.sameness {
            _ if self.checksum => Sameness::Content,
            Sameness::SizeAndTime if self.ignore_times => Sameness::None,
            given => given,
        }
    }

    pub(super) fn updating(&self) -> Result<Updating, CommandError> {
        let (word, updating) = match (self.append, self.in_place) {
            (true, _) => ("--append", Updating::Appends),
            (false, true) => ("--inplace", Updating::InPlace),
            (false, false) => return Ok(Updating::Replaces),
        };
        let other = match (self.partial_dir.is_some(), self.whole_file && self.append) {
            _ if self.mirror.delays_updates => "--delay-updates",
            (true, _) => "--partial-dir",
            (_, true) => "--whole-file (-W)",
            _ => return Ok(updating),
        };
        Err(CommandError::usage(format!("{word} can't be used with {other}")))
    }

    /// True if renamed files may be renamed in the destination instead of being sent. Removals must
    /// run last and be unlimited and without backups. No link to a directory may be kept.
    pub(super) fn renames(&self) -> Result<bool, CommandError> {
        let waits = matches!(self.when, None | Some(DeleteTiming::After));
        let stays = self.backup || self.backup_dir.is_some() || self.mirror.delete_max.is_some();
        let replaces = self.updating()? == Updating::Replaces && !self.mirror.keeps_dir_links;
        Ok(self.deletes && waits && !stays && replaces && !self.policy.dry_run && !self.no_moves)
    }

    pub(super) fn base_mode(&self) -> Result<Option<Bases>, CommandError> {
        let Some((first, _)) = self.bases.first() else { return Ok(None) };
        if self.bases.iter().any(|(how, _)| how != first) {
            let message = "--compare-dest, --copy-dest and --link-dest exclude each other";
            return Err(CommandError::usage(message));
        }
        if self.bases.len() > Bases::MAX {
            let message = format!("at most {} directories can be given", Bases::MAX);
            return Err(CommandError::usage(message));
        }
        Ok(Some(*first))
    }
}
