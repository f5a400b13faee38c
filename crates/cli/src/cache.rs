//! The chunk cache of this user, as the configuration says.

use crate::config::Config;
use haul::state;
use haul_engine::{CachePlace, ChunkCache};

/// Opens the chunk cache for a job that another machine asks for. Without it all is sent.
pub(crate) fn open() -> Option<ChunkCache> {
    let place = CachePlace { dir: state::cache_dir()?, kept_max: kept_max() };
    let open =
        |error| tracing::warn!(%error, dir = %place.dir.display(), "can't open the chunk cache");
    place.open().map_err(open).ok()
}

/// Bytes of content that would be lost and is kept there, at most. A configuration with a mistake
/// keeps nothing: other commands report it.
pub(crate) fn kept_max() -> u64 {
    Config::load().unwrap_or_default().kept_max()
}
