//! Private entries that are there for a moment, to see where else they show.

use haul_model::Name;
use haul_store::private_name;
use haul_sys::Dir;
use std::io;

/// The mode of a directory that is there for a moment.
const PRIVATE_DIR_MODE: u32 = 0o700;

/// Makes a private file in `dir` for a moment, or a directory where a file may come to
/// those behind the file system only when some time has passed, in which `look` is asked for what it
/// sees of its name. `None` where nothing can be made.
///
/// # Errors
/// When `dir` can't be looked at, or what was made can't be removed again.
pub fn with_mark<T>(dir: &Dir, look: impl FnOnce(&[u8]) -> T) -> io::Result<Option<T>> {
    let time = dir.stat_self()?.mtime;
    let name = private_name();
    let mark = Name::new(name.as_bytes()).expect("a private name is a name");
    let is_file = dir.syncs_as_a_whole();
    let made = if is_file {
        dir.create_private(&name).map(drop)
    } else {
        dir.make_dir(&mark, PRIVATE_DIR_MODE)
    };
    if made.is_err() {
        return Ok(None);
    }
    let looked = look(name.as_bytes());
    if is_file {
        dir.remove_private(&name)?;
    } else {
        dir.remove_dir(&mark)?;
    }
    // It has the time of its source, and another one would be no fault of it.
    let _ = haul_sys::set_mtime(dir, time);
    Ok(Some(looked))
}
