//! The directory on the host that haul is installed in. It is created if necessary, and checked.
//!
//! A user who can write to it, or to a directory above it, chooses the program that runs there. So
//! each directory from the home directory on must be a directory and not a link. haul's own two
//! must belong to the user, and are closed to others. Those above may belong to root, too. Only
//! their owner may write to them, or the group that is the user's own. Then no name in it can
//! change unexpectedly, though SFTP knows only paths.

use super::DeployError;
use super::host::Host;
use haul_model::{Name, escape_bytes};
use haul_net::{DEPLOY_DIR, DEPLOYED_NAME};
use haul_sftp::{Attrs, Client, FileType, SftpError, StatusCode};
use haul_store::is_private;
use haul_tree::sftp::join;

/// Minimum age, in seconds, of a private file that an unfinished installation left. A running one
/// writes to its file regularly.
const STALE_AGE: u64 = 60 * 60;

/// The mode of haul's own directories, and of the program.
pub(super) const PRIVATE_MODE: u32 = 0o700;

/// The number of directories at the end of [`DEPLOY_DIR`] that are haul's own.
const OWN_DIRS: usize = 2;

/// The mode bits that allow group and others to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// The mode bit that allows others than the group to write.
const WRITABLE_BY_ALL: u32 = 0o002;

/// The checked directory.
pub(super) struct InstallDir<'a> {
    pub(super) client: &'a Client,
    pub(super) host: &'a Host,
    /// The paths of the home directory, of the directories below it, and of the directory itself.
    dirs: Vec<Vec<u8>>,
    /// The directories that did not exist before.
    made: Vec<Vec<u8>>,
}

impl<'a> InstallDir<'a> {
    /// Finds the directory, and creates what is missing of it.
    pub(super) fn make(client: &'a Client, host: &'a Host) -> Result<Self, DeployError> {
        let mut place = Self::paths(client, host);
        let made = place.check_dirs(true).and_then(|open| {
            // Change modes only after all checks have passed.
            for dir in open.into_iter().flatten() {
                let closed = client.set_attrs(&dir, Attrs::with_mode(PRIVATE_MODE));
                closed.map_err(|error| place.sftp(error))?;
            }
            Ok(())
        });
        match made {
            Ok(()) => Ok(place),
            Err(error) => {
                place.remove_created();
                Err(error)
            }
        }
    }

    /// Finds the directory; `None` if it does not exist.
    pub(super) fn find(client: &'a Client, host: &'a Host) -> Result<Option<Self>, DeployError> {
        let mut place = Self::paths(client, host);
        Ok(place.check_dirs(false)?.map(|_| place))
    }

    fn paths(client: &'a Client, host: &'a Host) -> Self {
        let mut dirs = vec![host.facts.home.clone()];
        for name in DEPLOY_DIR.split('/') {
            dirs.push(join(&dirs[dirs.len() - 1], name.as_bytes()));
        }
        Self { client, host, dirs, made: Vec::new() }
    }

    /// Checks the directories. If one is missing, it is created if `makes`, and else the result is
    /// `None`. Returns haul's own directories that are open to others.
    fn check_dirs(&mut self, makes: bool) -> Result<Option<Vec<Vec<u8>>>, DeployError> {
        let mut open = Vec::new();
        for depth in 0..self.dirs.len() {
            let dir = self.dirs[depth].clone();
            let found = match self.attrs_of(&dir)? {
                None if depth == 0 => return Err(self.home_is_hidden()),
                None if !makes => return Ok(None),
                None => {
                    match self.client.make_dir(&dir, PRIVATE_MODE) {
                        Ok(()) => self.made.push(dir.clone()),
                        // Another installation may have been faster.
                        Err(error) if self.attrs_of(&dir)?.is_none() => {
                            return Err(self.sftp(error));
                        }
                        Err(_) => {}
                    }
                    self.attrs_of(&dir)?
                }
                found => found,
            };
            let attrs = found.ok_or_else(|| self.refuse(&dir, "it vanished", "run it again"))?;
            self.check_dir(depth, &attrs)?;
            if self.is_own(depth) && attrs.mode.is_some_and(|mode| mode & 0o777 != PRIVATE_MODE) {
                open.push(dir);
            }
        }
        Ok(Some(open))
    }

    /// True if the directory at `depth` is haul's own.
    fn is_own(&self, depth: usize) -> bool {
        depth + OWN_DIRS >= self.dirs.len()
    }

