//! Puts haul onto a host that has none, and takes it away again.
//!
//! Two logins do it. Through SFTP the program is uploaded under a private name
//! into a directory that is the user's alone (`place.rs`), and read back: what
//! the server has must have the hash of what was sent. Only then may it be
//! executed. The other login is a shell (`host.rs`) that has said before what
//! the machine is, and now becomes the uploaded program, which has to greet as
//! this version of haul. Only then does a rename give it its name.
//!
//! So a name in the directory shows the old haul or the new one, whole and
//! proven; an agent that runs keeps the one that it was started from. What ends
//! early is removed from here, or by the shell there when this end is gone, or
//! by a later deployment.

mod error;
mod host;
mod place;
mod program;

pub use error::{DeployError, Suspect};
pub use program::Program;

use self::host::Shell;
use self::place::{PRIVATE_MODE, Place};
use crate::JobError;
use crate::request::sftp::{hash_of, session_over};
use haul_model::escape_bytes;
use haul_net::{DEPLOYED_NAME, Diagnostics, STAGED_PREFIX, SshTarget};
use haul_sftp::{
    Attrs, Cause, Client, Existing, Extension, FileType, OpenFlags, Options, Session, SftpError,
};
use haul_store::private_name;
use std::sync::Arc;
use std::time::Duration;

/// Content on its way to the host that is not confirmed, in bytes: more than a
/// connection through ssh holds.
const WINDOW: usize = 4 << 20;

/// Bytes that are sent before looking whether the user has interrupted.
const STEP_LEN: u64 = 1 << 20;

/// How long what was uploaded may take to greet: it was read from the disk a
/// moment ago, but the machine may be small.
const GREETING_MAX: Duration = Duration::from_secs(60);

/// The mode of what is uploaded, until it is proven to have arrived.
const STAGED_MODE: u32 = 0o600;

/// What became of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deployed {
    /// Its length in bytes.
    pub bytes: u64,
    /// What was done.
    pub change: Change,
}

/// What a deployment has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// There was none.
    New,
    /// Another one was replaced.
    Replaced,
    /// The very same was there, and nothing was done.
    Nothing,
}

/// What became of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undeployed {
    /// It was there.
    pub was_there: bool,
    /// Something else is in haul's directories, which stay therefore.
    pub dirs_stay: bool,
}

