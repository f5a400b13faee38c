//! Opens this user's chunk cache, with the limit from the configuration.

use crate::config::Config;
use haul::state;
use haul_engine::{CacheConfig, ChunkCache};

/// Opens the chunk cache for a job of another machine. If that fails, all content is sent.
pub(crate) fn open() -> Option<ChunkCache> {
    let place = CacheConfig { dir: state::cache_dir()?, kept_max: kept_max() };
    let open =
        |error| tracing::warn!(%error, dir = %place.dir.display(), "can't open the chunk cache");
    place.open().map_err(open).ok()
}

/// Maximum bytes of replaced or removed content that the cache keeps. With an invalid configuration
/// it is 0: other commands report the error.
pub(crate) fn kept_max() -> u64 {
    Config::load().unwrap_or_default().kept_max()
}
