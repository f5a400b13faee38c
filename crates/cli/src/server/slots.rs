//! Limits the jobs of a client. A slot is a lock file; each client has one for each allowed job.
//! The server and the agents that ssh starts in its place share them. Such an agent also describes
//! its job in its slot.

use super::control::JobStatus;
use super::paths::{ServerPaths, failed};
use super::records::Records;
use crate::error::CommandError;
use haul::files;
use haul_engine::try_lock;
use haul_net::PublicKey;
use std::collections::HashSet;
use std::fs::{self, DirBuilder, DirEntry, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Maximum length of a job's description, in bytes.
const DESCRIPTION_LEN_MAX: u64 = 4096;

/// A slot of a client; held until it is dropped.
#[derive(Debug)]
pub(super) struct Slot(File);

impl Slot {
    /// Takes a free slot of the client with this key, and empties its file; `None` if `jobs_max`
    /// jobs run.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn take(
        paths: &ServerPaths,
        key: &PublicKey,
        jobs_max: usize,
    ) -> Result<Option<Self>, CommandError> {
        let dir = paths.slots();
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        made.map_err(|error| failed(&dir, &error))?;
        for nth in 0..jobs_max {
            let path = dir.join(format!("{key}.{nth}"));
            if let Some(file) = files::try_lock(&path)? {
                // An earlier job may have left its description.
                file.set_len(0).map_err(|error| failed(&path, &error))?;
                return Ok(Some(Self(file)));
            }
        }
        Ok(None)
    }

    /// Describes the job of an agent that ssh started in place of the server.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn describe(&mut self, job: &JobStatus) -> io::Result<()> {
        self.0.write_all(&serde_json::to_vec(job)?)
    }
}

/// The jobs of agents that ssh started in place of the server.
pub(crate) fn jobs_through_ssh(paths: &ServerPaths) -> Vec<JobStatus> {
    let slots = fs::read_dir(paths.slots());
    slots.into_iter().flatten().flatten().filter_map(|slot| read_job(&slot.path())).collect()
}

/// The job described in a slot, if it still runs.
fn read_job(path: &Path) -> Option<JobStatus> {
    let file = File::options().read(true).write(true).open(path).ok()?;
    let mut text = Vec::new();
    (&file).take(DESCRIPTION_LEN_MAX).read_to_end(&mut text).ok()?;
    // A slot without a description is free or belongs to the server. Its lock must not be taken.
    let job: JobStatus = serde_json::from_slice(&text).ok()?;
    if try_lock(&file).ok()? {
        let _ = file.set_len(0);
        return None;
    }
    let lasts = file.metadata().ok()?.modified().ok()?.elapsed().unwrap_or_default();
    Some(JobStatus { seconds: lasts.as_secs(), ..job })
}

/// Removes the slots of clients that are no longer in the records.
///
/// # Errors
/// If the records can't be read, or a slot can't be removed.
pub(crate) fn remove_unused(paths: &ServerPaths) -> Result<(), CommandError> {
    let entries: Vec<_> = fs::read_dir(paths.slots()).into_iter().flatten().flatten().collect();
    // Read after the directory, so that they contain every client with a slot in the list.
    let clients = Records::load(paths)?.clients;
    let keys: HashSet<_> = clients.iter().map(|client| client.key.to_string()).collect();
    let key = |path: &Path| Some(path.file_stem()?.to_string_lossy().into_owned());
    let paths = entries.iter().map(DirEntry::path);
    let mut unused = paths.filter(|path| key(path).is_none_or(|key| !keys.contains(&key)));
    unused.try_for_each(|path| fs::remove_file(&path).map_err(|error| failed(&path, &error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Client, Right};
    use haul_net::Identity;

    fn key() -> PublicKey {
        Identity::new().expect("a key").key()
    }

    #[test]
    fn a_client_has_as_many_slots_as_it_may_have_jobs() {
        let files = tempfile::TempDir::new().expect("a directory");
        let paths = ServerPaths::below(&files.path().join("server"));
        let (ann, bob) = (key(), key());
        let take = |key, max| Slot::take(&paths, key, max).expect("asked");
        let (one, _two) = (take(&ann, 2).expect("free"), take(&ann, 2).expect("free"));
        assert!(take(&ann, 2).is_none() && take(&ann, 1).is_none());
        let _third = take(&ann, 3).expect("the settings allow it now");
        let _other = take(&bob, 1).expect("it is another client");
        drop(one);
        assert!(take(&ann, 2).is_some());
    }

    #[test]
    fn a_described_job_is_listed_as_long_as_its_slot_is_taken() {
        let files = tempfile::TempDir::new().expect("a directory");
        let paths = ServerPaths::below(&files.path().join("server"));
        let ann = key();
        assert_eq!(jobs_through_ssh(&paths), []);
        let _of_server = Slot::take(&paths, &ann, 2).expect("asked").expect("free");
        let mut slot = Slot::take(&paths, &ann, 2).expect("asked").expect("free");
        let from = "192.0.2.7:9".parse().expect("an address");
        let job = JobStatus { client: "ann".into(), from, pid: 7, seconds: 0 };
        slot.describe(&job).expect("written");
        assert_eq!(jobs_through_ssh(&paths), std::slice::from_ref(&job));
        drop(slot);
        let mut again = Slot::take(&paths, &ann, 2).expect("asked").expect("free");
        assert_eq!(jobs_through_ssh(&paths), [], "the description is of an earlier job");
        again.describe(&job).expect("written");
        drop(again);
        assert_eq!(jobs_through_ssh(&paths), []);
    }

    #[test]
    fn a_revoked_client_leaves_no_slots() {
        let files = tempfile::TempDir::new().expect("a directory");
        let paths = ServerPaths::below(&files.path().join("server"));
        let (ann, bob) = (key(), key());
        for key in [&ann, &bob] {
            drop(Slot::take(&paths, key, 1).expect("asked"));
        }
        let (name, root, right) = ("ann".to_owned(), "/".into(), Right::Write);
        let client =
            Client { name, key: ann, root, right, user: None, added: None, server_key: None };
        Records::change(&paths, |records| records.add(client.clone())).expect("added");
        remove_unused(&paths).expect("removed");
        let left: Vec<_> = fs::read_dir(paths.slots()).expect("a directory").flatten().collect();
        let names = left.iter().map(DirEntry::file_name).collect::<Vec<_>>();
        assert_eq!(names, [format!("{ann}.0").as_str()]);
    }
}
