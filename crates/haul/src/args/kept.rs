//! The words that say what is kept of the sources besides modes and times.

use clap::Args;
use haul_model::Kept;

/// The heading of these words in the help.
const KEPT: &str = "What to keep";

/// Words of `haul copy` and `haul check`, with the meanings that rsync gives them.
#[derive(Debug, Args)]
pub(super) struct KeptWords {
    /// As -r, and keep owners, groups, set-ID bits, ACLs, extended attributes, hard links,
    /// devices, FIFOs and sockets
    #[arg(short, long, help_heading = KEPT)]
    pub(super) archive: bool,
    /// Keep owners, as root
    #[arg(long, help_heading = KEPT)]
    owner: bool,
    /// Keep groups; without root only those that the user is in
    #[arg(long, help_heading = KEPT)]
    group: bool,
    /// Keep access control lists
    #[arg(short = 'A', long, help_heading = KEPT)]
    acls: bool,
    /// Keep extended attributes: those of users, and with root those of the system
    #[arg(short = 'X', long, help_heading = KEPT)]
    xattrs: bool,
    /// Keep hard links: names of one file are names of one file
    #[arg(short = 'H', long, help_heading = KEPT)]
    hard_links: bool,
    /// Make devices anew, as root; else they are left out
    #[arg(long, help_heading = KEPT)]
    devices: bool,
    /// Make FIFOs and sockets anew; else they are left out
    #[arg(long, help_heading = KEPT)]
    specials: bool,
    /// Keep the times of the last reading
    #[arg(long, help_heading = KEPT)]
    atimes: bool,
    /// Keep the numbers of users and groups, whatever their names are at the destination
    #[arg(long, help_heading = KEPT)]
    pub(super) numeric_ids: bool,
}

impl KeptWords {
    /// All that is kept.
    pub(super) fn keeps(&self) -> Kept {
        let all = Kept::OF_ARCHIVES.only_if(self.archive);
        let owner = Kept::USER.with(Kept::SET_ID).only_if(self.owner);
        let group = Kept::GROUP.with(Kept::SET_ID).only_if(self.group);
        Kept::OF_COPIES
            .with(all)
            .with(owner)
            .with(group)
            .with(Kept::ACL.only_if(self.acls))
            .with(Kept::XATTRS.only_if(self.xattrs))
            .with(Kept::LINKS.only_if(self.hard_links))
            .with(Kept::DEVICES.only_if(self.devices))
            .with(Kept::SPECIALS.only_if(self.specials))
            .with(Kept::ATIMES.only_if(self.atimes))
    }
}
