//! Operations on paths, each of which waits for its answer.

use crate::codec::{
    Answer, Attrs, CHUNK_LEN_MAX, Extension, Extensions, FsStats, Limits, OpenFlags,
    PACKET_LEN_MAX, PATH_LEN_MAX, Request, StatusCode, TARGET_LEN_MAX,
};
use crate::error::{Cause, SessionError, SftpError};
use crate::file::RemoteFile;
use crate::session::{Payload, Port, State};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A piece of a file in one packet, in bytes, where a server does not say what
/// it allows: what every server has to take (section 3 of the draft).
const CHUNK_LEN_DEFAULT: u32 = 32 << 10;

/// The bytes around the content in a packet, at most: a handle and some numbers.
const AROUND_LEN: u64 = 512;

type Result<T> = std::result::Result<T, SftpError>;

/// Asks a server; see the crate's documentation. A clone asks in the same
/// session.
///
/// Paths are bytes, absolute or below the directory where the session begins,
/// most often the user's home; the server resolves them and follows links on
/// the way. All operations fail with [`SftpError`], and with
/// [`Cause::Session`] in it once the session has ended.
#[derive(Clone)]
pub struct Client {
    shared: Arc<State>,
    server: Arc<Server>,
}

/// The facts about the server.
pub(crate) struct Server {
    extensions: Extensions,
    /// Where it will say what it allows, if it was asked.
    asked: Mutex<Option<Port>>,
    allowed: OnceLock<Allowed>,
}

/// The server's limits.
struct Allowed {
    limits: Limits,
    read_len: u32,
    write_len: u32,
}

impl Server {
    /// Asks a server with these extensions what it allows, if it can tell, and
    /// does not wait for the answer.
    pub(crate) fn ask(
        shared: &Arc<State>,
        extensions: Extensions,
    ) -> std::result::Result<Self, SessionError> {
        let mut asked = None;
        if extensions.has(Extension::Limits) {
            let mut port = Port::new(shared);
            port.send(0, &Request::Limits, Payload::NONE)?;
            port.flush()?;
            asked = Some(port);
        }
        Ok(Self { extensions, asked: Mutex::new(asked), allowed: OnceLock::new() })
    }

    /// Waits for what the server says, the first time.
    fn allowed(&self) -> &Allowed {
        self.allowed.get_or_init(|| {
            let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).take();
            Allowed::new(match asked.and_then(|mut port| port.next()) {
                Some((_, Ok(Answer::Limits(limits)))) => limits,
                // Announced, and not there after all; or the session has ended,
                // and whatever is asked next says so.
                _ => Limits::default(),
            })
        })
    }
}

impl Allowed {
    fn new(limits: Limits) -> Self {
        let chunk = |said: u64| match said {
            0 => CHUNK_LEN_DEFAULT,
            len => len.min(CHUNK_LEN_MAX.into()) as u32,
        };
        let packet = match limits.packet_len {
            0 => PACKET_LEN_MAX.into(),
            len => len,
        };
        let room = packet.saturating_sub(AROUND_LEN).max(1).min(CHUNK_LEN_MAX.into()) as u32;
        let (read_len, write_len) = (chunk(limits.read_len), chunk(limits.write_len).min(room));
        Self { limits, read_len, write_len }
    }
}

impl Client {
    pub(crate) fn new(shared: Arc<State>, server: Server) -> Self {
        Self { shared, server: Arc::new(server) }
    }

    pub(crate) fn shared(&self) -> &Arc<State> {
        &self.shared
    }

    pub(crate) fn port(&self) -> Port {
        Port::new(&self.shared)
    }

    pub(crate) fn port_for_small(&self) -> Port {
        Port::for_small(&self.shared)
    }

    /// True if the server has announced the extension.
    pub fn has(&self, extension: Extension) -> bool {
        self.server.extensions.has(extension)
    }

    /// The server's limits. This and the next two wait for the server to tell them, the
    /// first time; until then other things can be asked.
    pub fn limits(&self) -> &Limits {
        &self.server.allowed().limits
    }

    /// The most content that is asked for at once, in bytes.
    pub fn read_len(&self) -> usize {
        self.server.allowed().read_len as usize
    }

