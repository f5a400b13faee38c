//! The sides on which attributes of root are recorded (`--fake-super`) and links of other users are
//! followed.

use super::SyncOptions;
use crate::error::CommandError;
use haul::{Location, Machine};
use haul_engine::Links;
use haul_model::Mirror;

impl SyncOptions {
    /// The links that are followed in local paths of the command line.
    pub(super) fn links(&self) -> Links {
        if self.foreign_links { Links::All } else { Links::Own }
    }

    /// Sets the sides with `--fake-super` in `mirror`. As in rsync, the other side is the remote
    /// one. In a local copy it is DEST, which does as this side unless an option says otherwise.
    pub(super) fn with_fake_super(
        &self,
        mirror: Mirror,
        sources: &[Location],
        dest: &Location,
    ) -> Result<Mirror, CommandError> {
        let is_here = |location: &Location| location.machine == Machine::Local;
        let (from_here, to_here) = (sources.iter().all(is_here), is_here(dest));
        let there = self.fake_super_there.unwrap_or(self.fake_super_here && from_here && to_here);
        let (fakes_sources, fakes_dest) =
            if from_here { (self.fake_super_here, there) } else { (there, self.fake_super_here) };
        if (fakes_sources || fakes_dest) && self.removes_sources {
            let message = "--remove-source-files and --fake-super exclude each other: haul could not verify the copies";
            return Err(CommandError::usage(message));
        }
        let foreign_links = if to_here { self.foreign_links } else { self.foreign_links_there };
        Ok(Mirror { fakes_sources, fakes_dest, foreign_links, ..mirror })
    }
}
