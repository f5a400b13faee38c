//! The options for attributes besides modes and times.

use clap::Args;
use haul_model::Kept;

/// Options of `haul copy` and `haul check`, with rsync's meanings.
#[derive(Debug, Args)]
pub(super) struct AttributeArgs {
    #[arg(short, long)]
    pub(super) archive: bool,
    #[arg(long)]
    owner: bool,
    #[arg(long)]
    group: bool,
    #[arg(short = 'A', long)]
    acls: bool,
    #[arg(short = 'X', long)]
    xattrs: bool,
    #[arg(short = 'H', long)]
    hard_links: bool,
    #[arg(long)]
    devices: bool,
    #[arg(long)]
    specials: bool,
    #[arg(long)]
    atimes: bool,
    #[arg(long)]
    pub(super) numeric_ids: bool,
}

impl AttributeArgs {
    /// All attributes to preserve.
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
