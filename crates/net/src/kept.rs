//! Connections to hosts that are kept between commands.
//!
//! A small process of this program, the *holder*, has the three streams of a connection whose last
//! command has ended. It listens on a socket of the user. The next command to the same host takes
//! the streams over, uses them directly, and returns them. Meanwhile the holder has no copy: if
//! that command dies, the connection ends.
//!
//! The name of the socket is a hash of everything that a new connection would depend on: the
//! program and its version, the user's arguments, and ssh's configuration files. After a change of
//! any of these, a command finds no socket.
//!
//! A holder exits when its time is over, when the host closes the connection, when the machine has
//! slept, and when it is asked to.

mod holder;

pub use self::holder::{Held, hold, list, stop};

use crate::connection::Kept;
use crate::{Connection, Diagnostics, ExtraLogins, SshTarget, ssh_configuration as configuration};
use haul_model::ContentHash;
use parking_lot::Mutex;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the hash in a socket's name. Few enough for the length limit of a socket's path.
const NAME_LEN: usize = 16;

/// Timeout for a holder's answer. It has nothing else to do.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// How connections are kept after their jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants describe their fields")]
pub enum Keep {
    /// By a process, for other processes.
    ///
    /// - `dir`: the directory of the sockets. It is created if missing.
    /// - `keep_time`: how long a connection is kept after the end of a command.
    /// - `holder`: the program and arguments that call [`hold`] with their standard input. The
    ///   directory, the socket's name and the host's name are appended.
    Held { dir: PathBuf, keep_time: Duration, holder: Vec<OsString> },
    /// In this process, until [`IdleConnections::close`].
    Here(IdleConnections),
}

/// Idle connections of this process, kept between two jobs. Clones refer to the same connections.
#[derive(Clone)]
pub struct IdleConnections(Arc<Mutex<Option<Connections>>>);

/// Idle connections, each with its target's name; see [`name_of`].
type Connections = Vec<(String, Connection)>;

impl Default for IdleConnections {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Some(Vec::new()))))
    }
}

impl IdleConnections {
    /// Keeps `connection` to the target `name`. Closes it if [`Self::close`] was called.
    pub(crate) fn put(&self, name: String, connection: Connection) {
        if let Some(all) = &mut *self.0.lock() {
            return all.push((name, connection));
        }
        connection.leave();
    }

    /// Removes and returns an idle connection to the target `name`.
    fn take(&self, name: &str) -> Option<Connection> {
        let mut all = self.0.lock();
        let all = all.as_mut()?;
        let at = all.iter().position(|(other, _)| other == name)?;
        let (name, mut connection) = all.swap_remove(at);
        connection.closer.kept = Some(Kept::Here(name, self.clone()));
        Some(connection)
    }

    /// Closes all idle connections, and later ones at once.
    pub fn close(&self) {
        let all = self.0.lock().take();
        all.into_iter().flatten().for_each(|(_, connection)| connection.leave());
    }
}

impl PartialEq for IdleConnections {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for IdleConnections {}

impl fmt::Debug for IdleConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdleConnections({:?})", self.0.lock().as_ref().map(Vec::len))
    }
}

/// The streams of a connection: bytes from the host, bytes to it, and the messages of ssh and of
/// the program on the host.
pub(crate) type Streams = [OwnedFd; 3];

/// Duplicates the streams of a connection.
pub(crate) fn duplicate([input, output, errors]: [BorrowedFd<'_>; 3]) -> io::Result<Streams> {
    let [input, output] = [input.try_clone_to_owned()?, output.try_clone_to_owned()?];
    Ok([input, output, errors.try_clone_to_owned()?])
}

/// Passes the streams of an idle connection to a holder.
pub(crate) struct Keeper {
    holder: UnixStream,
    keep_time: Duration,
}

impl Keeper {
    /// Starts a `holder` for a new connection to `target`, with its socket in `dir`. The holder
    /// exits if it gets no streams.
    pub(crate) fn start(
        dir: &Path,
        keep_time: Duration,
        holder: &[OsString],
        target: &SshTarget,
    ) -> io::Result<Self> {
        make_private(dir)?;
        let (ours, theirs) = UnixStream::pair()?;
        let (program, words) = holder.split_first().ok_or(ErrorKind::InvalidInput)?;
        haul_sys::close_descriptors_on_exec()?;
        // No wait: it outlives this process, and blocks no directory.
        Command::new(program)
            .args(words)
            .arg(dir)
            .arg(name_of(target))
            .arg(target.address())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .spawn()?;
        Ok(Self { holder: ours, keep_time })
    }

    /// Passes the streams to the holder, and waits for its confirmation.
    pub(crate) fn give(self, streams: &Streams) -> io::Result<()> {
        let seconds = u32::try_from(self.keep_time.as_secs()).unwrap_or(u32::MAX);
        holder::give(&self.holder, seconds, streams)
    }
}

/// Takes over the kept connection to the haul of `target`, if there is one that no other job uses.
/// Its messages go to `diagnostics`.
pub fn connect_kept(target: &SshTarget, diagnostics: Diagnostics) -> Option<Connection> {
    let (dir, keep_time) = match target.keep()? {
        Keep::Here(idle_connections) => return idle_connections.take(&name_of(target)),
        Keep::Held { dir, keep_time, .. } => (dir, *keep_time),
    };
    let path = dir.join(name_of(target));
    // A socket in a directory that another user could have created is not trusted.
    check_private(dir).ok()?;
    let (streams, holder) = holder::take(&path).ok()??;
    let (keeper, extra_logins) =
        (Keeper { holder, keep_time }, ExtraLogins(Arc::new(target.clone())));
    let connection = Connection::of_kept(streams, keeper, extra_logins, diagnostics);
    let unusable = |error| tracing::debug!(%error, "the connection that was kept can't be used");
    connection.map_err(unusable).ok()
}

/// The name of the socket for `target`.
pub(crate) fn name_of(target: &SshTarget) -> String {
    let shell = target.shell();
    let mut facts: Vec<Vec<u8>> = vec![env!("CARGO_PKG_VERSION").into()];
    let program = std::env::current_exe().and_then(fs::metadata);
    facts.push(program.map_or_else(|_| Vec::new(), |program| configuration::stamp(&program)));
    facts.push(target.address().into_bytes());
    facts.push(shell.program.clone().into_bytes());
    facts.extend(shell.args.iter().map(|word| word.clone().into_bytes()));
    facts.push(target.remote_haul().unwrap_or_default().into());
    facts.push(
        find_program(&shell.program).map_or_else(Vec::new, |shell| configuration::stamp(&shell)),
    );
    facts.extend(configuration::stamps(&shell.args));
    // No fact contains NUL, except the stamps, which have a fixed length.
    let hash = ContentHash::of(&facts.join(&0));
    hash.as_bytes()[..NAME_LEN].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Finds the program `name` as the system would.
fn find_program(name: &str) -> Option<fs::Metadata> {
    if name.contains('/') {
        return fs::metadata(name).ok();
    }
    let dirs = std::env::var_os("PATH")?;
    std::env::split_paths(&dirs).find_map(|dir| fs::metadata(dir.join(name)).ok())
}

/// Creates `dir`, which only the user may enter.
fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    check_private(dir)
}

/// Refuses a directory that others than the user may enter.
fn check_private(dir: &Path) -> io::Result<()> {
    let found = haul_sys::path_stat(dir.as_os_str().as_bytes(), false)?;
    if found.is_dir() && found.is_private() {
        Ok(())
    } else {
        Err(ErrorKind::PermissionDenied.into())
    }
}
