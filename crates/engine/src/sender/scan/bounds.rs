//! Rules about sources as a whole: those of files above them, and what is done about one
//! that is not there or has nothing in it.

use super::{Scan, Stopped};
use crate::Event;
use crate::dirs::DirNode;
use crate::rules::{self, Unruly};
use crate::sender::Source;
use crate::walk::Walk;
use haul_model::{Missing, Name, Systems, words};
use haul_proto::ListItem;
use std::sync::Arc;

impl Scan<'_, '_> {
    /// Takes up the rules of files above a source.
    pub(super) fn begin_rules(&self, source: &Source, path: &[u8]) -> Result<(), Unruly> {
        if !self.filter.needs_whole_paths() {
            return Ok(());
        }
        let split = words::split(path);
        match source {
            Source::Whole(node) => {
                node.begin_in(rules::begin(self.filter, self.tree, split.whole, false)?);
            }
            Source::Named { dir, .. } => {
                dir.begin_with(rules::begin(self.filter, self.tree, split.parent, true)?);
            }
        }
        Ok(())
    }

    /// True if a named source that is not there is no fault.
    pub(super) fn forgives_missing(&self) -> bool {
        self.walking.missing != Missing::Fails
    }

    /// The source `name` is not there.
    pub(super) fn missing(&mut self, name: Name) -> Result<(), Stopped> {
        match self.walking.missing {
            Missing::Removed => self.push(ListItem::Missing(name)),
            Missing::PassedOver | Missing::Fails => Ok(()),
        }
    }

    /// True if the source in `node`, which has a name, is left out, since nothing is in it
    /// but directories.
    pub(super) fn prunes(&self, walk: &Walk<'_>, node: &Arc<DirNode>) -> bool {
        self.walking.prunes_empty && (self.walking.only_dirs || !walk.has_files(node))
    }

    /// Tells if nobody knows where another file system begins.
    pub(super) fn look_at_systems(&self, node: &DirNode, path: &[u8]) {
        if self.walking.systems != Systems::All && node.id().is_none() {
            let message = "where other file systems are mounted is not known there: all are copied";
            self.sender.control.monitor().event(Event::Warning { path, message });
        }
    }
}
