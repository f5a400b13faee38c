//! Installs haul on a host that has none, and removes it.
//!
//! An installation uses two logins. The SFTP login uploads the program under a private name, into a
//! directory that only the user can write to (`place.rs`). It flushes the file and reads it back:
//! the hash must be that of the program. Only then is the file made executable. The other login is
//! a shell (`host.rs`), which first reports the host's system. It then executes the uploaded
//! program, which must greet as this version of haul. Only then is the file renamed to its final
//! name.
//!
//! So the final name always refers to a complete, tested haul, old or new. A running agent keeps
//! the file that it was started from. An unfinished upload is removed by this side, by the shell if
//! this side is gone, or by a later installation.

mod error;
mod host;
mod place;

use self::host::Shell;
use self::place::{InstallDir, PRIVATE_MODE};
pub use error::{DeployError, LikelyCause};
use haul_engine::{Change, JobError};
use haul_model::{
    Attributes, ContentHash, ContentHasher, EXECUTABLE_HEAD_LEN, Executable, ExecutableError,
    Fault, Kept, Name, Side, Timestamp, escape_bytes,
};
use haul_net::{DEPLOY_MARKER, DEPLOYED_NAME, Diagnostics, STAGED_PREFIX, Service, SshTarget};
use haul_sftp::{
    Attrs, Cause, Client, Extension, FileType, OpenFlags, Options, Session, SftpError,
};
use haul_store::{Mover, OnExisting, Publication, private_name};
use haul_tree::SealedFile;
use haul_tree::sftp::{SessionLoss, Sessions, SftpHost};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of unacknowledged bytes: more than a connection through ssh buffers.
const WINDOW: usize = 4 << 20;

/// Bytes that are sent between two checks whether the user has cancelled.
const STEP_LEN: u64 = 1 << 20;

/// The version of this haul, as greetings contain it.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Timeout of the uploaded program's greeting. The file was just read, so it is cached, but the
/// machine may be slow.
const GREETING_MAX: Duration = Duration::from_secs(60);

/// The mode of the uploaded file until its content is verified.
const UNPROVEN_MODE: u32 = 0o600;

/// The result of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deployed {
    /// The length of the program in bytes.
    pub bytes: u64,
    /// The change on the host.
    pub change: Change,
}

/// The result of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undeployed {
    /// haul was installed.
    pub was_there: bool,
    /// haul's directories are kept because they contain other entries.
    pub dirs_kept: bool,
}

/// Installs `program` on the host, where [`haul_net::connect`] then finds it. Does nothing if it is
/// already installed. Logs in twice. The messages of ssh go to `diagnostics`. `is_cancelled` is
/// called regularly, and ends the installation by returning true.
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
        Upload { client, program, is_cancelled, begun: Instant::now() }.deploy(shell)
    })
}

/// Removes the haul that [`deploy`] installed on the host, and what unfinished installations left
/// there. Also removes haul's own directories if they are empty then. Other installations of haul
/// are kept.
///
/// # Errors
/// See [`DeployError`].
pub fn undeploy(target: &SshTarget, diagnostics: &Diagnostics) -> Result<Undeployed, DeployError> {
    // Only the facts about the host are needed.
    let Shell { host, .. } = log_in(target, diagnostics)?;
    through_sftp(target, diagnostics, |client| {
        let Some(place) = InstallDir::find(client, &host)? else {
            return Ok(Undeployed { was_there: false, dirs_kept: false });
        };
        let was_there = place.deployed()?.is_some();
        if was_there {
            let removed = client.remove_file(&place.path_of(DEPLOYED_NAME));
            removed.map_err(|error| place.sftp(error))?;
        }
        let others = place.remove_stale(true)?;
        let dirs_kept = others > 0 || !place.remove_dirs()?;
        Ok(Undeployed { was_there, dirs_kept })
    })
}

fn log_in(target: &SshTarget, diagnostics: &Diagnostics) -> Result<Shell, DeployError> {
    let connection = haul_net::connect(target, Service::Deploy, Arc::clone(diagnostics));
    Shell::start(connection.map_err(JobError::from)?)
}

/// Runs `work` in an SFTP session of its own.
fn through_sftp<T>(
    target: &SshTarget,
    diagnostics: &Diagnostics,
    work: impl FnOnce(&Client) -> Result<T, DeployError>,
) -> Result<T, DeployError> {
    let connection = haul_net::connect(target, Service::Sftp, Arc::clone(diagnostics));
    let connection = connection.map_err(JobError::from)?;
    let options = Options { bytes_max: WINDOW, ..Options::default() };
    let session = Session::start(connection, options).map_err(JobError::from)?;
    let client = session.client().clone();
    match work(&client) {
        Err(
            DeployError::Sftp { host, error: SftpError { cause: Cause::Session(end), .. } }
            | DeployError::Job(JobError::Sftp { host, cause: end }),
        ) => Err(JobError::from(session.explain_end(host, end)).into()),
        done => done,
    }
}

