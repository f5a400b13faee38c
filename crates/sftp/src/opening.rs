//! A file that is opened without anybody waiting for it.

use crate::client::{succeeded, unexpected};
use crate::codec::{Answer, Attrs, OpenFlags, Request};
use crate::error::{Cause, SessionError, SftpError};
use crate::session::{Payload, Port};
use crate::{Client, RemoteFile};

type Result<T> = std::result::Result<T, SftpError>;

/// The two things that are asked.
const OPEN: u64 = 0;
const LOOK: u64 = 1;

/// A file that is being opened, and a look at what has its path, which the server
/// is asked for at the same time. What is opened may be another file if the name
/// changes hands between the two: whoever must know compares what was found with
/// [`RemoteFile::attrs`] in the end.
///
/// Dropping it waits for the answers, so that the file does not stay open there.
pub struct Opening {
    client: Client,
    port: Port,
    path: Box<[u8]>,
    flags: OpenFlags,
    file: Option<RemoteFile>,
    found: Option<Attrs>,
    failed: Option<SftpError>,
}

impl Client {
    /// Opens a file that exists, and looks at what has its path; waits for room in
    /// the session, and not for the answers. A link is opened as in [`Self::open`];
    /// the look follows it where the file is to be read, and not where it is to be
    /// written.
    ///
    /// # Panics
    /// With flags that make a file: the look at it may come first.
    pub fn open_later(&self, path: &[u8], flags: OpenFlags) -> Opening {
        assert!(matches!(flags, OpenFlags::Read | OpenFlags::Write), "it is to exist");
        let mut opening = Opening {
            client: self.clone(),
            port: self.port(),
            path: path.into(),
            flags,
            file: None,
            found: None,
            failed: None,
        };
        opening.ask();
        opening
    }
}

fn look_request(flags: OpenFlags, path: &[u8]) -> Request<'_> {
    match flags {
        OpenFlags::Read => Request::Stat { path },
        _ => Request::Lstat { path },
    }
}

impl Opening {
    /// The file and what was found, as soon as both are known; then never again.
    ///
    /// # Errors
    /// Why it could not be opened, or else not be looked at.
    pub fn poll(&mut self) -> Option<Result<(RemoteFile, Attrs)>> {
        while let Some((tag, answer)) = self.port.try_next() {
            self.take(tag, answer);
        }
        self.outcome()
    }

    /// The same, waited for.
    ///
    /// # Errors
    /// See [`Self::poll`].
    pub fn wait(mut self) -> Result<(RemoteFile, Attrs)> {
        self.settle();
        let stopped = SftpError::of("open", &self.path, SessionError::Stopped);
        self.outcome().unwrap_or(Err(stopped))
    }

    fn ask(&mut self) {
        let path = &self.path;
        let requests = [
            (OPEN, Request::Open { path, flags: self.flags, attrs: Attrs::default() }),
            (LOOK, look_request(self.flags, path)),
        ];
        for (tag, request) in requests {
            let sent = self.client.check(&request, path);
            let sent = sent.and_then(|()| Ok(self.port.send(tag, &request, Payload::NONE)?));
            if let Err(cause) = sent {
                self.failed = Some(SftpError::new(&request, path, cause));
                return;
            }
        }
        // If that fails, both are answered with the reason.
        let _ = self.port.flush();
    }

    fn take(&mut self, tag: u64, answer: std::result::Result<Answer, SessionError>) {
        let (client, path, flags) = (&self.client, &self.path, self.flags);
        let request = match tag {
            OPEN => Request::Open { path, flags, attrs: Attrs::default() },
            _ => look_request(flags, path),
        };
        let failed = match answer.map_err(Cause::from).and_then(succeeded) {
            Ok(Answer::Handle(handle)) => {
                let is_readable = flags == OpenFlags::Read;
                self.file = Some(RemoteFile::new(client.clone(), handle, path, is_readable));
                return;
            }
            Ok(Answer::Attrs(found)) => {
                self.found = Some(found);
                return;
            }
            Ok(other) => unexpected(&request, path, other),
            Err(cause) => SftpError::new(&request, path, cause),
        };
        // Where both fail, that it can't be opened says more.
        if tag == OPEN || self.failed.is_none() {
            self.failed = Some(failed);
        }
    }

    /// Its outcome, if all that was asked is answered.
    fn outcome(&mut self) -> Option<Result<(RemoteFile, Attrs)>> {
        if self.port.waits() {
            return None;
        }
        if let Some(failed) = self.failed.take() {
            return Some(Err(failed));
        }
        self.file.take().zip(self.found.take()).map(Ok)
    }

    /// Waits until all that was asked is answered.
    fn settle(&mut self) {
        while let Some((tag, answer)) = self.port.next() {
            self.take(tag, answer);
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.settle();
    }
}
