//! The value of `--info`: the kinds of messages, each with a level. It overrides `-v` and
//! `--stats`, in whichever order they are given.

use super::{Stats, SyncOptions};
use crate::error::CommandError;
use crate::lines::Lines;

/// The requested levels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Info {
    names: Option<u8>,
    removed: Option<u8>,
    unsafe_links: Option<u8>,
    skipped: Option<u8>,
    backups: Option<u8>,
    figures: Option<u8>,
    progress: Option<u8>,
}

/// Flags that have no effect in haul.
const IGNORED_FLAGS: [&str; 6] = ["copy", "flist", "misc", "mount", "nonreg", "remove"];

/// The flags of `--info` and their help.
const FLAGS: [(&str, &str); 9] = [
    ("NAME", "Names of updated entries; level 2 with -i also unchanged ones"),
    ("DEL", "Removed entries"),
    ("BACKUP", "Backups"),
    ("SKIP", "Files skipped because the destination's is newer or exists"),
    ("SYMSAFE", "Symbolic links that --safe-links leaves out"),
    ("PROGRESS", "Progress, once a second"),
    ("STATS", "Figures: level 1 one line, level 2 a block"),
    ("ALL", "All of these, at this level"),
    ("NONE", "None of these"),
];

/// The answer to `--info=help`.
pub(super) fn help() -> String {
    let flags: String = FLAGS.iter().map(|(flag, what)| format!("  {flag:<9} {what}\n")).collect();
    let others = IGNORED_FLAGS.map(str::to_uppercase).join(", ");
    format!(
        "FLAG or FLAG1 is level 1, FLAG2 level 2; FLAG0 turns it off. Several are separated by commas.\n\n{flags}\nAccepted without effect: {others}\n"
    )
}

impl Info {
    /// Applies one value. It overrides earlier ones.
    ///
    /// # Errors
    /// If rsync has no such flag.
    pub(super) fn take(&mut self, value: &str) -> Result<(), &'static str> {
        for flag in value.split(',') {
            let flag = flag.to_ascii_lowercase();
            let name = flag.trim_end_matches(|c: char| c.is_ascii_digit());
            let level = match &flag[name.len()..] {
                "" => 1,
                digits => digits.parse().unwrap_or(u8::MAX),
            };
            match name {
                "none" => *self = Self::all(0),
                "all" => *self = Self::all(level),
                "name" => self.names = Some(level),
                "del" => self.removed = Some(level),
                "symsafe" => self.unsafe_links = Some(level),
                "skip" => self.skipped = Some(level),
                "backup" => self.backups = Some(level),
                "stats" => self.figures = Some(level),
                "progress" => self.progress = Some(level),
                name if IGNORED_FLAGS.contains(&name) => {}
                _ => return Err("not a flag of rsync"),
            }
        }
        Ok(())
    }

    fn all(level: u8) -> Self {
        let level = Some(level);
        Self {
            names: level,
            removed: level,
            unsafe_links: level,
            skipped: level,
            backups: level,
            figures: level,
            progress: level,
        }
    }

    /// The level at which names are printed; `verbose` is the number of `-v`.
    pub(super) fn names(self, verbose: u8) -> u8 {
        self.names.unwrap_or(verbose)
    }

    /// True if removals are printed.
    pub(super) fn prints_removed(self, verbose: u8) -> bool {
        self.removed.unwrap_or(verbose) > 0
    }

    /// True if links that lead out of the destination are reported as skipped.
    pub(super) fn prints_unsafe(self, verbose: u8) -> bool {
        self.unsafe_links.unwrap_or(verbose) > 0
    }

    /// True if files are reported that are skipped because of the destination's file.
    fn prints_skipped(self, verbose: u8) -> bool {
        self.skipped.map_or(verbose > 1, |level| level > 0)
    }

    fn prints_backups(self, verbose: u8) -> bool {
        self.backups.map_or(verbose > 1, |level| level > 0)
    }

    /// True if progress is printed even without a terminal. `requested`: `--progress` was given.
    fn prints_progress(self, requested: bool) -> bool {
        self.progress.map_or(requested, |level| level > 0)
    }

    /// The statistics; `requested` is the value of `--stats`.
    pub(super) fn figures(self, verbose: u8, requested: Stats) -> Stats {
        match (self.figures, requested) {
            (Some(0), _) => Stats::None,
            (Some(1), _) => Stats::Line,
            (Some(_), _) => Stats::Block,
            (None, Stats::None) if verbose > 0 => Stats::Line,
            (None, requested) => requested,
        }
    }
}

impl SyncOptions {
    /// The lines about entries. With `--quiet` there are none, except in JSON.
    pub(super) fn lines(&self, is_json: bool) -> Result<Lines, CommandError> {
        let names = self.info.names(self.verbose);
        let lines = Lines::new(self.itemize, names, self.out_format.as_deref())?
            .with_removed(self.info.prints_removed(self.verbose))
            .with_unsafe(self.info.prints_unsafe(self.verbose))
            .with_skipped(self.info.prints_skipped(self.verbose))
            .with_backups(
                self.backup()?.filter(|_| self.info.prints_backups(self.verbose) && !self.dry_run),
            )
            .with_eight_bit(self.eight_bit)
            .with_created(names > 0)
            .with_progress(self.info.prints_progress(self.progress))
            .with_times(self.times, !self.omits_link_times)
            .with_log(self.log_file.as_deref(), self.links(), self.log_format.as_deref())?;
        Ok(if self.quiet && !is_json { lines.log_only() } else { lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_overrides_the_option_for_progress() {
        let tells = |values: &[&str], requested| {
            let mut info = Info::default();
            values.iter().for_each(|value| info.take(value).expect("a known part"));
            info.prints_progress(requested)
        };
        assert!(!tells(&[], false) && tells(&[], true));
        assert!(tells(&["progress2"], false) && tells(&["name,progress"], false));
        assert!(!tells(&["progress0"], true) && !tells(&["none"], true));
    }
}
