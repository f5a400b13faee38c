//! Where haul keeps what one run leaves for the next on this machine.

use std::env;
use std::path::PathBuf;

/// The directory of the journals of uploads to hosts without haul:
/// `$XDG_STATE_HOME/haul/uploads`, or `~/.local/state/haul/uploads`. `None` where
/// the environment names no such place; then uploads can't be continued.
pub(crate) fn journals() -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from).and_then(absolute);
    let home = || env::var_os("HOME").map(PathBuf::from).and_then(absolute);
    let state = state.or_else(|| Some(home()?.join(".local/state")))?;
    Some(state.join("haul/uploads"))
}
