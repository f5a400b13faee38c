//! How a file that is whole under a private name gets its own, whatever its size
//! and kind: the one way to replace what has that name.
//!
//! 1. A server that can replace in one step does ([`Extension::PosixRename`], and
//!    those at which every rename replaces).
//! 2. Else the existing file is renamed aside, the new one gets the name, and then
//!    the old one is removed. If the new one is refused the name, the old one gets
//!    it back. So at each moment both are whole, under one name or another.
//!
//! The steps are here, without I/O: one asker takes them for a single file, and
//! [`crate::Puts`] for many at a time.

use crate::Client;
use crate::client::check_path;
use crate::codec::{Answer, Attrs, Extension, FileType, Request, StatusCode};
use crate::error::{Cause, OnlyStaged, SftpError};
use crate::session::{Batch, Payload};
use haul_model::escape_bytes;

/// The fate of an existing file or link whose name another is to get. A
/// directory always stays.
#[derive(Debug, Clone)]
pub enum Existing {
    /// It stays: a name that is taken is [`Cause::Taken`].
    Keep,
    /// It is replaced.
    Replace {
        /// The path, in the same directory, under which it waits where the server
        /// can't replace in one step. What has this path then was left by a
        /// replacement that was cut short: it is removed if the name that is to be
        /// replaced is taken again.
        aside: Vec<u8>,
    },
}

impl Existing {
    pub(crate) fn check(&self) -> Result<(), Cause> {
        match self {
            Self::Keep => Ok(()),
            Self::Replace { aside } => check_path(aside),
        }
    }

    pub(crate) fn is_kept(&self) -> bool {
        matches!(self, Self::Keep)
    }

    /// True if what has the path is replaced in one step.
    fn goes_over(&self, client: &Client) -> bool {
        !self.is_kept() && client.has(Extension::PosixRename)
    }
}

/// The names of one file.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    /// The path under which it is whole.
    pub(crate) stage: &'a [u8],
    /// The path that it is to get.
    pub(crate) path: &'a [u8],
    pub(crate) existing: &'a Existing,
}

impl<'a> Names<'a> {
    fn aside(&self) -> &'a [u8] {
        match self.existing {
            Existing::Keep => &[],
            Existing::Replace { aside } => aside,
        }
    }
}

/// One file on its way to its name.
pub(crate) struct Renaming {
    step: Step,
    /// Why the server did not rename at first.
    refused: Option<Cause>,
    /// Leftovers of an earlier replacement were removed.
    is_cleared: bool,
}

/// The next request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Looks if the name is free.
    LookFirst,
    Rename,
    /// Looks at the entry of that name, after the server has refused to rename.
    Look,
    /// The existing file goes aside.
    Aside,
    /// A leftover that is in its way there is removed.
    Clear,
    RenameAgain,
    /// The existing file gets its name back.
    Back,
    RemoveOld,
}

