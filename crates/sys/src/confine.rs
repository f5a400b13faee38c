//! Confinement: a thread gives up, for itself and all that it starts, what its
//! job does not need (Landlock, where the kernel has it).

use crate::Dir;
use std::path::Path;

/// What a confined thread keeps.
#[derive(Debug)]
pub enum Access<'a> {
    /// Read everywhere, write nowhere.
    ReadOnly,
    /// Read everywhere, and remove what is below these directories; those that
    /// can't be opened are left out.
    Removing(&'a [&'a Path]),
    /// Read and write below this directory, nothing elsewhere.
    Below(&'a Dir),
}

/// Confines the calling thread and every thread that it starts later. Returns
/// whether the kernel enforces it; on a kernel without Landlock nothing
/// changes, and the rules that go through directory handles stand alone.
///
/// Files that are open already stay usable.
pub fn confine(access: Access<'_>) -> bool {
    system::confine(access)
}

#[cfg(target_os = "linux")]
mod system {
    use super::Access;
    use crate::Dir;
    use landlock::{
        ABI, Access as _, AccessFs, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
        RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus,
    };
    use std::fs::File;
    use std::os::fd::AsFd;

    /// The newest set of rules that is asked for; older kernels enforce what
    /// they know of it.
    const RULES: ABI = ABI::V5;

    pub(super) fn confine(access: Access<'_>) -> bool {
        match try_confine(access) {
            Ok(status) => status != RulesetStatus::NotEnforced,
            Err(_) => false,
        }
    }

    fn try_confine(access: Access<'_>) -> Result<RulesetStatus, RulesetError> {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(RULES))?
            .create()?;
        let ruleset = match access {
            Access::ReadOnly => reading(ruleset)?,
            Access::Removing(dirs) => {
                let removes = AccessFs::RemoveFile | AccessFs::RemoveDir;
                let mut opened = dirs.iter().filter_map(|dir| Dir::open(dir).ok());
                opened.try_fold(reading(ruleset)?, |ruleset, dir| {
                    ruleset.add_rule(PathBeneath::new(dir, removes))
                })?
            }
            Access::Below(dir) => {
                ruleset.add_rule(PathBeneath::new(dir.as_fd(), AccessFs::from_all(RULES)))?
            }
        };
        Ok(ruleset.restrict_self()?.ruleset)
    }

    /// Allows to read everywhere.
    fn reading(ruleset: RulesetCreated) -> Result<RulesetCreated, RulesetError> {
        match File::open("/") {
            Ok(root) => ruleset.add_rule(PathBeneath::new(root, AccessFs::from_read(RULES))),
            Err(_) => Ok(ruleset),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::Access;

    pub(super) fn confine(_: Access<'_>) -> bool {
        false
    }
}
