//! The chunk caches of clients. Each client and root has its own, so no client reads content that
//! another one sent. The user that runs the client's jobs owns the cache.

use super::paths::{ServerPaths, failed};
use super::records::{Client, Records};
use crate::error::{CommandError, ErrorKind};
use haul_engine::{ChunkCache, give_to_user};
use haul_model::ContentHash;
use haul_net::PublicKey;
use std::collections::HashSet;
use std::fs::{self, DirBuilder, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The mode of a cache directory.
const MODE: u32 = 0o700;

/// Maximum time that removing a cache waits for a revoked client's jobs.
const IN_USE_MAX: Duration = Duration::from_secs(2);

/// Interval between attempts to remove it.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

fn dir(paths: &ServerPaths, client: &Client) -> PathBuf {
    let user = client.user.as_deref().unwrap_or_default().as_bytes();
    let (key, root) = (client.key.to_string(), client.root.as_os_str().as_bytes());
    let whose = [key.as_bytes(), user, root].join(&0);
    let number = ContentHash::of(&whose).to_string();
    paths.caches().join(format!("{}-{}", client.name, &number[..16]))
}

/// Returns the cache directory of the client with this key, and creates it if it is missing.
///
/// # Errors
/// If no client has this key, or the records can't be read.
pub(crate) fn dir_of(key: &PublicKey) -> Result<PathBuf, CommandError> {
    let paths = ServerPaths::find()?;
    let clients = Records::load(&paths)?.clients;
    let client = clients.iter().find(|client| client.key == *key);
    let unknown = || CommandError::new(ErrorKind::Refused, "no client of the server has this key");
    let client = client.ok_or_else(unknown)?;
    open(&paths, client);
    Ok(dir(&paths, client))
}

/// Opens the cache of `client`. Must run before this process changes its user and is confined.
pub(super) fn open(paths: &ServerPaths, client: &Client) -> Option<ChunkCache> {
    let dir = dir(paths, client);
    let opened = || {
        DirBuilder::new().recursive(true).mode(MODE).create(&dir)?;
        if let Some(user) = &client.user {
            give_to_user(&dir, user)?;
        }
        ChunkCache::open_for_other(&dir, crate::cache::kept_max())
    };
    let warn = |error: io::Error| {
        tracing::warn!(%error, dir = %dir.display(), "can't open the chunk cache of a client");
    };
    opened().map_err(warn).ok()
}

/// Removes the caches of clients that were revoked, or enrolled again with another name, root or
/// user.
///
/// # Errors
/// If the records can't be read, or a cache can't be removed.
pub(crate) fn remove_unused(paths: &ServerPaths) -> Result<(), CommandError> {
    let caches = paths.caches();
    let entries = match fs::read_dir(&caches) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.and_then(Iterator::collect::<io::Result<Vec<_>>>),
    };
    let entries = entries.map_err(|error| failed(&caches, &error))?;
    // Read after the directory, so that they contain every client with a cache in the list.
    let clients = Records::load(paths)?.clients;
    let used: HashSet<_> = clients.iter().map(|client| dir(paths, client)).collect();
    let end = Instant::now() + IN_USE_MAX;
    let mut unused = entries.iter().map(DirEntry::path).filter(|path| !used.contains(path));
    unused.try_for_each(|path| remove(&path, end).map_err(|error| failed(&path, &error)))
}

fn remove(dir: &Path, end: Instant) -> io::Result<()> {
    loop {
        match fs::remove_dir_all(dir) {
            // A job that is ending may still write to the cache.
            Err(error) if error.kind() != io::ErrorKind::NotFound && Instant::now() < end => {
                thread::sleep(POLL_INTERVAL);
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Right, timestamp_now};
    use haul_net::Identity;

    fn client(name: &str, root: &str) -> Client {
        let key = Identity::new().expect("a key").key();
        let (root, right, added) = (root.into(), Right::Write, Some(timestamp_now()));
        Client { name: name.to_owned(), key, root, right, user: None, added, server_key: None }
    }

    #[test]
    fn a_client_that_is_enrolled_again_or_revoked_leaves_no_cache() {
        let files = tempfile::TempDir::new().expect("a directory");
        let paths = ServerPaths::below(&files.path().join("server"));
        remove_unused(&paths).expect("there are none");
        let (ann, bob) = (client("ann", "/srv/a"), client("bob", "/srv/b"));
        let change = |change: &dyn Fn(&mut Records) -> Result<(), CommandError>| {
            Records::change(&paths, change).expect("changed");
            remove_unused(&paths).expect("removed");
        };
        let has = |client: &Client| dir(&paths, client).join("kept").exists();
        let use_cache = |client: &Client| {
            fs::create_dir_all(dir(&paths, client).join("kept")).expect("made");
        };
        change(&|records| records.add(ann.clone()).and_then(|()| records.add(bob.clone())));
        [&ann, &bob].into_iter().for_each(use_cache);
        let read_only = Client { right: Right::Read, ..ann.clone() };
        change(&|records| records.add(read_only.clone()));
        assert!(has(&ann) && has(&bob), "it is the cache of the same client and root");
        let elsewhere = Client { root: "/srv/c".into(), ..ann.clone() };
        change(&|records| records.add(elsewhere.clone()));
        assert!(!has(&ann) && has(&bob), "no key reads it any more");
        use_cache(&elsewhere);
        change(&|records| {
            records.clients.retain(|client| client.name == "ann");
            Ok(())
        });
        assert!(has(&elsewhere) && !has(&bob));
    }
}