/// The end of a file's naming; an error with the operation that failed.
pub(crate) type Named = Result<(), (&'static str, Cause)>;

impl Renaming {
    /// Begins; `is_free` says that the name was looked for, and is free.
    pub(crate) fn new(existing: &Existing, is_free: bool) -> Self {
        let looks = existing.is_kept() && !is_free;
        let step = if looks { Step::LookFirst } else { Step::Rename };
        Self { step, refused: None, is_cleared: false }
    }

    /// The request to be made now.
    pub(crate) fn request<'a>(&self, names: &Names<'a>, client: &Client) -> Request<'a> {
        let Names { stage, path, existing } = *names;
        let aside = names.aside();
        match self.step {
            Step::LookFirst | Step::Look => Request::Lstat { path },
            Step::Rename if existing.goes_over(client) => {
                Request::PosixRename { from: stage, to: path }
            }
            Step::Rename | Step::RenameAgain => Request::Rename { from: stage, to: path },
            Step::Aside => Request::Rename { from: path, to: aside },
            Step::Clear | Step::RemoveOld => Request::Remove { path: aside },
            Step::Back => Request::Rename { from: aside, to: path },
        }
    }

    /// Takes the answer to it; gives what the file came to, if that is known now.
    pub(crate) fn take(
        &mut self,
        answer: Result<Answer, Cause>,
        names: &Names<'_>,
        client: &Client,
    ) -> Option<Named> {
        let next = match (self.step, answer) {
            (Step::LookFirst, Ok(Answer::Attrs(_))) => return Some(Err(("write", Cause::Taken))),
            // That it is free, or can't be looked at, the rename shows.
            (Step::LookFirst, Ok(_) | Err(Cause::Status(_))) => Step::Rename,
            (Step::Rename, Ok(_)) | (Step::RemoveOld, _) => return Some(Ok(())),
            (Step::Rename, Err(Cause::Status(status)))
                if !names.existing.goes_over(client) && may_be_taken(status.code) =>
            {
                self.refused = Some(Cause::Status(status));
                Step::Look
            }
            (Step::Look, Ok(Answer::Attrs(found))) => match self.judge(&found, names.existing) {
                Ok(next) => next,
                Err(cause) => return Some(Err(cause)),
            },
            // Nothing is there, so it was refused for something else.
            (Step::Look, Ok(_) | Err(Cause::Status(_))) => return Some(self.refusal()),
            (Step::Aside, Ok(_)) | (Step::Clear, Ok(_) | Err(Cause::Status(_))) => {
                if self.step == Step::Clear { Step::Aside } else { Step::RenameAgain }
            }
            // Somebody else has removed it.
            (Step::Aside, Err(Cause::Status(status))) if status.code == StatusCode::NoSuchFile => {
                Step::RenameAgain
            }
            (Step::Aside, Err(Cause::Status(status)))
                if !self.is_cleared && may_be_taken(status.code) =>
            {
                self.is_cleared = true;
                Step::Clear
            }
            (Step::Aside, Err(cause @ Cause::Status(_))) => {
                return Some(Err(("move aside the old", cause)));
            }
            (Step::RenameAgain, Ok(_)) => Step::RemoveOld,
            (Step::RenameAgain, Err(cause @ Cause::Status(_))) => {
                self.refused = Some(cause);
                Step::Back
            }
            (Step::Back, Ok(_)) => return Some(self.refusal()),
            (Step::Back, Err(Cause::Status(_))) => {
                return Some(self.refusal().map_err(|refusal| only_staged(refusal, names)));
            }
            // The session is over, and nobody knows what was done.
            (Step::Aside | Step::RenameAgain | Step::Back, Err(cause)) => {
                return Some(Err(only_staged(("rename", cause), names)));
            }
            (_, Err(cause)) => return Some(Err(("rename", cause))),
        };
        self.step = next;
        None
    }

    /// Decides about the entry that has the name.
    fn judge(&mut self, found: &Attrs, existing: &Existing) -> Result<Step, (&'static str, Cause)> {
        if existing.is_kept() {
            return Err(("write", Cause::Taken));
        }
        match (found.file_type(), self.refused.take()) {
            (Some(FileType::Dir), Some(refused)) => Err(("rename", refused)),
            _ => Ok(Step::Aside),
        }
    }

    fn refusal(&mut self) -> Named {
        self.refused.take().map_or(Ok(()), |refused| Err(("rename", refused)))
    }

    /// Requests that the existing file gets its name back, unless the new one has it by then,
    /// and that the stage is removed.
    pub(crate) fn give_up(&self, names: &Names<'_>, batch: &mut Batch) {
        if matches!(self.step, Step::Aside | Step::RenameAgain | Step::Back) {
            let back = Request::Rename { from: names.aside(), to: names.path };
            batch.send(&back, Payload::NONE);
        }
        batch.send(&Request::Remove { path: names.stage }, Payload::NONE);
    }
}

impl Client {
    /// Gives the file or link `stage`, which is whole, its name `path`, and waits
    /// until it has it.
    ///
    /// # Errors
    /// [`Cause::Taken`], see [`Existing::Keep`]; [`Cause::OnlyStaged`] if the
    /// existing file is aside and the stage must stay. Else the existing file has its
    /// name, and the stage is there and of no use.
    pub fn name_file(
        &self,
        stage: &[u8],
        path: &[u8],
        existing: &Existing,
    ) -> Result<(), SftpError> {
        let failed = |(operation, cause)| SftpError::of(operation, path, cause);
        let checked = check_path(stage).and(check_path(path)).and(existing.check());
        checked.map_err(|cause| failed(("rename", cause)))?;
        let names = Names { stage, path, existing };
        let mut naming = Renaming::new(existing, false);
        loop {
            let answer = self.ask(naming.request(&names, self), path);
            let answer = answer.map_err(|error| error.cause);
            if let Some(named) = naming.take(answer, &names, self) {
                return named.map_err(failed);
            }
        }
    }
}

/// Both files have names that are not theirs.
fn only_staged(
    (operation, cause): (&'static str, Cause),
    names: &Names<'_>,
) -> (&'static str, Cause) {
    let (stage, aside) = (escape_bytes(names.stage), escape_bytes(names.aside()));
    (operation, Cause::OnlyStaged(Box::new(OnlyStaged { stage, aside, cause })))
}

/// True if a server that says this to a rename may mean that the path is taken;
/// there is no status of its own for that in version 3.
fn may_be_taken(code: StatusCode) -> bool {
    matches!(code, StatusCode::Failure | StatusCode::Other(_))
}
