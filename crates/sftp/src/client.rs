//! Operations on paths. Each waits for its answer.

use crate::Result;
use crate::codec::{
    Answer, Attrs, CHUNK_LEN_MAX, Extension, Extensions, FsStats, Limits, OpenFlags,
    PACKET_LEN_MAX, PATH_LEN_MAX, Request,
};
use crate::error::{Cause, SessionError, SftpError};
use crate::file::RemoteFile;
use crate::session::{Batch, Payload, Port, SessionState};
use std::sync::{Arc, LazyLock};

/// Content per packet, in bytes, if a server reports no limits. Every server must accept it
/// (section 3 of the draft).
const CHUNK_LEN_DEFAULT: u32 = 32 << 10;

/// Most bytes around the content in a packet: a handle and some numbers.
const OVERHEAD_LEN: u64 = 512;

/// Sends requests to a server; see the crate's documentation. Clones share the session.
///
/// Paths are bytes, absolute or relative to the directory where the session begins, usually
/// the user's home. The server resolves them and follows links in them. All operations fail
/// with [`SftpError`], after the end of the session with [`Cause::Session`].
#[derive(Clone)]
pub struct Client {
    shared: Arc<SessionState>,
    extensions: Extensions,
    /// The first use waits for them.
    limits: Arc<LazyLock<EffectiveLimits, Box<dyn FnOnce() -> EffectiveLimits + Send>>>,
}

/// The server's limits.
struct EffectiveLimits {
    limits: Limits,
    read_len: u32,
    write_len: u32,
}

impl EffectiveLimits {
    fn new(limits: Limits) -> Self {
        let chunk = |said: u64| match said {
            0 => CHUNK_LEN_DEFAULT,
            len => len.min(CHUNK_LEN_MAX.into()) as u32,
        };
        let packet = match limits.packet_len {
            0 => PACKET_LEN_MAX.into(),
            len => len,
        };
        let room = packet.saturating_sub(OVERHEAD_LEN).max(1).min(CHUNK_LEN_MAX.into()) as u32;
        let (read_len, write_len) = (chunk(limits.read_len), chunk(limits.write_len).min(room));
        Self { limits, read_len, write_len }
    }
}

impl Client {
    /// Requests the server's limits, if it reports them, without waiting for the answer.
    pub(crate) fn new(
        shared: &Arc<SessionState>,
        extensions: Extensions,
    ) -> std::result::Result<Self, SessionError> {
        let mut port = Port::new(shared, false);
        if extensions.has(Extension::Limits) {
            port.send(0, &Request::Limits, Payload::NONE)?;
            port.flush()?;
        }
        let limits: Box<dyn FnOnce() -> EffectiveLimits + Send> = Box::new(move || {
            EffectiveLimits::new(match port.next() {
                Some((_, Ok(Answer::Limits(limits)))) => limits,
                // The server lacks the extension, although it may have announced it. Or the session
                // has ended, which the next request reports.
                _ => Limits::default(),
            })
        });
        Ok(Self { shared: Arc::clone(shared), extensions, limits: Arc::new(LazyLock::new(limits)) })
    }

    pub(crate) fn shared(&self) -> &Arc<SessionState> {
        &self.shared
    }

    pub(crate) fn port(&self) -> Port {
        Port::new(&self.shared, false)
    }

    pub(crate) fn port_for_small(&self) -> Port {
        Port::new(&self.shared, true)
    }

    /// True if the server has announced the extension.
    pub fn has(&self, extension: Extension) -> bool {
        self.extensions.has(extension)
    }

    /// The server's limits. The first call of this and of the next two waits for them. Other
    /// requests need not wait.
    pub fn limits(&self) -> &Limits {
        &self.limits.limits
    }

    /// The most content that one request reads, in bytes.
    pub fn read_len(&self) -> usize {
        self.limits.read_len as usize
    }

    /// The most content that one request writes, in bytes.
    pub fn write_len(&self) -> usize {
        self.limits.write_len as usize
    }

