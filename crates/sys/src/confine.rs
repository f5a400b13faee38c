//! Confinement: a thread gives up rights that its job does not need, for itself and all threads
//! that it starts (Landlock, if the kernel has it).

use crate::Dir;
use std::path::Path;

#[cfg(target_os = "linux")]
pub use system::confine;
#[cfg(target_os = "linux")]
pub(crate) use system::confine_below;

elsewhere!(pub fn confine(Access<'_>) -> bool = false);
elsewhere!(pub(crate) fn confine_below(&Dir, bool, &[Dir]) -> bool = false);

/// The rights that a confined thread keeps.
#[derive(Debug)]
pub enum Access<'a> {
    /// Read everywhere, write nowhere.
    ReadOnly,
    /// Read everywhere, and rename and remove entries below these directories. Directories that
    /// can't be opened are left out. New entries can't be written to.
    Rename(&'a [&'a Path]),
    /// Read and write below these directories, nothing elsewhere.
    Below {
        /// The directories for reading and writing.
        writes: &'a [Dir],
        /// Other directories, for reading only.
        reads: &'a [Dir],
    },
}

#[cfg(target_os = "linux")]
mod system {
    use super::Access;
    use crate::Dir;
    use landlock::{
        ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
        RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus,
    };
    use std::fs::File;
    use std::os::fd::AsFd;

    /// The newest Landlock version that is requested. Older kernels enforce the part that they
    /// know.
    const RULES: ABI = ABI::V5;

    /// Confines the calling thread and every thread that it starts later. Returns whether the kernel
    /// enforces it. Without Landlock nothing changes, and only the use of directory handles protects.
    ///
    /// Files that are already open stay usable.
    pub fn confine(access: Access<'_>) -> bool {
        restrict(|ruleset| match access {
            Access::ReadOnly => reading(ruleset),
            Access::Rename(dirs) => {
                // A rename needs the right to create the new name.
                let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
                let specials = AccessFs::MakeFifo | AccessFs::MakeSock | devices;
                let plain = AccessFs::MakeReg | AccessFs::MakeDir | AccessFs::MakeSym;
                let makes = plain | specials;
                let moves = AccessFs::RemoveFile | AccessFs::RemoveDir | makes;
                let opened: Vec<_> = dirs.iter().filter_map(|dir| Dir::open(dir).ok()).collect();
                allow(reading(ruleset)?, &opened, moves)
            }
            Access::Below { writes, reads } => {
                let ruleset = allow(ruleset, writes, AccessFs::from_all(RULES))?;
                allow(ruleset, reads, AccessFs::ReadFile | AccessFs::ReadDir)
            }
        })
    }

    /// Denies everything that `add` does not allow. Returns whether the kernel enforces it.
    fn restrict(add: impl FnOnce(RulesetCreated) -> Result<RulesetCreated, RulesetError>) -> bool {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(RULES))
            .and_then(|ruleset| ruleset.create());
        let restricted = ruleset.and_then(add).and_then(|ruleset| ruleset.restrict_self());
        restricted.is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced)
    }

    /// Allows `access` below `dirs`.
    fn allow(
        ruleset: RulesetCreated,
        dirs: &[Dir],
        access: impl Into<BitFlags<AccessFs>> + Copy,
    ) -> Result<RulesetCreated, RulesetError> {
        let allow = |ruleset: RulesetCreated, dir: &Dir| {
            ruleset.add_rule(PathBeneath::new(dir.as_fd(), access))
        };
        dirs.iter().try_fold(ruleset, allow)
    }

    /// Confines the calling thread, and all threads that it starts, to `root`. Nothing elsewhere can be
    /// opened. Without `writes` nothing below `root` can be changed. In `besides` everything is
    /// allowed. Returns whether the kernel enforces it.
    pub(crate) fn confine_below(root: &Dir, writes: bool, besides: &[Dir]) -> bool {
        // Nothing below it is ever executed.
        let all = AccessFs::from_all(RULES) & !AccessFs::Execute;
        let access = if writes { all } else { AccessFs::from_read(RULES) & !AccessFs::Execute };
        let rule = PathBeneath::new(root.as_fd(), access);
        restrict(|ruleset| allow(ruleset.add_rule(rule)?, besides, all))
    }

    /// Allows reading everywhere, or in the directory that this process is confined to.
    fn reading(ruleset: RulesetCreated) -> Result<RulesetCreated, RulesetError> {
        if let Some(root) = crate::jail::root() {
            return ruleset.add_rule(PathBeneath::new(root, AccessFs::from_read(RULES)));
        }
        match File::open("/") {
            Ok(root) => ruleset.add_rule(PathBeneath::new(root, AccessFs::from_read(RULES))),
            Err(_) => Ok(ruleset),
        }
    }
}