    pub(super) fn check_dir(&self, depth: usize, attrs: &Attrs) -> Result<(), DeployError> {
        let dir = &self.dirs[depth];
        let owners: &[u32] =
            if self.is_own(depth) { &[self.host.facts.user] } else { &[self.host.facts.user, 0] };
        let refused = |why, hint| Err(self.refuse(dir, why, hint));
        match attrs.file_type() {
            Some(FileType::Dir) => {}
            Some(FileType::Symlink) => {
                return refused(
                    "it is a symbolic link instead of a directory",
                    "replace it with a directory, or install haul by hand",
                );
            }
            Some(_) => {
                return refused("it is not a directory", "check what it is, and move it elsewhere");
            }
            None => return Err(self.facts_missing(dir)),
        }
        let (Some((owner, group)), Some(mode)) = (attrs.owner, attrs.mode) else {
            return Err(self.facts_missing(dir));
        };
        if !owners.contains(&owner) {
            return refused(
                "it belongs to another user, who could replace its content",
                "ask the host's administrator to correct its owner, or install haul by hand",
            );
        }
        // On systems with a group for each user, it may often write to home directories.
        let is_own_group = !self.is_own(depth) && self.host.facts.own_group == Some(group);
        let others = if is_own_group { WRITABLE_BY_ALL } else { WRITABLE_BY_OTHERS };
        if mode & others != 0 {
            return refused(
                "other users can write to it, and could replace its content",
                "check that its content is yours, then run 'chmod go-w' on it",
            );
        }
        Ok(())
    }

    /// Removes the directories that were created, if they are empty.
    pub(super) fn remove_created(&mut self) {
        for dir in self.made.drain(..).rev() {
            if let Err(error) = self.client.remove_dir(&dir) {
                tracing::debug!(%error, "a directory that was made stays");
            }
        }
    }

    /// The path of the directory.
    pub(super) fn dir(&self) -> &[u8] {
        &self.dirs[self.dirs.len() - 1]
    }

    /// The path of `name` in the directory.
    pub(super) fn path_of(&self, name: &str) -> Vec<u8> {
        join(self.dir(), name.as_bytes())
    }

    /// The attributes of the entry at `path` itself.
    pub(super) fn attrs_of(&self, path: &[u8]) -> Result<Option<Attrs>, DeployError> {
        match self.client.lstat(path) {
            Ok(attrs) => Ok(Some(attrs)),
            Err(error) if error.status() == Some(StatusCode::NoSuchFile) => Ok(None),
            Err(error) => Err(self.sftp(error)),
        }
    }

    /// The attributes of the installed haul. A non-regular file under its name is refused.
    pub(super) fn deployed(&self) -> Result<Option<Attrs>, DeployError> {
        let path = self.path_of(DEPLOYED_NAME);
        let Some(attrs) = self.attrs_of(&path)? else { return Ok(None) };
        match attrs.file_type() {
            Some(FileType::File) => Ok(Some(attrs)),
            _ => Err(self.refuse(
                &path,
                "it is not a regular file, and not installed by haul",
                "check what it is, and remove it by hand",
            )),
        }
    }

    /// Removes what unfinished installations left: `all` of it, or only files that are too old for
    /// a running one. Returns the number of other entries.
    pub(super) fn remove_stale(&self, all: bool) -> Result<usize, DeployError> {
        let mut others = 0;
        for entry in self.client.list(self.dir()).map_err(|error| self.sftp(error))? {
            let is_old = |attrs: &Attrs| {
                attrs.times.is_some_and(|times| {
                    u64::from(times.modified).saturating_add(STALE_AGE) < self.host.facts.now
                })
            };
            let is_left = is_private(&entry.name)
                && entry.attrs.file_type() == Some(FileType::File)
                && (all || is_old(&entry.attrs));
            if is_left {
                self.remove(&entry.name)?;
            } else {
                others += 1;
            }
        }
        Ok(others)
    }

    fn remove(&self, name: &Name) -> Result<(), DeployError> {
        match self.client.remove_file(&join(self.dir(), name.as_bytes())) {
            // Another installation may have been faster.
            Err(error) if error.status() != Some(StatusCode::NoSuchFile) => Err(self.sftp(error)),
            _ => Ok(()),
        }
    }

    /// Removes haul's own directories if they are empty. Returns true if both were.
    pub(super) fn remove_dirs(&self) -> Result<bool, DeployError> {
        for dir in self.dirs[self.dirs.len() - OWN_DIRS..].iter().rev() {
            let entries = self.client.list(dir).map_err(|error| self.sftp(error))?;
            if !entries.is_empty() {
                return Ok(false);
            }
            self.client.remove_dir(dir).map_err(|error| self.sftp(error))?;
        }
        Ok(true)
    }

    pub(super) fn sftp(&self, error: SftpError) -> DeployError {
        DeployError::Sftp { host: self.host.name.clone(), error }
    }

    pub(super) fn refuse(&self, path: &[u8], why: &'static str, hint: &'static str) -> DeployError {
        DeployError::Place { host: self.host.name.clone(), path: escape_bytes(path), why, hint }
    }

    fn facts_missing(&self, path: &[u8]) -> DeployError {
        self.refuse(
            path,
            "the server does not report its type, owner and permissions",
            "use another SFTP server there, or install haul by hand",
        )
    }

    fn home_is_hidden(&self) -> DeployError {
        self.refuse(
            &self.host.facts.home,
            "the SFTP server and the shell have different home directories",
            "give both the same home directory, or install haul by hand",
        )
    }
}
