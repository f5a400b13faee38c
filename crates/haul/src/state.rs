//! The directories of the user that environment variables name. haul keeps files there from one run
//! to the next.

use std::env;
use std::path::PathBuf;

/// The directory for journals of uploads to hosts without haul: `$XDG_STATE_HOME/haul/uploads`, or
/// `~/.local/state/haul/uploads`. `None` if neither is an absolute path. Uploads can't be resumed
/// then.
pub fn journals() -> Option<PathBuf> {
    Some(base("XDG_STATE_HOME", ".local/state")?.join("haul/uploads"))
}

/// The directory for sockets of kept connections: `$XDG_RUNTIME_DIR/haul`,
/// `$XDG_STATE_HOME/haul/kept`, or `~/.local/state/haul/kept`. `None` if none is an absolute path.
/// No connection is kept then.
pub fn kept() -> Option<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match runtime.filter(|path| path.is_absolute()) {
        Some(runtime) => Some(runtime.join("haul")),
        None => Some(base("XDG_STATE_HOME", ".local/state")?.join("haul/kept")),
    }
}

/// The directory for haul's key, and the servers that the user is enrolled at:
/// `$XDG_STATE_HOME/haul`, or `~/.local/state/haul`.
pub fn dir() -> Option<PathBuf> {
    Some(base("XDG_STATE_HOME", ".local/state")?.join("haul"))
}

/// The directory for the configuration: `$XDG_CONFIG_HOME/haul`, or `~/.config/haul`.
pub fn config_dir() -> Option<PathBuf> {
    Some(base("XDG_CONFIG_HOME", ".config")?.join("haul"))
}

/// The directory for the chunk cache: `$HAUL_CACHE_DIR`, `$XDG_CACHE_HOME/haul`, or
/// `~/.cache/haul`.
pub fn cache_dir() -> Option<PathBuf> {
    let named = env::var_os("HAUL_CACHE_DIR").map(PathBuf::from);
    match named.filter(|path| path.is_absolute()) {
        Some(dir) => Some(dir),
        None => Some(base("XDG_CACHE_HOME", ".cache")?.join("haul")),
    }
}

/// The directory in the environment `variable`, or `below_home` in the home directory. `None` if
/// neither is an absolute path.
pub fn base(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home)))
}
