//! The value of `--info`: the kinds of messages, each with a level. It overrides `-v` and
//! `--stats`, in whichever order they are given.

use super::{Stats, SyncOptions};
use crate::error::CommandError;
use crate::lines::Lines;
use haul_model::Kept;

/// The requested levels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Info([Option<u8>; SHOWN_FLAGS]);

/// The number of [`FLAGS`] that stand for themselves alone.
const SHOWN_FLAGS: usize = 7;

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

/// The position of a flag among [`FLAGS`].
fn position(name: &str) -> Option<usize> {
    FLAGS[..SHOWN_FLAGS].iter().position(|(flag, _)| flag.eq_ignore_ascii_case(name))
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
                "none" => self.0.fill(Some(0)),
                "all" => self.0.fill(Some(level)),
                name => match position(name) {
                    Some(at) => self.0[at] = Some(level),
                    None if IGNORED_FLAGS.contains(&name) => {}
                    None => return Err("not a flag of rsync"),
                },
            }
        }
        Ok(())
    }

    /// The requested level of one of the flags.
    fn level(self, flag: &str) -> Option<u8> {
        self.0[position(flag)?]
    }

    /// True if the level of the flag, or else the `default`, asks for its messages.
    fn is_shown(self, flag: &str, default: bool) -> bool {
        self.level(flag).map_or(default, |level| level > 0)
    }

    /// The statistics; `requested` is the value of `--stats`.
    pub(super) fn figures(self, verbose: u8, requested: Stats) -> Stats {
        match (self.level("stats"), requested) {
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
        let names = self.info.level("name").unwrap_or(self.verbose);
        let prints_backups = self.info.is_shown("backup", self.verbose > 1) && !self.policy.dry_run;
        let mut lines = Lines::new(self.itemize, names, self.out_format.as_deref())?;
        lines.prints_removed = self.info.is_shown("del", self.verbose > 0);
        lines.prints_unsafe = self.info.is_shown("symsafe", self.verbose > 0);
        lines.prints_skipped = self.info.is_shown("skip", self.verbose > 1);
        lines.prints_progress = self.info.is_shown("progress", self.progress);
        lines.prints_created = names > 0 || lines.itemizes;
        lines.backup = self.backup()?.filter(|_| prints_backups);
        lines.eight_bit = self.eight_bit;
        lines.keeps_times = self.keeps.has(Kept::TIMES);
        lines.keeps_link_times = !self.omits_link_times;
        let (log, format) = (self.log_file.as_deref(), self.log_format.as_deref());
        let lines = lines.with_log(log, self.links(), format)?;
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
            info.is_shown("progress", requested)
        };
        assert!(!tells(&[], false) && tells(&[], true));
        assert!(tells(&["progress2"], false) && tells(&["name,progress"], false));
        assert!(!tells(&["progress0"], true) && !tells(&["none"], true));
    }
}
