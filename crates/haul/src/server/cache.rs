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
use std::thread;
use std::time::{Duration, Instant};

/// The rights to such a directory.
const MODE: u32 = 0o700;

/// How long a revoked client may still use its cache.
const IN_USE_MAX: Duration = Duration::from_secs(2);

/// How often its removal is tried.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The directory of a client's cache.
fn dir(place: &Place, client: &Client) -> PathBuf {
    let user = client.user.as_deref().unwrap_or_default().as_bytes();
    let (key, root) = (client.key.to_string(), client.root.as_os_str().as_bytes());
    let whose = [key.as_bytes(), user, root].join(&0);
    let number = ContentHash::of(&whose).to_string();
    place.caches().join(format!("{}-{}", client.name, &number[..16]))
}

/// Opens the cache of `client`, before this process becomes another user and is confined.
pub(super) fn open(place: &Place, client: &Client) -> Option<ChunkCache> {
    let dir = dir(place, client);
    let opened = || {
        DirBuilder::new().recursive(true).mode(MODE).create(&dir)?;
        if let Some(user) = &client.user {
            give_to_user(&dir, user)?;
        }
        ChunkCache::open_for_other(&dir, state::kept_max())
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
    let end = Instant::now() + IN_USE_MAX;
    loop {
        match fs::remove_dir_all(dir(place, client)) {
            // A job that is about to end still writes there.
            Err(error) if error.kind() != io::ErrorKind::NotFound && Instant::now() < end => {
                thread::sleep(LOOK_AGAIN);
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Ok(()),
        }
    }
}
