//! Where haul keeps what one run leaves for the next on this machine, and the
//! directories of the user that the environment names.

use crate::args::Passage;
use crate::config::Config;
use haul_engine::{CachePlace, ChunkCache};
use std::env;
use std::path::PathBuf;

/// The directory of the journals of uploads to hosts without haul:
/// `$XDG_STATE_HOME/haul/uploads`, or `~/.local/state/haul/uploads`. `None` where
/// the environment names no such place; then uploads can't be continued.
pub(crate) fn journals() -> Option<PathBuf> {
    Some(base("XDG_STATE_HOME", ".local/state")?.join("haul/uploads"))
}

/// The directory of the sockets of kept connections: `$XDG_RUNTIME_DIR/haul`, or
/// `~/.local/state/haul/kept`. `None` where the environment names no such place; then no
/// connection is kept.
pub(crate) fn kept() -> Option<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match runtime.filter(|path| path.is_absolute()) {
        Some(runtime) => Some(runtime.join("haul")),
        None => Some(base("XDG_STATE_HOME", ".local/state")?.join("haul/kept")),
    }
}

/// The directory in which haul keeps its key, and the servers that it is enrolled at:
/// `$XDG_STATE_HOME/haul`, or `~/.local/state/haul`.
pub(crate) fn dir() -> Option<PathBuf> {
    Some(base("XDG_STATE_HOME", ".local/state")?.join("haul"))
}

/// The directory of the configuration: `$XDG_CONFIG_HOME/haul`, or `~/.config/haul`.
pub(crate) fn config_dir() -> Option<PathBuf> {
    Some(base("XDG_CONFIG_HOME", ".config")?.join("haul"))
}

/// The chunk cache of a job whose contents take that way; `None` if it may not use one.
pub(crate) fn cache(passage: &Passage) -> Option<CachePlace> {
    let place = || CachePlace { dir: cache_dir().unwrap_or_default(), kept_max: passage.kept_max };
    (!passage.no_cache).then(place)
}

/// Opens the chunk cache for a job that another machine asks for. Without it all is sent.
pub(crate) fn open_cache() -> Option<ChunkCache> {
    let place = CachePlace { dir: cache_dir()?, kept_max: kept_max() };
    let open =
        |error| tracing::warn!(%error, dir = %place.dir.display(), "can't open the chunk cache");
    place.open().map_err(open).ok()
}

/// The directory of the chunk cache: `$HAUL_CACHE_DIR`, `$XDG_CACHE_HOME/haul`, or
/// `~/.cache/haul`.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    let named = env::var_os("HAUL_CACHE_DIR").map(PathBuf::from);
    match named.filter(|path| path.is_absolute()) {
        Some(dir) => Some(dir),
        None => Some(base("XDG_CACHE_HOME", ".cache")?.join("haul")),
    }
}

/// Bytes of content that would be lost and is kept there, at most. A configuration with a mistake
/// keeps nothing: other commands report it.
pub(crate) fn kept_max() -> u64 {
    Config::load().unwrap_or_default().kept_max()
}

/// The directory that `variable` names, or else `below_home` in the home directory;
/// `None` if neither is an absolute path.
pub(crate) fn base(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home)))
}