    /// A number that changes whenever bytes move in the session; `None` while no request waits for
    /// the server.
    pub fn activity_awaited(&self) -> Option<u64> {
        self.shared.activity_awaited()
    }

    /// Ends the session at once. All waiting callers get an error.
    pub fn end_session(&self) {
        self.shared.end(SessionError::Stopped);
    }

    /// The attributes of the entry at `path`. A link at its end is followed.
    pub fn stat(&self, path: &[u8]) -> Result<Attrs> {
        self.ask(Request::Stat { path }, path)?.attrs()
    }

    /// The attributes of the entry at `path`. A link at its end is not followed.
    pub fn lstat(&self, path: &[u8]) -> Result<Attrs> {
        self.ask(Request::Lstat { path }, path)?.attrs()
    }

    /// Sets the attributes that `attrs` has. A link at the end of the path is followed.
    pub fn set_attrs(&self, path: &[u8], attrs: Attrs) -> Result<()> {
        self.done(Request::Setstat { path, attrs }, path)
    }

    /// Sets the attributes of a link itself. Needs [`Extension::Lsetstat`].
    pub fn set_link_attrs(&self, path: &[u8], attrs: Attrs) -> Result<()> {
        self.done(Request::Lsetstat { path, attrs }, path)
    }

    /// Creates a directory. The umask of the server may remove bits of the mode.
    pub fn make_dir(&self, path: &[u8], mode: u32) -> Result<()> {
        self.done(Request::Mkdir { path, attrs: Attrs::with_mode(mode) }, path)
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, path: &[u8]) -> Result<()> {
        self.done(Request::Rmdir { path }, path)
    }

    /// Removes a file or a link.
    pub fn remove_file(&self, path: &[u8]) -> Result<()> {
        self.done(Request::Remove { path }, path)
    }

    /// Creates the hard link `name` to the file `of`; `name` must not exist. Needs
    /// [`Extension::HardLink`].
    pub fn make_hard_link(&self, of: &[u8], name: &[u8]) -> Result<()> {
        let request = Request::HardLink { from: of, to: name };
        check_path(of).map_err(|cause| SftpError::new(&request, of, cause))?;
        self.done(request, name)
    }

    /// Creates a symbolic link to `target`. Fails if the name exists.
    pub fn make_symlink(&self, target: &[u8], link: &[u8]) -> Result<()> {
        let request = Request::Symlink { target, link };
        check_path(target).map_err(|cause| SftpError::new(&request, target, cause))?;
        self.done(request, link)
    }

    /// The target of a symbolic link. See [`Self::read_links`] for many.
    pub fn read_link(&self, path: &[u8]) -> Result<Box<[u8]>> {
        self.ask(Request::Readlink { path }, path)?.path()
    }

    /// The absolute path without links and dots. Some servers need its last component to
    /// exist.
    pub fn real_path(&self, path: &[u8]) -> Result<Box<[u8]>> {
        self.ask(Request::Realpath { path }, path)?.path()
    }

    /// The attributes of the entry at a path, and its absolute path, in one round trip; see
    /// [`Self::stat`] and [`Self::real_path`].
    pub fn stat_and_real_path(&self, path: &[u8]) -> Result<(Attrs, Box<[u8]>)> {
        let requests = [Request::Stat { path }, Request::Realpath { path }];
        let [attrs, real] = Batch::of(self, path, &requests).answers();
        Ok((attrs?.attrs()?, real?.path()?))
    }

    /// The free space of a file system. Needs [`Extension::Statvfs`].
    pub fn fs_stats(&self, path: &[u8]) -> Result<FsStats> {
        self.ask(Request::Statvfs { path }, path)?.fs_stats()
    }