/// The upload of a program to a host.
struct Upload<'a> {
    client: &'a Client,
    program: &'a Program,
    is_cancelled: &'a dyn Fn() -> bool,
    begun: Instant,
}

impl Upload<'_> {
    fn deploy(&self, shell: Shell) -> Result<Deployed, DeployError> {
        let host = shell.host.clone();
        let mut place = InstallDir::make(self.client, &host)?;
        let done = self.put(&place, shell);
        if done.is_err() {
            place.remove_created();
        }
        done.map(|change| Deployed { bytes: self.program.len, change })
    }

    fn put(&self, place: &InstallDir<'_>, shell: Shell) -> Result<Change, DeployError> {
        let path = place.path_of(DEPLOYED_NAME);
        let old = place.deployed()?;
        place.remove_stale(false)?;
        let can_replace = self.client.has(Extension::PosixRename);
        let irreplaceable = || {
            let (host, path) = (place.host.name.clone(), escape_bytes(&path));
            DeployError::Irreplaceable { host, path }
        };
        let change = match old {
            Some(attrs) if self.is_same(place, &path, &attrs)? => return Ok(Change::Nothing),
            Some(_) if !can_replace => return Err(irreplaceable()),
            Some(_) => Change::Replaced,
            None => Change::New,
        };
        let name = private_name();
        let lost = SessionLoss::new(&place.host.name);
        let done = self.stage(place, &name, &lost, shell).and_then(|mut sealed| {
            let deployed = Name::new(DEPLOYED_NAME.as_bytes()).expect("a name of our own");
            // Replace only if the server can do so in one step.
            let on_existing = if can_replace { OnExisting::Replace } else { OnExisting::Keep };
            match sealed.publish(&deployed, on_existing) {
                Ok(Publication::Published) => Ok(change),
                // Another installation was faster.
                Ok(Publication::Kept) => Err(irreplaceable()),
                Err(error) => Err(failed(place, &path, fault("rename", &error))),
            }
        });
        let done = done.map_err(|error| match lost.reason().cloned() {
            Some(cause) => JobError::Sftp { host: lost.host().to_owned(), cause }.into(),
            None => error,
        });
        if done.is_err()
            && let Err(error) = self.client.remove_file(&place.path_of(&name))
        {
            // In most cases the file was not created, or is removed already.
            tracing::debug!(%error, "what was uploaded is not removed");
        }
        done
    }

    /// Uploads the program as `name`, verifies it and tests it. Only the final rename is left.
    fn stage(
        &self,
        place: &InstallDir<'_>,
        name: &str,
        lost: &Arc<SessionLoss>,
        mut shell: Shell,
    ) -> Result<Box<dyn SealedFile>, DeployError> {
        let digits = name.strip_prefix(STAGED_PREFIX).expect("all private names begin with it");
        if shell.stage(digits).is_err() {
            return Err(shell.broken());
        }
        let staged = place.path_of(name);
        let sealed = self.send(place, name, lost)?;
        self.check_cancelled()?;
        if !self.is_program(place, &staged)? {
            let (host, path) = (place.host.name.clone(), escape_bytes(&staged));
            return Err(DeployError::Differs { host, path });
        }
        let opened = self.client.set_attrs(&staged, Attrs::with_mode(PRIVATE_MODE));
        opened.map_err(|error| place.sftp(error))?;
        self.check_cancelled()?;
        shell.run(self.program, GREETING_MAX)?;
        Ok(sealed)
    }

    /// Uploads the program as `name`, and closes the file: an open file could not be executed.
    fn send(
        &self,
        place: &InstallDir<'_>,
        name: &str,
        lost: &Arc<SessionLoss>,
    ) -> Result<Box<dyn SealedFile>, DeployError> {
        let Program { file: source, len, .. } = self.program;
        let failed = |fault| failed(place, &place.path_of(name), fault);
        let unwritten = |error: io::Error| failed(fault("write", &error));
        let sessions = Sessions::new(self.client.clone(), 0);
        let stage = SftpHost::new(sessions, lost, None, false, false).stage(place.dir(), name);
        let stage = stage.map_err(unwritten)?;
        let mut into = Mover::new(stage);
        while into.at() < *len {
            self.check_cancelled()?;
            let moved = into.put(|stage, at| {
                let end = (*len).min(at + STEP_LEN);
                let moved = stage.write_from(source, at..end).expect("it takes files");
                moved.map(|()| end - at)
            });
            moved.map_err(|error| failed(error.into()))?;
        }
        let whole = into.finish().map_err(unwritten)?.verify_len(*len);
        let verified = whole.map_err(|(_, error)| unwritten(io::Error::other(error)))?;
        // The modification time shows to others that the installation is in progress.
        let now = place.host.facts.now.saturating_add(self.begun.elapsed().as_secs());
        let mtime = Timestamp { secs: now.try_into().unwrap_or(i64::MAX), nanos: 0 };
        let sealed = verified
            .seal(&Attributes::new(UNPROVEN_MODE, mtime), Kept::OF_COPIES)
            .map_err(unwritten)?;
        sealed.sync().map_err(unwritten)?;
        Ok(sealed)
    }

    /// True if the file at `path` is the program, ready to be executed.
    fn is_same(
        &self,
        place: &InstallDir<'_>,
        path: &[u8],
        attrs: &Attrs,
    ) -> Result<bool, DeployError> {
        let is_alike = attrs.size == Some(self.program.len)
            && attrs.mode.is_some_and(|mode| mode & 0o7777 == PRIVATE_MODE)
            && attrs.owner.is_some_and(|(user, _)| user == place.host.facts.user)
            && attrs.file_type() == Some(FileType::File);
        if !is_alike {
            return Ok(false);
        }
        self.is_program(place, path)
    }

    /// True if the content of the file at `path` is the program's.
    fn is_program(&self, place: &InstallDir<'_>, path: &[u8]) -> Result<bool, DeployError> {
        let sftp = |error| place.sftp(error);
        let file = self.client.open(path, OpenFlags::Read, None).map_err(sftp)?;
        Ok(file.hash(self.program.len + 1, &mut |_| ()).map_err(sftp)? == self.program.hash)
    }

    fn check_cancelled(&self) -> Result<(), DeployError> {
        if (self.is_cancelled)() { Err(JobError::Interrupted.into()) } else { Ok(()) }
    }
}

