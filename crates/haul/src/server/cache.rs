//! The chunk caches of clients: one for each client and its root, so none serves what another one
//! has sent. It belongs to the user that the client works as.

use super::Place;
use super::records::Client;
use crate::state;
use haul_engine::{ChunkCache, give_to_user};
use haul_model::ContentHash;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// The rights to such a directory.
const MODE: u32 = 0o700;

/// The directory of a client's cache.
fn dir(place: &Place, client: &Client) -> PathBuf {
    let root = ContentHash::of(client.root.as_os_str().as_bytes()).to_string();
    let user = client.user.as_deref().unwrap_or_default();
    place.caches().join(format!("{}-{user}-{}", client.name, &root[..16]))
}

/// Opens the cache of `client`, before this process becomes another user and is confined.
pub(super) fn open(place: &Place, client: &Client) -> Option<ChunkCache> {
    let dir = dir(place, client);
    let opened = || {
        DirBuilder::new().recursive(true).mode(MODE).create(&dir)?;
        if let Some(user) = &client.user {
            give_to_user(&dir, user)?;
        }
        ChunkCache::open(&dir, state::kept_max())
    };
    let warn = |error: io::Error| {
        tracing::warn!(%error, dir = %dir.display(), "can't open the chunk cache of a client");
    };
    opened().map_err(warn).ok()
}

/// Removes the cache of `client`.
///
/// # Errors
/// Those of removing them.
pub(crate) fn remove(place: &Place, client: &Client) -> io::Result<()> {
    match fs::remove_dir_all(dir(place, client)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