    /// Opens a file. A link at the end of the path is followed, except with
    /// [`OpenFlags::CreateNew`]. A new file gets `mode`.
    pub fn open(&self, path: &[u8], flags: OpenFlags, mode: Option<u32>) -> Result<RemoteFile> {
        let attrs = Attrs { mode, ..Attrs::default() };
        let handle = self.ask(Request::Open { path, flags, attrs }, path)?.handle()?;
        Ok(RemoteFile::new(self.clone(), handle, path, flags == OpenFlags::Read))
    }

    /// Opens an existing file and reads the attributes of the entry at its path, in one round trip.
    /// A link is opened as in [`Self::open`]. The attributes are those of its target if the file is
    /// opened for reading, else those of the link. If another file gets the name in between, the
    /// attributes are not those of the open file: compare [`RemoteFile::attrs`].
    pub fn open_and_stat(&self, path: &[u8], flags: OpenFlags) -> Result<(RemoteFile, Attrs)> {
        let open = Request::Open { path, flags, attrs: Attrs::default() };
        let look = match flags {
            OpenFlags::Read => Request::Stat { path },
            _ => Request::Lstat { path },
        };
        let [opened, found] = Batch::of(self, path, &[open, look]).answers();
        let handle = opened?.handle()?;
        let file = RemoteFile::new(self.clone(), handle, path, flags == OpenFlags::Read);
        Ok((file, found?.attrs()?))
    }

    fn done(&self, request: Request<'_>, path: &[u8]) -> Result<()> {
        self.ask(request, path).map(drop)
    }

    /// Sends a request and waits for the answer; a status other than success is an error.
    pub(crate) fn ask(&self, request: Request<'_>, path: &[u8]) -> Result<Answer> {
        let [answer] = Batch::of(self, path, &[request]).answers();
        answer
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

    /// Like [`Self::make_dir`], without waiting for the answer. The server may handle later
    /// requests first, so send those about entries of the directory after the answer.
    pub fn make_dir_later(&self, path: &[u8], mode: u32) -> PendingAnswer {
        PendingAnswer::send(self, Request::Mkdir { path, attrs: Attrs::with_mode(mode) }, path)
    }

    /// Like [`Self::remove_file`], without waiting for the answer.
    pub fn remove_file_later(&self, path: &[u8]) -> PendingAnswer {
        PendingAnswer::send(self, Request::Remove { path }, path)
    }

    /// Like [`Self::set_attrs`], without waiting for the answer.
    pub fn set_attrs_later(&self, path: &[u8], attrs: Attrs) -> PendingAnswer {
        PendingAnswer::send(self, Request::Setstat { path, attrs }, path)
    }
}

/// Checks that a server takes the path unchanged.
pub(crate) fn check_path(path: &[u8]) -> std::result::Result<(), Cause> {
    if path.contains(&0) {
        // Servers would cut the path there, or end the session.
        Err(Cause::Path("the path contains a NUL byte"))
    } else if path.len() > PATH_LEN_MAX {
        Err(Cause::Path("the path is longer than 16 KiB"))
    } else {
        Ok(())
    }
}

/// Waits for the answer.
type Receive = Box<dyn FnOnce() -> Result<()> + Send>;

/// The pending answer to a request. Clones share it. If all are dropped, the result stays unknown.
/// The request's room in the session is freed once the server has answered.
#[derive(Clone)]
pub struct PendingAnswer(Arc<LazyLock<Result<()>, Receive>>);

impl PendingAnswer {
    /// Sends the request. [`Self::wait`] reports a failure to send it.
    pub(crate) fn send(client: &Client, request: Request<'_>, path: &[u8]) -> Self {
        let batch = Batch::of(client, path, &[request]);
        batch.flush();
        let receive: Receive = Box::new(|| {
            let [answer] = batch.answers();
            answer.map(drop)
        });
        Self(Arc::new(LazyLock::new(receive)))
    }

    /// Waits for the answer. Any number of threads may call it, any number of times.
    ///
    /// # Errors
    /// The server's refusal, or the end of the session.
    pub fn wait(&self) -> Result<()> {
        LazyLock::force(&self.0).clone()
    }
}
