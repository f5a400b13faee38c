//! The value of `--info`: the parts of what is told, each with a level. They stand above what
//! `-v` and `--stats` ask for, wherever they stand in the command.

use super::{Stats, Wish};
use crate::error::CommandError;
use crate::lines::Lines;

/// Levels that were asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Info {
    names: Option<u8>,
    removed: Option<u8>,
    figures: Option<u8>,
}

/// Parts of which haul tells nothing, so that they have level 0 anyway.
const UNTOLD: [&str; 8] = ["backup", "copy", "flist", "misc", "mount", "remove", "skip", "symsafe"];

impl Info {
    /// Takes one value; what it says stands above what others have said.
    ///
    /// # Errors
    /// When haul can't tell, or leave untold, what it asks for.
    pub(super) fn take(&mut self, value: &str) -> Result<(), &'static str> {
        for flag in value.split(',') {
            let flag = flag.to_ascii_lowercase();
            let name = flag.trim_end_matches(|c: char| c.is_ascii_digit());
            let level = match &flag[name.len()..] {
                "" => 1,
                digits => digits.parse().unwrap_or(u8::MAX),
            };
            match (name, level) {
                ("none", _) | ("all", 0) => {
                    *self = Self { names: Some(0), removed: Some(0), figures: Some(0) };
                }
                ("name", level) => self.names = Some(level),
                ("del", level) => self.removed = Some(level),
                ("stats", level) => self.figures = Some(level),
                ("progress", _) | ("nonreg", 1..) => {}
                (name, 0) if UNTOLD.contains(&name) => {}
                _ => {
                    return Err(
                        "haul has progress, name, del, stats and none, and of others level 0 alone",
                    );
                }
            }
        }
        Ok(())
    }

    /// The level at which names are told, where so many `-v` are given.
    pub(super) fn names(self, verbose: u8) -> u8 {
        self.names.unwrap_or(verbose)
    }

    /// True if what is removed is told, too.
    pub(super) fn tells_removed(self, verbose: u8) -> bool {
        self.removed.unwrap_or(verbose) > 0
    }

    /// The figures, where `--stats` has asked for those.
    pub(super) fn figures(self, verbose: u8, asked: Stats) -> Stats {
        match (self.figures, asked) {
            (Some(0), _) => Stats::None,
            (Some(1), _) => Stats::Line,
            (Some(_), _) => Stats::Block,
            (None, Stats::None) if verbose > 0 => Stats::Line,
            (None, asked) => asked,
        }
    }
}

impl Wish {
    /// The lines that tell of entries; none if only errors are to be told, unless to a program.
    pub(super) fn lines(&self, is_json: bool) -> Result<Lines, CommandError> {
        let names = self.info.names(self.verbose);
        let lines = Lines::new(self.itemize, names, self.out_format.as_deref())?
            .telling_removed(self.info.tells_removed(self.verbose))
            .keeping_times(self.times, !self.omits_link_times)
            .with_log(self.log_file.as_deref(), self.links(), self.log_format.as_deref())?;
        Ok(if self.quiet && !is_json { lines.untold() } else { lines })
    }
}