/// Puts `program` onto the host, where [`haul_net::connect`] then finds it,
/// unless it is there already. What ssh has to say goes to `diagnostics`;
/// `is_cancelled` is asked from time to time whether the user has had enough.
/// Logs in twice; asks nothing and prints nothing.
///
/// # Errors
/// See [`DeployError`].
pub fn deploy(
    target: &SshTarget,
    diagnostics: &Diagnostics,
    program: &Program,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Deployed, DeployError> {
    let shell = log_in(target, diagnostics)?;
    shell.host.check_fit(program)?;
    through_sftp(target, diagnostics, |client| {
        let upload = Upload { client, program, is_cancelled };
        upload.deploy(shell)
    })
}

/// Removes the haul that [`deploy`] has put onto the host, what deployments
/// have left there that ended early, and haul's own directories if they are
/// empty then. No other haul is touched.
///
/// # Errors
/// See [`DeployError`].
pub fn undeploy(target: &SshTarget, diagnostics: &Diagnostics) -> Result<Undeployed, DeployError> {
    // Only what it says of the host is needed.
    let Shell { host, .. } = log_in(target, diagnostics)?;
    through_sftp(target, diagnostics, |client| {
        let Some(place) = Place::find(client, &host)? else {
            return Ok(Undeployed { was_there: false, dirs_stay: false });
        };
        let was_there = place.deployed()?.is_some();
        if was_there {
            let removed = client.remove_file(&place.path_of(DEPLOYED_NAME));
            removed.map_err(|error| place.sftp(error))?;
        }
        let others = place.sweep(true)?;
        let dirs_stay = others > 0 || !place.remove_dirs()?;
        Ok(Undeployed { was_there, dirs_stay })
    })
}

fn log_in(target: &SshTarget, diagnostics: &Diagnostics) -> Result<Shell, DeployError> {
    let connection = haul_net::connect_deploy(target, Arc::clone(diagnostics));
    Shell::start(connection.map_err(JobError::from)?)
}

/// Does `work` in an SFTP session of its own.
fn through_sftp<T>(
    target: &SshTarget,
    diagnostics: &Diagnostics,
    work: impl FnOnce(&Client) -> Result<T, DeployError>,
) -> Result<T, DeployError> {
    let connection = haul_net::connect_sftp(target, Arc::clone(diagnostics));
    let connection = connection.map_err(JobError::from)?;
    let session = Session::start(connection, Options::default()).map_err(JobError::from)?;
    let client = session.client().clone();
    match work(&client) {
        Err(DeployError::Sftp { host, error: SftpError { cause: Cause::Session(end), .. } }) => {
            Err(session_over(Some(session), host, end).into())
        }
        done => done,
    }
}

/// A program on its way to a host.
struct Upload<'a> {
    client: &'a Client,
    program: &'a Program,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl Upload<'_> {
    fn deploy(&self, shell: Shell) -> Result<Deployed, DeployError> {
        let host = shell.host.clone();
        let mut place = Place::make(self.client, &host)?;
        let done = self.put(&place, shell);
        if done.is_err() {
            place.unmake();
        }
        done.map(|change| Deployed { bytes: self.program.len, change })
    }

    fn put(&self, place: &Place<'_>, shell: Shell) -> Result<Change, DeployError> {
        let path = place.path_of(DEPLOYED_NAME);
        let old = place.deployed()?;
        place.sweep(false)?;
        let change = match old {
            Some(attrs) if self.is_same(place, &path, &attrs)? => return Ok(Change::Nothing),
            Some(_) if !self.client.has(Extension::PosixRename) => {
                let (host, path) = (place.host.name.clone(), escape_bytes(&path));
                return Err(DeployError::Irreplaceable { host, path });
            }
            Some(_) => Change::Replaced,
            None => Change::New,
        };
        let name = private_name();
        let staged = place.path_of(&name);
        let published = self.stage(place, &name, &staged, shell).and_then(|()| {
            // Only where that is one step.
            let existing = match self.client.has(Extension::PosixRename) {
                true => Existing::Replace { aside: Vec::new() },
                false => Existing::Keep,
            };
            let named = self.client.name_file(&staged, &path, &existing);
            named.map_err(|error| place.sftp(error))
        });
        if published.is_err()
            && let Err(error) = self.client.remove_file(&staged)
        {
            // It may never have been made, or the shell has removed it.
            tracing::debug!(%error, "what was uploaded is not removed");
        }
        published.map(|()| change)
    }

    /// Uploads the program as `name`, at the path `staged`, and proves it.
    fn stage(
        &self,
        place: &Place<'_>,
        name: &str,
        staged: &[u8],
        mut shell: Shell,
    ) -> Result<(), DeployError> {
        let digits = name.strip_prefix(STAGED_PREFIX).expect("all private names begin with it");
        if shell.stage(digits).is_err() {
            return Err(shell.broken());
        }
        self.send(place, staged)?;
        self.check_cancelled()?;
        let sftp = |error| place.sftp(error);
        let file = self.client.open(staged, OpenFlags::Read, None).map_err(sftp)?;
        if hash_of(&file, self.program.len + 1).map_err(sftp)? != self.program.hash {
            let (host, path) = (place.host.name.clone(), escape_bytes(staged));
            return Err(DeployError::Differs { host, path });
        }
        file.set_attrs(Attrs::with_mode(PRIVATE_MODE)).map_err(sftp)?;
        file.close().map_err(sftp)?;
        self.check_cancelled()?;
        shell.run(self.program, GREETING_MAX)
    }

    fn send(&self, place: &Place<'_>, staged: &[u8]) -> Result<(), DeployError> {
        let sftp = |error| place.sftp(error);
        let Program { file: source, len, .. } = self.program;
        let file = self.client.open(staged, OpenFlags::CreateNew, Some(STAGED_MODE));
        let file = file.map_err(sftp)?;
        let mut writer = file.writer(WINDOW);
        let mut start = 0;
        while start < *len {
            self.check_cancelled()?;
            let end = len.min(&(start + STEP_LEN)).to_owned();
            writer.write_from(source, start..end).map_err(sftp)?;
            start = end;
        }
        writer.finish().map_err(sftp)?;
        if self.client.has(Extension::Fsync) {
            file.sync().map_err(sftp)?;
        }
        file.close().map_err(sftp)
    }

    /// Whether the file at `path` is the program, ready to be run.
    fn is_same(&self, place: &Place<'_>, path: &[u8], attrs: &Attrs) -> Result<bool, DeployError> {
        let is_alike = attrs.size == Some(self.program.len)
            && attrs.mode.is_some_and(|mode| mode & 0o7777 == PRIVATE_MODE)
            && attrs.owner.is_some_and(|(user, _)| user == place.host.facts.user)
            && attrs.file_type() == Some(FileType::File);
        if !is_alike {
            return Ok(false);
        }
        let sftp = |error| place.sftp(error);
        let file = self.client.open(path, OpenFlags::Read, None).map_err(sftp)?;
        Ok(hash_of(&file, self.program.len + 1).map_err(sftp)? == self.program.hash)
    }

    fn check_cancelled(&self) -> Result<(), DeployError> {
        match (self.is_cancelled)() {
            true => Err(JobError::Interrupted.into()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