    /// The most content that is sent at once, in bytes.
    pub fn write_len(&self) -> usize {
        self.server.allowed().write_len as usize
    }

    /// A number that changes whenever something moves in the session; `None` while nothing
    /// waits for the server.
    pub fn signs_awaited(&self) -> Option<u64> {
        self.shared.signs_awaited()
    }

    /// Ends the session at once, for all who ask in it. Whoever waits is told so.
    pub fn end_session(&self) {
        self.shared.end(SessionError::Stopped);
    }

    /// The attributes of the entry at this path; a link at its end is followed.
    pub fn stat(&self, path: &[u8]) -> Result<Attrs> {
        self.attrs(&Request::Stat { path }, path)
    }

    /// The attributes of the entry at this path; a link at its end is not followed.
    pub fn lstat(&self, path: &[u8]) -> Result<Attrs> {
        self.attrs(&Request::Lstat { path }, path)
    }

    /// Sets what `attrs` has; a link at the end of the path is followed.
    pub fn set_attrs(&self, path: &[u8], attrs: Attrs) -> Result<()> {
        self.done(&Request::Setstat { path, attrs }, path)
    }

    /// Sets what `attrs` has of a link itself. Needs [`Extension::Lsetstat`].
    pub fn set_link_attrs(&self, path: &[u8], attrs: Attrs) -> Result<()> {
        self.done(&Request::Lsetstat { path, attrs }, path)
    }

    /// Makes a directory. The server may take bits of the mode away, as its
    /// umask says.
    pub fn make_dir(&self, path: &[u8], mode: u32) -> Result<()> {
        self.done(&Request::Mkdir { path, attrs: Attrs::with_mode(mode) }, path)
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, path: &[u8]) -> Result<()> {
        self.done(&Request::Rmdir { path }, path)
    }

    /// Removes a file or a link.
    pub fn remove_file(&self, path: &[u8]) -> Result<()> {
        self.done(&Request::Remove { path }, path)
    }

    /// Gives the file `of` the further name `name`, which must be free. Needs
    /// [`Extension::HardLink`].
    pub fn make_hard_link(&self, of: &[u8], name: &[u8]) -> Result<()> {
        check_path(of).map_err(|cause| {
            SftpError::new(&Request::HardLink { from: of, to: name }, of, cause)
        })?;
        self.done(&Request::HardLink { from: of, to: name }, name)
    }

    /// Makes a symbolic link that points to `target`; an error if the name is
    /// taken.
    pub fn make_symlink(&self, target: &[u8], link: &[u8]) -> Result<()> {
        let request = Request::Symlink { target, link };
        check_path(target).map_err(|cause| SftpError::new(&request, target, cause))?;
        self.done(&request, link)
    }

    /// Where a symbolic link points. See [`Self::read_links`] for many.
    pub fn read_link(&self, path: &[u8]) -> Result<Box<[u8]>> {
        self.path(&Request::Readlink { path }, path)
    }

    /// The absolute path without links and dots. Whether its last component has
    /// to exist is the server's choice.
    pub fn real_path(&self, path: &[u8]) -> Result<Box<[u8]>> {
        self.path(&Request::Realpath { path }, path)
    }

    /// The attributes at a path, and its absolute path, asked for at the same time; see
    /// [`Self::stat`] and [`Self::real_path`].
    pub fn stat_and_real_path(&self, path: &[u8]) -> Result<(Attrs, Box<[u8]>)> {
        let (stat, real) = (Request::Stat { path }, Request::Realpath { path });
        self.check(&stat, path).map_err(|cause| SftpError::new(&stat, path, cause))?;
        let mut port = self.port();
        for (tag, request) in [(0, &stat), (1, &real)] {
            let sent = port.send(tag, request, Payload::NONE);
            sent.map_err(|error| SftpError::new(request, path, error))?;
        }
        let (mut attrs, mut found) = (None, None);
        while let Some((tag, answer)) = port.next() {
            let request = if tag == 0 { &stat } else { &real };
            let failed = |cause| SftpError::new(request, path, cause);
            match answer.map_err(Cause::from).and_then(succeeded) {
                Ok(Answer::Attrs(there)) if tag == 0 => attrs = Some(there),
                Ok(Answer::Path(path)) if tag == 1 => found = Some(path),
                Ok(other) => return Err(unexpected(request, path, other)),
                Err(cause) => return Err(failed(cause)),
            }
        }
        attrs.zip(found).ok_or_else(|| SftpError::new(&stat, path, SessionError::Stopped))
    }

