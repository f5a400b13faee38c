//! Where haul keeps what one run leaves for the next on this machine.

use std::env;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directory of the journals of uploads to hosts without haul, which is made
/// if it is missing: `$XDG_STATE_HOME/haul/uploads`, or `~/.local/state/haul/uploads`.
/// `None` where there is no such place; then uploads can't be continued.
pub(crate) fn journals() -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from).and_then(absolute);
    let home = || env::var_os("HOME").map(PathBuf::from).and_then(absolute);
    let state = state.or_else(|| Some(home()?.join(".local/state")))?;
    let dir = state.join("haul/uploads");
    make_private(&dir).then_some(dir)
}

fn make_private(dir: &Path) -> bool {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).is_ok()
}
