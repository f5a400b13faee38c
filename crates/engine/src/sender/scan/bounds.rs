//! Rules about whole sources: rule files in directories above them, and file system boundaries.

use super::Scan;
use crate::Event;
use crate::dirs::DirNode;
use crate::rules::{self, RuleFileError};
use crate::sender::Source;
use haul_model::{Side, Systems, words};

impl Scan<'_, '_> {
    /// Loads the rule files above a source.
    pub(super) fn begin_rules(&self, source: &Source, path: &[u8]) -> Result<(), RuleFileError> {
        if !self.filter.needs_whole_paths() {
            return Ok(());
        }
        let split = words::split(path);
        match source {
            Source::Whole(node) => {
                node.set_rules_above(rules::begin(self.filter, self.tree, split.whole, false)?);
            }
            Source::Named { dir, .. } => {
                dir.set_rules(rules::begin(self.filter, self.tree, split.parent, true)?);
            }
        }
        Ok(())
    }

    /// Warns if the tree can't report file system boundaries.
    pub(super) fn warn_unknown_boundaries(&self, node: &DirNode, path: &[u8]) {
        if self.walking.systems != Systems::All && node.id().is_none() {
            let message = "mount points can't be found there: copying all file systems";
            self.sender.control.monitor().event(Event::Warning {
                side: Some(Side::Source),
                path,
                message,
            });
        }
    }
}