fn fault(action: &str, error: &io::Error) -> Fault {
    Fault::from_io(Side::Destination, action, error)
}

fn failed(place: &InstallDir<'_>, path: &[u8], fault: Fault) -> DeployError {
    DeployError::Upload { host: place.host.name.clone(), path: escape_bytes(path), fault }
}

#[cfg(test)]
mod tests;

/// Maximum length of a program in bytes. A debug build of haul has a tenth of it.
const PROGRAM_LEN_MAX: u64 = 1 << 30;

/// Bytes that are read at once.
const READ_LEN: usize = 1 << 20;

/// A program that can be installed.
#[derive(Debug)]
pub struct Program {
    file: File,
    len: u64,
    hash: ContentHash,
    machine: Executable,
}

impl Program {
    /// Opens the program at `path`. Its headers name the machine that it is for.
    ///
    /// # Errors
    /// [`DeployError::Program`] if it can't be read, or is not an ELF program.
    pub fn open(path: &Path) -> Result<Self, DeployError> {
        Self::read(path, Executable::parse)
    }

    /// Opens the running program, which is at `path`. On a system without ELF, it counts as one for
    /// this machine.
    ///
    /// # Errors
    /// See [`Self::open`].
    pub fn own(path: &Path) -> Result<Self, DeployError> {
        Self::read(path, |head| match Executable::parse(head) {
            Err(ExecutableError::NotElf) => Ok(Executable {
                system: std::env::consts::OS,
                processor: std::env::consts::ARCH,
                dynamic: true,
            }),
            read => read,
        })
    }

    fn read(
        path: &Path,
        parse: impl FnOnce(&[u8]) -> Result<Executable, ExecutableError>,
    ) -> Result<Self, DeployError> {
        let failed = |why: String| {
            let path = escape_bytes(path.as_os_str().as_bytes());
            DeployError::Program { path, why }
        };
        let not_read = |error: io::Error| failed(format!("can't read it: {error}"));
        // Opening a FIFO would wait for a writer.
        if !fs::metadata(path).map_err(not_read)?.is_file() {
            return Err(failed("it is not a regular file".into()));
        }
        let file = File::open(path).map_err(not_read)?;
        let len = file.metadata().map_err(not_read)?.len();
        if len > PROGRAM_LEN_MAX {
            let most = PROGRAM_LEN_MAX >> 20;
            return Err(failed(format!("it is larger than {most} MiB, so it is not haul")));
        }
        let mut buffer = vec![0; READ_LEN];
        let read = file.read_at(&mut buffer, 0).map_err(not_read)?;
        let head = parse(&buffer[..read.min(EXECUTABLE_HEAD_LEN)]);
        let machine = head.map_err(|error| failed(error.to_string()))?;
        let mut hasher = ContentHasher::new();
        loop {
            match file.read_at(&mut buffer, hasher.len()).map_err(not_read)? {
                0 => break,
                read => hasher.update(&buffer[..read]),
            }
        }
        // The hash of the uploaded file detects later changes.
        let (hash, len) = (hasher.finish(), hasher.len());
        Ok(Self { file, len, hash, machine })
    }

    /// True if the file contains haul's marker. A packed haul does not, so a missing marker is no
    /// proof.
    fn looks_like_haul(&self) -> bool {
        let words = DEPLOY_MARKER.as_bytes();
        let mut buffer = vec![0; READ_LEN];
        let mut at = 0;
        loop {
            let read = self.file.read_at(&mut buffer, at).unwrap_or(0);
            if buffer[..read].windows(words.len()).any(|window| window == words) {
                return true;
            }
            // A match may begin in this part and end in the next.
            match read.saturating_sub(words.len() - 1) {
                0 => return false,
                step => at += step as u64,
            }
        }
    }

    /// The machine that the program is for.
    pub fn machine(&self) -> Executable {
        self.machine
    }
}