    /// How much room there is. Needs [`Extension::Statvfs`].
    pub fn fs_stats(&self, path: &[u8]) -> Result<FsStats> {
        let request = Request::Statvfs { path };
        match self.ask(&request, path)? {
            Answer::FsStats(stats) => Ok(stats),
            other => Err(unexpected(&request, path, other)),
        }
    }

    /// Opens a file. A link at the end of the path is followed, but for
    /// [`OpenFlags::CreateNew`]. `mode` is for a file that is made.
    pub fn open(&self, path: &[u8], flags: OpenFlags, mode: Option<u32>) -> Result<RemoteFile> {
        let attrs = Attrs { mode, ..Attrs::default() };
        let handle = self.handle(&Request::Open { path, flags, attrs }, path)?;
        Ok(RemoteFile::new(self.clone(), handle, path, flags == OpenFlags::Read))
    }

    pub(crate) fn done(&self, request: &Request<'_>, path: &[u8]) -> Result<()> {
        self.ask(request, path).map(drop)
    }

    pub(crate) fn attrs(&self, request: &Request<'_>, path: &[u8]) -> Result<Attrs> {
        match self.ask(request, path)? {
            Answer::Attrs(attrs) => Ok(attrs),
            other => Err(unexpected(request, path, other)),
        }
    }

    pub(crate) fn handle(&self, request: &Request<'_>, path: &[u8]) -> Result<Box<[u8]>> {
        match self.ask(request, path)? {
            Answer::Handle(handle) => Ok(handle),
            other => Err(unexpected(request, path, other)),
        }
    }

    fn path(&self, request: &Request<'_>, path: &[u8]) -> Result<Box<[u8]>> {
        match self.ask(request, path)? {
            Answer::Path(found) => Ok(found),
            other => Err(unexpected(request, path, other)),
        }
    }

    /// Asks and waits; a status other than success is an error.
    fn ask(&self, request: &Request<'_>, path: &[u8]) -> Result<Answer> {
        self.check(request, path).map_err(|cause| SftpError::new(request, path, cause))?;
        let answer = self.port().ask(request);
        let answer = answer.map_err(|error| SftpError::new(request, path, error))?;
        succeeded(answer).map_err(|cause| SftpError::new(request, path, cause))
    }

    /// Checks that the request can be sent to this server.
    pub(crate) fn check(
        &self,
        request: &Request<'_>,
        path: &[u8],
    ) -> std::result::Result<(), Cause> {
        check_path(path)?;
        match request.extension() {
            Some(extension) if !self.has(extension) => Err(Cause::Missing(extension.name())),
            _ => Ok(()),
        }
    }
}

/// The answer, if it is no failure.
pub(crate) fn succeeded(answer: Answer) -> std::result::Result<Answer, Cause> {
    match answer {
        Answer::Status(status) if status.code != StatusCode::Ok => Err(Cause::Status(status)),
        Answer::LongTarget => Err(Cause::LongTarget(TARGET_LEN_MAX)),
        answer => Ok(answer),
    }
}

/// A path that a server reads as it is.
pub(crate) fn check_path(path: &[u8]) -> std::result::Result<(), Cause> {
    if path.contains(&0) {
        // Servers would cut it there, or end the session.
        Err(Cause::Path("the path contains a NUL byte"))
    } else if path.len() > PATH_LEN_MAX {
        Err(Cause::Path("the path is longer than 16 KiB"))
    } else {
        Ok(())
    }
}

/// The answer to another question. [`crate::codec::Expected`] lets none pass, so
/// this is never seen.
pub(crate) fn unexpected(request: &Request<'_>, path: &[u8], answer: Answer) -> SftpError {
    debug_assert!(false, "{request:?} was answered with {answer:?}");
    let error = crate::codec::PacketError::EmptySuccess(request.operation());
    SftpError::new(request, path, crate::SessionError::from(error))
}
