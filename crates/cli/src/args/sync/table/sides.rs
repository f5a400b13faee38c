//! Options for one side: where attributes of root are recorded (`--fake-super`), and where links of
//! other users are followed.

use super::{Effect, OptionSpec, SyncOptions};
use crate::error::CommandError;
use haul::{Location, Machine};
use haul_engine::Links;
use haul_model::Mirror;

pub(in super::super) const OPTIONS: &[OptionSpec] = &[
    flag!("fake-super", None, = fake_super_here),
    value!("remote-option", Some('M'), "WORD", |options, value| {
        match value.to_str() {
            Some("--fake-super") => options.fake_super_there = Some(true),
            Some("--super") => options.fake_super_there = Some(false),
            Some("--insecure-links") => options.foreign_links_there = true,
            _ => {
                return Err("use only --fake-super, --super or --insecure-links with -M".into());
            }
        }
        Ok(())
    }),
    switch!("super", None, "", |options, on| options.no_super = !on),
    flag!("insecure-links", None, = foreign_links),
];

impl SyncOptions {
    /// The links that are followed in local paths of the command line.
    pub(in super::super) fn links(&self) -> Links {
        if self.foreign_links { Links::All } else { Links::Own }
    }

    /// Sets the sides with `--fake-super` in `mirror`. As in rsync, the other side is the remote
    /// one. In a local copy it is DEST, which does as this side unless an option says otherwise.
    pub(in super::super) fn with_fake_super(
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
